package metadata

import (
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// refuse holds taints with the effect NoExecute back.
func refuse() *v1alpha1.Rollout {
	return &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{Policy: v1alpha1.NoExecuteRefuse}}
}

// withTaint declares a taint with the effect NoExecute.
func (f *wavesFixture) withTaint(t *testing.T) {
	t.Helper()
	apitest.Edit(t, f.client, f.set, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "out", Effect: corev1.TaintEffectNoExecute}}
		set.Generation++
	})
}

// TestWaves_TaintNoLongerRefused: Nodes that have all else get a taint in waves, too, once it is not held back any more.
func TestWaves_TaintNoLongerRefused(t *testing.T) {
	f := newWavesFixture(t, refuse())
	f.withTaint(t)
	f.step(t, 0, "n0 n1 n2 n3")
	f.step(t, 6*time.Second, "")
	f.stepsAfterRefusal(t)
}

// stepsAfterRefusal has the next process not hold taints back, and checks that they reach one Node after another.
func (f *wavesFixture) stepsAfterRefusal(t *testing.T) {
	t.Helper()
	f.refusesNoExecute = false
	f.restart(oneAtATime())
	f.step(t, 6*time.Second, "n0")
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n1")
}

// TestWaves_GuardLifted: the same in one process, after the roll-out has ended.
func TestWaves_GuardLifted(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.refusesNoExecute = true
	f.withTaint(t)
	f.step(t, 0, "n0")
	f.step(t, 6*time.Second, "")
	for _, node := range []string{"n1", "n2", "n3"} {
		f.step(t, time.Hour, node)
		f.step(t, 6*time.Second, "")
	}
	f.refusesNoExecute = false
	f.step(t, 6*time.Second, "n0")
	f.step(t, 6*time.Second, "")
}

// TestWaves_GuardLiftedMeanwhile: the Nodes of earlier waves get the taint one after another, too, with pauses.
func TestWaves_GuardLiftedMeanwhile(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.refusesNoExecute = true
	f.withTaint(t)
	f.step(t, 0, "n0")
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n1")
	f.step(t, 6*time.Second, "")
	f.refusesNoExecute = false
	// The pause after the second wave goes on.
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n0")
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n1")
}

// TestWaves_EditOfAnotherKey does not let a taint that is no longer held back pass with what is restored.
func TestWaves_EditOfAnotherKey(t *testing.T) {
	f := newWavesFixture(t, refuse())
	f.withTaint(t)
	f.step(t, 0, "n0 n1 n2 n3")
	f.step(t, 6*time.Second, "")
	f.refusesNoExecute = false
	f.restart(oneAtATime())
	apitest.Edit(t, f.client, builder.Node("n3"), func(n *corev1.Node) { n.Labels = nil })
	f.must(t, "m3", "")
}

// TestWaves_OwnedTaintNoLongerHeldBack: that Drover owns a taint does not have all Nodes get its new value, or get it back, at once.
func TestWaves_OwnedTaintNoLongerHeldBack(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *wavesFixture){
		"another value": func(t *testing.T, f *wavesFixture) {
			apitest.Edit(t, f.client, f.set, func(set *machinev1beta1.MachineSet) {
				set.Spec.Template.Spec.Taints[0].Value = "new"
				set.Spec.Template.Spec.Labels = map[string]string{"team": "red"}
				set.Generation++
			})
			f.step(t, 6*time.Second, "n0 n1 n2 n3")
		},
		"removed by hand": func(t *testing.T, f *wavesFixture) {
			for _, node := range []string{"n0", "n1", "n2", "n3"} {
				apitest.Edit(t, f.client, builder.Node(node), func(n *corev1.Node) { n.Spec.Taints = nil })
			}
			f.step(t, 6*time.Second, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWavesFixture(t, &v1alpha1.Rollout{})
			f.withTaint(t)
			f.step(t, 0, "n0 n1 n2 n3")
			f.step(t, 6*time.Second, "")
			f.refusesNoExecute = true
			change(t, f)
			f.step(t, 6*time.Second, "")
			f.stepsAfterRefusal(t)
		})
	}
}

func TestWaves_ConflictsAdopted(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	for _, node := range []string{"n0", "n1", "n2", "n3"} {
		apitest.Edit(t, f.client, builder.Node(node), func(n *corev1.Node) { n.Labels = map[string]string{"team": "theirs"} })
	}
	f.step(t, 0, "")
	f.annotate(t, plan.AnnotationConflictPolicy, "adopt")
	f.step(t, 6*time.Second, "n0")
	f.step(t, 6*time.Second, "")
}

// TestWaves_OtherChangeOfTheMachineSet neither ends a pause nor begins the waves anew.
func TestWaves_OtherChangeOfTheMachineSet(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.step(t, 0, "n0")
	f.step(t, 6*time.Second, "")
	f.annotate(t, plan.AnnotationConflictPolicy, "nonsense")
	f.step(t, 6*time.Second, "")
	f.step(t, 30*time.Minute, "")
	f.step(t, 30*time.Minute, "n1")
}

