package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/test/harness"
)

func TestDenials_NodeDoesNotExist(t *testing.T) {
	w := guarded(t, harness.Options{})
	for _, object := range both("missing", "doesNotExist") {
		w.denied(w.create(object), "invalid nodeName, no node with name doesNotExist found")
	}
	// A Node that came this moment may not be in the operator's cache yet; it is asked for.
	for i := range 10 {
		name := fmt.Sprintf("new-%d", i)
		w.node(name, corev1.ConditionTrue)
		if err := w.create(medik8sOf(name, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestDenials_NodeHasMaintenanceOfEitherGroup(t *testing.T) {
	w := guarded(t, harness.Options{})
	for i := range both("", "") {
		node := fmt.Sprintf("taken-%d", i)
		w.node(node, corev1.ConditionTrue)
		first := both("first", node)[i]
		if err := w.create(first); err != nil {
			t.Fatal(err)
		}
		w.inMaintenance(node)
		for _, second := range both("second", node) {
			w.denied(w.create(second), claimedText(node))
		}
		// A NodeMaintenance that is being deleted still has the node.
		patch(w.World, first, `{"metadata":{"finalizers":["foregroundDeleteNodeMaintenance","test.drover.dev/stay"]}}`)
		if err := w.Client.Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		w.denied(w.create(medik8sOf("second", node)), claimedText(node))
		patch(w.World, first, `{"metadata":{"finalizers":null}}`)
		w.Gone(first)
		// What the cache still has is asked for: the next one need not wait.
		if err := w.create(both("second", node)[i]); err != nil {
			t.Error(err)
		}
	}
}

// Two creations at the same moment may both pass: neither sees the other. Then the older one has the node, and the other one fails and says
// why.
func TestDenials_ConcurrentCreations(t *testing.T) {
	w := guarded(t, harness.Options{})
	for round := range 5 {
		node := fmt.Sprintf("raced-%d", round)
		w.node(node, corev1.ConditionTrue)
		objects := both("race-"+node, node)
		failures := make([]error, len(objects))
		var racers sync.WaitGroup
		for i, object := range objects {
			racers.Go(func() { failures[i] = w.create(object) })
		}
		racers.Wait()
		w.inMaintenance(node)
		running := 0
		for i, object := range objects {
			if failures[i] != nil {
				w.denied(failures[i], claimedText(node))
				continue
			}
			w.Eventually("an end", func() error {
				if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
					return err
				}
				phase := phaseOf(object)
				if phase == medik8s.PhaseSucceeded {
					running++
				} else if phase != medik8s.PhaseFailed {
					return fmt.Errorf("its phase is %q", phase)
				}
				return nil
			})
		}
		if running != 1 {
			t.Errorf("round %d: %d NodeMaintenances have the node; creations gave %v", round, running, failures)
		}
	}
}

func TestDenials_NodeNameChanged(t *testing.T) {
	w := guarded(t, harness.Options{})
	w.node("stays", corev1.ConditionTrue)
	w.node("other", corev1.ConditionTrue)
	for i, object := range both("fixed", "stays") {
		if err := w.create(object); err != nil {
			t.Fatal(err)
		}
		change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"nodeName":"other"}}`))
		w.refused(w.Client.Patch(t.Context(), object, change), "updating spec.NodeName isn't allowed")
		patch(w.World, object, fmt.Sprintf(`{"spec":{"reason":"round %d"},"metadata":{"labels":{"a":"b"}}}`, i))
		w.remove(object)
	}
}

func TestDenials_InvalidSelectors(t *testing.T) {
	w := guarded(t, harness.Options{})
	w.node("ruled", corev1.ConditionTrue)
	object := medik8sOf("ruled", "ruled")
	good := medik8s.PodRule{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}
	bad := medik8s.PodRule{PodSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Sounds", Values: []string{"x"}}},
	}}
	object.Spec.Drain = &medik8s.DrainSpec{PodRules: []medik8s.PodRule{good, bad}}
	w.refused(w.create(object), `spec.drain.podRules[1].podSelector: "Sounds" is not a valid label selector operator`)
	object.Spec.Drain.PodRules = object.Spec.Drain.PodRules[:1]
	if err := w.create(object); err != nil {
		t.Fatal(err)
	}
	change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"drain":{"podRules":[{"podSelector":{"matchLabels":{"a b":"c"}}}]}}}`))
	w.refused(w.Client.Patch(t.Context(), object, change), "spec.drain.podRules[0].podSelector")
}

