package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/provider"
)

func TestAMachineBecomesANode(t *testing.T) {
	s := newStage(t, machineOf("m"))
	result, writes, calls := s.pass("m")
	if calls != "get create" || writes != "patch Machine" || result.RequeueAfter != 500*time.Millisecond {
		t.Errorf("calls %q, writes %q, again in %s", calls, writes, result.RequeueAfter)
	}
	// The Node has not come at once.
	if _, writes, calls = s.pass("m"); calls != "" || writes != "status Machine" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
	s.expect("m", machinev1beta1.PhaseProvisioned, "InstanceExists=True", "Ready=AwaitingNode", "Drainable=True", "Terminable=True")
	s.isRecorded("m")
	s.make(nodeOf("m"))
	_, writes, calls = s.pass("m")
	if calls != "" || writes != "status Machine" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	if ref := s.machine("m").Status.NodeRef; ref == nil || ref.Name != "m" || ref.UID != "uid-of-node-m" {
		t.Errorf("nodeRef %+v", ref)
	}
	// At rest nothing is asked and nothing written, until it is time to look at the instance.
	if result, writes, calls := s.pass("m"); writes != "" || calls != "" || result.RequeueAfter != 10*time.Minute {
		t.Errorf("calls %q, writes %q, again in %s", calls, writes, result.RequeueAfter)
	}
	s.clock.Step(10 * time.Minute)
	if _, writes, calls := s.pass("m"); writes != "" || calls != "get" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
	if got := s.told(); got != "Create" {
		t.Errorf("told %s", got)
	}
}

// isRecorded looks for what the provider has said.
func (s *stage) isRecorded(name string) {
	s.t.Helper()
	machine := s.machine(name)
	if *machine.Spec.ProviderID != "cloud:///"+name || machine.Labels[LabelType] != "m5" || machine.Labels[LabelRegion] != "eu" ||
		machine.Labels[LabelZone] != "eu-1" || machine.Annotations[AnnotationInstanceState] != "Running" || len(machine.Status.Addresses) != 1 {
		s.t.Errorf("the instance is recorded as %+v", machine)
	}
}

// A Node that is there at once costs no status of its own.
func TestANodeThatComesAtOnceIsInTheFirstStatus(t *testing.T) {
	s := newStage(t, machineOf("m"))
	s.pass("m")
	s.make(nodeOf("m"))
	if _, writes, calls := s.pass("m"); calls != "" || writes != "status Machine" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True", "InstanceExists=True")
	if _, writes, _ := s.pass("m"); writes != "" {
		t.Errorf("writes %q at rest", writes)
	}
}

func TestAMachineWithoutFinalizerGetsItFirst(t *testing.T) {
	machine := machineOf("m")
	machine.Finalizers = nil
	s := newStage(t, machine)
	s.fail["patch Machine"] = errors.New("no")
	if _, _, calls, err := s.try("m"); err == nil || calls != "" {
		t.Errorf("calls %q, error %v", calls, err)
	}
	delete(s.fail, "patch Machine")
	s.pass("m")
	if got := s.machine("m").Finalizers; len(got) != 1 || got[0] != "machine.machine.openshift.io" {
		t.Errorf("finalizers %v", got)
	}
}

// A crash between the provider's answer and its record must not make a second instance.
func TestAnInstanceThatWasNotRecordedIsFound(t *testing.T) {
	s := newStage(t, machineOf("m"))
	s.fail["patch Machine"] = errors.New("the process ends here")
	if _, _, calls, err := s.try("m"); err == nil || calls != "get create" {
		t.Errorf("calls %q, error %v", calls, err)
	}
	delete(s.fail, "patch Machine")
	if _, _, calls := s.pass("m"); calls != "get" {
		t.Errorf("calls %q", calls)
	}
	s.pass("m")
	s.expect("m", machinev1beta1.PhaseProvisioned, "InstanceExists=True")
}

func TestWhatTheProviderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		call           string
		err            error
		phase, exists  string
		reason, events string
		fails          bool
		again          time.Duration
	}{
		"for good": {
			call: "create", err: provider.InvalidConfiguration("no such image"), phase: machinev1beta1.PhaseFailed,
			exists: "InstanceNotCreated", reason: "InvalidConfiguration", events: "FailedCreate",
		},
		"for want of room": {
			call: "create", err: provider.InsufficientResources("quota"), phase: machinev1beta1.PhaseProvisioning, exists: "InstanceNotCreated",
			events: "FailedCreate", fails: true,
		},
		"for a while": {
			call: "create", err: provider.RequeueAfter(7*time.Second, "the network is made"), phase: machinev1beta1.PhaseProvisioning,
			exists: "InstanceNotCreated", again: 7 * time.Second,
		},
		"to look": {
			call: "get", err: errors.New("timeout"), phase: machinev1beta1.PhaseProvisioning, exists: "ErrorCheckingProvider",
			events: "FailedUpdate", fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, machineOf("m"))
			s.cloud.fail[c.call] = c.err
			result, _, _, err := s.try("m")
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
			if got := s.told(); got != c.events {
				t.Errorf("told %q", got)
			}
			_, writes, _, _ := s.try("m")
			if got := s.told(); writes != "" || got != "" {
				t.Errorf("the same answer once more: writes %q, told %q", writes, got)
			}
			delete(s.cloud.fail, c.call)
			_, _, calls := s.pass("m")
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

func TestAnInstanceThatIsLost(t *testing.T) {
	s := newStage(t, machineOf("m"), nodeOf("m"))
	s.rest("m")
	delete(s.cloud.instances, "m")
	s.clock.Step(10 * time.Minute)
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseFailed, "InstanceExists=InstanceMissing", "Ready=Failed")
	status := s.machine("m").Status
	if status.ErrorReason != nil || value(status.ErrorMessage) != "can't find created instance" ||
		!strings.Contains(string(status.ProviderStatus.Raw), "Unknown") {
		t.Errorf("status %+v", status)
	}
	// For good: it is never asked again.
	s.cloud.instances["m"] = instanceOf("m")
	s.clock.Step(time.Hour)
	if _, writes, calls := s.pass("m"); writes != "" || calls != "" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
}

