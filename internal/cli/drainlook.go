package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance/plan"
)

// drainView is a node and all that bears upon its drain.
type drainView struct {
	node *corev1.Node
	pods []*corev1.Pod
	// budgets are the PodDisruptionBudgets of the pods' namespaces.
	budgets []*policyv1.PodDisruptionBudget
	// daemons are the names of the DaemonSets of those namespaces.
	daemons map[types.NamespacedName]bool
	// maintenance is the node's NodeMaintenance, nil when it has none.
	maintenance *maintained
}

// lookAtDrain reads it.
func lookAtDrain(ctx context.Context, c client.Client, name string) (*drainView, error) {
	v := &drainView{node: &corev1.Node{}, daemons: map[types.NamespacedName]bool{}}
	if err := c.Get(ctx, types.NamespacedName{Name: name}, v.node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, notFound("node", name, "the cluster", nodeNames(ctx, c))
		}
		return nil, explained(err, "reading node "+name, "nodes")
	}
	var pods corev1.PodList
	onNode := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", name)}
	if err := c.List(ctx, &pods, onNode); err != nil {
		return nil, explained(err, "listing the pods of node "+name, "nodes")
	}
	var namespaces []string
	for i := range pods.Items {
		v.pods = append(v.pods, &pods.Items[i])
		namespaces = append(namespaces, pods.Items[i].Namespace)
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		if err := v.addNamespace(ctx, c, namespace); err != nil {
			return nil, err
		}
	}
	all, err := maintenancesOf(ctx, c)
	if err != nil && err != errNoMaintenances { //nolint:errorlint // it is returned as it is
		return nil, err
	}
	if found := ofNode(all, name); len(found) > 0 {
		v.maintenance = found[0]
	}
	return v, nil
}

func (v *drainView) addNamespace(ctx context.Context, c client.Client, namespace string) error {
	var budgets policyv1.PodDisruptionBudgetList
	if err := c.List(ctx, &budgets, client.InNamespace(namespace)); err != nil {
		return explained(err, "listing the PodDisruptionBudgets of namespace "+namespace, "nodes")
	}
	for i := range budgets.Items {
		v.budgets = append(v.budgets, &budgets.Items[i])
	}
	var daemons appsv1.DaemonSetList
	if err := c.List(ctx, &daemons, client.InNamespace(namespace)); err != nil {
		return explained(err, "listing the DaemonSets of namespace "+namespace, "nodes")
	}
	for i := range daemons.Items {
		v.daemons[client.ObjectKeyFromObject(&daemons.Items[i])] = true
	}
	return nil
}

// since is when the node was cordoned for its maintenance; zero when it is not yet.
func (v *drainView) since() time.Time {
	if hold, err := drain.ReadCordonRecord(v.node); err == nil && hold != nil {
		return hold.Since
	}
	return time.Time{}
}

// options are those of the maintenance, or the default.
func (v *drainView) options() (drain.Options, error) {
	if v.maintenance == nil {
		return drain.Options{}, nil
	}
	return plan.DrainOptions(v.maintenance.spec.Drain)
}

// report decides as the operator does. What only the operator has been told, the answers to its requests, is in the maintenance's status.
func (v *drainView) report(now time.Time) (drain.Report, drain.Options, error) {
	options, err := v.options()
	if err != nil {
		return drain.Report{}, options, err
	}
	// Attached volumes are looked at by the operator alone.
	options.Volumes = false
	decision := drain.Decide(drain.Input{
		Node: v.node, Pods: v.pods, Options: options, Since: v.since(), Now: now,
		Budgets:         v.selecting,
		DaemonSetExists: func(key types.NamespacedName) bool { return v.daemons[key] },
		Answered:        func(types.UID) (drain.Answer, bool) { return drain.Answer{}, false },
	})
	return decision.Report, options, nil
}

func (v *drainView) selecting(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var found []*policyv1.PodDisruptionBudget
	for _, budget := range v.budgets {
		if drain.Selects(budget, pod) {
			found = append(found, budget)
		}
	}
	return found
}

// BudgetView is a PodDisruptionBudget that selects pods of a node.
type BudgetView struct {
	Name string `json:"name"`
	// Needs and Has are numbers of healthy pods, Allowed that of disruptions it allows now.
	Needs   int32 `json:"needs"`
	Has     int32 `json:"has"`
	Allowed int32 `json:"allowed"`
	// Here is how many of its pods have still to leave this node.
	Here int `json:"here"`
}

// budgetViews lists the budgets of the pods that are left, sorted by name.
func (v *drainView) budgetViews(report *drain.Report) []BudgetView {
	left := map[types.UID]bool{}
	for _, pod := range report.Left {
		left[pod.UID] = true
	}
	views := map[string]*BudgetView{}
	for _, pod := range v.pods {
		if !left[pod.UID] {
			continue
		}
		for _, budget := range v.selecting(pod) {
			name := budget.Namespace + "/" + budget.Name
			if views[name] == nil {
				views[name] = &BudgetView{
					Name: name, Needs: budget.Status.DesiredHealthy, Has: budget.Status.CurrentHealthy, Allowed: budget.Status.DisruptionsAllowed,
				}
			}
			views[name].Here++
		}
	}
	out := make([]BudgetView, 0, len(views))
	for _, view := range views {
		out = append(out, *view)
	}
	slices.SortFunc(out, func(a, b BudgetView) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// alone says what is left alone, for people.
func alone(report *drain.Report) string {
	total := 0
	for _, count := range report.Exempted {
		total += count
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d left alone (DaemonSets, static pods, rules)", total)
}
