package healthcheck

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/expectations"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/healthcheck/plan"
)

const (
	statusC     = "status MachineHealthCheck/c"
	nothingToDo = "RemediationProgressing=True/NothingToRemediate"
)

func limit(text string) func(*machinev1beta1.MachineHealthCheck) {
	return func(c *machinev1beta1.MachineHealthCheck) { c.Spec.MaxUnhealthy = new(intstr.Parse(text)) }
}

// newObjects returns the MachineHealthCheck c and the Machines m0, m1, ... with their Nodes n-m0, n-m1, ..., one for each letter: w is healthy,
// u unhealthy for an hour, s for a minute, f in the phase Failed, n without a Node for longer than the startup timeout.
func newObjects(kinds string, changes ...func(*machinev1beta1.MachineHealthCheck)) []client.Object {
	objects := []client.Object{newCheck("c", changes...)}
	for i, kind := range kinds {
		name := fmt.Sprintf("m%d", i)
		node := newNode("n-" + name)
		machine := newMachine(name, node.Name)
		switch kind {
		case 'u':
			node = newUnreadyNode(node.Name, time.Hour)
		case 's':
			node = newUnreadyNode(node.Name, time.Minute)
		case 'f':
			machine.Status.Phase = new("Failed")
		case 'n':
			objects = append(objects, newMachine(name, ""))
			continue
		}
		objects = append(objects, machine, node)
	}
	return objects
}

func TestReconcile_OneMachineUnhealthy(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uww")...)
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
	s.expectStatus("c", "3 2 2", "RemediationAllowed=True", nothingToDo, "SelectorExclusive=True/NoOverlap", "Paused=",
		"ExternalRemediationTemplateAvailable=")
	if got := s.deletedMachines("m0", "m1", "m2"); got != "m0" {
		t.Errorf("deleted %s", got)
	}
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Normal MachineDeleted" {
		t.Errorf("emitted %s", got)
	}
	if result := s.mustReconcile("c", ""); result.RequeueAfter != 0 {
		t.Errorf("at rest it requeues after %s", result.RequeueAfter)
	}
	// Its finalizer is removed, and its owner creates a new one, which starts.
	edit(s, newMachine("m0", ""), func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	for _, object := range []client.Object{newMachine("m3", "n-m3"), newNode("n-m3")} {
		if err := s.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "3 3 3", "RemediationAllowed=True", nothingToDo)
	s.mustReconcile("c", "")
	if got := s.emitted(); got != "" {
		t.Errorf("emitted %s", got)
	}
	for name, got := range map[string]float64{
		"remediations": s.metric("mapi_machinehealthcheck_remediation_success_total", "c", namespace),
		"attempts":     s.metric("drover_healthcheck_remediations_total", "deletion", "ok"),
		"delays":       s.metric("drover_healthcheck_remediation_delay_seconds"),
	} {
		if got != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if s.metric("mapi_machinehealthcheck_nodes_covered", "c", namespace) != 3 || s.metric("mapi_machinehealthcheck_short_circuit", "c", namespace) != 0 {
		t.Error("3 Machines are covered, and remediation is allowed")
	}
}

// A condition of its own with a timeout of one second, as the e2e test of machine-api-operator has it.
func TestReconcile_WaitsForTimeout(t *testing.T) {
	custom := func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.UnhealthyConditions = []machinev1beta1.UnhealthyCondition{
			{Type: "MachineHealthCheckE2E", Status: corev1.ConditionTrue, Timeout: metav1.Duration{Duration: time.Second}},
		}
	}
	s := newFixture(t, Options{}, newObjects("ww", custom, limit("1"))...)
	s.mustReconcile("c", statusC)
	edit(s, newNode("n-m0"), func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: "MachineHealthCheckE2E", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now()),
		})
	})
	result := s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 1 0", nothingToDo)
	if result.RequeueAfter != 2*time.Second {
		t.Fatalf("requeues after %s", result.RequeueAfter)
	}
	if got := s.emitted(); got != "Normal DetectedUnhealthy" {
		t.Errorf("emitted %s", got)
	}
	s.advance(result.RequeueAfter)
	s.mustReconcile("c", "delete Machine/m0")
	if got := s.emitted(); got != "Normal MachineDeleted" {
		t.Errorf("emitted %s", got)
	}
}

func TestReconcile_NodeRecovers(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("sw")...)
	result := s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 1 1", nothingToDo)
	if result.RequeueAfter != 4*time.Minute+plan.Slack {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != 0 {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "2 2 2", nothingToDo)
	// It is reported when it happens again.
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.mustReconcile("c", statusC)
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy" {
		t.Errorf("emitted %s", got)
	}
}

