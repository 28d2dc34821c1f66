package nodegroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// withWaves sets the sizes of waves and the pause between them.
func withWaves(first int32, size int, pause time.Duration) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) {
		inFlight := intstr.FromInt(size)
		spec.Rollout = &v1alpha1.Rollout{FirstWave: &first, MaxInFlight: &inFlight, Pause: &metav1.Duration{Duration: pause}}
	}
}

// written returns the names of the test's Nodes that have been written since a mark, in the order of the writes.
func (f *fixture) written(mark cluster.AuditMark) []string {
	f.Helper()
	var names []string
	for _, write := range f.Writes(mark) {
		if strings.HasPrefix(write.Name, f.name+"-") {
			names = append(names, write.Name)
		}
	}
	return names
}

// TestRollout_Waves: a change reaches Nodes by zone, in waves of the declared sizes. Each wave waits until the Nodes of the previous wave are Ready.
func TestRollout_Waves(t *testing.T) {
	f := besideOthers(t, "waves", 9)
	f.create(f.newGroup("waves", withLabel("example.com/team", "blue"), withWaves(1, 4, 0)))
	f.eventuallyCondition("waves", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	mark := f.AuditMark()
	f.update("waves", withLabel("example.com/team", "red"))
	group := f.eventuallyCondition("waves", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	if group.Status.Rollout.Wave != "3/3" {
		t.Errorf("rollout is %s", harness.JSON(group.Status.Rollout))
	}
	names := f.written(mark)
	if len(names) != 9 {
		t.Fatalf("written are %v", names)
	}
	// Zones a, b and c have the Nodes 0 3 6, 1 4 7 and 2 5 8.
	order := []string{"waves-00", "waves-03", "waves-06", "waves-01", "waves-04", "waves-07", "waves-02", "waves-05", "waves-08"}
	for begin, end := 0, 1; begin < 9; begin, end = end, min(end+4, 9) {
		got, want := slices.Sorted(slices.Values(names[begin:end])), slices.Sorted(slices.Values(order[begin:end]))
		if !slices.Equal(got, want) {
			t.Errorf("a wave has written %v, not %v; in all %v", got, want, names)
		}
	}
}

// TestRollout_ChangedMidway: a declaration that changes in the middle of a roll-out begins again with the first wave, and Nodes that are as declared
// by then are not written.
func TestRollout_ChangedMidway(t *testing.T) {
	f := besideOthers(t, "midway", 6)
	f.create(f.newGroup("midway", withLabel("example.com/team", "blue"), withWaves(2, 2, 0)))
	f.eventuallyCondition("midway", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	change := func(team string, pause time.Duration, kind string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		mark := f.AuditMark()
		f.update("midway", func(spec *v1alpha1.NodeGroupSpec) {
			withLabel("example.com/team", team)(spec)
			withWaves(2, 2, pause)(spec)
		})
		f.eventuallyCondition("midway", kind, status, reason)
		// The first wave has the Nodes of zone a.
		if names := slices.Sorted(slices.Values(f.written(mark))); !slices.Equal(names, []string{"midway-00", "midway-03"}) {
			t.Errorf("for the label %s written are %v", team, names)
		}
	}
	change("red", time.Hour, v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonPausing)
	change("green", time.Hour, v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonPausing)
	// All others still have the first value.
	change("blue", 0, v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
}

// TestRollout_StopsWhenNodesBecomeNotReady: a roll-out stops, says why, and goes on when a user resumes it.
func TestRollout_StopsWhenNodesBecomeNotReady(t *testing.T) {
	f := besideOthers(t, "stop", 6)
	f.create(f.newGroup("stop", withLabel("example.com/team", "blue"), withWaves(1, 1, 0)))
	f.eventuallyCondition("stop", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.update("stop", func(spec *v1alpha1.NodeGroupSpec) {
		withLabel("example.com/team", "red")(spec)
		spec.Rollout.Pause = &metav1.Duration{Duration: 3 * time.Second}
	})
	f.eventuallyNode("stop-00", "is in the first wave", hasLabel("example.com/team", "red"))
	// The times of conditions have whole seconds, and the roll-out began in this one.
	f.Eventually("the second is over", func() error {
		if begun := f.group("stop").Status.Rollout.StartTime; time.Since(begun.Time) < time.Second {
			return fmt.Errorf("it began at %s", begun)
		}
		return nil
	})
	f.setReady("stop-00", corev1.ConditionFalse)
	group := f.eventuallyCondition("stop", v1alpha1.ConditionBlocked, metav1.ConditionTrue, rollout.ReasonNodesNotReady)
	if group.Status.Phase != v1alpha1.PhaseStopped {
		t.Errorf("status is %s", harness.JSON(group.Status))
	}
	f.AwaitEvent("NodeGroup", "stop", "RolloutStopped", "stop-00")
	f.setReady("stop-00", corev1.ConditionTrue)
	if err := hasLabel("example.com/team", "blue")(f.Node("stop-05")); err != nil {
		t.Errorf("the last Node has been written: %v", err)
	}
	text := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationResume, time.Now().UTC().Format(time.RFC3339))
	if err := f.Client.Patch(t.Context(), group, client.RawPatch(types.MergePatchType, text)); err != nil {
		t.Fatal(err)
	}
	f.eventuallyCondition("stop", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.eventuallyNode("stop-05", "has been reached", hasLabel("example.com/team", "red"))
}

// TestRollout_StopsInTheLastWave: Nodes that fail after all are written stop the roll-out as well. It goes on when a change of the spec allows it,
// and ends when they are Ready.
func TestRollout_StopsInTheLastWave(t *testing.T) {
	f := besideOthers(t, "last", 3)
	f.create(f.newGroup("last", withLabel("example.com/team", "blue"), func(spec *v1alpha1.NodeGroupSpec) {
		spec.Rollout = &v1alpha1.Rollout{MinReadySeconds: 3600}
	}))
	f.eventuallyNode("last-02", "has been written", hasLabel("example.com/team", "blue"))
	f.Eventually("the second of the roll-out is over", func() error {
		if status := f.group("last").Status.Rollout; status == nil || status.StartTime == nil || time.Since(status.StartTime.Time) < time.Second {
			return fmt.Errorf("it is %s", harness.JSON(status))
		}
		return nil
	})
	f.setReady("last-00", corev1.ConditionFalse)
	group := f.eventuallyCondition("last", v1alpha1.ConditionBlocked, metav1.ConditionTrue, rollout.ReasonNodesNotReady)
	if status := group.Status; status.Phase != v1alpha1.PhaseStopped || status.Rollout.EndTime != nil {
		t.Errorf("status is %s", harness.JSON(status))
	}
	f.update("last", func(spec *v1alpha1.NodeGroupSpec) {
		spec.Rollout = &v1alpha1.Rollout{StopWhen: &v1alpha1.StopConditions{NotReady: new(intstr.FromInt32(2))}}
	})
	group = f.eventuallyCondition("last", v1alpha1.ConditionBlocked, metav1.ConditionFalse, plan.ReasonNotBlocked)
	if status := group.Status; status.Rollout.EndTime != nil || !slices.Equal(status.Rollout.WaitingFor, []string{"last-00"}) {
		t.Errorf("with a NotReady Node the status is %s", harness.JSON(status))
	}
	f.setReady("last-00", corev1.ConditionTrue)
	f.Eventually("the roll-out has ended", func() error {
		if status := f.group("last").Status; status.Phase != v1alpha1.PhaseIdle || status.Rollout.EndTime == nil {
			return fmt.Errorf("the status is %s", harness.JSON(status))
		}
		return nil
	})
}

// TestRollout_DryRunEnds: what a dry run has shown is written when it ends.
func TestRollout_DryRunEnds(t *testing.T) {
	f := besideOthers(t, "tried", 2)
	f.create(f.newGroup("tried", withLabel("example.com/team", "blue"), func(spec *v1alpha1.NodeGroupSpec) { spec.DryRun = true }))
	f.eventuallyCondition("tried", v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonDryRun)
	f.update("tried", func(spec *v1alpha1.NodeGroupSpec) { spec.DryRun = false })
	f.eventuallyCondition("tried", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
}

// TestRollout_SuspendAndDryRun: a group that is suspended, or only tried out, writes no Node.
func TestRollout_SuspendAndDryRun(t *testing.T) {
	f := besideOthers(t, "suspend", 3)
	f.create(f.newGroup("suspend", withLabel("example.com/team", "blue"), func(spec *v1alpha1.NodeGroupSpec) { spec.DryRun = true }))
	mark := f.AuditMark()
	f.eventuallyCondition("suspend", v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonDryRun)
	f.update("suspend", func(spec *v1alpha1.NodeGroupSpec) { spec.DryRun, spec.Suspend = false, true })
	f.eventuallyCondition("suspend", v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonSuspended)
	if names := f.written(mark); len(names) > 0 {
		t.Errorf("written are %v", names)
	}
	f.update("suspend", func(spec *v1alpha1.NodeGroupSpec) { spec.Suspend = false })
	f.eventuallyCondition("suspend", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
}
