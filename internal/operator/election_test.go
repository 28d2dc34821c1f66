package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// countedLock counts writes.
type countedLock struct {
	resourcelock.Interface
	holder        string
	reads, writes int
	err           error
}

func (l *countedLock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return l.write()
}

func (l *countedLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	return l.write()
}

func (l *countedLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.reads++
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, nil
}

func (l *countedLock) Identity() string { return "a" }

func (l *countedLock) write() error {
	l.writes++
	return l.err
}

// TestRenewals: a leader whose elector renews four times in each period writes the lease once in each; all other writes are made at once.
func TestRenewals(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	lock := &countedLock{}
	r := &renewals{Interface: lock, period: 2 * time.Second, clock: clock}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "a", AcquireTime: metav1.Now()}
	update := func(after time.Duration, change func()) {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		record.RenewTime = metav1.NewTime(clock.Now())
		change()
		if err := r.Update(t.Context(), record); !errors.Is(err, lock.err) {
			t.Errorf("error %v", err)
		}
	}
	same := func() {}
	expect := func(want int) {
		t.Helper()
		if lock.writes != want {
			t.Errorf("%d writes, want %d", lock.writes, want)
		}
	}
	if err := r.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		update(499*time.Millisecond, same) // attempts are a little early
	}
	expect(1 + 10)
	update(0, func() { record.HolderIdentity = "" })
	expect(12)
	update(0, func() { record.HolderIdentity, record.LeaderTransitions = "a", 1 }) // another process would have this identity
	expect(13)
	// After a failure the next attempt writes.
	update(2*time.Second, func() { lock.err = errors.New("unavailable") })
	update(500*time.Millisecond, same)
	expect(15)
	update(500*time.Millisecond, func() { lock.err = nil })
	update(500*time.Millisecond, same)
	expect(16)
}

// TestRenewals_ReleaseAfterFailure: a leader that could not renew its lease does not try to release it, which would delay the end of its work,
// and none releases the lease of another.
func TestRenewals_ReleaseAfterFailure(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	lock := &countedLock{holder: "b"}
	r := &renewals{Interface: lock, period: 2 * time.Second, deadline: 10 * time.Second, clock: clock}
	if _, _, err := r.Get(t.Context()); err != nil {
		t.Fatalf("a candidate cannot read the lease: %v", err)
	}
	if err := r.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil || lock.writes != 0 {
		t.Error("it released the lease of another")
	}
	if err := r.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(9 * time.Second))
	if _, _, err := r.Get(t.Context()); err != nil {
		t.Errorf("within the deadline: %v", err)
	}
	clock.SetTime(clock.Now().Add(2 * time.Second))
	if _, _, err := r.Get(t.Context()); !errors.Is(err, errLost) || lock.reads != 2 {
		t.Errorf("after the deadline: %v, %d reads", err, lock.reads)
	}
}

// TestRenewalPeriod: a leader that cannot renew ends before another may take over.
func TestRenewalPeriod(t *testing.T) {
	for _, c := range []struct{ lease, renew, retry, want time.Duration }{
		{15 * time.Second, 10 * time.Second, 2 * time.Second, 2 * time.Second},
		{137 * time.Second, 107 * time.Second, 26 * time.Second, 15 * time.Second},
		{3 * time.Second, 2 * time.Second, time.Second, 500 * time.Millisecond},
		{60 * time.Second, 55 * time.Second, 26 * time.Second, 2500 * time.Millisecond},
	} {
		duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
		election := v1alpha1.LeaderElection{LeaseDuration: duration(c.lease), RenewDeadline: duration(c.renew), RetryPeriod: duration(c.retry)}
		got := renewalPeriod(election)
		// The attempt after a period may be late by 2.2 of the times between two attempts.
		if got != c.want || got+attemptPeriod(election)*22/10+c.renew >= c.lease {
			t.Errorf("%v: %s, want %s", c, got, c.want)
		}
	}
}
