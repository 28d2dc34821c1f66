package plan

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isOfRuns reports whether runs, or the openshift-node-upgrade-mutex-operator, put a requirement into the selectors of MachineConfigPools.
func isOfRuns(r metav1.LabelSelectorRequirement) bool {
	return strings.HasPrefix(r.Key, LabelPrefix) || r.Key == LabelRun
}

func requiresLabelsOfRuns(mcp *mcfgv1.MachineConfigPool) bool {
	return mcp.Spec.NodeSelector != nil && slices.ContainsFunc(mcp.Spec.NodeSelector.MatchExpressions, isOfRuns)
}

// reservationLost says what a user has to restore in a MachineConfigPool that a run has changed and that has no reservation any more.
func reservationLost(mcp *mcfgv1.MachineConfigPool) string {
	return fmt.Sprintf("MachineConfigPool %s: its selector requires labels of rules, and no annotation %s says what it was before; "+
		"restore spec.nodeSelector and spec.paused", mcp.Name, AnnotationReservation)
}

// unrestorable says which MachineConfigPools the run has changed and cannot restore, because their reservations cannot be read. Nothing else may
// be restored before a user has corrected these: nodes without the labels would leave them.
func (r *Run) unrestorable() []string {
	var problems []string
	for _, mcp := range r.MCPs {
		_, err := ReservationOf(mcp)
		switch {
		case r.Reservations[mcp.Name] != nil || !r.hasChanged(mcp):
		case err != nil:
			problems = append(problems, fmt.Sprintf("%v; correct it, or restore spec.nodeSelector and spec.paused and remove it", err))
		case requiresLabelsOfRuns(mcp):
			problems = append(problems, reservationLost(mcp))
		}
	}
	return problems
}

// hasChanged reports whether, as far as can be known, this run has changed a MachineConfigPool whose reservation cannot be read.
func (r *Run) hasChanged(mcp *mcfgv1.MachineConfigPool) bool {
	uid := string(r.Config.UID)
	if strings.Contains(mcp.Annotations[AnnotationReservation], uid) || len(r.Labeled) > 0 && r.requires(mcp) {
		return true
	}
	return mcp.Spec.NodeSelector != nil && slices.ContainsFunc(mcp.Spec.NodeSelector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		if e.Key == LabelRun {
			// The canary requires the label of the run.
			return slices.Contains(e.Values, uid)
		}
		// A target requires labels that the nodes of the run have.
		return isOfRuns(e) && slices.ContainsFunc(r.Labeled, func(node *corev1.Node) bool {
			_, found := node.Labels[e.Key]
			return found
		})
	})
}
