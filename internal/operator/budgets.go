package operator

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	config "github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/api/drover/v1alpha1"
	settings "github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/expectations"
	healthcheckplan "github.com/drover-io/drover/internal/healthcheck/plan"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
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

// newBudgets returns the budgets of all NodeGroups; nil if --controllers does not enable them. machines reports whether Drover serves Machines.
func newBudgets(
	mgr manager.Manager, configuration *config.DroverConfiguration, groups *membership, machines func() bool,
) (*disruption.Budgets, error) {
	if !settings.Enabled(configuration.Controllers, nodegroup.Name) {
		return nil, nil
	}
	// The manager's own client knows the kinds of Drover alone.
	anything, err := newClient(mgr)
	if err != nil {
		return nil, err
	}
	requests := &remediationRequests{cache: mgr.GetCache(), live: anything, served: machines}
	if settings.Enabled(configuration.Controllers, machinesName) {
		requests.kinds = configuration.Machines.Remediation.TemplateKinds
	}
	kind := func() client.Object { return &v1alpha1.NodeGroup{} }
	return disruption.New(disruption.Options{
		Reader: mgr.GetCache(), Writer: mgr.GetClient(), Membership: groups, Windows: plan.WindowOf, Requests: requests.list,
		Pace: func(group *v1alpha1.NodeGroup) disruptionplan.Pace {
			return plan.PaceOf(group, configuration.NodeGroups.Rollout)
		},
		Written: expectations.NewOwned(mgr.GetCache(), kind, expectations.OwnedOptions{Live: live(mgr)}),
	}), nil
}

// remediationRequests lists the remediation requests of the templates that MachineHealthChecks name, from the API server.
type remediationRequests struct {
	cache, live client.Reader
	// kinds are those of the templates that may be used. served reports whether the cache has MachineHealthChecks and Machines. Until it has, there may
	// be no permission to look.
	kinds  []string
	served func() bool
}

// isUnavailable reports whether objects cannot be read until a user changes something: their kind, or the permission is missing.
func isUnavailable(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}

// list returns the Machines for which there is a request. A kind that cannot be listed until a user changes something has none: its
// MachineHealthCheck says so, and creates none either.
func (r *remediationRequests) list(ctx context.Context) (found []disruptionplan.Requested, err error) {
	if len(r.kinds) == 0 || !r.served() {
		return nil, nil
	}
	var checks machinev1beta1.MachineHealthCheckList
	if err := r.cache.List(ctx, &checks); err != nil {
		return nil, fmt.Errorf("listing MachineHealthChecks: %w", err)
	}
	type source struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	listed := map[source]bool{}
	for i := range checks.Items {
		reference := checks.Items[i].Spec.RemediationTemplate
		if reference == nil {
			continue
		}
		kind, failure := healthcheckplan.RequestKind(reference, r.kinds)
		of := source{kind, checks.Items[i].Namespace}
		if failure.Reason != "" || listed[of] {
			continue
		}
		listed[of] = true
		requests, err := r.listKind(ctx, of.kind, of.namespace, reference.GroupVersionKind().GroupKind())
		if err != nil {
			return nil, err
		}
		found = append(found, requests...)
	}
	return found, nil
}

func (r *remediationRequests) listKind(
	ctx context.Context, kind schema.GroupVersionKind, namespace string, template schema.GroupKind,
) (found []disruptionplan.Requested, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = r.live.List(ctx, list, client.InNamespace(namespace))
	switch {
	case isUnavailable(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", kind.GroupKind(), err)
	}
	for i := range list.Items {
		request := &list.Items[i]
		machine := &machinev1beta1.Machine{}
		key := types.NamespacedName{Namespace: namespace, Name: request.Name}
		switch err := r.cache.Get(ctx, key, machine); {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading Machine %s: %w", key, err)
		case err != nil, request.Namespace != namespace, !healthcheckplan.IsRequestFor(request, machine, template):
			continue
		}
		of := disruptionplan.Requested{Machine: key, UID: machine.UID, Since: request.CreationTimestamp.Time}
		if ref := machine.Status.NodeRef; ref != nil {
			of.Node, of.NodeUID = ref.Name, ref.UID
		}
		found = append(found, of)
	}
	return found, nil
}
