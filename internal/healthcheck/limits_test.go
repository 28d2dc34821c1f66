package healthcheck

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/nodelease"
)

const limitedNow = "RemediationProgressing=False/RemediationLimited"

// annotated sets an annotation of a MachineHealthCheck.
func annotated(key, value string) func(*machinev1beta1.MachineHealthCheck) {
	return func(c *machinev1beta1.MachineHealthCheck) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value) }
}

func maxInFlight(text string) func(*machinev1beta1.MachineHealthCheck) {
	return annotated(plan.MaxInFlightAnnotation, text)
}

// newSet returns the MachineSet of all Machines.
func newSet(replicas int32) *machinev1beta1.MachineSet {
	return builder.MachineSet(namespace, "set", replicas, func(set *machinev1beta1.MachineSet) { set.Status.Replicas = replicas })
}

// starting makes a Machine a replacement that is created now and has no Node yet.
func (s *fixture) starting(m *machinev1beta1.Machine) {
	m.CreationTimestamp = metav1.NewTime(s.clock.Now().Truncate(time.Second))
	m.Status.NodeRef, m.Status.Phase = nil, new(machinev1beta1.PhaseProvisioned)
	m.Annotations = map[string]string{machineapi.CreatedForAnnotation: string(machineapi.CreatedForDeleted)}
}