// TestWaves_OtherChangeWithTheEndOfAWave does not end the pause that follows either.
func TestWaves_OtherChangeWithTheEndOfAWave(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.step(t, 0, "n0")
	f.annotate(t, plan.AnnotationConflictPolicy, "nonsense")
	f.step(t, 6*time.Second, "")
	f.step(t, 59*time.Minute, "")
	f.step(t, time.Minute, "n1")
}

// TestWaves_DenialOfAnEarlierRevision does not make the first wave an empty one.
func TestWaves_DenialOfAnEarlierRevision(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.fail["Node"] = apierrors.NewForbidden(corev1.Resource("nodes"), "n0", nil)
	f.step(t, 0, "n0")
	f.fail = nil
	f.declare(t, "red")
	f.step(t, time.Second, "n0")
	f.step(t, 6*time.Second, "")
}

// TestWaves_DenialEnds: a Node that was denied is written after the roll-out has ended for the others.
func TestWaves_DenialEnds(t *testing.T) {
	f := newWavesFixture(t, &v1alpha1.Rollout{})
	f.fail["Node"] = apierrors.NewForbidden(corev1.Resource("nodes"), "n0", nil)
	f.step(t, 0, "n0 n1 n2 n3")
	f.fail = nil
	f.step(t, 6*time.Second, "n0 n1 n2 n3")
	f.step(t, 6*time.Second, "")
	if kept := f.kept(t); len(kept) != 0 {
		t.Errorf("the ConfigMap has %v", kept)
	}
}

// TestWaves_PausedNode: a kubelet that pauses its Node does not make the first wave an empty one.
func TestWaves_PausedNode(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	apitest.Edit(t, f.client, builder.Node("n0"), func(n *corev1.Node) { n.Annotations = map[string]string{plan.AnnotationPaused: "true"} })
	f.step(t, 0, "n1")
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n2")
}

// TestWaves_NothingToRollOut: a Node that has just become Ready begins no roll-out, and so none stops.
func TestWaves_NothingToRollOut(t *testing.T) {
	f := newWavesFixture(t, &v1alpha1.Rollout{MinReadySeconds: 300})
	f.step(t, 0, "n0 n1 n2 n3")
	f.step(t, 6*time.Second, "")
	f.setReady(t, "n0", corev1.ConditionTrue)
	f.setReady(t, "n1", corev1.ConditionFalse)
	f.step(t, 6*time.Second, "")
	if kept := f.kept(t); len(kept) != 0 || f.waves.store.get(f.set.UID) != nil {
		t.Errorf("the ConfigMap has %v", kept)
	}
}

// TestWaves_NodeOfTwoMachines: a Machine whose Node another one names, too, waits; and the MachineSet is decided on when it is the only one again.
func TestWaves_NodeOfTwoMachines(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	other := machineOf(setOf("b", nil), "other", "n0")
	if err := f.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	f.step(t, 0, "n1")
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n2")
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n3")
	f.step(t, 6*time.Second, "")
	if err := f.client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	f.machines(t)
	if !f.Reconciler.gate.TakeWaiting(f.set.UID) {
		t.Error("the MachineSet is not decided on again")
	}
	f.step(t, 6*time.Second, "n0")
}

// TestWaves_RecordRemovedAgainAndAgain: a kubelet that undoes each write, with the record, does not hold up the others for ever.
func TestWaves_RecordRemovedAgainAndAgain(t *testing.T) {
	settings := oneAtATime()
	settings.Pause = nil
	f := newWavesFixture(t, settings)
	for range 30 {
		f.clock.SetTime(f.clock.Now().Add(6 * time.Second))
		f.machines(t)
		apitest.Edit(t, f.client, builder.Node("n0"), func(n *corev1.Node) { n.Labels, n.Annotations = nil, nil })
		if _, err := f.waves.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("a")}); err != nil {
			t.Fatal(err)
		}
		found := builder.Node("n3")
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			t.Fatal(err)
		}
		if found.Labels["team"] == "blue" {
			return
		}
	}
	t.Error("the last Node was never reached")
}

// TestWaves_ForgedRecord: nor does one that leaves a record which claims that all is as declared.
func TestWaves_ForgedRecord(t *testing.T) {
	settings := oneAtATime()
	settings.Pause = nil
	f := newWavesFixture(t, settings)
	for range 30 {
		f.clock.SetTime(f.clock.Now().Add(6 * time.Second))
		f.machines(t)
		apitest.Edit(t, f.client, builder.Node("n0"), func(n *corev1.Node) {
			record, err := ownership.ParseRecord(n.Annotations[ownership.AnnotationRecord])
			if err != nil {
				t.Fatal(err)
			}
			record.Section = ownership.Section{}
			n.Labels, n.Annotations = nil, map[string]string{ownership.AnnotationRecord: record.Format()}
		})
		f.advance(t, 0)
		found := builder.Node("n3")
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			t.Fatal(err)
		}
		if found.Labels["team"] == "blue" {
			return
		}
	}
	t.Error("the last Node was never reached")
}

