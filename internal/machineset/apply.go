package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// scale creates or deletes Machines, or has a failed one replaced. It tells whether the cache can be relied on.
func (p *pass) scale(ctx context.Context) bool {
	d := &p.decision
	if d.Create == 0 {
		p.memory.creating, p.memory.unsure = setback{}, nil
	}
	if len(d.Delete) == 0 {
		p.memory.deleting = setback{}
	}
	if d.Create+len(d.Delete) == 0 && d.Replace == nil {
		return true
	}
	if !p.verified(ctx) || !p.chosen(ctx) {
		return false
	}
	switch {
	case d.Create > 0:
		p.create(ctx, d.Create)
	case len(d.Delete) > 0:
		p.delete(ctx, d.Delete)
	default:
		p.replace(ctx, d.Replace)
	}
	return true
}

// delete deletes Machines.
func (p *pass) delete(ctx context.Context, all []*machinev1beta1.Machine) {
	if wait := p.memory.deleting.holds(p.set.Generation, p.now); wait > 0 {
		p.later(wait)
		return
	}
	errs := make([]error, len(all))
	tried := inBatches(len(all), p.options.Parallel, func(i int) bool {
		if errs[i] = p.unchanged(ctx); errs[i] == nil {
			errs[i] = p.remove(ctx, all[i])
		}
		return harmless(status.Classify(errs[i]))
	})
	var deleted []string
	failed := false
	for i, machine := range all[:tried] {
		if errors.Is(errs[i], errChanged) {
			p.stale = true
			continue
		}
		switch class := status.Classify(errs[i]); class {
		case status.OK, status.Gone:
			p.missing[machine.UID] = true
			deleted = append(deleted, machine.Name)
		case status.Stale:
			p.stale = true
		default:
			// Whether a request that got no answer was carried out, the API server has to be asked: the next pass might choose another.
			p.memory.unverified = p.memory.unverified || class == status.Transient
			if !failed {
				p.stuck(ctx, machine, class, errs[i])
			}
			failed = true
		}
	}
	if len(deleted) > 0 {
		slices.Sort(deleted)
		log.FromContext(ctx).Info("deleted Machines", "count", len(deleted), "first", deleted[0])
		p.notices.normal(p.set, EventDeleted, "deleted %s", machines(deleted))
	}
	if !failed {
		p.memory.deleting = setback{}
	}
}

// errChanged is why the rest of the Machines are not created or deleted.
var errChanged = errors.New("the MachineSet has changed since its Machines were counted")

// unchanged returns errChanged if the MachineSet in the cache is no longer the one that was planned for: a user may scale it back in the middle of a
// thousand creations.
func (p *pass) unchanged(ctx context.Context) error {
	set := &machinev1beta1.MachineSet{}
	switch err := p.cache.Get(ctx, p.key, set); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading MachineSet %s: %w", p.key, err)
	case err != nil, set.UID != p.set.UID, set.Generation != p.set.Generation, set.DeletionTimestamp.IsZero() != p.set.DeletionTimestamp.IsZero():
		return fmt.Errorf("MachineSet %s: %w", p.key, errChanged)
	}
	return nil
}

// remove deletes one Machine, if it is as it was seen.
func (p *pass) remove(ctx context.Context, machine *machinev1beta1.Machine) error {
	target := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name}}
	err := p.writer.Delete(ctx, target, client.Preconditions{UID: &machine.UID, ResourceVersion: &machine.ResourceVersion})
	class := status.Classify(err)
	p.metrics.deletes.WithLabelValues(string(class)).Inc()
	if class == status.OK || class == status.Gone {
		p.owned.Deleted(string(p.set.UID), machine)
	}
	return err
}

// stuck notes that Machines cannot be deleted.
func (p *pass) stuck(ctx context.Context, machine *machinev1beta1.Machine, class status.Class, err error) {
	failure := plan.Failure{Reason: plan.ReasonDeleteError, Message: fmt.Sprintf("Machine %s: %v", machine.Name, err)}
	p.memory.deleting.failed(class, failure, p.set.Generation, p.now)
	wait := p.until(p.memory.deleting.until)
	p.later(wait)
	log.FromContext(ctx).Error(err, "cannot delete a Machine", "machine", machine.Name, "times", p.memory.deleting.times, "retryAfter", wait.String())
}

// replace deletes a failed Machine and creates the one that takes its place. Between the two the process may die: then the next one
// creates it, as one that replaces none.
func (p *pass) replace(ctx context.Context, victim *machinev1beta1.Machine) {
	p.delete(ctx, []*machinev1beta1.Machine{victim})
	if !p.missing[victim.UID] {
		return
	}
	p.notices.warning(p.set, EventReplaced, "Machine %s has failed and is replaced; failures in a row: %d", victim.Name, p.decision.Attempt)
	p.memory.attempt = p.decision.Attempt
	p.create(ctx, 1)
}
