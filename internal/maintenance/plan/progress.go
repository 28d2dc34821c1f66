package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
)

const (
	// countInterval is the longest time between two failures of the lease that are counted.
	countInterval = time.Minute
	// maxLeaseErrors is the number of failures in a row after which node-maintenance-operator uncordons the node.
	maxLeaseErrors = 3
)

// The texts of node-maintenance-operator.
const (
	textNotObtained = "failed to obtain a lease that is not owned by us"
	textNotExtended = "failed to extend a lease that used to be owned by us"
	textGivenUp     = "maintenance failed: lease could not be extended"
)

// Progress is how far a maintenance is.
type Progress struct {
	Lease, Cordon, Drain Condition
	// Failure ends the maintenance for now; its message is lastError.
	Failure Condition
	// Problem is lastError of a maintenance that continues.
	Problem string
	// Ignored is what is asked for and disabled; it is the beginning of lastError until the node is drained.
	Ignored string
	// Report is the state of the drain; nil if it is not known.
	Report *drain.Report
	// Evicting reports whether Pods are being evicted.
	Evicting bool
	// LeaseErrors is how many times in a row the lease could not be renewed. LossCounted reports whether this reconciliation has counted.
	LeaseErrors int
	LossCounted bool
	// HeldSince is when another holder acquired the lease, as far as the lease says.
	HeldSince time.Time
	// Paused reports that the NodeMaintenance is paused.
	Paused bool
	// Requeue is when the NodeMaintenance is reconciled again without an event.
	Requeue delay.Requeue
}

// BlockCordon reports why the node is not cordoned, and stops the evictions. The next attempt is after the delay; zero is after an event.
func (p *Progress) BlockCordon(reason, message string, delay time.Duration) {
	p.Cordon, p.Problem, p.Evicting = Condition{Reason: reason, Message: message}, message, false
	if delay > 0 {
		p.Requeue.In(delay)
	}
}

// SetCordoned reports that the node is cordoned.
func (p *Progress) SetCordoned(since time.Time) {
	p.Cordon = Condition{Met: true, Reason: ReasonCordoned, Message: "since " + since.Format(time.RFC3339)}
}

// SetLease reports the answer to a request for the lease, which is renewed after a while. Without the lease no Pod is evicted: another controller may
// work on the node. It returns an error that says nothing about the lease.
func (in *Input) SetLease(p *Progress, renewIn time.Duration, err error) error {
	var held *nodelease.AlreadyHeldError
	var missing *nodelease.NamespaceError
	switch {
	case err == nil:
		p.Lease, p.LeaseErrors = Condition{Met: true, Reason: ReasonHeld, Message: "renewed for as long as the maintenance lasts"}, 0
		p.Requeue.In(renewIn)
		return nil
	case errors.As(err, &held):
		in.setHeld(p, held)
	case status.Classify(err) != status.Denied:
		return err
	default:
		p.Lease, p.Problem = Condition{Reason: ReasonDenied, Message: err.Error()}, err.Error()
		if errors.As(err, &missing) {
			p.Lease.Reason = ReasonNamespace
		}
		p.Requeue.In(delay.Denied)
	}
	if in.OwnsCordonRecord() {
		p.Cordon = Condition{Met: true, Reason: ReasonCordoned, Message: "the node stays cordoned while Drover cannot renew the lease"}
	}
	return nil
}

// setHeld reports that another holder has the lease. Failures count only if it was Drover's.
func (in *Input) setHeld(p *Progress, held *nodelease.AlreadyHeldError) {
	p.Requeue.In(min(delay.UntilLease(held.Until, in.Now), in.lossInterval()))
	status := in.Object.GetStatus()
	before := meta.FindStatusCondition(status.Conditions, ConditionLeaseHeld)
	p.Lease, p.HeldSince = Condition{Reason: ReasonLost, Message: held.Error()}, held.Since
	switch {
	case status.Phase == medik8s.PhaseFailed && before != nil && before.Reason == ReasonLost && !in.OwnsCordonRecord():
		// Given up already; the maintenance begins again when the lease is available.
		p.Failure = Condition{Reason: ReasonLost, Message: textGivenUp}
	case in.OwnsCordonRecord(), before != nil && before.Status == metav1.ConditionTrue:
		p.Problem = fmt.Sprintf("%s: %s", textNotExtended, held)
		if in.Now.Sub(in.lossCounted()) >= in.lossInterval() {
			p.LeaseErrors++
			p.LossCounted = true
		}
	default:
		p.Lease.Reason = ReasonHeldByOther
		p.Problem = fmt.Sprintf("%s: %s", textNotObtained, held)
	}
}

