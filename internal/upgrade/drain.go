package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

const (
	// drainPeriod is how often a drain by the machine-config-operator is observed.
	drainPeriod = 10 * time.Second
	// maxDrains is how many drains are observed in one reconciliation.
	maxDrains = 8
	// maxDrainError is the longest text of an error in the place of a drain, in bytes.
	maxDrainError = 300
)

// observeDrains returns what delays the drains of released nodes. The cache has no pods for this. Only a few nodes are drained at a time, so their
// pods are read from the API server.
func (rc *reconciliation) observeDrains(ctx context.Context, nodes []*corev1.Node) (map[types.UID]plan.Drain, outcome) {
	known, out := map[types.UID]observedDrain{}, settled()
	var draining []*corev1.Node
	for _, node := range nodes {
		if node.Labels[plan.LabelRun] == string(rc.config.UID) && plan.ReleaseOf(node) != nil && plan.Draining(node) {
			draining = append(draining, node)
			known[node.UID] = rc.state.drains[node.UID]
		}
	}
	due := slices.DeleteFunc(slices.Clone(draining), func(node *corev1.Node) bool { return rc.now.Sub(known[node.UID].at) < drainPeriod })
	slices.SortStableFunc(due, func(a, b *corev1.Node) int { return known[a.UID].at.Compare(known[b.UID].at) })
	maps.Copy(known, rc.readDrains(ctx, due[:min(len(due), maxDrains)]))
	drains := map[types.UID]plan.Drain{}
	for uid, observed := range known {
		drains[uid] = observed.drain
		out.Requeue.In(max(observed.at.Add(drainPeriod).Sub(rc.now), progressPeriod))
	}
	rc.state.drains = known
	return drains, out
}

// readDrains reads the pods of some nodes, and all PodDisruptionBudgets, from the API server. Any tenant can create these, as large
// as a request can be.
func (rc *reconciliation) readDrains(ctx context.Context, nodes []*corev1.Node) map[types.UID]observedDrain {
	drains := map[types.UID]observedDrain{}
	if len(nodes) == 0 {
		return drains
	}
	budgets, err := readBudgets(ctx, rc.Pages)
	for _, node := range nodes {
		observed := observedDrain{at: rc.now}
		if err == nil {
			observed.drain, err = readDrain(ctx, rc.Live, node, budgets, rc.now)
		}
		if err != nil {
			// The other nodes are not tried before the API server answers again.
			observed.drain = plan.Drain{Text: "its pods cannot be read: " + status.Shorten(err.Error(), maxDrainError)}
		}
		drains[node.UID] = observed
	}
	return drains
}

// readBudgets returns all PodDisruptionBudgets, without what does not say whether a pod may be evicted.
func readBudgets(ctx context.Context, reader *pages.Reader) (budgets []*policyv1.PodDisruptionBudget, err error) {
	err = pages.Each(ctx, reader, &policyv1.PodDisruptionBudgetList{}, nil, func(budget *policyv1.PodDisruptionBudget) bool {
		drain.TrimBudget(budget)
		budgets = append(budgets, budget.DeepCopy())
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("listing the PodDisruptionBudgets: %w", err)
	}
	return budgets, nil
}

// readPods returns the pods of a node that have not finished: a kubelet that runs admits only so many, and fails all others. It has the API server
// answer from its watch cache, where pods are indexed by their node; pages would come from etcd, which has no such index. A pod that starts
// between the two lists is in both.
func readPods(ctx context.Context, reader client.Reader, node string) (pods []*corev1.Pod, err error) {
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
		var list corev1.PodList
		of := client.MatchingFields{"spec.nodeName": node, "status.phase": string(phase)}
		if err := reader.List(ctx, &list, of, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
			return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
		}
		pods = append(pods, pointersTo(list.Items)...)
	}
	return pods, nil
}

// readDrain returns which pods have to leave a node, as the machine-config-operator drains it: like kubectl drain with --force, --ignore-daemonsets
// and --delete-emptydir-data.
func readDrain(
	ctx context.Context, reader client.Reader, node *corev1.Node, budgets []*policyv1.PodDisruptionBudget, now time.Time,
) (plan.Drain, error) {
	pods, err := readPods(ctx, reader, node.Name)
	if err != nil {
		return plan.Drain{}, err
	}
	decision := drain.Decide(drain.Input{
		Node: node, Pods: pods, Now: now,
		Budgets: func(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
			return slices.DeleteFunc(slices.Clone(budgets), func(budget *policyv1.PodDisruptionBudget) bool { return !drain.Selects(budget, pod) })
		},
		// Pods of DaemonSets stay, whether or not their DaemonSet still exists.
		DaemonSetExists: func(types.NamespacedName) bool { return true },
		LastAnswer:      func(types.UID) (drain.Answer, bool) { return drain.Answer{}, false },
	})
	if len(decision.Report.Remaining) == 0 {
		return plan.Drain{Text: "all pods have left"}, nil
	}
	return plan.Drain{Text: decision.Report.Text(), Blocked: decision.Report.Blocked()}, nil
}
