package disruption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-disruption")

// callTimeout bounds a call of the API server: other requests of the group wait for it, and the client has no time-out of its own.
const callTimeout = 10 * time.Second

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
	Admissions          []v1alpha1.Reservation `json:"admissions"`
	LastRemediationTime *metav1.Time           `json:"lastRemediationTime,omitempty"`
}

// admit adds an admission to the admissions that count. It replaces an admission of the same Node and capability.
func admit(counting []v1alpha1.Reservation, added v1alpha1.Reservation) change {
	kept := slices.DeleteFunc(slices.Clone(counting), func(r v1alpha1.Reservation) bool {
		return r.Node == added.Node && r.Capability == added.Capability
	})
	changed := change{Admissions: append(kept, added)}
	if added.Capability == v1alpha1.CapabilityRemediation {
		changed.LastRemediationTime = &added.Time
	}
	return changed
}

// UpdateStatus has a caller write the rest of the status of a group, from the group as it is with the admissions that this process has written
// since the caller observed it. update returns the group as the API server returned it, nil for nothing written. No admission is written meanwhile:
// they change often, and each would have the write fail its guard. It is a conflict if another writer has changed the group.
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	latest, err := b.latest(ctx, g)
	if err != nil {
		return err
	}
	if !g.lineage.leadsTo(observed.ResourceVersion, latest.ResourceVersion) {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodegroups").GroupResource(), g.name, errChanged)
	}
	written, err := update(ctx, latest)
	if written != nil {
		b.recordWrite(g, latest, written)
		// Who observed the group before this write has decided without it.
		g.lineage = lineage{written.ResourceVersion}
	}
	return err
}

// errChanged is the cause of the conflict for a NodeGroup that another writer has changed.
var errChanged = errors.New("it has changed since it was observed")

// lineage has consecutive versions of a group. An own write has made each version from the one before.
type lineage []string

// maxLineage bounds a lineage: admissions are written one after another, and who observes a group writes its status some seconds later at most.
const maxLineage = 1000

// add records an own write.
func (l lineage) add(before, after string) lineage {
	if len(l) == 0 || l[len(l)-1] != before {
		l = lineage{before}
	}
	return append(l[max(0, len(l)+1-maxLineage):], after)
}

// leadsTo reports whether a version is another one, or own writes have made the one of the other.
func (l lineage) leadsTo(from, to string) bool {
	return from == to || len(l) > 0 && l[len(l)-1] == to && slices.Contains(l, from)
}

// write writes admissions, unless the NodeGroup has changed since it was read.
func (b *Budgets) write(ctx context.Context, g *group, observed *v1alpha1.NodeGroup, changed change) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(patch{preconditions{UID: observed.UID, ResourceVersion: observed.ResourceVersion}, changed})
	if err != nil {
		return fmt.Errorf("encoding the admissions of NodeGroup %s: %w", g.name, err)
	}
	written := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	if err := b.Writer.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, body), FieldOwner); err != nil {
		return err
	}
	if changed.LastRemediationTime != nil {
		g.remediate(observed, changed.LastRemediationTime)
	}
	b.recordWrite(g, observed, written)
	return nil
}

// recordWrite records a NodeGroup as it was before an own write, and as the API server returned it.
func (b *Budgets) recordWrite(g *group, before, written *v1alpha1.NodeGroup) {
	g.lineage = g.lineage.add(before.ResourceVersion, written.ResourceVersion)
	if b.Written != nil {
		g.latest = written
		b.Written.Updated(g.name, written)
	}
}
