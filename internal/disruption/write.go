package disruption

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

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
	if b.Written != nil {
		g.latest = written
		b.Written.Updated(g.name, written)
	}
	return nil
}