// lossInterval is the shortest time between two failures that are counted: what counts is how long the lease is lost, not the number of
// reconciliations. Enough of them fit into Settings.LeaseLoss.
func (in *Input) lossInterval() time.Duration {
	return min(countInterval, max(in.Settings.LeaseLoss/(maxLeaseErrors+1), time.Second))
}

// lossCounted returns when a failure was counted last, also before a restart.
func (in *Input) lossCounted() time.Time {
	status := in.Object.GetStatus()
	if in.LossCounted.IsZero() && status.ErrorOnLeaseCount > 0 && status.LastUpdate != nil {
		return status.LastUpdate.Time
	}
	return in.LossCounted
}

// GivesUp reports whether the node is uncordoned because its lease has been lost for too long. A node that has been drained stays cordoned: a user
// may be working on it. The lease has not been lost for longer than another holder has had it, whatever the status says.
func (in *Input) GivesUp(p *Progress) bool {
	status := in.Object.GetStatus()
	before := meta.FindStatusCondition(status.Conditions, ConditionLeaseHeld)
	return p.Lease.Reason == ReasonLost && before != nil && before.Reason == ReasonLost && in.OwnsCordonRecord() &&
		status.Phase != medik8s.PhaseSucceeded && p.LeaseErrors > maxLeaseErrors &&
		in.Now.Sub(before.LastTransitionTime.Time) >= in.Settings.LeaseLoss && in.Now.Sub(p.HeldSince) >= in.Settings.LeaseLoss
}

// GiveUp reports that the node has been uncordoned because its lease was lost.
func (p *Progress) GiveUp() {
	p.Cordon, p.Failure = Condition{}, Condition{Reason: ReasonLost, Message: textGivenUp}
}

// SetReport reports the state of the drain.
func (p *Progress) SetReport(report *drain.Report, now time.Time) {
	p.Report, p.Drain, p.Evicting = report, drainCondition(report), true
	if !report.Wake.IsZero() {
		p.Requeue.In(report.Wake.Sub(now))
	}
	if p.Drain.Reason == ReasonLate {
		p.Problem = p.Drain.Message
	}
}

// SetPreview reports what a drain would do.
func (p *Progress) SetPreview(report *drain.Report) {
	text := fmt.Sprintf("dry run: %d pods of %d would have to leave", len(report.Remaining), report.Total)
	var blocked []string
	for _, group := range report.Groups() {
		if group.Reason.Blocks() {
			blocked = append(blocked, fmt.Sprintf("%d %s (%s)", len(group.Pods), group.Reason, group.Detail))
		}
	}
	if len(blocked) > 0 {
		text += "; blocked now: " + strings.Join(blocked, ", ")
	}
	if len(report.MayReturn) > 0 {
		text += "; could come back and stay, since they tolerate the cordon: pods of " + drain.Few(report.MayReturn)
	}
	p.Report, p.Drain = report, Condition{Reason: ReasonDryRun, Message: text}
}

func drainCondition(report *drain.Report) Condition {
	condition := Condition{Reason: ReasonDraining, Message: report.Text()}
	switch {
	case report.Done():
		condition.Met, condition.Reason = true, ReasonDrained
	case report.DeadlineExceeded:
		condition.Reason, condition.Message = ReasonLate, "the deadline is over; "+condition.Message
	case len(report.Volumes) > 0:
		condition.Reason = ReasonVolumes
	case len(report.Remaining) == 0:
		condition.Reason = ReasonMinimumTime
	case report.Blocked():
		condition.Reason = ReasonBlocked
		if report.BlockedByReturning() {
			condition.Reason = ReasonPodsReturn
		}
	}
	return condition
}

// blockedPatience is how long a drain may be blocked for a temporary reason before an event reports it.
const blockedPatience = 15 * time.Second

// BlockedPatience returns how long a drain that is blocked may be so before an event reports it; blocked is false for any other drain.
func (p *Progress) BlockedPatience() (patience time.Duration, blocked bool) {
	permanent := func(pod drain.RemainingPod) bool {
		return pod.Reason == drain.BudgetNever || pod.Reason == drain.TwoBudgets || pod.Reason == drain.NotAllowed
	}
	switch {
	case p.Drain.Reason == ReasonLate, p.Drain.Reason == ReasonBlocked && slices.ContainsFunc(p.Report.Remaining, permanent):
		return 0, true
	case p.Drain.Reason == ReasonBlocked:
		return blockedPatience, true
	}
	return 0, false
}
