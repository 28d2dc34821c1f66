package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// apply carries a decision out. Machines are created and deleted only when none is adopted or released: until the cache shows whose they are, one
// Machine created or deleted may be one too many.
func (rc *reconciliation) apply(ctx context.Context, observed *observation, decision *plan.Decision) outcome {
	if len(decision.Adopt)+len(decision.Release) > 0 {
		return rc.changeOwners(ctx, decision)
	}
	return rc.scale(ctx, observed, decision)
}

// scale creates or deletes Machines, or replaces a failed one.
func (rc *reconciliation) scale(ctx context.Context, observed *observation, decision *plan.Decision) outcome {
	if len(decision.CreateFor) == 0 {
		rc.state.creating, rc.state.unanswered = backoff{}, nil
	}
	if len(decision.Delete) == 0 {
		rc.state.deleting = backoff{}
	}
	if len(decision.CreateFor)+len(decision.Delete) == 0 && decision.Replace == nil {
		return outcome{}
	}
	if current, err := rc.cacheIsCurrent(ctx, decision); err != nil || !current {
		return uncertain(err)
	}
	switch {
	case len(decision.CreateFor) > 0:
		return rc.createMachines(ctx, observed, decision.CreateFor)
	case len(decision.Delete) > 0:
		return rc.deleteMachines(ctx, decision.Delete)
	}
	return rc.replaceMachine(ctx, observed, decision)
}

// cacheIsCurrent reports whether the cache shows as many Machines as the API server has, after a request that was not answered; and, where some
// Machines are deleted and others stay, whether it shows which of them are marked or being deleted. The cluster-autoscaler marks a Machine and then
// decreases the replicas; the two events come in any order, and without the first another Machine would be deleted. Where Machines are deleted, the
// cache also has to show the present spec of the MachineSet: its replicas may have been increased again.
func (rc *reconciliation) cacheIsCurrent(ctx context.Context, decision *plan.Decision) (bool, error) {
	if len(decision.Delete) > 0 {
		set, err := rc.liveSet(ctx)
		if err != nil {
			return false, err
		}
		if set == nil || set.Generation != rc.set.Generation {
			log.FromContext(ctx).Info("waiting for the cache to show the MachineSet as the API server has it")
			return false, nil
		}
	}
	chooses := len(decision.Delete) > 0 && len(decision.Delete) < len(decision.Members)
	if !rc.state.unverified && !chooses {
		return true, nil
	}
	live, err := rc.listLive(ctx)
	if err != nil {
		return false, err
	}
	if rc.state.unverified && !sameMachines(live, decision.Members) {
		log.FromContext(ctx).Info("waiting for the cache to show the same Machines as the API server")
		return false, nil
	}
	rc.state.unverified = false
	return !chooses || sameMarks(ctx, live, decision.Members), nil
}

func sameMachines(live []metav1.PartialObjectMetadata, members []plan.Member) bool {
	uids := map[types.UID]bool{}
	for i := range live {
		uids[live[i].UID] = true
	}
	for i := range members {
		if !uids[members[i].Machine.UID] {
			return false
		}
	}
	return len(uids) == len(members)
}

func sameMarks(ctx context.Context, live []metav1.PartialObjectMetadata, members []plan.Member) bool {
	type marks struct{ others, replacement bool }
	of := func(machine *machinev1beta1.Machine) marks {
		return marks{machineapi.IsMarkedByOthers(machine), machineapi.HasDeletionMark(machine)}
	}
	marked := map[types.UID]marks{}
	for i := range live {
		marked[live[i].UID] = of(&machinev1beta1.Machine{ObjectMeta: live[i].ObjectMeta})
	}
	for i := range members {
		// A Machine that is not listed is being deleted, or gone.
		if mark, listed := marked[members[i].Machine.UID]; !listed || mark != of(members[i].Machine) {
			log.FromContext(ctx).Info("waiting for the cache to show which Machines are marked for deletion or being deleted",
				"machine", members[i].Machine.Name)
			return false
		}
	}
	return true
}

