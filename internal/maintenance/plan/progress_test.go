package plan

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
)

func TestInput_SetLease(t *testing.T) {
	type change = func(*Input, *medik8s.NodeMaintenance)
	own := withRecord("NodeMaintenance/own")
	phase := func(phase medik8s.Phase, failures int) change {
		return func(_ *Input, object *medik8s.NodeMaintenance) {
			object.Status.Phase, object.Status.ErrorOnLeaseCount = phase, failures
			object.Status.LastUpdate = &metav1.Time{Time: start.Add(-time.Hour)}
		}
	}
	justCounted := func(in *Input, _ *medik8s.NodeMaintenance) { in.LossCounted = start.Add(-time.Second) }
	held := Lease{Held: errors.New("held by x"), Until: start.Add(time.Hour)}
	denied := errors.New("no Role")
	for name, c := range map[string]struct {
		changes []change
		lease   Lease
		want    Condition
		cordon  string
		errors  int
		counted bool
		retry   time.Duration
		failed  bool
		givesUp bool
	}{
		"acquired: failures are over": {
			changes: []change{phase(medik8s.PhaseRunning, 2)}, lease: Lease{RenewIn: time.Minute},
			want: Condition{true, ReasonHeld, "renewed for as long as the maintenance lasts"}, retry: time.Minute,
		},
		"held before the start: waits and does not count": {lease: held, want: Condition{false, ReasonHeldByOther, "held by x"}, retry: time.Minute},
		"held for two seconds more":                       {lease: Lease{Held: held.Held, Until: start.Add(2 * time.Second)}, want: Condition{false, ReasonHeldByOther, "held by x"}, retry: 2 * time.Second},
		"lost: counts and keeps the cordon": {
			changes: []change{own, phase(medik8s.PhaseRunning, 1)}, lease: held, want: Condition{false, ReasonLost, "held by x"}, cordon: ReasonCordoned,
			errors: 2, counted: true, retry: time.Minute,
		},
		"lost and counted a second ago: does not count": {
			changes: []change{own, phase(medik8s.PhaseRunning, 1), justCounted}, lease: held, want: Condition{false, ReasonLost, "held by x"},
			cordon: ReasonCordoned, errors: 1, retry: time.Minute,
		},
		"lost for too long: gives up": {
			changes: []change{own, phase(medik8s.PhaseRunning, 3), withLease(ReasonLost, 6*time.Minute)}, lease: held,
			want: Condition{false, ReasonLost, "held by x"}, cordon: ReasonCordoned, errors: 4, counted: true, retry: time.Minute, givesUp: true,
		},
		"lost for too long after the drain: stays": {
			changes: []change{own, phase(medik8s.PhaseSucceeded, 3), withLease(ReasonLost, 6*time.Minute)}, lease: held,
			want: Condition{false, ReasonLost, "held by x"}, cordon: ReasonCordoned, errors: 4, counted: true, retry: time.Minute,
		},
		"given up: failed, and waits": {
			changes: []change{phase(medik8s.PhaseFailed, 4), withLease(ReasonLost, time.Hour)}, lease: held,
			want: Condition{false, ReasonLost, "held by x"}, errors: 4, retry: time.Minute, failed: true,
		},
		"denied": {lease: Lease{Denied: denied}, want: Condition{false, ReasonDenied, "no Role"}, retry: RetryDenied},
		"denied since the namespace is missing": {
			changes: []change{own}, lease: Lease{Denied: denied, NamespaceMissing: true}, want: Condition{false, ReasonNamespace, "no Role"},
			cordon: ReasonCordoned, retry: RetryDenied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput(c.changes...)
			p := &Progress{LeaseErrors: in.Object.GetStatus().ErrorOnLeaseCount}
			in.SetLease(p, c.lease)
			if p.Lease != c.want || p.Cordon.Reason != c.cordon || p.RetryIn != c.retry {
				t.Errorf("lease %+v, cordon %+v, again in %s", p.Lease, p.Cordon, p.RetryIn)
			}
			if p.LeaseErrors != c.errors || p.LossCounted != c.counted || (p.Failure.Reason != "") != c.failed || in.GivesUp(p) != c.givesUp {
				t.Errorf("%d failures, counted %v, failure %+v, gives up %v", p.LeaseErrors, p.LossCounted, p.Failure, in.GivesUp(p))
			}
		})
	}
}

func TestProgress_SetReport(t *testing.T) {
	left := func(reason drain.Reason) []drain.Left {
		return []drain.Left{{Namespace: "ns", Name: "a", Reason: reason}}
	}
	for name, c := range map[string]struct {
		report   drain.Report
		reason   string
		blocked  bool
		patience time.Duration
	}{
		"no Pods":                          {drain.Report{}, ReasonDrained, false, 0},
		"Pods leave":                       {drain.Report{Left: left(drain.Evicting)}, ReasonDraining, false, 0},
		"blocked for now":                  {drain.Report{Left: left(drain.Budget)}, ReasonBlocked, true, blockedPatience},
		"blocked until the budget changes": {drain.Report{Left: left(drain.BudgetNever)}, ReasonBlocked, true, 0},
		"the deadline is over":             {drain.Report{Left: left(drain.Budget), DeadlineExceeded: true}, ReasonLate, true, 0},
		"volumes are attached":             {drain.Report{Volumes: []string{"v"}}, ReasonVolumes, false, 0},
		"the minimum time is not over":     {drain.Report{NotBefore: start}, ReasonMinimumTime, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Progress{}
			p.SetReport(&c.report, start)
			patience, blocked := p.BlockedPatience()
			if p.Drain.Reason != c.reason || p.Drain.Met != (c.reason == ReasonDrained) || blocked != c.blocked || patience != c.patience {
				t.Errorf("%+v, blocked %v for %s", p.Drain, blocked, patience)
			}
			if (p.Problem != "") != (c.reason == ReasonLate) || !p.Evicting {
				t.Errorf("problem %q, evicting %v", p.Problem, p.Evicting)
			}
		})
	}
}
