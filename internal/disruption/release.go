package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
)

// Release removes reservations of a group, in one write, and wakes those that wait for their places. It removes a reservation only as it is: one that
// was renewed or taken over meanwhile stays.
func (b *Budgets) Release(ctx context.Context, name string, ended ...v1alpha1.Reservation) error {
	if err := b.release(ctx, name, ended); err != nil {
		return fmt.Errorf("releasing reservations of NodeGroup %s: %w", name, err)
	}
	return b.Wake(ctx, name)
}

func (b *Budgets) release(ctx context.Context, name string, ended []v1alpha1.Reservation) error {
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return err
	}
	defer g.unlock()
	observed, err := b.latest(ctx, g)
	if err != nil {
		return err
	}
	return b.remove(ctx, g, observed, ended...)
}

// remove removes reservations of a group that is locked, as they are.
func (b *Budgets) remove(ctx context.Context, g *group, observed *v1alpha1.NodeGroup, ended ...v1alpha1.Reservation) error {
	kept := slices.DeleteFunc(slices.Clone(observed.Status.Reservations), func(r v1alpha1.Reservation) bool {
		return slices.ContainsFunc(ended, func(e v1alpha1.Reservation) bool {
			return plan.KeyOf(&e) == plan.KeyOf(&r) && e.UID == r.UID && e.Time.Equal(&r.Time)
		})
	})
	if len(kept) < len(observed.Status.Reservations) {
		if err := b.write(ctx, g, observed, change{Reservations: kept}); err != nil {
			return err
		}
	}
	for i := range ended {
		delete(g.confirmed, plan.KeyOf(&ended[i]))
		delete(g.finished, plan.KeyOf(&ended[i]))
	}
	return nil
}

// Withdraw ends a request: it waits no longer, and its reservation, if it has one, is released. It is for a controller that has not disrupted the
// Node, and will not.
func (b *Budgets) Withdraw(ctx context.Context, request Request) error {
	name, err := b.groupOf(ctx, &request)
	if err != nil || name == "" {
		return err
	}
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return err
	}
	g.drop(request.Keys()...)
	observed, err := b.latest(ctx, g)
	g.unlock()
	if apierrors.IsConflict(err) {
		return nil // without the group there is nothing to release
	}
	if err != nil {
		return err
	}
	for _, r := range observed.Status.Reservations {
		if request.Matches(&r) {
			return b.Release(ctx, name, r)
		}
	}
	return nil
}

// Renew renews a reservation that is recorded, and reports whether it is. Unlike Reserve it makes none.
func (b *Budgets) Renew(ctx context.Context, request Request) (bool, error) {
	name, err := b.groupOf(ctx, &request)
	if err != nil || name == "" {
		return false, err
	}
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return false, err
	}
	defer g.unlock()
	observed, err := b.latest(ctx, g)
	if err != nil {
		return false, err
	}
	for _, r := range observed.Status.Reservations {
		if !request.Matches(&r) {
			continue
		}
		now := b.Clock.Now()
		r.Time = metav1.NewTime(now).Rfc3339Copy()
		if err := b.write(ctx, g, observed, reserve(observed, r)); err != nil {
			return false, fmt.Errorf("renewing the reservation of Node %s in NodeGroup %s: %w", request.Node, name, err)
		}
		g.confirm(plan.KeyOf(&r), now)
		return true, nil
	}
	return false, nil
}

// IsReserved reports whether a request has its reservation, or needs none. It is for a controller that has begun without one, since the Node did not
// belong to a NodeGroup then, or the NodeGroup had no budget.
func (b *Budgets) IsReserved(ctx context.Context, request Request) (bool, error) {
	name, err := b.groupOf(ctx, &request)
	if err != nil || name == "" {
		return err == nil, err
	}
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return false, err
	}
	defer g.unlock()
	observed, err := b.latest(ctx, g)
	if err != nil {
		return false, err
	}
	return observed.Spec.Disruption == nil ||
		slices.ContainsFunc(observed.Status.Reservations, func(r v1alpha1.Reservation) bool { return request.Matches(&r) }), nil
}

// Finish records that the work of a reservation, if there is one, is over, and that the Node is on its way back. The next process learns that from
// the object, which is gone by then.
func (b *Budgets) Finish(ctx context.Context, request Request) error {
	name, err := b.groupOf(ctx, &request)
	if err != nil || name == "" {
		return err
	}
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return err
	}
	defer g.unlock()
	g.drop(request.Keys()...)
	observed, err := b.latest(ctx, g)
	if apierrors.IsConflict(err) {
		return nil // without the group there is nothing to release
	}
	if err != nil {
		return err
	}
	for i := range observed.Status.Reservations {
		if r := &observed.Status.Reservations[i]; request.Matches(r) && !g.finished[plan.KeyOf(r)] {
			g.finished[plan.KeyOf(r)] = true
			b.finished.Emit(name)
		}
	}
	return nil
}

// Finished returns the source of the controller that ends reservations and says what waits: the work of a reservation is over, or another number of
// requests waits. requests returns the requests for a group.
func (b *Budgets) Finished(requests func(ctx context.Context, group string) []reconcile.Request) source.Source {
	return b.finished.Source(requests)
}

// Works returns what is known of the work of each reservation of a group, for plan.Ended: whether it is over, or its object is gone. exists looks
// up the object of a reservation; one that it returns an error for counts as there. What became of the Nodes is the caller's to add.
func (b *Budgets) Works(
	ctx context.Context, name string, exists func(context.Context, *v1alpha1.Reservation) (bool, error),
) ([]plan.Work, error) {
	works, err := b.works(ctx, name)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := range works {
		work := &works[i]
		if work.Over {
			continue
		}
		found, err := exists(ctx, &work.Reservation)
		if err != nil {
			errs = append(errs, fmt.Errorf("looking up %s, for which Node %s is reserved: %w", work.Reservation.Object, work.Reservation.Node, err))
		}
		work.Orphaned = err == nil && !found
	}
	return works, errors.Join(errs...)
}

func (b *Budgets) works(ctx context.Context, name string) (works []plan.Work, err error) {
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return nil, err
	}
	defer g.unlock()
	observed, err := b.latest(ctx, g)
	if err != nil {
		return nil, err
	}
	for _, r := range observed.Status.Reservations {
		works = append(works, plan.Work{Reservation: r, Over: g.finished[plan.KeyOf(&r)]})
	}
	return works, nil
}
