package plan

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/rollout"
)

// groupPlan is the plan of a NodeGroup with what it means for others than its Nodes.
type groupPlan struct {
	*view.NodeGroupPlan

	consequences view.Consequences
}

// addLabelUses adds to each plan the Pods and PersistentVolumes that require labels which would change. Where these may not be read, a warning says
// so.
func (o *options) addLabelUses(ctx context.Context, c client.Reader, plans []groupPlan) error {
	affected := map[string]bool{}
	for i := range plans {
		for _, change := range plans[i].consequences.Labels {
			affected[change.Node] = true
		}
	}
	if len(affected) == 0 {
		return nil
	}
	var pods []*corev1.Pod
	err := cmdutil.Each(ctx, c, "", func(pod *corev1.Pod) {
		if affected[pod.Spec.NodeName] && rollout.RequiresLabels(pod) {
			pods = append(pods, pod)
		}
	})
	if err != nil {
		return o.Warn("which Pods require labels that would change is unknown: %v", err)
	}
	volumes, err := cmdutil.List[*corev1.PersistentVolume](ctx, c, "")
	if err != nil {
		return o.Warn("which PersistentVolumes require labels that would change is unknown: %v", err)
	}
	for i := range plans {
		p := &plans[i]
		p.AddLabelUses(rollout.LabelUses(p.consequences.Labels, pods, volumes), p.consequences.Unconfirmed)
	}
	return nil
}

// addGuards adds to each plan the Pods that would have to leave before taints with the effect NoExecute. Where what decides about them may not be
// read, a warning says so.
func (o *options) addGuards(ctx context.Context, c client.Reader, plans []groupPlan) error {
	guarded := map[string]bool{}
	for i := range plans {
		for _, node := range plans[i].consequences.Guarded {
			guarded[node.Node.Name] = true
		}
	}
	if len(guarded) == 0 {
		return nil
	}
	objects, err := guardObjects(ctx, c, guarded)
	if err != nil {
		return o.Warn("which Pods would be evicted before taints with the effect NoExecute is unknown: %v", err)
	}
	for i := range plans {
		plans[i].AddGuards(plans[i].consequences.Group, plans[i].consequences.Guarded, objects, o.Now())
	}
	return nil
}

// guardObjects reads what the guard of some Nodes decides on.
func guardObjects(ctx context.Context, c client.Reader, nodes map[string]bool) (*view.GuardObjects, error) {
	objects := &view.GuardObjects{Pods: map[string][]*corev1.Pod{}, DaemonSets: map[types.NamespacedName]bool{}}
	err := cmdutil.Each(ctx, c, "", func(pod *corev1.Pod) {
		if nodes[pod.Spec.NodeName] {
			objects.Pods[pod.Spec.NodeName] = append(objects.Pods[pod.Spec.NodeName], pod)
		}
	})
	if err != nil {
		return nil, err
	}
	if objects.Budgets, err = cmdutil.List[*policyv1.PodDisruptionBudget](ctx, c, ""); err != nil {
		return nil, err
	}
	err = cmdutil.Each(ctx, c, "", func(daemon *appsv1.DaemonSet) { objects.DaemonSets[client.ObjectKeyFromObject(daemon)] = true })
	return objects, err
}
