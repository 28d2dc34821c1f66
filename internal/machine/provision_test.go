package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/provider"
)

func TestReconcile_CreatesInstanceAndLinksNode(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	result, writes, calls := s.reconcile("m")
	if calls != "get create" || writes != "patch Machine" || result.RequeueAfter != 2*time.Second {
		t.Errorf("calls %q, writes %q, again in %s", calls, writes, result.RequeueAfter)
	}
	// The Node has not come at once.
	if _, writes, calls = s.reconcile("m"); calls != "" || writes != "status Machine" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
	s.expect("m", machinev1beta1.PhaseProvisioned, "InstanceExists=True", "Ready=AwaitingNode", "Drainable=True", "Terminable=True")
	s.isRecorded("m")
	s.create(nodeOf("m"))
	_, writes, calls = s.reconcile("m")
	if calls != "" || writes != "status Machine" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	if ref := s.machine("m").Status.NodeRef; ref == nil || ref.Name != "m" || ref.UID != "uid-of-node-m" {
		t.Errorf("nodeRef %+v", ref)
	}
	// At rest nothing is asked and nothing written, until it is time to look at the instance.
	if result, writes, calls := s.reconcile("m"); writes != "" || calls != "" || result.RequeueAfter != 10*time.Minute {
		t.Errorf("calls %q, writes %q, again in %s", calls, writes, result.RequeueAfter)
	}
	s.clock.Step(10 * time.Minute)
	if _, writes, calls := s.reconcile("m"); writes != "" || calls != "get" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
	if got := s.emitted(); got != "Create" {
		t.Errorf("events %s", got)
	}
}

// isRecorded looks for what the provider has said.
func (s *fixture) isRecorded(name string) {
	s.t.Helper()
	machine := s.machine(name)
	if *machine.Spec.ProviderID != "cloud:///"+name || machine.Labels[plan.LabelType] != "m5" || machine.Labels[plan.LabelRegion] != "eu" ||
		machine.Labels[plan.LabelZone] != "eu-1" || machine.Annotations[plan.AnnotationInstanceState] != "Running" || len(machine.Status.Addresses) != 1 {
		s.t.Errorf("the instance is recorded as %+v", machine)
	}
}

// A Node that is there at once costs no status of its own.
func TestReconcile_NodeThatRegistersAtOnceIsInTheFirstStatus(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.reconcile("m")
	s.create(nodeOf("m"))
	if _, writes, calls := s.reconcile("m"); calls != "" || writes != "status Machine" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True", "InstanceExists=True")
	if _, writes, _ := s.reconcile("m"); writes != "" {
		t.Errorf("writes %q at rest", writes)
	}
}

func TestReconcile_AddsFinalizerFirst(t *testing.T) {
	machine := machineOf("m")
	machine.Finalizers = nil
	s := newFixture(t, machine)
	s.Fail["patch Machine"] = errors.New("no")
	if _, _, calls, err := s.tryReconcile("m"); err == nil || calls != "" {
		t.Errorf("calls %q, error %v", calls, err)
	}
	delete(s.Fail, "patch Machine")
	s.reconcile("m")
	if got := s.machine("m").Finalizers; len(got) != 1 || got[0] != "machine.machine.openshift.io" {
		t.Errorf("finalizers %v", got)
	}
}

// A crash between the provider's answer and its record must not make a second instance.
func TestReconcile_FindsInstanceThatWasNotRecorded(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.Fail["patch Machine"] = errors.New("the process ends here")
	if _, _, calls, err := s.tryReconcile("m"); err == nil || calls != "get create" {
		t.Errorf("calls %q, error %v", calls, err)
	}
	delete(s.Fail, "patch Machine")
	if _, _, calls := s.reconcile("m"); calls != "get" {
		t.Errorf("calls %q", calls)
	}
	s.reconcile("m")
	s.expect("m", machinev1beta1.PhaseProvisioned, "InstanceExists=True")
}

