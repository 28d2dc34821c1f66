// Package quorum decides whether the control plane can spare one of its nodes now. On OpenShift the PodDisruptionBudget of etcd's guard pods
// decides, as in node-maintenance-operator. On other clusters no other control-plane node may be in maintenance, and more than half of all have to
// stay ready and schedulable, unless the node itself is not ready. A Node with the label of the control plane counts as ready only if it runs a
// static Pod of kube-apiserver or etcd, where any Node does: authors of MachineSets may have given it the label. On both, a node waits while the
// lease of another control-plane node is held. For the deletion of Machines, the nodes are counted on OpenShift as well (MachineGuard).
package quorum

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodestate"
)

// inMaintenance reports whether a node has a cordon record of Drover, for a NodeMaintenance or a Machine, or a taint of a NodeMaintenance.
func inMaintenance(node *corev1.Node) bool {
	if _, recorded := node.Annotations[drain.AnnotationCordon]; recorded {
		return true
	}
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == drain.TaintMedik8s || t.Key == drain.TaintKubevirt })
}

// decideNodes returns why a control plane of these nodes cannot spare one of them; empty when it can. It cannot while another one is in maintenance,
// or when too few others are available. The state of etcd is not known here: a ready node counts as a working member, and a node that is not ready
// can be spared. A node that is not among them, because its Node object is gone, counts as a working member, too. A cordoned node is about to be
// disrupted and counts as unavailable, whether Drover or a user cordoned it. So does a node that is not confirmed to belong to the control plane.
func decideNodes(name string, members []corev1.Node, unconfirmed sets.Set[string]) string {
	own := slices.IndexFunc(members, func(n corev1.Node) bool { return n.Name == name })
	available, all := 0, len(members)
	var cordoned, doubtful []string
	switch {
	case all == 0:
		return "" // the cluster does not show its control plane
	case own < 0:
		all++
	}
	for i := range members {
		if i == own {
			continue
		}
		if inMaintenance(&members[i]) {
			return fmt.Sprintf("node %s has to wait until control-plane node %s is out of maintenance", name, members[i].Name)
		}
		switch {
		case members[i].Spec.Unschedulable:
			cordoned = append(cordoned, members[i].Name)
		case !nodestate.IsReady(&members[i]):
		case unconfirmed.Has(members[i].Name):
			doubtful = append(doubtful, members[i].Name)
		default:
			available++
		}
	}
	// Nothing is lost with a member that does not work.
	if own >= 0 && !nodestate.IsReady(&members[own]) {
		return ""
	}
	return withDoubtful(decideCount(name, available, all, cordoned), doubtful)
}

// withDoubtful adds to a denial which nodes do not count because they are not confirmed.
func withDoubtful(denial string, doubtful []string) string {
	if denial == "" || len(doubtful) == 0 {
		return denial
	}
	named := strings.Join(doubtful[:min(len(doubtful), maxNamed)], ", ")
	return denial + fmt.Sprintf("; %d do not count because they run no static Pod of kube-apiserver or etcd: %s; "+
		"if they do not belong to the control plane, remove the labels %s and %s from them",
		len(doubtful), named, nodestate.LabelControlPlane, nodestate.LabelMaster)
}

// maxNamed is how many nodes that do not count a denial names.
const maxNamed = 5

// decideCount returns why too few control-plane nodes would be available; empty when more than half of all would be.
func decideCount(name string, available, all int, cordoned []string) string {
	needed := all/2 + 1
	switch {
	case available >= needed:
		return ""
	case len(cordoned) > 0:
		return fmt.Sprintf("without node %s, %d of %d control-plane nodes would be ready and schedulable, and %d are needed; cordoned: %s",
			name, available, all, needed, strings.Join(cordoned, ", "))
	}
	return fmt.Sprintf("without node %s, %d of %d control-plane nodes would be ready, and %d are needed", name, available, all, needed)
}

// decideBudget decides by the PodDisruptionBudgets of etcd's guard pods. decided reports whether the pods do not matter: there is not exactly one
// budget, which is a denial, or it allows a disruption.
func decideBudget(name string, budgets []policyv1.PodDisruptionBudget) (denial string, decided bool) {
	switch {
	case len(budgets) == 0:
		const text = "node %s: there is no PodDisruptionBudget in namespace %s, so it is not known whether etcd can spare a member"
		return fmt.Sprintf(text, name, etcdNamespace), true
	case len(budgets) > 1:
		return fmt.Sprintf("node %s: there are %d PodDisruptionBudgets in namespace %s, and one is expected", name, len(budgets), etcdNamespace), true
	}
	return "", budgets[0].Status.DisruptionsAllowed >= 1
}

// guardSelector returns the selector of the guard pods. A budget without a selector selects all pods of the namespace, as in
// node-maintenance-operator; in Kubernetes it selects none. An empty selector selects all of them in both.
func guardSelector(budget *policyv1.PodDisruptionBudget) (labels.Selector, error) {
	if budget.Spec.Selector == nil {
		return labels.Everything(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of PodDisruptionBudget %s/%s: %w", budget.Namespace, budget.Name, err)
	}
	return selector, nil
}

// decideGuards returns why a node cannot be spared while no disruption is allowed. It returns an empty text if the node can be spared: the node's own
// guard pod is disrupted already, or the node has no guard pod.
func decideGuards(name string, guards []corev1.Pod) string {
	for i := range guards {
		if guards[i].Spec.NodeName != name {
			continue
		}
		for _, condition := range guards[i].Status.Conditions {
			// Unknown is the status after a kubelet stopped reporting: its member of etcd may still work.
			if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionFalse {
				return fmt.Sprintf("node %s: no disruption of etcd is allowed now, and its guard pod %s/%s is not disrupted yet",
					name, guards[i].Namespace, guards[i].Name)
			}
		}
	}
	return ""
}
