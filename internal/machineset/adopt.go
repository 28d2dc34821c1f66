package machineset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// changeOwners releases Machines that the selector does not match any more, and adopts matching Machines that have no owner.
func (rc *reconciliation) changeOwners(ctx context.Context, decision *plan.Decision) outcome {
	out, released := rc.patchOwnersOf(ctx, decision.Release, rc.withoutSet)
	out.Requeue.In(controller.CatchUp)
	// Until another Machine replaces a released one, the status must not say that the MachineSet had fewer Machines.
	out.uncertain = len(decision.Release) > 0
	if len(released) > 0 {
		rc.recorder.Eventf(rc.set, corev1.EventTypeNormal, EventReleased, "released %s: the selector does not match any more", machineNames(released))
	}
	if len(decision.Adopt) == 0 {
		return out
	}
	adopting, adopted := rc.adopt(ctx, decision.Adopt)
	for _, machine := range decision.Adopt {
		if !slices.Contains(adopted, machine.Name) {
			adopting.markMissing(machine.UID)
		}
	}
	if len(adopted) > 0 {
		rc.recorder.Eventf(rc.set, corev1.EventTypeNormal, EventAdopted, "adopted %s: the selector matches and they had no owner", machineNames(adopted))
	}
	return out.and(adopting)
}

// adopt adopts Machines if the API server still has this very MachineSet. The cache may not show yet that it is being deleted: a Machine that is
// adopted then would be deleted with it.
func (rc *reconciliation) adopt(ctx context.Context, machines []*machinev1beta1.Machine) (out outcome, adopted []string) {
	switch live, err := rc.liveSet(ctx); {
	case err != nil:
		return outcome{Outcome: controller.Failed(err)}, nil
	case live == nil:
		return outcome{}, nil
	}
	return rc.patchOwnersOf(ctx, machines, rc.withSet)
}

// withSet returns the owners of a Machine with the MachineSet as its controller; a plain reference to it becomes that one.
func (rc *reconciliation) withSet(machine *machinev1beta1.Machine) []metav1.OwnerReference {
	return append(rc.withoutSet(machine), *controllerRef(rc.set))
}

// withoutSet returns the owners of a Machine without the MachineSet.
func (rc *reconciliation) withoutSet(machine *machinev1beta1.Machine) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(machine.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == rc.set.UID })
}

func controllerRef(set *machinev1beta1.MachineSet) *metav1.OwnerReference {
	return metav1.NewControllerRef(set, machinev1beta1.GroupVersion.WithKind("MachineSet"))
}

// patchOwnersOf changes the owners of Machines that have not changed since they were observed, and returns the names of the changed Machines.
func (rc *reconciliation) patchOwnersOf(
	ctx context.Context, machines []*machinev1beta1.Machine, owners func(*machinev1beta1.Machine) []metav1.OwnerReference,
) (out outcome, changed []string) {
	errs := make([]error, len(machines))
	tried := inBatches(len(machines), rc.options.Parallel, func(i int) bool {
		errs[i] = rc.patchOwners(ctx, machines[i], owners(machines[i]))
		return mayGoOn(status.Classify(errs[i]))
	})
	for i, machine := range machines[:tried] {
		switch status.Classify(errs[i]) {
		case status.OK:
			changed = append(changed, machine.Name)
		case status.Stale:
			out.Conflict = true
		case status.Denied:
			log.FromContext(ctx).Error(errs[i], "cannot change the owner of a Machine", "machine", machine.Name,
				"retryAfter", controller.RetryDenied.String())
			rc.state.refused[machine.UID] = refusal{rc.now.Add(controller.RetryDenied), fmt.Sprintf("Machine %s: %v", machine.Name, errs[i])}
			// The next reconciliation leaves this Machine out.
			out.Requeue.In(retrySoon)
		case status.Transient:
			out.Err = fmt.Errorf("changing the owner of Machine %s: %w", machine.Name, errs[i])
		}
	}
	return out, changed
}

func (rc *reconciliation) patchOwners(ctx context.Context, machine *machinev1beta1.Machine, owners []metav1.OwnerReference) error {
	// A merge patch replaces the list. The resourceVersion guards it, and the labels that the decision is based on.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": machine.UID, "resourceVersion": machine.ResourceVersion, "ownerReferences": owners,
	}})
	if err != nil {
		return err
	}
	target := metadataOf("Machine", machine)
	if err := rc.writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, body), FieldOwner); err != nil {
		return err
	}
	rc.owned.Updated(string(rc.set.UID), target)
	return nil
}

// ownerFailure returns why Machines cannot be adopted or released; nil when they can.
func (rc *reconciliation) ownerFailure() *plan.Failure {
	var messages []string
	for _, refusal := range rc.state.refused {
		messages = append(messages, refusal.message)
	}
	if len(messages) == 0 {
		return nil
	}
	slices.Sort(messages)
	return &plan.Failure{Reason: plan.ReasonOwnerError, Message: strings.Join(messages[:1], "") + more(len(messages)-1)}
}

func more(others int) string {
	if others == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", others)
}

// machineNames names Machines in an event.
func machineNames(names []string) string {
	if len(names) == 1 {
		return "Machine " + names[0]
	}
	return fmt.Sprintf("%d Machines: %s", len(names), status.Names(names, maxNamed))
}
