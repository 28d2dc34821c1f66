package nodelease

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newLease returns a lease that was renewed some time ago; an empty holder is none.
func newLease(holder string, age time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(now.Add(-age))
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: new(int32(3600))}}
	if holder != "" {
		lease.Spec.HolderIdentity = &holder
	}
	return lease
}

func with(change func(*coordinationv1.LeaseSpec), lease *coordinationv1.Lease) *coordinationv1.Lease {
	change(&lease.Spec)
	return lease
}

func TestDecide(t *testing.T) {
	noTime := func(spec *coordinationv1.LeaseSpec) { spec.RenewTime = nil }
	noDuration := func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = nil }
	short := func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = new(int32(60)) }
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		want  Step
	}{
		"does not exist":                           {nil, Create},
		"own, renewal not due":                     {newLease("own", time.Minute), Keep},
		"own, a third of its duration is over":     {newLease("own", 20*time.Minute), Renew},
		"own, just before that":                    {newLease("own", 20*time.Minute-time.Second), Keep},
		"own, expired":                             {newLease("own", 2*time.Hour), Renew},
		"own, no renewal time":                     {with(noTime, newLease("own", 0)), Renew},
		"own, no duration":                         {with(noDuration, newLease("own", 0)), Renew},
		"own, shorter duration":                    {with(short, newLease("own", 0)), Renew},
		"own, renewed in the future":               {newLease("own", -time.Minute), Renew},
		"of another holder, valid":                 {newLease("other", time.Minute), Wait},
		"of another holder, about to expire":       {newLease("other", time.Hour), Wait},
		"of another holder, expired":               {newLease("other", time.Hour+time.Second), TakeOver},
		"of another holder, renewed in the future": {newLease("other", -time.Minute), TakeOver},
		"of another holder, no renewal time":       {with(noTime, newLease("other", 0)), TakeOver},
		"of another holder, no duration":           {with(noDuration, newLease("other", 0)), TakeOver},
		"no holder, valid":                         {newLease("", time.Minute), Wait},
		"no holder, expired":                       {newLease("", 2*time.Hour), TakeOver},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(test.lease, "own", now); got != test.want {
				t.Errorf("the step is %s, want %s", got, test.want)
			}
		})
	}
}

func TestApply(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: "1234"}}
	acquired := metav1.NewMicroTime(now.Add(-time.Hour))
	for name, test := range map[string]struct {
		before          *coordinationv1.Lease
		step            Step
		wantTransitions int32
		wantAcquired    time.Time
	}{
		"new lease": {&coordinationv1.Lease{}, Create, 0, now},
		"renewal: the acquire time stays": {with(func(s *coordinationv1.LeaseSpec) {
			s.AcquireTime, s.LeaseTransitions = &acquired, new(int32(3))
		}, newLease("own", time.Hour)), Renew, 3, acquired.Time},
		"renewal without an acquire time: it is set": {with(func(s *coordinationv1.LeaseSpec) {
			s.LeaseTransitions = new(int32(3))
		}, newLease("own", time.Hour)), Renew, 3, now},
		"renewal of an incomplete lease: a transition is counted": {with(func(s *coordinationv1.LeaseSpec) {
			s.RenewTime, s.AcquireTime, s.LeaseTransitions = nil, &acquired, new(int32(3))
		}, newLease("own", 0)), Renew, 4, now},
		"take-over: a transition is counted": {with(func(s *coordinationv1.LeaseSpec) {
			s.AcquireTime, s.LeaseTransitions = &acquired, new(int32(3))
		}, newLease("other", 2*time.Hour)), TakeOver, 4, now},
		"take-over without a count: the first transition": {newLease("other", 2*time.Hour), TakeOver, 1, now},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.before
			Apply(got, test.step, "own", node, now)
			spec := got.Spec
			if *spec.HolderIdentity != "own" || *spec.LeaseDurationSeconds != 3600 || !spec.RenewTime.Time.Equal(now) {
				t.Errorf("the lease is %+v", spec)
			}
			if spec.LeaseTransitions == nil || *spec.LeaseTransitions != test.wantTransitions {
				t.Errorf("transitions are %v, want %d", spec.LeaseTransitions, test.wantTransitions)
			}
			if !spec.AcquireTime.Time.Equal(test.wantAcquired) {
				t.Errorf("acquired at %s, want %s", spec.AcquireTime, test.wantAcquired)
			}
			if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "1234" {
				t.Errorf("owners are %v", got.OwnerReferences)
			}
			if next := Decide(got, "own", now); next != Keep {
				t.Errorf("the next step is %s", next)
			}
		})
	}
}
