package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

// Condition is a condition of a Machine. The zero value leaves it as it is.
type Condition struct {
	Status          corev1.ConditionStatus
	Reason, Message string
}

func isTrue(message string) Condition {
	return Condition{Status: corev1.ConditionTrue, Message: message}
}

func isFalse(reason, message string) Condition {
	return Condition{corev1.ConditionFalse, reason, message}
}

// maxAddresses is how many of the addresses that a provider reports a Machine keeps.
const maxAddresses = 256

// Status returns the status of the Machine while something is waited for, and whether it differs from the current status. It is the same for the same
// input, so that nothing is written at rest.
func Status(in *Input, wait *Wait) (after machinev1beta1.MachineStatus, changed bool) {
	before := &in.Machine.Status
	after = *before.DeepCopy()
	failure := Condition{}
	if isActive(in) {
		failure = in.failure()
		in.setPhase(&after, failure)
	}
	switch {
	case in.Link.Cleared || in.isNodeDeleted():
		after.NodeRef = nil
	case in.Link.Linked:
		after.NodeRef = nodelink.Ref(in.Link.Node)
	}
	providerStatus := provider.StatusOf(in.Create.Err)
	if instance := in.Instance(); instance != nil {
		if len(instance.Addresses) > 0 {
			after.Addresses = instance.Addresses[:min(len(instance.Addresses), maxAddresses)]
		}
		providerStatus = instance.Status
	}
	if providerStatus != nil && !sameJSON(providerStatus, after.ProviderStatus) {
		after.ProviderStatus = providerStatus
	}
	if failure.Reason == string(ReasonMissing) {
		after.ProviderStatus = withUnknownState(after.ProviderStatus)
	}
	in.setConditions(&after, wait)
	if changed = !apiequality.Semantic.DeepEqual(*before, after); changed {
		at := metav1.NewTime(in.Now.UTC().Truncate(time.Second))
		after.LastUpdated = &at
	}
	return after, changed
}

// isSaved reports whether the status of a Machine that goes shows the end already.
func isSaved(in *Input) bool {
	_, changed := Status(in, &Wait{})
	return !changed
}

// isActive reports whether Drover works on the Machine.
func isActive(in *Input) bool {
	return !isOtherAPI(in.Machine) && paused.By(in.Machine) == ""
}

// isNodeDeleted reports whether the Node of a Machine that is being deleted is gone for certain.
func (in *Input) isNodeDeleted() bool {
	return in.NodeDeletion.Tried && !in.NodeDeletion.Stale && in.NodeDeletion.Err == nil && in.Link.Conflict == ""
}

// setConditions sets all conditions whose state is known.
func (in *Input) setConditions(after *machinev1beta1.MachineStatus, wait *Wait) {
	ready, readySeverity := in.ready(wait), machinev1beta1.ConditionSeverityInfo
	if ready.Reason == ReasonFailed {
		readySeverity = machinev1beta1.ConditionSeverityError
	}
	hooks := &in.Machine.Spec.LifecycleHooks
	for _, c := range []struct {
		kind machinev1beta1.ConditionType
		Condition
		severity machinev1beta1.ConditionSeverity
	}{
		{machinev1beta1.MachineDrainable, hookCondition("Drain", hooks.PreDrain), machinev1beta1.ConditionSeverityWarning},
		{machinev1beta1.MachineTerminable, hookCondition("Terminate", hooks.PreTerminate), machinev1beta1.ConditionSeverityWarning},
		{machinev1beta1.InstanceExistsCondition, in.instanceExists(wait), machinev1beta1.ConditionSeverityWarning},
		{ConditionDrained, in.drained(wait), machinev1beta1.ConditionSeverityWarning},
		{ConditionPaused, in.paused(), machinev1beta1.ConditionSeverityInfo},
		{ConditionReady, ready, readySeverity},
	} {
		if c.Condition == (Condition{}) {
			continue
		}
		status.SetMachineCondition(&after.Conditions, machinev1beta1.Condition{
			Type: c.kind, Status: c.Status, Severity: c.severity, Reason: c.Reason, Message: c.Message,
		}, in.Now)
	}
}

// hookCondition returns whether hooks block a step of the Machine's deletion, in the words of machine-api-operator.
func hookCondition(operation string, hooks []machinev1beta1.LifecycleHook) Condition {
	if len(hooks) == 0 {
		return isTrue("")
	}
	texts := make([]string, len(hooks))
	for i, hook := range hooks {
		texts[i] = fmt.Sprintf("{Name:%s Owner:%s}", hook.Name, hook.Owner)
	}
	return isFalse(ReasonHook, fmt.Sprintf("%s operation currently blocked by: [%s]", operation, strings.Join(texts, " ")))
}

