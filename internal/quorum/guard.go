package quorum

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodestate"
)

const (
	// openShiftVersion is the group and version that only OpenShift serves.
	openShiftVersion = "config.openshift.io/v1"
	// etcdNamespace is the namespace of etcd, its guard pods and their PodDisruptionBudget on OpenShift.
	etcdNamespace = "openshift-etcd"
)

// Guard checks control-plane nodes. It reads from the API server: a cache may not show the cordon of another node yet. Two callers that keep the lock
// from the check until their cordon or deletion is written cannot both pass.
type Guard struct {
	reader    client.Reader
	discovery discovery.ServerResourcesInterfaceWithContext

	// check is locked by Lock.
	check sync.Mutex

	mu sync.Mutex
	// openShift reports whether this is OpenShift; nil is not known yet.
	openShift *bool
}

// New returns a Guard. The reader must not be a cache.
func New(reader client.Reader, discovery discovery.ServerResourcesInterfaceWithContext) *Guard {
	return &Guard{reader: reader, discovery: discovery}
}

// lockTimeout bounds how long the lock is kept. The client has no time-out of its own: an API server that accepts a request and does not answer it
// would keep every other control-plane node waiting.
const lockTimeout = time.Minute

// Lock lets one caller at a time check a node, acquire its lease and cordon it or delete its Machine, until it calls unlock. Two callers that check
// at the same time could both pass, or see each other's lease and both fail. All of that is done with the returned context, which expires
// after lockTimeout.
func (g *Guard) Lock(ctx context.Context) (bounded context.Context, unlock func()) {
	g.check.Lock()
	bounded, cancel := context.WithTimeout(ctx, lockTimeout)
	return bounded, func() {
		cancel()
		g.check.Unlock()
	}
}

// Applies reports whether a node belongs to the control plane.
func (g *Guard) Applies(node *corev1.Node) bool { return nodestate.IsControlPlane(node.Labels) }

// Check returns why the control plane cannot spare a node now; empty when it can. It fails when that cannot be read.
func (g *Guard) Check(ctx context.Context, node *corev1.Node) (denial string, err error) {
	if denial, err = g.denial(ctx, node); err != nil {
		return "", fmt.Errorf("checking whether the control plane can spare node %s: %w", node.Name, err)
	}
	return denial, nil
}

func (g *Guard) denial(ctx context.Context, node *corev1.Node) (denial string, err error) {
	openShift, err := g.onOpenShift(ctx)
	if err != nil {
		return "", err
	}
	members, err := g.members(ctx)
	if err != nil {
		return "", err
	}
	if openShift {
		denial, err = g.checkEtcd(ctx, node.Name)
	} else {
		denial, err = g.checkNodes(ctx, node.Name, members, false)
	}
	if err != nil || denial != "" {
		return denial, err
	}
	return g.checkLeases(ctx, node.Name, members)
}

// onOpenShift reports whether this is OpenShift. It asks until the API server answers, and then not again, as node-maintenance-operator does.
func (g *Guard) onOpenShift(ctx context.Context) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.openShift == nil {
		_, err := g.discovery.ServerResourcesForGroupVersionWithContext(ctx, openShiftVersion)
		if err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("asking whether this is OpenShift: %w", err)
		}
		g.openShift = new(err == nil)
	}
	return *g.openShift, nil
}

// members lists the nodes of the control plane, once for each label: no selector matches either of two.
func (g *Guard) members(ctx context.Context) ([]corev1.Node, error) {
	var members []corev1.Node
	seen := map[string]bool{}
	for _, label := range []string{nodestate.LabelControlPlane, nodestate.LabelMaster} {
		list := &corev1.NodeList{}
		if err := g.reader.List(ctx, list, client.HasLabels{label}); err != nil {
			return nil, fmt.Errorf("listing control-plane nodes: %w", err)
		}
		for i := range list.Items {
			if name := list.Items[i].Name; !seen[name] {
				seen[name] = true
				members = append(members, list.Items[i])
			}
		}
	}
	return members, nil
}

// checkNodes checks a node by counting the members of the control plane.
func (g *Guard) checkNodes(ctx context.Context, node string, members []corev1.Node, openShift bool) (denial string, err error) {
	unconfirmed, err := g.unconfirmed(ctx, openShift, members)
	if err != nil {
		return "", err
	}
	return decideNodes(node, members, unconfirmed), nil
}

// checkEtcd checks a node against the guard pods of etcd and their PodDisruptionBudget.
func (g *Guard) checkEtcd(ctx context.Context, node string) (denial string, err error) {
	budgets := &policyv1.PodDisruptionBudgetList{}
	if err := g.reader.List(ctx, budgets, client.InNamespace(etcdNamespace)); err != nil {
		return "", fmt.Errorf("listing the PodDisruptionBudgets of etcd: %w", err)
	}
	if denial, decided := decideBudget(node, budgets.Items); decided {
		return denial, nil
	}
	selector, err := guardSelector(&budgets.Items[0])
	if err != nil {
		return "", err
	}
	guards := &corev1.PodList{}
	if err := g.reader.List(ctx, guards, client.InNamespace(etcdNamespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", fmt.Errorf("listing the guard pods of etcd: %w", err)
	}
	return decideGuards(node, guards.Items), nil
}
