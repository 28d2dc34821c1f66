package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	config "github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	settings "github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/expectations"
	healthcheckplan "github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/maintenance"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/nodes"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/upgrade"
)

// membership answers for the NodeGroups of this cluster. Until it is known whether it has any, nothing is disrupted.
type membership struct {
	members.Index

	// isServed reports whether the API server has NodeGroups, or may have them.
	isServed func() bool
}

// GroupOf implements disruption.Membership.
func (m *membership) GroupOf(ctx context.Context, node string) (string, error) {
	if !m.isServed() {
		return "", nil
	}
	return m.Index.GroupOf(ctx, node)
}

// guarded returns the taints of a MachineSet that a Node of it gets from its NodeGroup, for metadata; none where Drover serves no NodeGroups.
func (m *membership) guarded(ctx context.Context, node *corev1.Node, set types.UID) (group string, guarded ownership.Keys, err error) {
	if !m.isServed() {
		return "", nil, nil
	}
	return m.GuardedTaints(ctx, node, set)
}

// declared returns what the NodeGroup of a Node keeps on its Nodes, for metadata; none where Drover serves no NodeGroups.
func (m *membership) declared(ctx context.Context, node *corev1.Node) (metadataplan.Entries, error) {
	if !m.isServed() {
		return nil, nil
	}
	return m.DeclaredEntries(ctx, node)
}

// newBudgets returns the budgets of all NodeGroups; nil if --controllers does not enable them.
func newBudgets(mgr manager.Manager, configuration *config.DroverConfiguration, groups *membership) *disruption.Budgets {
	if !settings.Enabled(configuration.Controllers, nodegroup.Name) {
		return nil
	}
	kind := func() client.Object { return &v1alpha1.NodeGroup{} }
	return disruption.New(disruption.Options{
		Reader: mgr.GetCache(), Writer: mgr.GetClient(), Membership: groups, Windows: plan.WindowOf,
		Written: expectations.NewOwned(mgr.GetCache(), kind, expectations.OwnedOptions{Live: live(mgr)}),
	})
}

// reservedFor finds the objects of reservations at the API server.
type reservedFor struct {
	live client.Reader
	// controllers are those that are enabled: for others there may be no permission to look.
	controllers []string
}

// reservedKind is a kind of the objects that reservations name, and the capability that watches it.
type reservedKind struct {
	capability string
	kind       schema.GroupVersionKind
}

var reservedKinds = []reservedKind{
	{maintenance.Medik8s().Name, medik8s.GroupVersion.WithKind("NodeMaintenance")},
	{maintenance.Kubevirt().Name, kubevirt.GroupVersion.WithKind("NodeMaintenance")},
	{machinesName, machinev1beta1.GroupVersion.WithKind("Machine")},
	{upgrade.Name, mutex.GroupVersion.WithKind("MutexRunConfig")},
}

// exists reports whether the object of a reservation exists, of a Machine whether it is still being deleted or remediated, and of a run whether it
// still works on the Node.
func (o *reservedFor) exists(ctx context.Context, reservation *v1alpha1.Reservation) (bool, error) {
	kind, name, _ := strings.Cut(reservation.Object, "/")
	namespace, name, namespaced := strings.Cut(name, "/")
	if !namespaced {
		namespace, name = "", namespace
	}
	if reservation.Capability == v1alpha1.CapabilityMetadata {
		// The controller that evicts Pods renews the lease meanwhile: one that has expired was left behind.
		return o.isLeased(ctx, reservation.Node, func(lease *coordinationv1.Lease) bool {
			return nodelease.IsValid(lease, nodes.Holder, time.Now())
		})
	}
	for _, reserved := range reservedKinds {
		if reserved.kind.Kind != kind || !settings.Enabled(o.controllers, reserved.capability) {
			continue
		}
		found, err := expectations.Find(ctx, o.live, reserved.kind, types.NamespacedName{Namespace: namespace, Name: name})
		switch {
		case err != nil:
			return false, err
		case found != nil && kind == "Machine":
			return o.isDisrupted(ctx, found, reservation)
		case found != nil && kind == "MutexRunConfig":
			// The run stays when the work on the Node is over, which only the process knows that was the leader then.
			return o.isLeased(ctx, reservation.Node, func(lease *coordinationv1.Lease) bool { return nodelease.HolderOf(lease) == upgrade.Holder })
		case found != nil:
			return true, nil
		}
	}
	return false, nil
}

// isLeased reports whether a Node has a lease that a condition holds for: the controller of NodeGroups has it while it evicts Pods for a taint, that
// of upgrades while a run works on the Node.
func (o *reservedFor) isLeased(ctx context.Context, node string, condition func(*coordinationv1.Lease) bool) (bool, error) {
	leases := &coordinationv1.LeaseList{}
	err := o.live.List(ctx, leases, client.InNamespace(nodelease.Namespace()), client.MatchingFields{metav1.ObjectNameField: nodelease.Name(node)})
	if err != nil {
		return false, fmt.Errorf("reading the lease of Node %s: %w", node, err)
	}
	for i := range leases.Items {
		if condition(&leases.Items[i]) {
			return true, nil
		}
	}
	return false, nil
}

// isDisrupted reports whether a Machine is being deleted or remediated: who remediates from outside leaves an annotation, or an unhealthy Node.
func (o *reservedFor) isDisrupted(ctx context.Context, machine *metav1.PartialObjectMetadata, reservation *v1alpha1.Reservation) (bool, error) {
	_, external := machine.Annotations[healthcheckplan.ExternalAnnotation]
	if machine.DeletionTimestamp != nil || external || reservation.Capability != v1alpha1.CapabilityRemediation {
		return machine.DeletionTimestamp != nil || external, nil
	}
	if _, withoutNode := disruptionplan.ParseMachineName(reservation.Node); withoutNode {
		return true, nil
	}
	nodes := &corev1.NodeList{}
	if err := o.live.List(ctx, nodes, client.MatchingFields{metav1.ObjectNameField: reservation.Node}); err != nil {
		return false, fmt.Errorf("reading Node %s: %w", reservation.Node, err)
	}
	for i := range nodes.Items {
		for _, c := range nodes.Items[i].Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status != corev1.ConditionTrue, nil
			}
		}
	}
	return true, nil
}