// machine-api-operator reconciles every millisecond then, with a write and an event each time.
func TestReconcile_TooManyUnhealthy(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uuusw", limit("40%"))...)
	result := s.mustReconcile("c", statusC)
	s.expectStatus("c", "5 1 0", "RemediationAllowed=False/TooManyUnhealthy", "RemediationProgressing=False/TooManyUnhealthy")
	if want := "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy " +
		"(total: 5, unhealthy: 4, maxUnhealthy: 40%)"; s.conditionMessage("c", machinev1beta1.RemediationAllowedCondition) != want {
		t.Errorf("%s", s.conditionMessage("c", machinev1beta1.RemediationAllowedCondition))
	}
	if got := s.emitted(); !strings.HasSuffix(got, "Warning RemediationRestricted") || strings.Count(got, "Restricted") != 1 {
		t.Errorf("emitted %s", got)
	}
	if s.metric("mapi_machinehealthcheck_short_circuit", "c", namespace) != 1 {
		t.Error("the gauge is not set")
	}
	for range 5 {
		if result.RequeueAfter != 4*time.Minute+plan.Slack {
			t.Fatalf("requeues after %s", result.RequeueAfter)
		}
		result = s.mustReconcile("c", "")
	}
	s.advance(result.RequeueAfter)
	if result = s.mustReconcile("c", ""); result.RequeueAfter != 0 {
		t.Errorf("the decision does not change with time, and it requeues after %s", result.RequeueAfter)
	}
	if got := s.emitted(); got != "" {
		t.Errorf("emitted %s", got)
	}
	// A later reconciliation emits the event again.
	s.advance(time.Minute)
	s.mustReconcile("c", "")
	s.mustReconcile("c", "")
	if got := s.emitted(); got != "Warning RemediationRestricted" {
		t.Errorf("emitted %s", got)
	}
	for _, node := range []string{"n-m0", "n-m1", "n-m3"} {
		edit(s, newNode(node), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	}
	s.mustReconcile("c", "delete Machine/m2, "+statusC)
	s.expectStatus("c", "5 4 1", "RemediationAllowed=True", nothingToDo)
	if s.metric("mapi_machinehealthcheck_short_circuit", "c", namespace) != 0 {
		t.Error("the gauge is not reset")
	}
}

func TestReconcile_InvalidMaxUnhealthy(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uw", limit("99999999999999999999"))...)
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != 0 {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "2 1 0", "RemediationAllowed=False/InvalidMaxUnhealthy", "RemediationProgressing=False/InvalidMaxUnhealthy")
	s.mustReconcile("c", "")
}

func TestReconcile_InvalidSelector(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uw", func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like", Values: []string{"a"}}}
	})...)
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "0 0 0", "RemediationAllowed=False/InvalidSelector")
	s.mustReconcile("c", "")
}

func TestReconcile_Selectors(t *testing.T) {
	elsewhere := newMachine("m9", "n-m0")
	elsewhere.Namespace = "other"
	for name, c := range map[string]struct {
		selector metav1.LabelSelector
		want     string
	}{
		"labels":             {metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}, "1"},
		"other labels":       {metav1.LabelSelector{MatchLabels: map[string]string{"pool": "c"}}, "0"},
		"empty: all of them": {metav1.LabelSelector{}, "2"},
		"an expression": {metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}},
		}}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := newObjects("w", func(check *machinev1beta1.MachineHealthCheck) { check.Spec.Selector = c.selector })
			other := newMachine("m1", "n-m0", func(m *machinev1beta1.Machine) { m.Labels["pool"] = "b" })
			s := newFixture(t, Options{}, append(objects, other, elsewhere.DeepCopy())...)
			s.mustReconcile("c", statusC)
			s.expectStatus("c", fmt.Sprintf("%[1]s %[1]s %[1]s", c.want))
		})
	}
}

