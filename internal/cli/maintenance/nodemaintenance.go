package maintenance

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
)

// resource names NodeMaintenances in errors.
var resource = schema.GroupResource{Group: medik8s.GroupVersion.Group, Resource: "nodemaintenances"}

// newNodeMaintenance returns a NodeMaintenance of either group, which TypeMeta names. The older group has no drain options.
func newNodeMaintenance(group schema.GroupVersion, metadata metav1.ObjectMeta, spec medik8s.NodeMaintenanceSpec) *medik8s.NodeMaintenance {
	m := &medik8s.NodeMaintenance{ObjectMeta: metadata, Spec: spec}
	m.SetGroupVersionKind(group.WithKind("NodeMaintenance"))
	return m
}

// list returns the NodeMaintenances of both groups, by node and name. A group that is not served has none.
func list(ctx context.Context, c client.Client) ([]*medik8s.NodeMaintenance, error) {
	newer, errNewer := cmdutil.List[*medik8s.NodeMaintenance](ctx, c, "")
	older, errOlder := cmdutil.List[*kubevirt.NodeMaintenance](ctx, c, "")
	if errNewer != nil && (!cmdutil.IsNotServed(errNewer) || cmdutil.IsNotServed(errOlder)) {
		return nil, errNewer
	}
	if errOlder != nil && !cmdutil.IsNotServed(errOlder) {
		return nil, errOlder
	}
	var all []*medik8s.NodeMaintenance
	for _, m := range newer {
		m.SetGroupVersionKind(medik8s.GroupVersion.WithKind("NodeMaintenance"))
		all = append(all, m)
	}
	for _, m := range older {
		spec := medik8s.NodeMaintenanceSpec{NodeName: m.Spec.NodeName, Reason: m.Spec.Reason}
		all = append(all, newNodeMaintenance(kubevirt.GroupVersion, m.ObjectMeta, spec))
		all[len(all)-1].Status = m.Status
	}
	slices.SortFunc(all, func(a, b *medik8s.NodeMaintenance) int {
		return cmp.Or(strings.Compare(a.Spec.NodeName, b.Spec.NodeName), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// ofNode returns a node's NodeMaintenances.
func ofNode(all []*medik8s.NodeMaintenance, node string) []*medik8s.NodeMaintenance {
	return slices.DeleteFunc(slices.Clone(all), func(m *medik8s.NodeMaintenance) bool { return m.Spec.NodeName != node })
}