// TestReconcile_CreatesInBackground: an instance that the provider has created in the background has the event, too, once.
func TestReconcile_CreatesInBackground(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.cloud.fail["create"] = provider.RequeueAfter(time.Minute, "it is created")
	s.reconcile("m")
	if got := s.emitted(); got != "" {
		t.Errorf("events %q before there is an instance", got)
	}
	s.cloud.instances["m"] = instanceOf("m")
	s.clock.Step(time.Minute)
	s.reconcile("m")
	s.reconcile("m")
	if got := s.emitted(); got != "Create" {
		t.Errorf("events %q", got)
	}
}

func TestReconcile_ProviderErrors(t *testing.T) {
	for name, c := range map[string]struct {
		call           string
		err            error
		phase, exists  string
		reason, events string
		fails          bool
		again          time.Duration
	}{
		"invalid configuration": {
			call: "create", err: provider.InvalidConfiguration("no such image"), phase: machinev1beta1.PhaseFailed,
			exists: "InstanceNotCreated", reason: "InvalidConfiguration", events: "FailedCreate",
		},
		"insufficient resources": {
			call: "create", err: provider.InsufficientResources("quota"), phase: machinev1beta1.PhaseProvisioning, exists: "InstanceNotCreated",
			events: "FailedCreate", fails: true,
		},
		"requeue after": {
			call: "create", err: provider.RequeueAfter(7*time.Second, "the network is made"), phase: machinev1beta1.PhaseProvisioning,
			exists: "InstanceNotCreated", again: 7 * time.Second,
		},
		"get fails": {
			call: "get", err: errors.New("timeout"), phase: machinev1beta1.PhaseProvisioning, exists: "ErrorCheckingProvider",
			events: "FailedUpdate", fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, machineOf("m"))
			s.cloud.fail[c.call] = c.err
			result, _, _, err := s.tryReconcile("m")
			if (err != nil) != c.fails || c.again != 0 && result.RequeueAfter != c.again {
				t.Errorf("error %v, again in %s", err, result.RequeueAfter)
			}
			s.expect("m", c.phase, "InstanceExists="+c.exists)
			status := s.machine("m").Status
			if got := value(status.ErrorReason); string(got) != c.reason {
				t.Errorf("errorReason %q", got)
			}
			if text := value(status.ErrorMessage); (text != "") != (c.reason != "") {
				t.Errorf("errorMessage %q", text)
			}
			if got := s.emitted(); got != c.events {
				t.Errorf("events %q", got)
			}
			_, writes, _, _ := s.tryReconcile("m")
			if got := s.emitted(); writes != "" || got != "" {
				t.Errorf("the same answer once more: writes %q, events %q", writes, got)
			}
			delete(s.cloud.fail, c.call)
			_, _, calls := s.reconcile("m")
			if failed := c.phase == machinev1beta1.PhaseFailed; failed != (calls == "") {
				t.Errorf("calls %q", calls)
			}
		})
	}
}

func value[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

func TestReconcile_InstanceMissing(t *testing.T) {
	s := newFixture(t, machineOf("m"), nodeOf("m"))
	s.settle("m")
	delete(s.cloud.instances, "m")
	s.clock.Step(10 * time.Minute)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseFailed, "InstanceExists=InstanceMissing", "Ready=Failed")
	status := s.machine("m").Status
	if status.ErrorReason != nil || value(status.ErrorMessage) != "can't find created instance" ||
		!strings.Contains(string(status.ProviderStatus.Raw), "Unknown") {
		t.Errorf("status %+v", status)
	}
	// The provider is never asked again.
	s.cloud.instances["m"] = instanceOf("m")
	s.clock.Step(time.Hour)
	if _, writes, calls := s.reconcile("m"); writes != "" || calls != "" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
}

