package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/rollout"
)

// ready returns the condition Ready of a decision.
func ready(d *Decision) Condition {
	return d.Conditions[slices.IndexFunc(d.Conditions, func(c Condition) bool { return c.Type == v1alpha1.ConditionReady })]
}

// TestDecide_EditsDoNotHoldUpWaves: a kubelet that keeps changing what its Node carries delays neither the end of a wave nor the end of a pause.
func TestDecide_EditsDoNotHoldUpWaves(t *testing.T) {
	r := newRollout(3, &v1alpha1.Rollout{MaxInFlight: number(1), Pause: &metav1.Duration{Duration: time.Minute}})
	r.decide()
	edited := metadataplan.GroupDecision{State: metadataplan.Pending, Reached: true, Drift: true, Change: metadataplan.Change{Write: true}}
	for i, want := range []string{"n2", "n1"} {
		for range 6 {
			r.node("n0").Metadata = edited
			r.now = r.now.Add(10 * time.Second)
			if written, d := r.decide(); strings.ReplaceAll(written, "n0", "") != "" || d.Wave != i+2 || !d.Admitted.Has("n0") {
				t.Fatalf("during the pause it writes %q in wave %d", written, d.Wave)
			}
		}
		r.node("n0").Metadata = edited
		r.now = r.now.Add(10 * time.Second)
		if written, _ := r.decide(); !strings.Contains(written, want) {
			t.Fatalf("after the pause it writes %q, want %s", written, want)
		}
	}
}

// TestDecide_ZonesOfReachedNodes: a kubelet that changes the zone of its Node moves no other Node into another wave.
func TestDecide_ZonesOfReachedNodes(t *testing.T) {
	r := newRollout(6, &v1alpha1.Rollout{MaxInFlight: number(2), Pause: &metav1.Duration{Duration: time.Minute}})
	if written, _ := r.decide(); written != "n0 n2" {
		t.Fatalf("the first wave has %q", written)
	}
	ended := time.Time{}
	for i, zone := range []string{"z", "a", "z", "0"} {
		r.node("n0").Zone = zone
		r.now = r.now.Add(time.Second)
		written, d := r.decide()
		if i == 0 {
			ended = d.Rollout.WaveEndTime.Time
		}
		if written != "" || d.Wave != 2 || !d.Rollout.WaveEndTime.Time.Equal(ended) {
			t.Fatalf("in zone %s: writes %q, wave %d, the wave before it ended at %s", zone, written, d.Wave, d.Rollout.WaveEndTime)
		}
	}
	r.now = r.now.Add(time.Minute)
	if written, _ := r.decide(); written != "n1 n4" {
		t.Errorf("the second wave has %q", written)
	}
}

// TestDecide_StuckNodes: a roll-out goes on past a Node that cannot be written, or whose Pods did not leave in time, and names it. It waits when
// there are more of them than may become NotReady.
func TestDecide_StuckNodes(t *testing.T) {
	timedOut := metadataplan.GroupDecision{
		State: metadataplan.RefusedState, Reached: true, TimedOut: true,
		Problems: []metadataplan.Problem{{Reason: metadataplan.NoExecuteHeld, Message: "Pod a/b did not leave in time"}},
	}
	for name, c := range map[string]struct {
		stick  func(*rollout.Node)
		reason string
	}{
		"denied":    {func(n *rollout.Node) { n.Failing = "it is denied" }, ReasonDenied},
		"timed out": {func(n *rollout.Node) { n.Metadata = timedOut }, ReasonNoExecuteHeld},
	} {
		for _, stuck := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s: %d", name, stuck), func(t *testing.T) {
				r := newRollout(6, &v1alpha1.Rollout{MaxInFlight: number(3), StopWhen: &v1alpha1.StopConditions{NotReady: number(2)}})
				in := &Input{Group: r.group, Declaration: metadataplan.GroupDeclarationOf(r.group), Nodes: r.nodes, Now: r.now}
				for i, node := range []string{"n0", "n2", "n4"} {
					if i < stuck {
						c.stick(r.node(node))
					} else {
						r.node(node).Metadata = metadataplan.GroupDecision{State: metadataplan.Synced, Reached: true}
					}
				}
				d := Decide(in)
				if goesOn := d.Admitted.Has("n1"); goesOn != (stuck <= 2) {
					t.Errorf("the roll-out goes on: %t; it waits for %v", goesOn, d.Rollout.WaitingFor)
				}
				if got := ready(&d); got.Reason != c.reason || !strings.Contains(got.Message, "n0") {
					t.Errorf("the condition is %+v", got)
				}
			})
		}
	}
}

// TestDecide_FailingNodesInTurns: of the Nodes that could not be written no more are tried at a time than a wave has, each within a few minutes.
func TestDecide_FailingNodesInTurns(t *testing.T) {
	for _, ended := range []bool{false, true} {
		r := newRollout(10, &v1alpha1.Rollout{MaxInFlight: number(2), StopWhen: &v1alpha1.StopConditions{NotReady: number(6)}})
		failing := sets.New("n0", "n2", "n4", "n6", "n8")
		for i := range r.nodes {
			switch {
			case failing.Has(r.nodes[i].Name):
				r.nodes[i].Failing = "it is denied"
			case ended:
				r.nodes[i].Metadata = metadataplan.GroupDecision{State: metadataplan.Synced, Reached: true}
			}
		}
		tried := sets.Set[string]{}
		for range 3 {
			in := &Input{Group: r.group, Declaration: metadataplan.GroupDeclarationOf(r.group), Nodes: slices.Clone(r.nodes), Now: r.now}
			d := Decide(in)
			now := d.Admitted.Intersection(failing)
			if now.Len() > 2 || d.Wake.After(r.now.Add(time.Minute)) || !d.Wake.After(r.now) {
				t.Errorf("ended %t: %v are tried at %s, until %s", ended, sets.List(now), r.now, d.Wake)
			}
			tried, r.now = tried.Union(now), d.Wake
			r.group.Status.Rollout = d.Rollout
		}
		if !tried.Equal(failing) {
			t.Errorf("ended %t: only %v have been tried", ended, sets.List(tried))
		}
	}
}

// TestDecide_ContendedNodes: the group names at most five Nodes on which another writer keeps changing declared keys, and is done with them.
func TestDecide_ContendedNodes(t *testing.T) {
	r := newRollout(7, nil)
	problem := metadataplan.Problem{Reason: metadataplan.Contended, Message: "another writer keeps changing label \"team\""}
	for i := range r.nodes {
		r.nodes[i].Metadata = metadataplan.GroupDecision{State: metadataplan.Held, Problems: []metadataplan.Problem{problem}}
	}
	_, d := r.decide()
	if got := ready(&d); got.Reason != ReasonContended || !strings.Contains(got.Message, "n0, n1, n2, n3, n4 and 2 more") {
		t.Errorf("the condition is %+v", got)
	}
	if d.Phase != v1alpha1.PhaseIdle || d.Counts.Held != 7 {
		t.Errorf("phase %s, counts %+v", d.Phase, d.Counts)
	}
}
