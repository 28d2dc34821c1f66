package maintenance

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
)

// ExcludeLabel keeps the remediators of the medik8s family away from a node.
const ExcludeLabel = drain.LabelExclude

// Flavour is one of the two API groups: all that differs between them is here.
type Flavour struct {
	// Name is the capability's name in --controllers, and the controller's in logs and metrics.
	Name string
	// Resource is what the API server has to serve.
	Resource schema.GroupVersionResource
	// DrainTaint is the key of the taint that a node gets besides that of the cordon.
	DrainTaint string
	// Labels are what the node gets besides.
	Labels map[string]string
	// OwnLease tells that the incumbent keeps a second lease, named like the node, in the operator's namespace; it is never deleted, only
	// emptied. The node's lease in the medik8s format is taken all the same: it is the one that all look at.
	OwnLease bool

	// quorumText is what node-maintenance-operator answers when a control-plane node cannot be spared; a %s in it is the node's name.
	quorumText string
	fresh      func() client.Object
	list       func() client.ObjectList
	view       func(client.Object) *view
	items      func(client.ObjectList) []client.Object
}

// view is a NodeMaintenance of either group. Spec and Status are copies.
type view struct {
	client.Object
	spec   medik8s.NodeMaintenanceSpec
	status medik8s.NodeMaintenanceStatus
	// with returns the object with another status.
	with func(medik8s.NodeMaintenanceStatus) client.Object
}

// QuorumText returns what node-maintenance-operator answers when a control-plane node cannot be spared.
func (f *Flavour) QuorumText(node string) string { return strings.ReplaceAll(f.quorumText, "%s", node) }

// Medik8s is nodemaintenance.medik8s.io/v1beta1.
func Medik8s() *Flavour {
	return &Flavour{
		Name: "maintenance", Resource: medik8s.GroupVersion.WithResource("nodemaintenances"), DrainTaint: drain.TaintMedik8s,
		Labels:     map[string]string{ExcludeLabel: "true"},
		quorumText: "can not put master/control-plane node into maintenance at this moment, disrupting node %s will violate etcd quorum",
		fresh:      func() client.Object { return &medik8s.NodeMaintenance{} },
		list:       func() client.ObjectList { return &medik8s.NodeMaintenanceList{} },
		view: func(object client.Object) *view {
			typed, ok := object.(*medik8s.NodeMaintenance)
			if !ok {
				return nil
			}
			return &view{
				Object: typed, spec: *typed.Spec.DeepCopy(), status: *typed.Status.DeepCopy(),
				with: func(status medik8s.NodeMaintenanceStatus) client.Object {
					changed := typed.DeepCopy()
					changed.Status = status
					return changed
				},
			}
		},
		items: func(list client.ObjectList) []client.Object {
			typed, ok := list.(*medik8s.NodeMaintenanceList)
			if !ok {
				return nil
			}
			objects := make([]client.Object, len(typed.Items))
			for i := range typed.Items {
				objects[i] = &typed.Items[i]
			}
			return objects
		},
	}
}

// Kubevirt is nodemaintenance.kubevirt.io/v1beta1, the older group.
func Kubevirt() *Flavour {
	return &Flavour{
		Name: "maintenance-kubevirt", Resource: kubevirt.GroupVersion.WithResource("nodemaintenances"), DrainTaint: drain.TaintKubevirt,
		OwnLease:   true,
		quorumText: "can not put master node into maintenance at this moment, it would violate the master quorum",
		fresh:      func() client.Object { return &kubevirt.NodeMaintenance{} },
		list:       func() client.ObjectList { return &kubevirt.NodeMaintenanceList{} },
		view: func(object client.Object) *view {
			typed, ok := object.(*kubevirt.NodeMaintenance)
			if !ok {
				return nil
			}
			return &view{
				Object: typed, status: *typed.Status.DeepCopy(),
				spec: medik8s.NodeMaintenanceSpec{NodeName: typed.Spec.NodeName, Reason: typed.Spec.Reason},
				with: func(status medik8s.NodeMaintenanceStatus) client.Object {
					changed := typed.DeepCopy()
					changed.Status = status
					return changed
				},
			}
		},
		items: func(list client.ObjectList) []client.Object {
			typed, ok := list.(*kubevirt.NodeMaintenanceList)
			if !ok {
				return nil
			}
			objects := make([]client.Object, len(typed.Items))
			for i := range typed.Items {
				objects[i] = &typed.Items[i]
			}
			return objects
		},
	}
}

// Flavours returns both groups.
func Flavours() []*Flavour { return []*Flavour{Medik8s(), Kubevirt()} }

// marks are what a node in maintenance gets besides the cordon.
func (f *Flavour) marks(outOfService bool) drain.Additions {
	marks := drain.Additions{
		Taints: []corev1.Taint{{Key: f.DrainTaint, Effect: corev1.TaintEffectNoSchedule}},
		Labels: f.Labels,
	}
	if outOfService {
		marks.Taints = append(marks.Taints, drain.OutOfServiceTaint)
	}
	return marks
}

// inherited is the record of a node that the incumbent holds: it remembers nothing, so what it would undo is what is undone.
func (f *Flavour) inherited(node *corev1.Node) *drain.CordonRecord {
	for _, taint := range node.Spec.Taints {
		if taint.Key != f.DrainTaint {
			continue
		}
		hold := &drain.CordonRecord{Cordoned: true, Taints: []string{f.DrainTaint + ":NoSchedule", corev1.TaintNodeUnschedulable + ":NoSchedule"}}
		for key, value := range f.Labels {
			if node.Labels[key] == value {
				hold.Labels = map[string]*string{key: nil}
			}
		}
		return hold
	}
	return nil
}
