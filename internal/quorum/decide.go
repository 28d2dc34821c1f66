package quorum

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/internal/drain"
)

// Labels of the nodes that are guarded, whatever their value.
const (
	LabelMaster       = "node-role.kubernetes.io/master"
	LabelControlPlane = "node-role.kubernetes.io/control-plane"
)

// IsControlPlane reports whether a node is part of the control plane.
func IsControlPlane(node *corev1.Node) bool {
	_, master := node.Labels[LabelMaster]
	_, controlPlane := node.Labels[LabelControlPlane]
	return master || controlPlane
}

// inMaintenance reports whether a node has a cordon record of Drover, for a NodeMaintenance or a Machine, or a taint of a NodeMaintenance.
func inMaintenance(node *corev1.Node) bool {
	if _, held := node.Annotations[drain.AnnotationCordon]; held {
		return true
	}
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == drain.TaintMedik8s || t.Key == drain.TaintKubevirt })
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// decidePlain says why a control plane of these nodes cannot spare one of them; empty when it can. It cannot while another one is in maintenance, or
// when too few others are available. The API server tells nothing of etcd here, so a node that is ready stands for a member that works, and one that
// is not ready itself is not missed. Whether one that is not among them works, because its Node is gone, is not known: it counts as one that does.
// Another node that is cordoned, by anyone, is about to be disrupted: it counts as unavailable.
func decidePlain(name string, members []corev1.Node) string {
	own := slices.IndexFunc(members, func(n corev1.Node) bool { return n.Name == name })
	left, all := 0, len(members)
	var cordoned []string
	switch {
	case all == 0:
		return "" // nobody knows a control plane here
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
		case isReady(&members[i]):
			left++
		}
	}
	// What does not work is not missed.
	if own >= 0 && !isReady(&members[own]) {
		return ""
	}
	return decideCount(name, left, all, cordoned)
}

// decideCount says why not enough control-plane nodes are left; empty when more than half of all are.
func decideCount(name string, left, all int, cordoned []string) string {
	needed := all/2 + 1
	switch {
	case left >= needed:
		return ""
	case len(cordoned) > 0:
		return fmt.Sprintf("without node %s, %d of %d control-plane nodes would be ready and schedulable, and %d are needed; cordoned: %s",
			name, left, all, needed, strings.Join(cordoned, ", "))
	}
	return fmt.Sprintf("without node %s, %d of %d control-plane nodes would be ready, and %d are needed", name, left, all, needed)
}

// decideBudget looks at the disruption budgets of etcd's guard pods. decided reports that the pods need not be looked at: there is not exactly one
// budget, which is a denial, or it allows a disruption.
func decideBudget(name string, budgets []policyv1.PodDisruptionBudget) (denial string, decided bool) {
	switch {
	case len(budgets) == 0:
		return fmt.Sprintf("node %s: there is no PodDisruptionBudget in namespace %s, so nobody knows what etcd can spare", name, etcdNamespace), true
	case len(budgets) > 1:
		return fmt.Sprintf("node %s: there are %d PodDisruptionBudgets in namespace %s, and one is expected", name, len(budgets), etcdNamespace), true
	}
	return "", budgets[0].Status.DisruptionsAllowed >= 1
}

// guardSelector returns what selects the guard pods. A budget without a selector selects all pods of the namespace here, as it does for
// node-maintenance-operator; Kubernetes has it select none. An empty selector selects all of them in both.
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

// decideGuards says why a node cannot be spared when no disruption is allowed; empty when it can. It may go when its own guard pod is the one that is
// disrupted already, or when it has none.
func decideGuards(name string, guards []corev1.Pod) string {
	for i := range guards {
		if guards[i].Spec.NodeName != name {
			continue
		}
		for _, condition := range guards[i].Status.Conditions {
			// A kubelet that has gone leaves Unknown: whether etcd there still counts is not known.
			if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionFalse {
				return fmt.Sprintf("node %s: no disruption of etcd is allowed now, and its guard pod %s/%s is not disrupted yet",
					name, guards[i].Namespace, guards[i].Name)
			}
		}
	}
	return ""
}
