package machineconfig

import (
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/test/openshift"
)

// PoolState is what a pool's status is made of.
type PoolState struct {
	// Pool is the pool with its present status.
	Pool *mcfgv1.MachineConfigPool
	// Nodes are those in the pool.
	Nodes []*corev1.Node
	// Conflicts says of each Node that other custom pools select too, which.
	Conflicts []string
	// RenderError is why the pool has no rendered MachineConfig; nil for none.
	RenderError error
	// Now is the time.
	Now time.Time
}

// Status is what a pool's status is to be.
func (s PoolState) Status() mcfgv1.MachineConfigPoolStatus {
	status := *s.Pool.Status.DeepCopy()
	status.ObservedGeneration = s.Pool.Generation
	if status.CertExpirys == nil {
		status.CertExpirys = []mcfgv1.CertExpiry{} // the field may not be null
	}
	s.count(&status)
	updated := status.UpdatedMachineCount == status.MachineCount && status.ReadyMachineCount == status.MachineCount &&
		status.UnavailableMachineCount == 0 && s.Pool.Spec.Configuration.Name != ""
	target := "MachineConfig " + s.Pool.Spec.Configuration.Name
	switch {
	case updated:
		status.Configuration = *s.Pool.Spec.Configuration.DeepCopy()
		s.set(&status, mcfgv1.MachineConfigPoolUpdated, true, "", "every node runs "+target)
		s.set(&status, mcfgv1.MachineConfigPoolUpdating, false, "", "")
	case s.Pool.Spec.Paused:
		s.set(&status, mcfgv1.MachineConfigPoolUpdated, false, "", "")
		s.set(&status, mcfgv1.MachineConfigPoolUpdating, false, "", "the pool is paused: no node is sent to "+target)
	default:
		s.set(&status, mcfgv1.MachineConfigPoolUpdated, false, "", "")
		s.set(&status, mcfgv1.MachineConfigPoolUpdating, true, "", "nodes are on their way to "+target)
	}
	s.degrade(&status)
	return status
}

// count counts the Nodes.
func (s PoolState) count(status *mcfgv1.MachineConfigPoolStatus) {
	status.MachineCount = int32(min(len(s.Nodes), 1<<30))
	status.UpdatedMachineCount, status.ReadyMachineCount, status.UnavailableMachineCount, status.DegradedMachineCount = 0, 0, 0, 0
	for _, node := range s.Nodes {
		if isDone(node) && node.Annotations[openshift.AnnotationDesiredConfig] == s.Pool.Spec.Configuration.Name {
			status.UpdatedMachineCount++
			if isReady(node) {
				status.ReadyMachineCount++
			}
		}
		if isUnavailable(node) {
			status.UnavailableMachineCount++
		}
		if isDegraded(node) {
			status.DegradedMachineCount++
		}
	}
}

// degrade sets the three conditions of what goes wrong. The original only logs that custom pools contend for a Node; here it is in the status, too.
func (s PoolState) degrade(status *mcfgv1.MachineConfigPoolStatus) {
	var messages []string
	for _, node := range s.Nodes {
		if isDegraded(node) {
			messages = append(messages, fmt.Sprintf("node %s: %s", node.Name, node.Annotations[openshift.AnnotationReason]))
		}
	}
	reason := ""
	if len(messages) > 0 {
		reason = fmt.Sprintf("%d nodes are degraded", len(messages))
	} else if len(s.Conflicts) > 0 {
		reason = fmt.Sprintf("%d nodes are selected by several custom pools", len(s.Conflicts))
	}
	messages = append(messages, s.Conflicts...)
	slices.Sort(messages)
	nodes := strings.Join(messages, "; ")
	s.set(status, mcfgv1.MachineConfigPoolNodeDegraded, nodes != "", reason, nodes)
	render := ""
	if s.RenderError != nil {
		render = s.RenderError.Error()
	}
	s.set(status, mcfgv1.MachineConfigPoolRenderDegraded, render != "", "", render)
	if nodes == "" {
		nodes = render
	}
	s.set(status, mcfgv1.MachineConfigPoolDegraded, nodes != "", "", nodes)
}

// set writes a condition. LastTransitionTime changes only with the condition's status.
func (s PoolState) set(
	status *mcfgv1.MachineConfigPoolStatus, kind mcfgv1.MachineConfigPoolConditionType, value bool, reason, message string,
) {
	condition := mcfgv1.MachineConfigPoolCondition{
		Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(s.Now.Truncate(time.Second)), Reason: reason, Message: message,
	}
	if value {
		condition.Status = corev1.ConditionTrue
	}
	at := slices.IndexFunc(status.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool { return c.Type == kind })
	if at < 0 {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	if old := status.Conditions[at]; old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	status.Conditions[at] = condition
}

// isTrue reads a condition of a pool.
func isTrue(pool *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) bool {
	return slices.ContainsFunc(pool.Status.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}
