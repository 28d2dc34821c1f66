package plan

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodelease"
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
	held := &nodelease.AlreadyHeldError{Node: "n1", Holder: "x", Until: start.Add(time.Hour)}
	lately := &nodelease.AlreadyHeldError{Node: "n1", Holder: "x", Until: start.Add(time.Hour), Since: start.Add(-time.Minute)}
	expiring := &nodelease.AlreadyHeldError{Node: "n1", Holder: "x", Until: start.Add(2 * time.Second)}
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "node-n1", errors.New("no Role"))
	missing := &nodelease.NamespaceError{Namespace: "medik8s-leases", Err: denied}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "node-n1", errors.New("modified"))
	for name, c := range map[string]struct {
		changes []change
		err     error
		want    string
		cordon  string
		errors  int
		counted bool
		retry   time.Duration
		failed  bool
		givesUp bool
	}{
		"acquired: failures are over": {
			changes: []change{phase(medik8s.PhaseRunning, 2)}, want: ReasonHeld, retry: time.Minute,
		},
		"held before the start: waits and does not count": {err: held, want: ReasonHeldByOther, retry: delay.Lease},
		"held for two seconds more": {
			err: expiring, want: ReasonHeldByOther, retry: 2 * time.Second,
		},
		"lost: counts and keeps the cordon": {
			changes: []change{own, phase(medik8s.PhaseRunning, 1)}, err: held, want: ReasonLost, cordon: ReasonCordoned,
			errors: 2, counted: true, retry: delay.Lease,
		},
		"lost and counted a second ago: does not count": {
			changes: []change{own, phase(medik8s.PhaseRunning, 1), justCounted}, err: held, want: ReasonLost,
			cordon: ReasonCordoned, errors: 1, retry: delay.Lease,
		},
		"lost for too long: gives up": {
			changes: []change{own, phase(medik8s.PhaseRunning, 3), withLease(ReasonLost, 6*time.Minute)}, err: held,
			want: ReasonLost, cordon: ReasonCordoned, errors: 4, counted: true, retry: delay.Lease, givesUp: true,
		},
		"lost a minute ago, whatever the status says: stays": {
			changes: []change{own, phase(medik8s.PhaseRunning, 3), withLease(ReasonLost, 6*time.Minute)}, err: lately,
			want: ReasonLost, cordon: ReasonCordoned, errors: 4, counted: true, retry: delay.Lease,
		},
		"lost for too long after the drain: stays": {
			changes: []change{own, phase(medik8s.PhaseSucceeded, 3), withLease(ReasonLost, 6*time.Minute)}, err: held,
			want: ReasonLost, cordon: ReasonCordoned, errors: 4, counted: true, retry: delay.Lease,
		},
		"given up: failed, and waits": {
			changes: []change{phase(medik8s.PhaseFailed, 4), withLease(ReasonLost, time.Hour)}, err: held,
			want: ReasonLost, errors: 4, retry: delay.Lease, failed: true,
		},
		"denied": {err: denied, want: ReasonDenied, retry: delay.Denied},
		"denied since the namespace is missing": {
			changes: []change{own}, err: missing, want: ReasonNamespace,
			cordon: ReasonCordoned, retry: delay.Denied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput(c.changes...)
			p := &Progress{LeaseErrors: in.Object.GetStatus().ErrorOnLeaseCount}
			if err := in.SetLease(p, time.Minute, c.err); err != nil {
				t.Fatal(err)
			}
			if p.Lease.Reason != c.want || p.Lease.Met != (c.err == nil) || p.Cordon.Reason != c.cordon || p.Requeue.Delay() != c.retry {
				t.Errorf("lease %+v, cordon %+v, again in %s", p.Lease, p.Cordon, p.Requeue.Delay())
			}
			if p.LeaseErrors != c.errors || p.LossCounted != c.counted || (p.Failure.Reason != "") != c.failed || in.GivesUp(p) != c.givesUp {
				t.Errorf("%d failures, counted %v, failure %+v, gives up %v", p.LeaseErrors, p.LossCounted, p.Failure, in.GivesUp(p))
			}
		})
	}
	p := &Progress{}
	if err := newInput().SetLease(p, 0, conflict); !errors.Is(err, conflict) || p.Lease.Reason != "" {
		t.Errorf("a conflict: %v, %+v", err, p.Lease)
	}
}

func TestProgress_SetReport(t *testing.T) {
	left := func(reason drain.Reason) []drain.RemainingPod {
		return []drain.RemainingPod{{Namespace: "ns", Name: "a", Reason: reason}}
	}
	for name, c := range map[string]struct {
		report   drain.Report
		reason   string
		blocked  bool
		patience time.Duration
	}{
		"no Pods":                          {drain.Report{}, ReasonDrained, false, 0},
		"Pods leave":                       {drain.Report{Remaining: left(drain.Evicting)}, ReasonDraining, false, 0},
		"blocked for now":                  {drain.Report{Remaining: left(drain.Budget)}, ReasonBlocked, true, blockedPatience},
		"blocked until the budget changes": {drain.Report{Remaining: left(drain.BudgetNever)}, ReasonBlocked, true, 0},
		"the deadline is over":             {drain.Report{Remaining: left(drain.Budget), DeadlineExceeded: true}, ReasonLate, true, 0},
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
