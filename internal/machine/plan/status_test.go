package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

func TestStatus_PhaseAndReady(t *testing.T) {
	ready := newNode()
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	link := func(link Link) func(*Input) { return func(in *Input) { in.Link = link } }
	withReady := func(reason string) func(*Input) {
		return func(in *Input) {
			in.Machine.Status.Conditions = []machinev1beta1.Condition{{Type: ConditionReady, Reason: reason}}
		}
	}
	for name, c := range map[string]struct {
		in                    *Input
		phase, reason, exists string
	}{
		"no instance": {newInput(), "Provisioning", "Provisioning", ""},
		"instance": {newInput(func(in *Input) { in.Get = Answer{Asked: true, Instance: newInstance()} }), "Provisioned", "AwaitingNode",
			"True"},
		"Node is Ready":  {newInput(withRunning, link(Link{Node: ready, Linked: true})), "Running", "", ""},
		"Node registers": {newInput(withRunning, link(Link{Node: newNode(), Linked: true})), "Running", "NodeStarting", ""},
		"Node starts": {newInput(withRunning, withReady("NodeStarting"), link(Link{Node: newNode(), Linked: true})), "Running",
			"NodeStarting", ""},
		"Node is not Ready any more": {newInput(withRunning, withReady(""), link(Link{Node: newNode(), Linked: true})), "Running",
			"NodeNotReady", ""},
		"Node is still not Ready": {newInput(withRunning, withReady("NodeNotReady"), link(Link{Node: newNode(), Linked: true})), "Running",
			"NodeNotReady", ""},
		"Node is gone":        {newInput(withRunning), "Running", "NodeNotFound", ""},
		"nodeRef is foreign":  {newInput(withRunning, link(Link{Cleared: true})), "Provisioned", "AwaitingNode", ""},
		"Node is ambiguous":   {newInput(withRunning, link(Link{Conflict: "two"})), "Running", "NodeLinkConflict", ""},
		"Node is not adopted": {newInput(withRunning, link(Link{Refused: "older"})), "Running", "NodeNotAdopted", ""},
		"instance is missing": {newInput(withRunning, func(in *Input) { in.Get.Asked = true }), "Failed", "Failed", "InstanceMissing"},
		"deleted":             {newInput(withDeletion), "Deleting", "Deleting", ""},
		"instance is deleted": {newInput(withDeleted), "Deleting", "Deleting", "InstanceDeleted"},
	} {
		t.Run(name, func(t *testing.T) {
			after, _ := Status(c.in, &Wait{})
			if got := Phase(&after); got != c.phase {
				t.Errorf("the phase is %s, want %s", got, c.phase)
			}
			for kind, want := range map[machinev1beta1.ConditionType]string{ConditionReady: c.reason, machinev1beta1.InstanceExistsCondition: c.exists} {
				got := ""
				if found := status.MachineCondition(after.Conditions, kind); found != nil {
					if got = found.Reason; got == "" && kind != ConditionReady {
						got = string(found.Status)
					}
				}
				if got != want {
					t.Errorf("%s is %q, want %q", kind, got, want)
				}
			}
			again := *c.in
			again.Machine = c.in.Machine.DeepCopy()
			again.Machine.Status, again.Now = after, now.Add(time.Hour)
			if next, _ := Status(&again, &Wait{}); Phase(&after) != "Failed" && !apiequality.Semantic.DeepEqual(next, after) {
				t.Errorf("the status changes at rest:\n%+v\n%+v", after, next)
			}
		})
	}
}

func TestStatus_Errors(t *testing.T) {
	in := newInput(func(in *Input) { in.Get = Answer{Asked: true, Err: provider.InvalidConfiguration("no image")} })
	after, _ := Status(in, &Wait{})
	if after.ErrorReason == nil || *after.ErrorReason != machinev1beta1.InvalidConfigurationMachineError || *after.ErrorMessage != "no image" {
		t.Errorf("the errors are %v, %v", after.ErrorReason, after.ErrorMessage)
	}
	in = newInput(withDeletion)
	in.Machine.Status.ErrorReason = after.ErrorReason
	if after, _ := Status(in, &Wait{}); after.ErrorReason != nil {
		t.Error("a Machine that is being deleted keeps its error")
	}
}

