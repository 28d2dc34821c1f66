package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/nodestate"
)

// Sign is why a member counts as unavailable.
type Sign string

// The signs, in the order of the reports.
const (
	SignNotReady      Sign = "NotReady"
	SignDeleted       Sign = "Deleted"
	SignCordoned      Sign = "Cordoned"
	SignTainted       Sign = "Tainted"
	SignMachineConfig Sign = "MachineConfig"
	SignReboot        Sign = "Reboot"
	SignDrained       Sign = "Drained"
	SignMaintenance   Sign = "MaintenanceInProgress"
	SignDrain         Sign = "DrainInProgress"
	// SignLeased is a valid node lease of any holder. This sign and the signs below do not come from the Node itself.
	SignLeased Sign = "Leased"
	// SignMachineDeleted is a Machine that is being deleted.
	SignMachineDeleted Sign = "MachineDeleted"
	// SignReturning is a Node that has been available for less than minReadySeconds since a capability disrupted it, or since it replaced another Node.
	SignReturning Sign = "Returning"
)

// unavailableTaints say that a Node is leaving or out of service, whatever their value and effect.
var unavailableTaints = []string{
	// https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/apis/v1/taints.go
	"karpenter.sh/disrupted",
	// https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go; DeletionCandidateOfClusterAutoscaler there is a
	// preference that may be withdrawn.
	"ToBeDeletedByClusterAutoscaler",
	corev1.TaintNodeOutOfService,
	// https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/cloud-provider/api/well_known_taints.go
	"node.cloudprovider.kubernetes.io/shutdown",
	// https://github.com/medik8s/node-maintenance-operator/blob/main/controllers/taint.go
	"medik8s.io/drain",
}

// joiningTaints are on a Node until it is initialized: pods do not run there yet.
var joiningTaints = []string{
	// https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/cloud-provider/api/well_known_taints.go
	"node.cloudprovider.kubernetes.io/uninitialized",
	// https://github.com/kubernetes-sigs/cluster-api/blob/main/api/core/v1beta2/common_types.go
	"node.cluster.x-k8s.io/uninitialized",
	// https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/apis/v1/taints.go
	"karpenter.sh/unregistered",
	TaintUninitialized,
}

// TaintUninitialized is the key of a taint that a kubelet sets when it registers a Node: the Node has to get the metadata of its NodeGroup first.
const TaintUninitialized = "drover.dev/uninitialized"

// Annotations of the machine-config-operator and its states after it has given up on an update:
// https://github.com/openshift/machine-config-operator/blob/master/pkg/daemon/constants/constants.go, and what it counts as unavailable:
// https://github.com/openshift/machine-config-operator/blob/master/pkg/controller/common/state/layered_node_state.go
const (
	annotationCurrentConfig    = "machineconfiguration.openshift.io/currentConfig"
	annotationDesiredConfig    = "machineconfiguration.openshift.io/desiredConfig"
	annotationState            = "machineconfiguration.openshift.io/state"
	annotationDesiredDrain     = "machineconfiguration.openshift.io/desiredDrain"
	annotationLastAppliedDrain = "machineconfiguration.openshift.io/lastAppliedDrain"

	stateDegraded       = "Degraded"
	stateUnreconcilable = "Unreconcilable"
)

// AnnotationReboot is kured's, from before the drain until after the reboot: https://github.com/kubereboot/kured/blob/main/cmd/kured/main.go
const AnnotationReboot = "weave.works/kured-reboot-in-progress"

// Conditions are the types of conditions of a Node that Signs reads.
var Conditions = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeDrained, corev1.NodeMaintenanceInProgress, corev1.NodeDrainInProgress,
}

// checks has a function for each sign that is on the Node.
var checks = []struct {
	sign  Sign
	check func(*corev1.Node) bool
}{
	{SignNotReady, func(node *corev1.Node) bool { return !nodestate.IsReady(node) }},
	{SignDeleted, func(node *corev1.Node) bool { return node.DeletionTimestamp != nil }},
	{SignCordoned, func(node *corev1.Node) bool { return node.Spec.Unschedulable }},
	{SignTainted, func(node *corev1.Node) bool { return hasTaint(node, unavailableTaints) }},
	{SignMachineConfig, isUpdating},
	{SignReboot, func(node *corev1.Node) bool { _, found := node.Annotations[AnnotationReboot]; return found }},
	// https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/5683-lifecycle-conditions: MaintenancePlanned is an announcement, and
	// DrainInProgress of a Node that is not cordoned was left behind.
	{SignDrained, func(node *corev1.Node) bool { return nodestate.IsTrue(node, corev1.NodeDrained) }},
	{SignMaintenance, func(node *corev1.Node) bool { return nodestate.IsTrue(node, corev1.NodeMaintenanceInProgress) }},
	{SignDrain, func(node *corev1.Node) bool {
		return node.Spec.Unschedulable && nodestate.IsTrue(node, corev1.NodeDrainInProgress)
	}},
}

// Signs returns the signs of a Node, without its lease. taints are keys that its group declares; they count in addition to the keys that count
// everywhere.
func Signs(node *corev1.Node, taints []string) (signs []Sign) {
	for i := range checks {
		if checks[i].check(node) || checks[i].sign == SignTainted && hasTaint(node, taints) {
			signs = append(signs, checks[i].sign)
		}
	}
	return signs
}

// IsJoining reports whether a Node has not been initialized since it was created. The program that initializes a Node removes its taint once, and
// nothing adds it again, so a Node without such a taint has been initialized.
func IsJoining(node *corev1.Node) bool { return hasTaint(node, joiningTaints) }

func hasTaint(node *corev1.Node, keys []string) bool {
	for i := range node.Spec.Taints {
		if slices.Contains(keys, node.Spec.Taints[i].Key) {
			return true
		}
	}
	return false
}

// isUpdating reports whether the machine-config-operator updates a Node, is about to, or drains it. A Node on which it has given up may
// still serve.
func isUpdating(node *corev1.Node) bool {
	annotations := node.Annotations
	if desired := annotations[annotationDesiredDrain]; desired != "" && desired != annotations[annotationLastAppliedDrain] {
		return true
	}
	state := annotations[annotationState]
	return annotations[annotationCurrentConfig] != annotations[annotationDesiredConfig] && state != stateDegraded && state != stateUnreconcilable
}