// instanceExists returns what is known of the instance.
func (in *Input) instanceExists(wait *Wait) Condition {
	deleted := in.Confirm.Asked && in.Confirm.Err == nil && in.Confirm.Instance == nil
	failure := in.failure()
	switch {
	case wait.Type == machinev1beta1.InstanceExistsCondition:
		return wait.Condition
	case deleted && Provisioned(in.Known()):
		return isFalse(ReasonInstanceDeleted, "The instance has been deleted")
	case in.Machine.DeletionTimestamp != nil, !isActive(in), Phase(&in.Machine.Status) == machinev1beta1.PhaseFailed:
		return Condition{}
	case failure.Reason == string(ReasonMissing):
		return isFalse(string(ReasonMissing), "Instance not found on provider")
	case errors.Is(in.Unserved, ErrNoSpec):
		return isFalse(ReasonInvalid, in.Unserved.Error())
	case in.Unserved != nil:
		return isFalse(ReasonNoProvider, in.Unserved.Error())
	case in.Instance() != nil:
		return isTrue("")
	}
	return Condition{}
}

// drained returns how far the drain is.
func (in *Input) drained(wait *Wait) Condition {
	switch {
	case wait.Type == ConditionDrained:
		return wait.Condition
	case in.Drained != nil:
		return *in.Drained
	case in.State.Drained:
		return drainFinished
	}
	return Condition{}
}

// paused returns whether another API has the authority over the Machine, where a cluster can migrate to one.
func (in *Input) paused() Condition {
	text := fmt.Sprintf("The AuthoritativeAPI status is set to '%s'", in.Machine.Status.AuthoritativeAPI)
	switch {
	case isOtherAPI(in.Machine):
		return Condition{corev1.ConditionTrue, ReasonOtherAPI, text}
	case in.Machine.Status.AuthoritativeAPI != "":
		return isFalse(ReasonMachineAPI, text)
	}
	return Condition{}
}

// ready returns whether the Machine runs with a Node that is Ready, and if not, the first reason.
func (in *Input) ready(wait *Wait) Condition {
	phase, failure := in.phase(), in.failure()
	switch {
	case wait.Type == ConditionReady:
		return wait.Condition
	case !isActive(in):
		return Condition{}
	case failure != Condition{}:
		return isFalse(ReasonFailed, failure.Message)
	case in.Link.Refused != "":
		return isFalse(ReasonNotAdopted, in.Link.Refused)
	case in.Link.Conflict != "":
		return isFalse(ReasonLinkConflict, in.Link.Conflict)
	case phase == machinev1beta1.PhaseDeleting:
		return isFalse(ReasonDeleting, "")
	case phase == machinev1beta1.PhaseProvisioning:
		return isFalse(ReasonProvisioning, in.instanceExists(wait).Message)
	case phase == machinev1beta1.PhaseProvisioned:
		return isFalse(ReasonAwaitingNode, "the instance exists and has not registered its Node yet")
	case in.Link.Node == nil:
		return isFalse(ReasonNodeNotFound, fmt.Sprintf("Node %s does not exist", in.Machine.Status.NodeRef.Name))
	case !nodestate.IsReady(in.Link.Node):
		return in.notReady()
	}
	return isTrue("")
}

// notReady returns that the Node is not Ready, and by the condition before it whether it has ever been.
func (in *Input) notReady() Condition {
	before := status.MachineCondition(in.Machine.Status.Conditions, ConditionReady)
	if before == nil || slices.Contains([]string{ReasonProvisioning, ReasonAwaitingNode, ReasonNodeStarting}, before.Reason) {
		return isFalse(ReasonNodeStarting, fmt.Sprintf("Node %s has registered and has not been Ready yet", in.Link.Node.Name))
	}
	return isFalse(ReasonNodeNotReady, fmt.Sprintf("Node %s is not Ready", in.Link.Node.Name))
}

// sameJSON compares without regard to the order of fields: the API server does not keep it.
func sameJSON(a, b *runtime.RawExtension) bool {
	if a == nil || b == nil {
		return a == b
	}
	var left, right any
	if json.Unmarshal(a.Raw, &left) != nil || json.Unmarshal(b.Raw, &right) != nil {
		return false
	}
	return apiequality.Semantic.DeepEqual(left, right)
}

// withUnknownState marks the provider's own status of an instance that is lost, as machine-api-operator does; what cannot be read stays.
func withUnknownState(providerStatus *runtime.RawExtension) *runtime.RawExtension {
	fields := map[string]any{}
	if providerStatus == nil || json.Unmarshal(providerStatus.Raw, &fields) != nil {
		return providerStatus
	}
	changed := false
	for _, field := range []string{"instanceState", "vmState"} {
		if state, found := fields[field]; found && state != string(provider.Unknown) {
			fields[field] = string(provider.Unknown)
			changed = true
		}
	}
	if !changed {
		return providerStatus
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return providerStatus
	}
	return &runtime.RawExtension{Raw: text}
}
