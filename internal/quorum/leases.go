package quorum

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodelease"
)

// checkLeases returns a denial while the lease of another control-plane node is held: its holder disrupts that node, or is about to. The lease is
// acquired before a Machine is deleted, when its Node does not show that yet.
func (g *Guard) checkLeases(ctx context.Context, node string, members []corev1.Node) (denial string, err error) {
	list := &coordinationv1.LeaseList{}
	if err := g.reader.List(ctx, list, client.InNamespace(nodelease.Namespace())); err != nil {
		return "", fmt.Errorf("listing the leases of nodes: %w", err)
	}
	leases := make(map[string]*coordinationv1.Lease, len(list.Items))
	for i := range list.Items {
		leases[list.Items[i].Name] = &list.Items[i]
	}
	return decideLeases(node, members, leases, time.Now()), nil
}

// decideLeases returns a denial while the lease of a control-plane node other than the one in question is held. leases are by their names.
func decideLeases(node string, members []corev1.Node, leases map[string]*coordinationv1.Lease, now time.Time) string {
	for i := range members {
		name := members[i].Name
		lease := leases[nodelease.Name(name)]
		if name == node || lease == nil || nodelease.HolderOf(lease) == "" || nodelease.Decide(lease, "", now) != nodelease.Wait {
			continue
		}
		return fmt.Sprintf("node %s has to wait until the lease of control-plane node %s, held by %q, is released", node, name, nodelease.HolderOf(lease))
	}
	return ""
}