// deleteMachines deletes Machines. A failure delays the next attempt, whatever events arrive in the meantime.
func (rc *reconciliation) deleteMachines(ctx context.Context, machines []*machinev1beta1.Machine) (out outcome) {
	if delay := rc.state.deleting.delay(rc.set.Generation, rc.now); delay > 0 {
		out.Requeue.In(delay)
		return out
	}
	errs := make([]error, len(machines))
	tried := inBatches(len(machines), rc.options.Parallel, func(i int) bool {
		if errs[i] = rc.checkUnchanged(ctx); errs[i] == nil {
			errs[i] = rc.deleteMachine(ctx, machines[i])
		}
		return mayGoOn(status.Classify(errs[i]))
	})
	var deleted []string
	failed := false
	for i, machine := range machines[:tried] {
		class := status.Classify(errs[i])
		switch {
		case errors.Is(errs[i], errChanged), class == status.Stale:
			out.Conflict = true
		case class == status.OK, class == status.Gone:
			out.markMissing(machine.UID)
			deleted = append(deleted, machine.Name)
		default:
			// The API server has to be asked whether a request that was not answered was carried out: the next decision might choose another Machine.
			rc.state.unverified = rc.state.unverified || class == status.Transient
			if !failed {
				out.Requeue.In(rc.recordDeleteFailure(ctx, machine, class, errs[i]))
			}
			failed = true
		}
	}
	if len(deleted) > 0 {
		slices.Sort(deleted)
		log.FromContext(ctx).Info("deleted Machines", "count", len(deleted), "first", deleted[0])
		rc.recorder.Eventf(rc.set, corev1.EventTypeNormal, EventDeleted, "deleted %s", machineNames(deleted))
	}
	if !failed {
		rc.state.deleting = backoff{}
	}
	return out
}

// errChanged is why the remaining Machines are neither created nor deleted.
var errChanged = errors.New("the MachineSet has changed since its Machines were counted")

// checkUnchanged returns errChanged if the MachineSet in the cache is not the planned one any more: a user may change the replicas while a thousand
// Machines are being created.
func (rc *reconciliation) checkUnchanged(ctx context.Context) error {
	set := &machinev1beta1.MachineSet{}
	switch err := rc.cache.Get(ctx, rc.key, set); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading MachineSet %s: %w", rc.key, err)
	case err != nil, set.UID != rc.set.UID, set.Generation != rc.set.Generation, set.DeletionTimestamp.IsZero() != rc.set.DeletionTimestamp.IsZero():
		return fmt.Errorf("MachineSet %s: %w", rc.key, errChanged)
	}
	return nil
}

// deleteMachine deletes one Machine if it has not changed since it was observed.
func (rc *reconciliation) deleteMachine(ctx context.Context, machine *machinev1beta1.Machine) error {
	target := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name}}
	err := rc.writer.Delete(ctx, target, client.Preconditions{UID: &machine.UID, ResourceVersion: &machine.ResourceVersion})
	class := status.Classify(err)
	rc.metrics.deletes.WithLabelValues(string(class)).Inc()
	if class == status.OK || class == status.Gone {
		rc.owned.Deleted(string(rc.set.UID), machine)
	}
	return err
}

// recordDeleteFailure starts the backoff of deletions and returns the delay of the next attempt.
func (rc *reconciliation) recordDeleteFailure(
	ctx context.Context, machine *machinev1beta1.Machine, class status.Class, err error,
) (delay time.Duration) {
	failure := plan.Failure{Reason: plan.ReasonDeleteError, Message: fmt.Sprintf("Machine %s: %v", machine.Name, err)}
	rc.state.deleting.fail(class, failure, rc.set.Generation, rc.now)
	delay = rc.state.deleting.until.Sub(rc.now)
	log.FromContext(ctx).Error(err, "cannot delete a Machine", "machine", machine.Name, "failures", rc.state.deleting.failures,
		"retryAfter", delay.String())
	return delay
}

// replaceMachine deletes a failed Machine and creates its replacement. If the process ends between the two, the next process creates the replacement
// as a missing Machine.
func (rc *reconciliation) replaceMachine(ctx context.Context, observed *observation, decision *plan.Decision) outcome {
	out := rc.deleteMachines(ctx, []*machinev1beta1.Machine{decision.Replace})
	if !out.missing[decision.Replace.UID] {
		return out
	}
	rc.recorder.Eventf(rc.set, corev1.EventTypeWarning, EventReplaced, "Machine %s has failed and is replaced; failures in a row: %d",
		decision.Replace.Name, decision.Attempt)
	rc.state.attempt = decision.Attempt
	createFor := machineapi.CreatedForValue(plan.ReasonAfter(decision.Replace), decision.Replace.UID)
	return out.and(rc.createMachines(ctx, observed, []string{createFor}))
}