func TestMachinesThatNobodyServes(t *testing.T) {
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
			s := newStage(t, machine)
			s.rest("m")
			s.expect("m", machinev1beta1.PhaseProvisioning, "InstanceExists="+c.reason)
			if got := s.told(); got != c.events {
				t.Errorf("told %q", got)
			}
			s.doom("m")
			s.rest("m")
			if s.machine("m") != nil {
				t.Error("it never had an instance, and cannot go")
			}
		})
	}
}

// TestPaused has Drover's own annotation on a Machine that has no instance yet, and on one that is deleted.
func TestPaused(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": true, "false": false} {
		t.Run("value "+value, func(t *testing.T) {
			s := newStage(t, machineOf("m"))
			s.edit("m", func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{paused.Annotation: value} })
			s.rest("m")
			if created := len(s.cloud.instances) != 0; created == want {
				t.Errorf("instance created: %v", created)
			}
			s.edit("m", func(m *machinev1beta1.Machine) { delete(m.Annotations, paused.Annotation) })
			s.rest("m")
			s.edit("m", func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{paused.Annotation: value} })
			s.doom("m")
			s.rest("m")
			if kept := s.machine("m") != nil && len(s.cloud.instances) == 1; kept != want {
				t.Errorf("deleted while it has the annotation, it is kept: %v", kept)
			}
		})
	}
}

func TestMachinesThatAreLeftAlone(t *testing.T) {
	s := newStage(t, machineOf("m"))
	s.edit("m", func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{paused.ClusterAPIAnnotation: ""} })
	s.rest("m")
	if s.machine("m").Status.Phase != nil || len(s.cloud.instances) != 0 {
		t.Error("a paused Machine was made")
	}
	s.edit("m", func(m *machinev1beta1.Machine) {
		m.Annotations = nil
		m.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityMigrating
	})
	machine := s.machine("m")
	machine.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityMigrating
	if err := s.client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	paused := s.machine("m").Status.Conditions
	if len(s.cloud.instances) != 0 || len(paused) == 0 {
		t.Error("a Machine of another API was made")
	}
	for _, condition := range paused {
		if condition.Type == ConditionPaused && condition.Message != "The AuthoritativeAPI status is set to 'Migrating'" {
			t.Errorf("the condition says %q", condition.Message)
		}
	}
}

func TestTheNodeOfAMachine(t *testing.T) {
	s := newStage(t, machineOf("m"), nodeOf("m"))
	s.rest("m")
	node := s.node("m")
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	if err := s.client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=NodeNotReady")
	if err := s.client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=NodeNotFound")
	again := nodeOf("m")
	again.UID = "another"
	s.make(again)
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	if got := s.machine("m").Status.NodeRef.UID; got != "another" {
		t.Errorf("nodeRef has the UID %s", got)
	}
	twin := nodeOf("twin")
	twin.Spec.ProviderID = "cloud:///m"
	s.make(twin)
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=NodeLinkConflict")
	if got := s.told(); got != "Create, NodeLinkConflict" {
		t.Errorf("told %s", got)
	}
}

func TestHooksAreShownFromTheBeginning(t *testing.T) {
	machine := machineOf("m")
	machine.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "Save", Owner: "backup"}}
	s := newStage(t, machine)
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseProvisioned, "Drainable=HookPresent", "Terminable=True")
	for _, condition := range s.machine("m").Status.Conditions {
		if want := "Drain operation currently blocked by: [{Name:Save Owner:backup}]"; condition.Type == "Drainable" && condition.Message != want {
			t.Errorf("it says %q", condition.Message)
		}
	}
	if got := hookStep("Terminate", []machinev1beta1.LifecycleHook{{Name: "A", Owner: "x"}, {Name: "B", Owner: "y"}}); got.message !=
		"Terminate operation currently blocked by: [{Name:A Owner:x} {Name:B Owner:y}]" {
		t.Errorf("it says %q", got.message)
	}
}

func TestTimesOfConditionsStandStill(t *testing.T) {
	s := newStage(t, machineOf("m"), nodeOf("m"))
	s.rest("m")
	before := s.machine("m").Status.Conditions
	s.clock.Step(time.Hour)
	s.rest("m")
	for i, condition := range s.machine("m").Status.Conditions {
		if condition != before[i] {
			t.Errorf("%+v was %+v", condition, before[i])
		}
	}
}