// TestStatus_ErrorOfCreate: what the provider reports with an error of Create is written, whether it only waits or has failed.
func TestStatus_ErrorOfCreate(t *testing.T) {
	for _, cause := range []error{errors.New("no quota"), provider.RequeueAfter(time.Second, "cloning")} {
		status := &runtime.RawExtension{Raw: []byte(`{"a":1}`)}
		in := newInput(func(in *Input) {
			in.Create = Answer{Asked: true, Err: &provider.StatusError{Status: status, Err: cause}}
		})
		after, _ := Status(in, &Wait{})
		if after.ProviderStatus == nil || string(after.ProviderStatus.Raw) != `{"a":1}` {
			t.Errorf("%v: the status is %+v", cause, after.ProviderStatus)
		}
		in.Create.Err = cause
		in.Machine.Status = after
		if after, _ := Status(in, &Wait{}); string(after.ProviderStatus.Raw) != `{"a":1}` {
			t.Errorf("%v: without a status, it becomes %s", cause, after.ProviderStatus.Raw)
		}
	}
}

func TestStatus_WaitBecomesCondition(t *testing.T) {
	after, _ := Status(newInput(withDeletion), LeaseBlocked(held(), now))
	found := status.MachineCondition(after.Conditions, ConditionDrained)
	if found == nil || found.Reason != ReasonLease || !strings.Contains(found.Message, "another") {
		t.Errorf("the condition is %+v", found)
	}
}

func TestHookCondition(t *testing.T) {
	got := hookCondition("Terminate", []machinev1beta1.LifecycleHook{{Name: "A", Owner: "x"}, {Name: "B", Owner: "y"}})
	if want := "Terminate operation currently blocked by: [{Name:A Owner:x} {Name:B Owner:y}]"; got.Message != want {
		t.Errorf("the message is %q, want %q", got.Message, want)
	}
}

func TestWithUnknownState(t *testing.T) {
	for raw, want := range map[string]string{
		`{"instanceState":"running"}`: `{"instanceState":"Unknown"}`, `{"vmState":"on","id":1}`: `{"id":1,"vmState":"Unknown"}`,
		`{"id": 1}`: `{"id": 1}`, `[]`: `[]`,
	} {
		if got := withUnknownState(&runtime.RawExtension{Raw: []byte(raw)}); string(got.Raw) != want {
			t.Errorf("%s becomes %s, want %s", raw, got.Raw, want)
		}
	}
	if withUnknownState(nil) != nil {
		t.Error("no status becomes one")
	}
}

func TestEvents_InvalidLabels(t *testing.T) {
	in := newInput(withRunning, func(in *Input) {
		in.Get = Answer{Asked: true, Instance: newInstance()}
		in.Get.Instance.Region, in.Get.Instance.Zone = "New York", strings.Repeat("z", 1000)
	})
	events := Events(in, &Wait{})
	if len(events) != 1 || events[0].Reason != EventInvalidLabel || !strings.Contains(events[0].Message, `"New York"`) ||
		len(events[0].Message) > 500 {
		t.Errorf("the events are %+v", events)
	}
	in.Get.Instance.Region, in.Get.Instance.Zone = "", "ny-1"
	if events := Events(in, &Wait{}); len(events) != 0 {
		t.Errorf("the events are %+v", events)
	}
}

func TestEvents_InvalidAnnotations(t *testing.T) {
	in := newInput(withDeletion, func(in *Input) {
		in.Machine.Annotations[AnnotationDrainTimeout], in.Machine.Annotations[AnnotationNodeDeletionTimeout] = "soon", "-1m"
	})
	events := Events(in, &Wait{})
	if len(events) != 1 || events[0].Reason != EventFailedValidate || !strings.Contains(events[0].Message, AnnotationNodeDeletionTimeout) {
		t.Errorf("the events are %+v", events)
	}
}