func TestReconcile_NoProvider(t *testing.T) {
	for name, c := range map[string]struct{ raw, reason, events string }{
		"no spec":    {"", "InvalidConfiguration", "FailedValidate"},
		"no object":  {"[]", "NoProvider", ""},
		"other kind": {`{"apiVersion":"other.example.com/v1","kind":"Spec"}`, "NoProvider", ""},
	} {
		t.Run(name, func(t *testing.T) {
			machine := machineOf("m")
			machine.Spec.ProviderSpec.Value = nil
			if c.raw != "" {
				machine.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(c.raw)}
			}
			s := newFixture(t, machine)
			s.settle("m")
			s.expect("m", machinev1beta1.PhaseProvisioning, "InstanceExists="+c.reason)
			if got := s.emitted(); got != c.events {
				t.Errorf("events %q", got)
			}
			s.delete("m")
			s.settle("m")
			if s.machine("m") != nil {
				t.Error("it never had an instance, and cannot go")
			}
		})
	}
}

// TestReconcile_PausedByAnnotation sets Drover's own annotation on a Machine that has no instance yet, and on a Machine that is deleted.
func TestReconcile_PausedByAnnotation(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": true, "false": false} {
		t.Run("value "+value, func(t *testing.T) {
			s := newFixture(t, machineOf("m"))
			s.update("m", func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{paused.Annotation: value} })
			s.settle("m")
			if created := len(s.cloud.instances) != 0; created == want {
				t.Errorf("instance created: %v", created)
			}
			s.update("m", func(m *machinev1beta1.Machine) { delete(m.Annotations, paused.Annotation) })
			s.settle("m")
			s.update("m", func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{paused.Annotation: value} })
			s.delete("m")
			s.settle("m")
			if kept := s.machine("m") != nil && len(s.cloud.instances) == 1; kept != want {
				t.Errorf("deleted while it has the annotation, it is kept: %v", kept)
			}
		})
	}
}

func TestReconcile_IgnoresPausedAndMigratingMachines(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.update("m", func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{paused.ClusterAPIAnnotation: ""} })
	s.settle("m")
	if s.machine("m").Status.Phase != nil || len(s.cloud.instances) != 0 {
		t.Error("a paused Machine was made")
	}
	s.update("m", func(m *machinev1beta1.Machine) {
		m.Annotations = nil
		m.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityMigrating
	})
	machine := s.machine("m")
	machine.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityMigrating
	if err := s.client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	paused := s.machine("m").Status.Conditions
	if len(s.cloud.instances) != 0 || len(paused) == 0 {
		t.Error("a Machine of another API was made")
	}
	for _, condition := range paused {
		if condition.Type == plan.ConditionPaused && condition.Message != "The AuthoritativeAPI status is set to 'Migrating'" {
			t.Errorf("the condition says %q", condition.Message)
		}
	}
}

func TestReconcile_NodeChanges(t *testing.T) {
	s := newFixture(t, machineOf("m"), nodeOf("m"))
	s.settle("m")
	node := s.node("m")
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	if err := s.client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=NodeNotReady")
	if err := s.client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=NodeNotFound")
	again := nodeOf("m")
	again.UID = "another"
	s.create(again)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	if got := s.machine("m").Status.NodeRef.UID; got != "another" {
		t.Errorf("nodeRef has the UID %s", got)
	}
	// A kubelet may set any providerID on its own Node.
	twin := nodeOf("twin")
	twin.Spec.ProviderID = "cloud:///m"
	s.create(twin)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	if got := s.emitted(); got != "Create" {
		t.Errorf("events %s", got)
	}
}

func TestReconcile_HooksInConditionsFromTheStart(t *testing.T) {
	machine := machineOf("m")
	machine.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "Save", Owner: "backup"}}
	s := newFixture(t, machine)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseProvisioned, "Drainable=HookPresent", "Terminable=True")
	for _, condition := range s.machine("m").Status.Conditions {
		if want := "Drain operation currently blocked by: [{Name:Save Owner:backup}]"; condition.Type == "Drainable" && condition.Message != want {
			t.Errorf("it says %q", condition.Message)
		}
	}
}

func TestReconcile_TransitionTimesAtRest(t *testing.T) {
	s := newFixture(t, machineOf("m"), nodeOf("m"))
	s.settle("m")
	before := s.machine("m").Status.Conditions
	s.clock.Step(time.Hour)
	s.settle("m")
	for i, condition := range s.machine("m").Status.Conditions {
		if condition != before[i] {
			t.Errorf("%+v was %+v", condition, before[i])
		}
	}
}
