package disruption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-disruption")

// writeTimeout bounds a write: other reservations of the group wait for it, and the client has no time-out of its own.
const writeTimeout = 10 * time.Second

// patch is a merge patch of a NodeGroup.
type patch struct {
	Metadata preconditions `json:"metadata"`
	Status   change        `json:"status"`
}

// preconditions have the API server reject a patch of another object, or of another version of it.
type preconditions struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
}

// change is what a write changes of the status of a NodeGroup.
type change struct {
	Reservations        []v1alpha1.Reservation `json:"reservations"`
	LastRemediationTime *metav1.Time           `json:"lastRemediationTime,omitempty"`
}

// reserve adds a reservation, or replaces the one of the same Node and capability: of an earlier Node of the same name, of another object, or
// an older one.
func reserve(group *v1alpha1.NodeGroup, added v1alpha1.Reservation) change {
	kept := slices.DeleteFunc(slices.Clone(group.Status.Reservations), func(r v1alpha1.Reservation) bool {
		return r.Node == added.Node && r.Capability == added.Capability
	})
	changed := change{Reservations: append(kept, added)}
	if added.Capability == v1alpha1.CapabilityRemediation {
		changed.LastRemediationTime = &added.Time
	}
	return changed
}

// UpdateStatus has a caller write the rest of the status of a group, from the group as it is with the reservations that were written since the caller
// has observed it. update returns the group as the API server returned it, nil for nothing written. No reservation of this process is written
// meanwhile: they change often, and each would have the write fail its guard. It is a conflict if anything else of the group has changed.
func (b *Budgets) UpdateStatus(
	ctx context.Context, observed *v1alpha1.NodeGroup, update func(context.Context, *v1alpha1.NodeGroup) (*v1alpha1.NodeGroup, error),
) error {
	if b == nil {
		_, err := update(ctx, observed)
		return err
	}
	g := b.group(observed.Name)
	if err := g.lock(ctx); err != nil {
		return err
	}
	defer g.unlock()
	latest, err := b.latest(ctx, g)
	if err != nil {
		return err
	}
	if !isSameButReservations(observed, latest) {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodegroups").GroupResource(), g.name, errChanged)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	written, err := update(ctx, latest)
	if written != nil {
		b.wrote(g, written)
	}
	return err
}

// errChanged is the cause of the conflict for a NodeGroup that another writer has changed.
var errChanged = errors.New("it has changed since it was observed")

// isSameButReservations reports whether two states of a group differ in nothing but what reservations write.
func isSameButReservations(a, b *v1alpha1.NodeGroup) bool {
	if a.ResourceVersion == b.ResourceVersion {
		return true
	}
	without := a.Status
	without.Reservations, without.LastRemediationTime = b.Status.Reservations, b.Status.LastRemediationTime
	return a.UID == b.UID && a.Generation == b.Generation && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers) &&
		apiequality.Semantic.DeepEqual(without, b.Status)
}

// write writes reservations, unless the NodeGroup has changed since it was read.
func (b *Budgets) write(ctx context.Context, g *group, observed *v1alpha1.NodeGroup, changed change) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	body, err := json.Marshal(patch{preconditions{UID: observed.UID, ResourceVersion: observed.ResourceVersion}, changed})
	if err != nil {
		return fmt.Errorf("encoding the reservations of NodeGroup %s: %w", g.name, err)
	}
	written := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	if err := b.Writer.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, body), FieldOwner); err != nil {
		return err
	}
	b.wrote(g, written)
	return nil
}

// wrote records a NodeGroup as the API server returned it from an own write.
func (b *Budgets) wrote(g *group, written *v1alpha1.NodeGroup) {
	if b.Written != nil {
		g.latest = written
		b.Written.Updated(g.name, written)
	}
}
