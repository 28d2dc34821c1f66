package maintenance

import (
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// observation is what a pass has found out about a maintenance. A step without a reason has not been reached.
type observation struct {
	lease, cordon, drain step
	// failure ends the maintenance for now; its text is lastError.
	failure step
	// trouble is lastError of a maintenance that goes on.
	trouble string
	// ignored is what an administrator has switched off of what is asked for; it begins lastError until the node is drained.
	ignored string
	// report is the drain's, nil when it was not looked at. Planned tells that nothing is done about it yet.
	report *drain.Report
	// leaseErrors is how often in a row the lease could not be renewed.
	leaseErrors int
	// paused reports that nothing was looked at, since the NodeMaintenance is paused.
	paused bool
}

// status is what the object's status is to be. It is the same for the same observation, so that nothing is written at rest.
func (o *observation) status(before *medik8s.NodeMaintenanceStatus, generation int64, now time.Time) medik8s.NodeMaintenanceStatus {
	after := *before.DeepCopy()
	after.ObservedGeneration = generation
	after.ErrorOnLeaseCount = o.leaseErrors
	after.Phase, after.LastError = o.phase(before), o.trouble
	if o.failure.reason != "" {
		after.LastError = o.failure.message
	}
	if o.ignored != "" && !o.drain.met {
		after.LastError = strings.TrimSuffix(o.ignored+"; "+after.LastError, "; ")
	}
	after.LastError = status.Shorten(after.LastError, status.MaxMessage)
	o.count(before, &after)
	at := metav1.NewTime(now.Truncate(time.Second))
	for kind, s := range o.steps() {
		meta.SetStatusCondition(&after.Conditions, s.condition(kind, generation, at))
	}
	if !apiequality.Semantic.DeepEqual(*before, after) {
		after.LastUpdate = &at
	}
	return after
}

// pausedStatus returns the status of a paused NodeMaintenance. What is not known to have changed stays.
func pausedStatus(before *medik8s.NodeMaintenanceStatus, generation int64, now time.Time) medik8s.NodeMaintenanceStatus {
	after := *before.DeepCopy()
	after.ObservedGeneration = generation
	at := metav1.NewTime(now.Truncate(time.Second))
	ready := step{reason: reasonPaused, message: "the annotation " + paused.Annotation + " is set; remove it, and the maintenance goes on"}
	meta.SetStatusCondition(&after.Conditions, ready.condition(ConditionReady, generation, at))
	if !apiequality.Semantic.DeepEqual(*before, after) {
		after.LastUpdate = &at
	}
	return after
}

// phase is Succeeded from the first time that the node is drained, whatever comes late: those who wait for it shall not wait again.
func (o *observation) phase(before *medik8s.NodeMaintenanceStatus) medik8s.Phase {
	switch {
	case o.failure.reason != "":
		return medik8s.PhaseFailed
	case o.drain.met, before.Phase == medik8s.PhaseSucceeded:
		return medik8s.PhaseSucceeded
	}
	return medik8s.PhaseRunning
}

// maxPendingPods is how many pods the status names, the same as maxItems in the schema. A node has at most some hundreds.
const maxPendingPods = 500

// count fills in the pods and the progress. Pods that came late count, so that the progress stays between 0 and 100.
func (o *observation) count(before, after *medik8s.NodeMaintenanceStatus) {
	if o.report == nil {
		return
	}
	left := len(o.report.Left)
	if before.Phase == "" {
		after.TotalPods = o.report.Total
	}
	after.EvictionPods = max(before.EvictionPods, left)
	after.PendingPods, after.PendingPodsRefs = nil, nil
	after.PendingPodsOmitted = max(left-maxPendingPods, 0)
	for _, pod := range o.report.Left[:min(left, maxPendingPods)] {
		after.PendingPods = append(after.PendingPods, pod.Name)
		after.PendingPodsRefs = append(after.PendingPodsRefs, medik8s.PodReference{Namespace: pod.Namespace, Name: pod.Name})
	}
	switch {
	case o.drain.met:
		after.DrainProgress = 100
	case after.EvictionPods > 0:
		after.DrainProgress = (after.EvictionPods - left) * 100 / after.EvictionPods
	}
}

// steps are the conditions. What has not been reached says so, and Ready has the first obstacle.
func (o *observation) steps() map[string]step {
	lease, cordon, drained := o.lease, o.cordon, o.drain
	ready := step{met: true, reason: reasonReady, message: "the node is leased, cordoned and drained"}
	obstacle := o.failure
	for _, s := range []*step{&lease, &cordon, &drained} {
		if s.reason == "" {
			s.reason, s.message = reasonWaiting, ""
		}
		if !s.met && obstacle.reason == "" && s.reason != reasonWaiting {
			obstacle = *s
		}
	}
	if obstacle.reason != "" {
		ready = obstacle
		ready.met = false
	}
	return map[string]step{ConditionReady: ready, ConditionLeaseHeld: lease, ConditionCordoned: cordon, ConditionDrained: drained}
}

// stuck are the reasons that do not pass by themselves.
var stuck = map[drain.Reason]bool{drain.BudgetNever: true, drain.TwoBudgets: true, drain.NotAllowed: true}

// drained reads a report.
func drained(report *drain.Report) step {
	text := report.Text()
	switch {
	case report.Done():
		return step{met: true, reason: reasonDrained, message: text}
	case report.DeadlineExceeded:
		return step{reason: reasonLate, message: "the deadline is over; " + text}
	case len(report.Volumes) > 0:
		return step{reason: reasonVolumes, message: text}
	case len(report.Left) == 0:
		return step{reason: reasonLatecomer, message: text}
	}
	if report.Blocked() {
		return step{reason: reasonBlocked, message: text}
	}
	return step{reason: reasonDraining, message: text}
}

// planned says what a drain would do.
func planned(report *drain.Report) step {
	var blocked []string
	for _, group := range report.Groups() {
		if group.Reason.Blocks() {
			blocked = append(blocked, fmt.Sprintf("%d %s (%s)", len(group.Pods), group.Reason, group.Detail))
		}
	}
	text := fmt.Sprintf("dry run: %d pods of %d would have to leave", len(report.Left), report.Total)
	if len(blocked) > 0 {
		text += "; not able to now: " + strings.Join(blocked, ", ")
	}
	return step{reason: reasonDryRun, message: text}
}