// The next Machine is deleted when the cache shows the deletion before, and everything is counted anew for it.
func TestRemediate_OneInFlight(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uuuww")...)
	s.pauseCache()
	if result := s.mustReconcile("c", "delete Machine/m0, "+statusC); result.RequeueAfter != controller.CatchUp {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.resumeCache()
	s.expectStatus("c", "5 2 2", "RemediationProgressing=True/Remediating")
	s.pauseCache()
	s.mustReconcile("c", "delete Machine/m1")
	for range 3 {
		s.mustReconcile("c", "")
	}
	s.resumeCache()
	s.mustReconcile("c", "delete Machine/m2, "+statusC)
	s.expectStatus("c", "5 2 2", nothingToDo)
	s.mustReconcile("c", "")
}

func TestRemediate_SeveralInFlight(t *testing.T) {
	s := newFixture(t, Options{MaxUnseenStarts: 3}, newObjects("uuuuuww")...)
	s.pauseCache()
	s.mustReconcile("c", "delete Machine/m0, delete Machine/m1, delete Machine/m2, "+statusC)
	s.resumeCache()
	s.mustReconcile("c", "delete Machine/m3, delete Machine/m4, "+statusC)
	s.mustReconcile("c", "")
}

// A deletion that the cache does not show for long delays the next one as long as the API server has it.
func TestReconcile_DeletionThatTheCacheDoesNotShowForLong(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uuw")...)
	s.pauseCache()
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
	s.versions.Forget("uid-of-c")
	for range 4 {
		s.advance(time.Minute)
		if _, writes, err := s.reconcile("c"); err != nil || strings.Contains(writes, "delete") {
			t.Fatalf("error %v, wrote %q", err, writes)
		}
	}
	s.resumeCache()
	s.mustReconcile("c", "delete Machine/m1, "+statusC)
}

func TestRemediate_CountsBeforeEach(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uuwwww", limit("2"))...)
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
	edit(s, newNode("n-m2"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "6 3 0", "RemediationAllowed=False/TooManyUnhealthy")
	if got := s.deletedMachines("m0", "m1", "m2"); got != "m0" {
		t.Errorf("deleted %s", got)
	}
}

// The Machine's nodeRef may be in the cache before the Node is.
func TestConfirm_NodeNotInCacheYet(t *testing.T) {
	s := newFixture(t, Options{}, newCheck("c"), newMachine("m0", "n-m0"))
	s.pauseCache()
	if err := s.client.Create(t.Context(), newNode("n-m0")); err != nil {
		t.Fatal(err)
	}
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != controller.CatchUp {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.resumeCache()
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "1 1 1", nothingToDo)
	if err := s.client.Delete(t.Context(), newNode("n-m0")); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
}

// The first list after a restart may show a Node that was unhealthy, and is healthy now.
func TestConfirm_NodeHealthyAgain(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uw")...)
	s.pauseCache()
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != controller.CatchUp {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.resumeCache()
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 2 2", nothingToDo)
}

func TestDeleteMachine_MachineChanged(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("nw")...)
	s.pauseCache()
	edit(s, newMachine("m0", ""), func(m *machinev1beta1.Machine) {
		m.Status.NodeRef = &corev1.ObjectReference{Name: "n-m1"}
	})
	if result := s.mustReconcile("c", "delete Machine/m0, "+statusC); result.RequeueAfter != controller.RetryConflict {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.resumeCache()
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 2 2", nothingToDo)
	if got := s.deletedMachines("m0"); got != "" {
		t.Errorf("deleted %s", got)
	}
	if got := s.metric("drover_healthcheck_remediations_total", "deletion", "conflict"); got != 1 {
		t.Errorf("%v conflicts", got)
	}
}

func TestDeleteMachine_Errors(t *testing.T) {
	machines := schema.GroupResource{Group: "machine.openshift.io", Resource: "machines"}
	for name, c := range map[string]struct {
		err      error
		fails    bool
		after    [2]time.Duration
		events   string
		progress string
	}{
		"forbidden": {
			apierrors.NewForbidden(machines, "m0", errors.New("no")), false, [2]time.Duration{controller.RetryDenied, controller.RetryDenied},
			", Warning MachineDeletionFailed", "False/RemediationFailed",
		},
		"an error": {
			apierrors.NewInternalError(errors.New("etcd")), true, [2]time.Duration{}, ", Warning MachineDeletionFailed", "False/RemediationFailed",
		},
		"gone": {apierrors.NewNotFound(machines, "m0"), false, [2]time.Duration{controller.CatchUp, controller.CatchUp}, "", "True/NothingToRemediate"},
		"conflict": {
			apierrors.NewConflict(machines, "m0", errors.New("changed")), false, [2]time.Duration{controller.RetryConflict, 2 * controller.RetryConflict}, "",
			"True/NothingToRemediate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{}, newObjects("uw")...)
			s.Fail["delete Machine"] = c.err
			for i, want := range []string{"delete Machine/m0, " + statusC, "delete Machine/m0"} {
				result, writes, err := s.reconcile("c")
				if writes != want || (err != nil) != c.fails || result.RequeueAfter != c.after[i] {
					t.Errorf("reconciliation %d: wrote %s, error %v, requeues after %s", i, writes, err, result.RequeueAfter)
				}
			}
			s.expectStatus("c", "2 1 1", "RemediationProgressing="+c.progress)
			if got := s.emitted(); got != "Normal DetectedUnhealthy"+c.events {
				t.Errorf("emitted %s", got)
			}
			delete(s.Fail, "delete Machine")
			s.reconcileUntilQuiet("c")
			s.expectStatus("c", "2 1 1", nothingToDo)
		})
	}
}

// A Machine that cannot be deleted does not keep the others from being remediated.
func TestRemediate_FailureDoesNotStopOthers(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uuw")...)
	s.Fail["delete Machine"] = apierrors.NewInternalError(errors.New("etcd"))
	if _, writes, err := s.reconcile("c"); err == nil || writes != "delete Machine/m0, delete Machine/m1, "+statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
}

func TestReconcile_CacheBehindOwnWrite(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uw")...)
	s.versions.Expect("uid-of-c", expectations.Write{Version: "100000"})
	if result := s.mustReconcile("c", ""); result.RequeueAfter != controller.CatchUp {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
}

func TestPatchStatus_Conflict(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("ww")...)
	s.pauseCache()
	edit(s, newCheck("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Labels = map[string]string{"x": "y"} })
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != controller.RetryConflict {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.resumeCache()
	s.mustReconcile("c", statusC)
	s.mustReconcile("c", "")
}