// Maintenance can be ended also while the webhook does not answer.
func TestWebhook_NotCalledForOtherUpdates(t *testing.T) {
	w := newWebhookWorld(t)
	address := w.address()
	w.configure(address)
	operator := w.serve(address, harness.Options{})
	w.asked()
	w.node("silent", corev1.ConditionTrue)
	object := medik8sOf("silent", "silent")
	if err := w.create(object); err != nil {
		t.Fatal(err)
	}
	w.inMaintenance("silent")
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	w.refused(w.create(medik8sOf("later", "silent")), "failed calling webhook", "connection refused")
	change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"reason":"another"}}`))
	w.refused(w.Client.Patch(t.Context(), object, change), "failed calling webhook")
	patch(w.World, object, `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`)
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"lastError":"none"}}`))
	if err := w.Client.Status().Patch(t.Context(), object, status); err != nil {
		t.Error(err)
	}
	if err := w.Client.Delete(t.Context(), object); err != nil {
		t.Error(err)
	}
	if finalizers := object.GetFinalizers(); !slices.Contains(finalizers, medik8s.Finalizer) {
		t.Errorf("the finalizers are %v", finalizers)
	}
	patch(w.World, object, `{"metadata":{"finalizers":null}}`)
	w.Gone(object)
}

// A replica that stands by answers, too.
func TestWebhook_StandbyAnswers(t *testing.T) {
	w := newWebhookWorld(t)
	address := w.address()
	w.configure(address)
	leader := w.serve(w.address(), harness.Options{Elect: true})
	if err := leader.Says(t.Context(), "capability maintenance: running"); err != nil {
		t.Fatal(err)
	}
	standby := w.serve(address, harness.Options{Elect: true})
	if err := standby.Says(t.Context(), "capability maintenance: standing by"); err != nil {
		t.Fatal(err)
	}
	w.asked()
	w.node("by", corev1.ConditionTrue)
	if err := w.create(medik8sOf("by", "by")); err != nil {
		t.Fatal(err)
	}
	w.inMaintenance("by")
	w.denied(w.create(kubevirtOf("by", "by")), claimedText("by"))
}

// TestDenials_ForceAndOutOfServiceDisabled: what an administrator has switched off may not be asked for.
func TestDenials_ForceAndOutOfServiceDisabled(t *testing.T) {
	w := guarded(t, harness.Options{Args: []string{"--maintenance-force=Off", "--maintenance-out-of-service=Off"}})
	w.node("worker", corev1.ConditionTrue)
	forced, tainted, plain := medik8sOf("forced", "worker"), medik8sOf("tainted", "worker"), medik8sOf("plain", "worker")
	forced.Spec.Drain = &medik8s.DrainSpec{Force: true, Deadline: &metav1.Duration{Duration: time.Minute}}
	tainted.Spec.Drain = &medik8s.DrainSpec{Unreachable: medik8s.UnreachableOutOfService}
	plain.Spec.Drain = &medik8s.DrainSpec{Unreachable: medik8s.UnreachableIgnore, Deadline: &metav1.Duration{Duration: time.Minute}}
	w.denied(w.tries(forced), "spec.drain.force: Forbidden: maintenance.force is Off in Drover's configuration")
	w.denied(w.tries(tainted),
		"spec.drain.unreachable: Forbidden: OutOfService is not available, since maintenance.outOfService is Off in Drover's configuration")
	if err := w.tries(plain); err != nil {
		t.Error(err)
	}
}
