package vsphere

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/provider"
)

// checkCondition checks a condition in status.providerStatus.
func checkCondition(t *testing.T, machine *machinev1beta1.Machine, kind string, want metav1.ConditionStatus, reason, message string) {
	t.Helper()
	found := meta.FindStatusCondition(statusOf(machine).Conditions, kind)
	if found == nil || found.Status != want || found.Reason != reason || found.Message != message || found.LastTransitionTime.IsZero() {
		t.Errorf("the condition %s is %+v, want %s, %s, %q", kind, found, want, reason, message)
	}
}

// TestWithFailure: what keeps a virtual machine from being created is in a condition, which an equal error does not change, until it is created.
func TestWithFailure(t *testing.T) {
	machine := &machinev1beta1.Machine{}
	now := metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	if err := withFailure(machine, nil, now); err != nil {
		t.Error(err)
	}
	wait := provider.RequeueAfter(time.Second, "cloning")
	if err := withFailure(machine, wait, now); provider.StatusOf(err) != nil {
		t.Error("a request to wait is a failure")
	}
	cause := provider.InvalidConfiguration("%s", strings.Repeat("x", 2*maxMessage))
	err := withFailure(machine, cause, now)
	if !errors.Is(err, cause) || provider.ReasonOf(err, "") != machinev1beta1.InvalidConfigurationMachineError {
		t.Errorf("the error is %v", err)
	}
	machine.Status.ProviderStatus = provider.StatusOf(err)
	checkCondition(t, machine, conditionCreation, metav1.ConditionFalse, reasonFailed, strings.Repeat("x", maxMessage))
	later := metav1.NewTime(now.Add(time.Hour))
	if again := provider.StatusOf(withFailure(machine, cause, later)); string(again.Raw) != string(machine.Status.ProviderStatus.Raw) {
		t.Errorf("an equal error changes the status from %s to %s", machine.Status.ProviderStatus.Raw, again.Raw)
	}

	vm := &vmRecord{uuid: "u", state: "poweredOn", server: "vcenter", note: "as a full clone", hasClaims: true}
	if machine.Status.ProviderStatus, err = statusFor(machine, vm, later); err != nil {
		t.Fatal(err)
	}
	checkCondition(t, machine, conditionCreation, metav1.ConditionTrue, reasonCreated, messageCreated+"; as a full clone")
	checkCondition(t, machine, conditionAddress, metav1.ConditionTrue, reasonClaimed, messageClaimed)
	vm.note = ""
	if again, err := statusFor(machine, vm, later); err != nil || string(again.Raw) != string(machine.Status.ProviderStatus.Raw) {
		t.Errorf("the status changes from %s to %s (%v)", machine.Status.ProviderStatus.Raw, again.Raw, err)
	}
	if err := withFailure(machine, cause, later); provider.StatusOf(err) != nil {
		t.Error("a virtual machine that was created has not been")
	}
}
