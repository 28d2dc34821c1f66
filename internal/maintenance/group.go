package maintenance

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/undecodable"
)

// ExcludeLabel keeps the remediators of the medik8s family away from a node.
const ExcludeLabel = drain.LabelExclude

// Group is one of the two API groups of NodeMaintenance, with all that differs between them.
type Group struct {
	// Name is the capability's name in --controllers, and the controller's in logs and metrics.
	Name string
	// Resource is what the API server has to serve.
	Resource schema.GroupVersionResource
	// OwnLease reports whether node-maintenance-operator has a second lease, named like the node, in the operator's namespace, which is emptied and
	// never deleted. Drover acquires it in addition to the lease in the medik8s format, which all controllers respect.
	OwnLease bool
	// NewObject returns an empty NodeMaintenance.
	NewObject func() plan.Object

	// additions are the taint and the labels of a node in maintenance.
	additions drain.Additions
	// quorumText is what node-maintenance-operator answers when a control-plane node cannot be spared; a %s in it is the node's name.
	quorumText string
	newList    func() client.ObjectList
}

// Medik8s returns nodemaintenance.medik8s.io/v1beta1.
func Medik8s() *Group {
	return &Group{
		Name: "maintenance", Resource: medik8s.GroupVersion.WithResource("nodemaintenances"),
		additions:  drain.Additions{Taints: noSchedule(drain.TaintMedik8s), Labels: map[string]string{ExcludeLabel: "true"}},
		quorumText: "can not put master/control-plane node into maintenance at this moment, disrupting node %s will violate etcd quorum",
		NewObject:  func() plan.Object { return &medik8s.NodeMaintenance{} },
		newList:    func() client.ObjectList { return &medik8s.NodeMaintenanceList{} },
	}
}

// Kubevirt returns nodemaintenance.kubevirt.io/v1beta1, the older group.
func Kubevirt() *Group {
	return &Group{
		Name: "maintenance-kubevirt", Resource: kubevirt.GroupVersion.WithResource("nodemaintenances"), OwnLease: true,
		additions:  drain.Additions{Taints: noSchedule(drain.TaintKubevirt)},
		quorumText: "can not put master node into maintenance at this moment, it would violate the master quorum",
		NewObject:  func() plan.Object { return &kubevirt.NodeMaintenance{} },
		newList:    func() client.ObjectList { return &kubevirt.NodeMaintenanceList{} },
	}
}

func noSchedule(key string) []corev1.Taint {
	return []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
}

// Groups returns both groups.
func Groups() []*Group { return []*Group{Medik8s(), Kubevirt()} }

// QuorumText returns what node-maintenance-operator answers when a control-plane node cannot be spared.
func (g *Group) QuorumText(node string) string { return strings.ReplaceAll(g.quorumText, "%s", node) }

// List reads NodeMaintenances of the group from a cache.
func (g *Group) List(ctx context.Context, cache client.Reader, options ...client.ListOption) ([]plan.Object, error) {
	list := g.newList()
	if err := cache.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", g.Resource.GroupResource(), err)
	}
	var objects []plan.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(plan.Object); ok {
			objects = append(objects, object)
		}
		return nil
	})
	return objects, err
}

// ListLive reads all NodeMaintenances of the group from the API server. A NodeMaintenance that cannot be decoded does not keep the others from being
// read.
func (g *Group) ListLive(ctx context.Context, live client.Reader) ([]plan.Object, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(g.Resource.GroupVersion().WithKind("NodeMaintenanceList"))
	if err := live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing %s: %w", g.Resource.GroupResource(), err)
	}
	return undecodable.DecodeList(list, func(schema.GroupVersionKind) (plan.Object, error) { return g.NewObject(), nil })
}

// GetLive reads a NodeMaintenance of the group from the API server, even if it cannot be decoded.
func (g *Group) GetLive(ctx context.Context, live client.Reader, name string) (plan.Object, error) {
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(g.Resource.GroupVersion().WithKind("NodeMaintenance"))
	if err := live.Get(ctx, client.ObjectKey{Name: name}, raw); err != nil {
		return nil, err
	}
	text, err := raw.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading NodeMaintenance %s: %w", name, err)
	}
	object := g.NewObject()
	return object, undecodable.Decode(text, object)
}