func (s *fixture) create(objects ...client.Object) {
	s.t.Helper()
	for _, object := range objects {
		if err := s.client.Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestReconcile_MaxInFlight(t *testing.T) {
	s := newFixture(t, Options{MaxUnseenStarts: 5}, append(newObjects("uuuuww", maxInFlight("2")), newSet(6))...)
	names := []string{"m0", "m1", "m2", "m3", "m4", "m5"}
	result := s.mustReconcile("c", "delete Machine/m0, delete Machine/m1, "+statusC)
	if result.RequeueAfter != 30*time.Second {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "6 2 2", "RemediationAllowed=True", limitedNow)
	want := "Machine m2: 2 remediations are in flight, and maxInFlight is 2; Machine m3: 2 remediations are in flight, and maxInFlight is 2"
	if got := s.conditionMessage("c", plan.ConditionProgressing); got != want {
		t.Errorf("%s", got)
	}
	if got := s.metric("drover_healthcheck_waiting_machines", "c", namespace, plan.ReasonLimited); got != 2 {
		t.Errorf("%v Machines wait", got)
	}
	if got := strings.Count(s.emitted(), "RemediationDeferred"); got != 2 {
		t.Errorf("%d events", got)
	}
	// Neither a restart, nor the end of a Machine, nor a replacement that starts makes place for more.
	for _, change := range []func(){
		func() {},
		func() { edit(s, newMachine("m0", ""), func(m *machinev1beta1.Machine) { m.Finalizers = nil }) },
		func() { s.create(newMachine("r0", "", s.starting)) },
		func() {
			s.create(newUnreadyNode("n-r0", 0))
			edit(s, newMachine("r0", ""), func(m *machinev1beta1.Machine) {
				m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "n-r0"}
			})
		},
	} {
		change()
		s.restart()
		s.reconcileUntilQuiet("c")
		if got := s.deletedMachines(names...); got != "m0 m1" {
			t.Fatalf("deleted %s", got)
		}
	}
	s.emitted()
	edit(s, newNode("n-r0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.mustReconcile("c", "delete Machine/m2, "+statusC)
	if got := s.emitted(); got != "Normal MachineDeleted" {
		t.Errorf("emitted %s", got)
	}
	// When the MachineSet shrinks, one is not replaced.
	edit(s, newSet(6), func(set *machinev1beta1.MachineSet) { set.Spec.Replicas = new(int32(5)) })
	s.mustReconcile("c", "delete Machine/m3, "+statusC)
	s.expectStatus("c", "6 3 3", nothingToDo)
}

// Without the annotation, the configuration counts; both are percentages of the Machines that the MachineHealthCheck selects.
func TestReconcile_MaxInFlightOfConfiguration(t *testing.T) {
	options := Options{MaxUnseenStarts: 5, Limits: plan.Limits{MaxInFlight: new(intstr.FromString("30%"))}}
	for annotation, want := range map[string]int{"": 2, "50%": 3, "100%": 4} {
		objects := append(newObjects("uuuuww"), newSet(6))
		if annotation != "" {
			objects = append(newObjects("uuuuww", maxInFlight(annotation)), newSet(6))
		}
		s := newFixture(t, options, objects...)
		s.reconcileUntilQuiet("c")
		if got := strings.Fields(s.deletedMachines("m0", "m1", "m2", "m3")); len(got) != want {
			t.Errorf("%q: deleted %s", annotation, got)
		}
	}
}

func TestReconcile_LimitInvalid(t *testing.T) {
	for key, value := range map[string]string{plan.MaxInFlightAnnotation: "few", plan.IntervalAnnotation: "soon"} {
		s := newFixture(t, Options{}, append(newObjects("uw", annotated(key, value)), newSet(2))...)
		s.mustReconcile("c", statusC)
		s.expectStatus("c", "2 1 1", "RemediationAllowed=False/InvalidRemediationLimits", "RemediationProgressing=False/InvalidRemediationLimits")
		if got := s.conditionMessage("c", machinev1beta1.RemediationAllowedCondition); !strings.Contains(got, key) || !strings.Contains(got, value) {
			t.Errorf("%s", got)
		}
		if got := s.emitted(); got != "Normal DetectedUnhealthy, Warning RemediationRestricted" {
			t.Errorf("emitted %s", got)
		}
	}
}

// Two MachineHealthChecks with Machines of the same MachineSet see the same remediations.
func TestReconcile_LimitSharedBySet(t *testing.T) {
	poolB := func(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": "b"} }
	selectsB := func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.Selector.MatchLabels = map[string]string{"pool": "b"}
	}
	objects := append(newObjects("uw", maxInFlight("1")), newCheck("d", selectsB, maxInFlight("1")), newSet(4),
		newMachine("b0", "n-b0", poolB), newUnreadyNode("n-b0", time.Hour), newMachine("b1", "n-b1", poolB), newNode("n-b1"))
	s := newFixture(t, Options{}, objects...)
	s.reconcileUntilQuiet("c")
	s.reconcileUntilQuiet("d")
	if got := s.deletedMachines("m0", "b0"); got != "m0" {
		t.Errorf("deleted %s", got)
	}
	s.expectStatus("d", "2 1 1", limitedNow)
	s.replaceMachine("m0", newMachine("r0", "n-r0", s.starting))
	s.restart()
	s.reconcileUntilQuiet("d")
	if got := s.deletedMachines("b0"); got != "" {
		t.Errorf("deleted %s", got)
	}
	edit(s, newMachine("r0", ""), func(m *machinev1beta1.Machine) {
		m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "n-r0"}
	})
	s.create(newNode("n-r0"))
	s.reconcileUntilQuiet("d")
	if got := s.deletedMachines("b0"); got != "b0" {
		t.Error("b0 is not deleted")
	}
}

// Machines that another MachineHealthCheck has handed over count, until its request is gone, or too old.
func TestReconcile_LimitCountsRequestsOfOthers(t *testing.T) {
	poolB := func(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": "b"} }
	selectsB := func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.Selector.MatchLabels = map[string]string{"pool": "b"}
	}
	request := newRequestNamed("b0", ownedBy("b0", "uid-of-b0"))
	request.SetAnnotations(map[string]string{plan.RequestAnnotation: "uid-of-b0"})
	request.SetCreationTimestamp(metav1.NewTime(start))
	objects := append(newObjects("uw", maxInFlight("1")), newCheck("d", selectsB, byTemplateOf("reboot")), newTemplate("reboot"), newSet(3),
		newMachine("b0", "n-b0", poolB), newUnreadyNode("n-b0", time.Hour), request)
	s := newFixture(t, Options{}, objects...)
	s.reconcileUntilQuiet("c")
	s.expectStatus("c", "2 1 1", limitedNow)
	// Also when no MachineHealthCheck names the template any more.
	if err := s.client.Delete(t.Context(), newCheck("d")); err != nil {
		t.Fatal(err)
	}
	s.advance(30*time.Minute - time.Second)
	s.mustReconcile("c", "")
	s.advance(time.Second)
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
}

func TestReconcile_ByAnnotationMaxInFlight(t *testing.T) {
	s := newFixture(t, Options{}, append(newObjects("uuw", bareMetal, maxInFlight("1")), newSet(3))...)
	s.mustReconcile("c", "patch Machine/m0, "+statusC)
	s.restart()
	s.mustReconcile("c", "")
	machine := newMachine("m0", "")
	edit(s, machine, func(*machinev1beta1.Machine) {})
	if got := machine.Annotations[machineapi.RequestedAnnotation]; got != "2026-07-01T12:00:00Z" {
		t.Errorf("requested at %q", got)
	}
	s.advance(30 * time.Minute)
	s.restart()
	s.mustReconcile("c", "patch Machine/m1, "+statusC)
}

// A Machine whose remediation something else blocks does not keep the others from theirs.
func TestReconcile_LimitAndLease(t *testing.T) {
	objects := append(newObjects("uuuw", maxInFlight("1")), newSet(4), newLease("n-m0", "node-maintenance"))
	s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, objects...)
	s.reconcileUntilQuiet("c")
	if got := s.deletedMachines("m0", "m1", "m2"); got != "m1" {
		t.Errorf("deleted %s", got)
	}
	if s.leaseHolder("n-m2") != "" {
		t.Error("the lease of a node is held whose Machine waits")
	}
}

func TestReconcile_Interval(t *testing.T) {
	s := newFixture(t, Options{MaxUnseenStarts: 5}, append(newObjects("uuuw", annotated(plan.IntervalAnnotation, "5m")), newSet(4))...)
	if result := s.mustReconcile("c", "delete Machine/m0, "+statusC); result.RequeueAfter != 30*time.Second {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "4 1 1", limitedNow)
	s.advance(2 * time.Minute)
	s.replaceMachine("m0", newMachine("r0", "", s.starting))
	// The next leader knows that something happened when the replacement was created.
	s.restart()
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != 30*time.Second {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.advance(5*time.Minute - time.Second)
	s.mustReconcile("c", "")
	s.advance(time.Second)
	s.mustReconcile("c", "delete Machine/m1, "+statusC)
	s.advance(5 * time.Minute)
	s.mustReconcile("c", "delete Machine/m2, "+statusC)
}

func TestReconcile_LimitCacheFails(t *testing.T) {
	s := newFixture(t, Options{}, append(newObjects("uw", maxInFlight("1")), newSet(2))...)
	s.Fail["list MachineSetList"] = errors.New("no answer")
	if _, writes, err := s.reconcile("c"); err == nil || writes != "" {
		t.Errorf("wrote %s, error %v", writes, err)
	}
}

// While the requests of a kind cannot be listed, no remediation starts that counts against limits, and the status names the kind. Other remediations
// start.
func TestReconcile_LimitRequestsFail(t *testing.T) {
	s := newFixture(t, Options{}, append(newObjects("uw", maxInFlight("1")), newSet(2))...)
	s.Fail["list Metal3RemediationList"] = errors.New("the conversion webhook does not answer")
	if _, writes, err := s.reconcile("c"); err == nil || writes != statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
	s.expectStatus("c", "2 1 1", "RemediationProgressing=False/RemediationFailed")
	if got := s.conditionMessage("c", plan.ConditionProgressing); !strings.Contains(got, "Metal3Remediation.infrastructure.cluster.x-k8s.io") {
		t.Errorf("%s", got)
	}
	edit(s, newCheck("c"), func(check *machinev1beta1.MachineHealthCheck) { check.Annotations = nil })
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
}