// TestWaves_NewNodeWithSetOnceTaint: its Machine loses the taint, and the Node does not wait for that.
func TestWaves_NewNodeWithSetOnceTaint(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.annotate(t, plan.AnnotationSetOnceTaints, "out:NoExecute")
	f.withTaint(t)
	f.step(t, 0, "n0")
	added, created := builder.Node("n4"), machineOf(f.set, "m4", "n4")
	added.CreationTimestamp = metav1.NewTime(f.clock.Now())
	added.Spec.Taints = []corev1.Taint{{Key: "out", Effect: corev1.TaintEffectNoExecute}}
	created.Spec.Labels, created.Spec.Taints = map[string]string{"team": "blue"}, added.Spec.Taints
	for _, object := range []client.Object{added, created} {
		if err := f.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	f.must(t, "m4", "Machine/m4 Node/n4")
}

// TestWaves_PausedCanary: a Node of the first wave that a user pauses still counts among those that have become NotReady.
func TestWaves_PausedCanary(t *testing.T) {
	settings := oneAtATime()
	settings.Pause = nil
	f := newWavesFixture(t, settings)
	for _, node := range []string{"n0", "n1", "n2", "n3"} {
		f.setReady(t, node, corev1.ConditionTrue)
	}
	f.step(t, time.Second, "n0")
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.setReady(t, "n0", corev1.ConditionFalse)
	apitest.Edit(t, f.client, builder.Node("n0"), func(n *corev1.Node) { n.Annotations[plan.AnnotationPaused] = "true" })
	f.step(t, 6*time.Second, "")
	if got := f.emitted(); got != "Warning MetadataRolloutStopped" {
		t.Errorf("events %s", got)
	}
}

// TestNoExecute_SetOnce: with Refuse, a Node that has Pods does not get such a taint with its first write, and the others do not report it for ever.
func TestNoExecute_SetOnce(t *testing.T) {
	f := newWavesFixture(t, refuse())
	f.annotate(t, plan.AnnotationSetOnceTaints, "out:NoExecute")
	f.withTaint(t)
	f.step(t, 0, "n0 n1 n2 n3")
	f.step(t, 6*time.Second, "")
	found := builder.Node("n0")
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil || len(found.Spec.Taints) != 0 {
		t.Errorf("%v, taints %v", err, found.Spec.Taints)
	}
	if f.metric(t, "drover_metadata_nodes", "a", "machines", "synced") != 4 {
		t.Error("four Machines are synced")
	}
}

// TestNoExecute_RefusedWithoutNodeGroup: a taint that has Pods deleted is held back where no NodeGroup guards it; all else is written.
func TestNoExecute_RefusedWithoutNodeGroup(t *testing.T) {
	settings := &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{Policy: v1alpha1.NoExecuteRefuse}}
	f := newWavesFixture(t, settings)
	apitest.Edit(t, f.client, f.set, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Taints = []corev1.Taint{
			{Key: "out", Effect: corev1.TaintEffectNoExecute}, {Key: "soft", Effect: corev1.TaintEffectNoSchedule},
		}
	})
	apitest.Edit(t, f.client, builder.Node("n3"), func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "out", Effect: corev1.TaintEffectNoExecute}}
	})
	f.step(t, 0, "n0 n1 n2 n3")
	f.step(t, 6*time.Second, "")
	for node, want := range map[string][]string{"n0": {"soft:NoSchedule"}, "n3": {"out:NoExecute", "soft:NoSchedule"}} {
		found := builder.Node(node)
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			t.Fatal(err)
		}
		if got := ownership.KeysOf(ownership.TaintEntries(found.Spec.Taints)).Sorted(); !slices.Equal(got, want) || found.Labels["team"] != "blue" {
			t.Errorf("%s: taints %v, want %v, labels %v", node, got, want, found.Labels)
		}
	}
	if got := f.emitted(); !strings.Contains(got, "Warning MetadataNoExecuteRefused") {
		t.Errorf("events %s", got)
	}
	if f.metric(t, "drover_metadata_nodes", "a", "machines", "refused") != 3 {
		t.Error("three Machines are refused")
	}
}

// TestNoExecute_NodeGroupAllows: the decision of a NodeGroup goes before that of the configuration.
func TestNoExecute_NodeGroupAllows(t *testing.T) {
	f := newWavesFixture(t, refuse())
	const restricted = "node-restriction.kubernetes.io/pool"
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "group", UID: "uid-group"}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{restricted: "a"}}
	group.Spec.Rollout = &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{Policy: v1alpha1.NoExecuteAllow}}
	if err := f.client.Create(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	apitest.Edit(t, f.client, builder.Node("n0"), func(node *corev1.Node) { node.Labels = map[string]string{restricted: "a"} })
	f.serveGroups(t)
	f.withTaint(t)
	f.step(t, 0, "n0 n1 n2 n3")
	for node, want := range map[string]int{"n0": 1, "n1": 0} {
		found := builder.Node(node)
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil || len(found.Spec.Taints) != want {
			t.Errorf("%s: %v, taints %v", node, err, found.Spec.Taints)
		}
	}
}
