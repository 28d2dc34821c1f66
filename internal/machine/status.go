package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

// observation is what a pass has found out about a Machine.
type observation struct {
	// phase is where the Machine is; empty leaves what is there.
	phase string
	// failure is why it is Failed, with the reason that goes to errorReason; the zero value when it is not.
	failure step
	// exists says whether there is an instance; a zero step leaves what is there, unknown that nobody can say.
	exists  step
	unknown bool
	// instance is what the provider said, nil when it was not asked.
	instance *provider.Instance
	// node is the Machine's, nil when there is none now; linked tells that it is to go to nodeRef.
	node   *corev1.Node
	linked bool
	// unlinked tells that nodeRef names a Node that is not the Machine's, or is gone with it, and is to be cleared.
	unlinked bool
	// nodeStays tells that the Node of a deleted Machine could not be deleted.
	nodeStays bool
	// conflict says why it is not clear which Node is the Machine's; empty when it is.
	conflict string
	// drained and ready are two conditions; a zero drained leaves what is there.
	drained, ready step
	// paused is the condition of the API that has the Machine; zero leaves what is there.
	paused step
}

// observe begins with what the Machine says of itself.
func observe(machine *machinev1beta1.Machine) observation {
	return observation{phase: phaseOf(&machine.Status)}
}

// status is what the Machine's status is to be. It is the same for the same observation, so that nothing is written at rest.
func (o *observation) status(machine *machinev1beta1.Machine, now time.Time) machinev1beta1.MachineStatus {
	before := &machine.Status
	after := *before.DeepCopy()
	if o.phase != "" {
		after.Phase = &o.phase
	}
	o.errors(&after)
	if o.linked {
		after.NodeRef = nodelink.Ref(o.node)
	} else if o.unlinked {
		after.NodeRef = nil
	}
	if o.instance != nil {
		if len(o.instance.Addresses) > 0 {
			after.Addresses = o.instance.Addresses[:min(len(o.instance.Addresses), maxAddresses)]
		}
		if o.instance.Status != nil && !sameJSON(o.instance.Status, after.ProviderStatus) {
			after.ProviderStatus = o.instance.Status
		}
	}
	if o.failure.reason == string(reasonMissing) {
		after.ProviderStatus = lost(after.ProviderStatus)
	}
	o.conditions(machine, &after, now)
	if !apiequality.Semantic.DeepEqual(*before, after) {
		at := metav1.NewTime(now.UTC().Truncate(time.Second))
		after.LastUpdated = &at
	}
	return after
}

// maxAddresses is how many of the addresses that a provider reports a Machine keeps.
const maxAddresses = 256

// errors are those of a Machine that is Failed, and of no other: programs take them for the end.
func (o *observation) errors(after *machinev1beta1.MachineStatus) {
	switch {
	case o.phase != machinev1beta1.PhaseFailed:
		after.ErrorReason, after.ErrorMessage = nil, nil
	case o.failure.reason == string(reasonMissing):
		after.ErrorReason, after.ErrorMessage = nil, new(status.Shorten(o.failure.message, status.MaxMessage))
	case o.failure.reason != "":
		reason := machinev1beta1.MachineStatusError(o.failure.reason)
		after.ErrorReason, after.ErrorMessage = &reason, new(status.Shorten(o.failure.message, status.MaxMessage))
	}
}

func (o *observation) conditions(machine *machinev1beta1.Machine, after *machinev1beta1.MachineStatus, now time.Time) {
	set := func(kind machinev1beta1.ConditionType, s step, severity machinev1beta1.ConditionSeverity) {
		state := corev1.ConditionFalse
		if s.met {
			state = corev1.ConditionTrue
		}
		status.SetMachineCondition(&after.Conditions, machinev1beta1.Condition{
			Type: kind, Status: state, Severity: severity, Reason: s.reason, Message: s.message,
		}, now)
	}
	hooks := &machine.Spec.LifecycleHooks
	set(machinev1beta1.MachineDrainable, hookStep("Drain", hooks.PreDrain), machinev1beta1.ConditionSeverityWarning)
	set(machinev1beta1.MachineTerminable, hookStep("Terminate", hooks.PreTerminate), machinev1beta1.ConditionSeverityWarning)
	switch {
	case o.unknown:
		status.SetMachineCondition(&after.Conditions, machinev1beta1.Condition{
			Type: machinev1beta1.InstanceExistsCondition, Status: corev1.ConditionUnknown, Reason: o.exists.reason, Message: o.exists.message,
		}, now)
	case o.exists != step{}:
		set(machinev1beta1.InstanceExistsCondition, o.exists, machinev1beta1.ConditionSeverityWarning)
	}
	if o.drained != (step{}) {
		set(ConditionDrained, o.drained, machinev1beta1.ConditionSeverityWarning)
	}
	if o.paused != (step{}) {
		set(ConditionPaused, o.paused, machinev1beta1.ConditionSeverityInfo)
	}
	if o.ready != (step{}) {
		severity := machinev1beta1.ConditionSeverityInfo
		if o.ready.reason == reasonFailed {
			severity = machinev1beta1.ConditionSeverityError
		}
		set(ConditionReady, o.ready, severity)
	}
}

// hookStep says whether hooks hold up a step of the Machine's end, in the incumbent's words.
func hookStep(operation string, hooks []machinev1beta1.LifecycleHook) step {
	if len(hooks) == 0 {
		return step{met: true}
	}
	texts := make([]string, len(hooks))
	for i, hook := range hooks {
		texts[i] = fmt.Sprintf("{Name:%s Owner:%s}", hook.Name, hook.Owner)
	}
	return step{reason: reasonHook, message: fmt.Sprintf("%s operation currently blocked by: [%s]", operation, strings.Join(texts, " "))}
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

// lost marks the provider's own status of an instance that is gone, as the incumbent does; what cannot be read stays.
func lost(providerStatus *runtime.RawExtension) *runtime.RawExtension {
	fields := map[string]any{}
	if providerStatus == nil || json.Unmarshal(providerStatus.Raw, &fields) != nil {
		return providerStatus
	}
	changed := false
	for _, field := range []string{"instanceState", "vmState"} {
		if state, there := fields[field]; there && state != string(provider.Unknown) {
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

// writeStatus writes the status if it has changed. It is the last thing that a pass does.
func (p *pass) writeStatus(ctx context.Context) error {
	after := p.found.status(p.machine, p.now)
	p.measure(&after)
	if apiequality.Semantic.DeepEqual(p.machine.Status, after) {
		return nil
	}
	changed := p.machine.DeepCopy()
	changed.Status = after
	patch := client.MergeFromWithOptions(p.machine, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Status().Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("writing the status of Machine %s: %w", p.key, err)
	}
	p.wrote(changed)
	return nil
}

// wrote goes on with an object as the API server answered a write.
func (p *pass) wrote(machine *machinev1beta1.Machine) {
	p.versions.Expect(string(machine.UID), expectations.Write{Version: machine.ResourceVersion})
	p.machine = machine
}
