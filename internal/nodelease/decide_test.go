package nodelease

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// lease makes a lease that was renewed so long ago. An empty holder is none.
func lease(holder string, age time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(now.Add(-age))
	made := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: new(int32(3600))}}
	if holder != "" {
		made.Spec.HolderIdentity = &holder
	}
	return made
}

func without(change func(*coordinationv1.LeaseSpec), from *coordinationv1.Lease) *coordinationv1.Lease {
	change(&from.Spec)
	return from
}

func TestDecide(t *testing.T) {
	noTime := func(spec *coordinationv1.LeaseSpec) { spec.RenewTime = nil }
	noDuration := func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = nil }
	short := func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = new(int32(60)) }
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		want  Step
	}{
		"absent":                                  {nil, Create},
		"ours and fresh":                          {lease("us", time.Minute), Keep},
		"ours, a third of its time over":          {lease("us", 20*time.Minute), Renew},
		"ours, just before that":                  {lease("us", 20*time.Minute-time.Second), Keep},
		"ours and expired":                        {lease("us", 2*time.Hour), Renew},
		"ours, without a renewal":                 {without(noTime, lease("us", 0)), Renew},
		"ours, without a duration":                {without(noDuration, lease("us", 0)), Renew},
		"ours, for a shorter time":                {without(short, lease("us", 0)), Renew},
		"ours, renewed in the future":             {lease("us", -time.Minute), Renew},
		"another's and valid":                     {lease("them", time.Minute), Wait},
		"another's at its last moment":            {lease("them", time.Hour), Wait},
		"another's and expired":                   {lease("them", time.Hour+time.Second), TakeOver},
		"another's, renewed in the future":        {lease("them", -time.Minute), TakeOver},
		"another's, without a renewal":            {without(noTime, lease("them", 0)), TakeOver},
		"another's, without a duration":           {without(noDuration, lease("them", 0)), TakeOver},
		"nobody's and valid: who let go may know": {lease("", time.Minute), Wait},
		"nobody's and expired":                    {lease("", 2*time.Hour), TakeOver},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(test.lease, "us", now); got != test.want {
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
		"a new lease": {&coordinationv1.Lease{}, Create, 0, now},
		"a renewal keeps when it was acquired": {without(func(s *coordinationv1.LeaseSpec) {
			s.AcquireTime, s.LeaseTransitions = &acquired, new(int32(3))
		}, lease("us", time.Hour)), Renew, 3, acquired.Time},
		"a renewal fills in when it was acquired": {without(func(s *coordinationv1.LeaseSpec) {
			s.LeaseTransitions = new(int32(3))
		}, lease("us", time.Hour)), Renew, 3, now},
		"an incomplete one begins anew": {without(func(s *coordinationv1.LeaseSpec) {
			s.RenewTime, s.AcquireTime, s.LeaseTransitions = nil, &acquired, new(int32(3))
		}, lease("us", 0)), Renew, 4, now},
		"a take-over counts": {without(func(s *coordinationv1.LeaseSpec) {
			s.AcquireTime, s.LeaseTransitions = &acquired, new(int32(3))
		}, lease("them", 2*time.Hour)), TakeOver, 4, now},
		"a take-over of one that never counted": {lease("them", 2*time.Hour), TakeOver, 1, now},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.before
			Apply(got, test.step, "us", node, now)
			spec := got.Spec
			if *spec.HolderIdentity != "us" || *spec.LeaseDurationSeconds != 3600 || !spec.RenewTime.Time.Equal(now) {
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
			if next := Decide(got, "us", now); next != Keep {
				t.Errorf("right after that the step is %s", next)
			}
		})
	}
}
