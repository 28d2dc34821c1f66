package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// Status returns the status of a NodeMaintenance. It is the same for the same progress, so that nothing is written at rest. If the NodeMaintenance is
// paused, only Ready changes.
func Status(in *Input, p *Progress) medik8s.NodeMaintenanceStatus {
	before := in.Object.GetStatus()
	after := *before.DeepCopy()
	after.ObservedGeneration = in.Object.GetGeneration()
	conditions := map[string]Condition{ConditionReady: {
		Reason: ReasonPaused, Message: "the annotation " + paused.Annotation + " is set; remove it to continue the maintenance",
	}}
	if !p.Paused {
		after.ErrorOnLeaseCount, after.Phase, after.LastError = p.LeaseErrors, p.phase(before), p.lastError()
		p.count(before, &after)
		conditions = p.conditions()
	}
	now := metav1.NewTime(in.Now.Truncate(time.Second))
	// In order: a status that is the same is written the same way.
	for _, kind := range slices.Sorted(maps.Keys(conditions)) {
		condition, value := conditions[kind], metav1.ConditionFalse
		if condition.Met {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&after.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: condition.Reason, Message: status.Shorten(condition.Message, status.MaxMessage),
			ObservedGeneration: after.ObservedGeneration, LastTransitionTime: now,
		})
	}
	if !apiequality.Semantic.DeepEqual(*before, after) {
		after.LastUpdate = &now
	}
	return after
}

// phase is Succeeded from the first time that the node is drained, also when Pods come later: programs wait for it once.
func (p *Progress) phase(before *medik8s.NodeMaintenanceStatus) medik8s.Phase {
	switch {
	case p.Failure.Reason != "":
		return medik8s.PhaseFailed
	case p.Drain.Met, before.Phase == medik8s.PhaseSucceeded:
		return medik8s.PhaseSucceeded
	}
	return medik8s.PhaseRunning
}

func (p *Progress) lastError() string {
	text := p.Problem
	if p.Failure.Reason != "" {
		text = p.Failure.Message
	}
	if p.Ignored != "" && !p.Drain.Met {
		text = strings.TrimSuffix(p.Ignored+"; "+text, "; ")
	}
	return status.Shorten(text, status.MaxMessage)
}

// maxPendingPods is how many Pods the status names, the same as maxItems in the schema. A node has at most some hundreds.
const maxPendingPods = 500

// count sets the Pods and the progress. Pods that came later are counted, too, so that the progress stays between 0 and 100.
func (p *Progress) count(before, after *medik8s.NodeMaintenanceStatus) {
	if p.Report == nil {
		return
	}
	left := len(p.Report.Remaining)
	if before.Phase == "" {
		after.TotalPods = p.Report.Total
	}
	after.EvictionPods = max(before.EvictionPods, left)
	after.PendingPods, after.PendingPodsRefs = nil, nil
	after.PendingPodsOmitted = max(left-maxPendingPods, 0)
	for _, pod := range p.Report.Remaining[:min(left, maxPendingPods)] {
		after.PendingPods = append(after.PendingPods, pod.Name)
		after.PendingPodsRefs = append(after.PendingPodsRefs, medik8s.PodReference{Namespace: pod.Namespace, Name: pod.Name})
	}
	switch {
	case p.Drain.Met:
		after.DrainProgress = 100
	case after.EvictionPods > 0:
		after.DrainProgress = (after.EvictionPods - left) * 100 / after.EvictionPods
	}
}

// conditions returns all conditions. Ready has the reason of the failure, or of the first condition that is not met.
func (p *Progress) conditions() map[string]Condition {
	lease, cordon, drained, blocking := p.Lease, p.Cordon, p.Drain, p.Failure
	for _, condition := range []*Condition{&lease, &cordon, &drained} {
		if condition.Reason == "" {
			condition.Reason = ReasonNotStarted
		} else if !condition.Met && blocking.Reason == "" {
			blocking = *condition
		}
	}
	ready := Condition{Met: true, Reason: ReasonReady, Message: "the node is leased, cordoned and drained"}
	if blocking.Reason != "" {
		ready = blocking
	}
	return map[string]Condition{ConditionReady: ready, ConditionLeaseHeld: lease, ConditionCordoned: cordon, ConditionDrained: drained}
}

// OnlyProgress reports whether two statuses differ in counts, names and texts only.
func OnlyProgress(before, after *medik8s.NodeMaintenanceStatus) bool {
	return before.Phase == after.Phase && before.ObservedGeneration == after.ObservedGeneration && (before.LastError == "") == (after.LastError == "") &&
		maps.Equal(reasons(before), reasons(after))
}

func reasons(s *medik8s.NodeMaintenanceStatus) map[string]string {
	out := map[string]string{}
	for _, condition := range s.Conditions {
		out[condition.Type] = string(condition.Status) + condition.Reason
	}
	return out
}
