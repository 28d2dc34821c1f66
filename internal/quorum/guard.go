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
)

const (
	// openShift is served by OpenShift only.
	openShift = "config.openshift.io/v1"
	// etcdNamespace is where OpenShift keeps etcd, its guard pods and their budget.
	etcdNamespace = "openshift-etcd"
)

// Guard looks at the API server itself: what a cache says may be from before the last node was cordoned. A caller that holds the lock from
// the check until its own cordon or deletion is written lets no two nodes through.
type Guard struct {
	reader    client.Reader
	discovery discovery.ServerResourcesInterfaceWithContext

	turn sync.Mutex
	mu   sync.Mutex
	// etcd tells, once it is known, whether the guard pods of etcd are to be asked.
	etcd *bool
}

// New makes a guard. The reader must not be a cache.
func New(reader client.Reader, discovery discovery.ServerResourcesInterfaceWithContext) *Guard {
	return &Guard{reader: reader, discovery: discovery}
}

// lockTimeout bounds how long the lock is held. The client has no time-out of its own: an API server that takes a request and does not answer it
// would keep every other control-plane node waiting.
const lockTimeout = time.Minute

// Lock lets one caller at a time check a node, acquire its lease and cordon it or delete its Machine, until it calls unlock. Two that checked at
// the same time would both take a node, or see each other's lease and both give up. All of that is done with the context that it returns, which
// ends after a while.
func (g *Guard) Lock(ctx context.Context) (bounded context.Context, unlock func()) {
	g.turn.Lock()
	bounded, cancel := context.WithTimeout(ctx, lockTimeout)
	return bounded, func() {
		cancel()
		g.turn.Unlock()
	}
}

// Applies tells whether a node belongs to the control plane.
func (g *Guard) Applies(node *corev1.Node) bool { return IsControlPlane(node) }

// Check says why the control plane cannot spare a node now; empty when it can. The error says what could not be read.
func (g *Guard) Check(ctx context.Context, node *corev1.Node) (denial string, err error) {
	if denial, err = g.check(ctx, node); err != nil {
		return "", fmt.Errorf("checking whether the control plane can spare node %s: %w", node.Name, err)
	}
	return denial, nil
}

func (g *Guard) check(ctx context.Context, node *corev1.Node) (denial string, err error) {
	etcd, err := g.onOpenShift(ctx)
	if err != nil {
		return "", err
	}
	members, err := g.members(ctx)
	if err != nil {
		return "", err
	}
	if etcd {
		denial, err = g.checkEtcd(ctx, node.Name)
	} else {
		denial = decidePlain(node.Name, members)
	}
	if err != nil || denial != "" {
		return denial, err
	}
	return g.checkLeases(ctx, node.Name, members)
}

// onOpenShift asks once, as the incumbent does. An answer that failed is no answer.
func (g *Guard) onOpenShift(ctx context.Context) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.etcd == nil {
		_, err := g.discovery.ServerResourcesForGroupVersionWithContext(ctx, openShift)
		if err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("asking whether this is OpenShift: %w", err)
		}
		g.etcd = new(err == nil)
	}
	return *g.etcd, nil
}

// members lists the nodes of the control plane. There is no selector for "this label or that".
func (g *Guard) members(ctx context.Context) ([]corev1.Node, error) {
	var members []corev1.Node
	seen := map[string]bool{}
	for _, label := range []string{LabelControlPlane, LabelMaster} {
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

// checkEtcd asks the guard pods of etcd.
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
