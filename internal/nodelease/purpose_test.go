package nodelease

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestPurpose: a lease says what it is for, until another purpose, another holder or the end of its time; a trial expires soon unless the work renews
// it.
func TestPurpose(t *testing.T) {
	work := Purpose{Capability: "Upgrade", Object: "MutexRunConfig/ns/run", UID: "run", Group: "workers"}
	trial := Purpose{Capability: "Remediation", Object: "Machine/ns/a", UID: "a", Trial: true}
	withoutGroup := work
	withoutGroup.Group = ""
	other := work
	other.UID = "again"
	held := func(p Purpose, holder string, age time.Duration) *coordinationv1.Lease {
		lease := &coordinationv1.Lease{}
		p.apply(lease, Create, holder, nil, now.Add(-age))
		return lease
	}
	for name, c := range map[string]struct {
		lease    *coordinationv1.Lease
		purpose  Purpose
		want     Step
		says     Purpose
		duration time.Duration
	}{
		"a new one":        {nil, work, Create, work, Duration},
		"the same purpose": {held(work, "own", time.Minute), work, Keep, work, Duration},
		"the same purpose, the group is not known": {held(work, "own", time.Minute), withoutGroup, Keep, work, Duration},
		"another object of the name":               {held(work, "own", time.Minute), other, Renew, other, Duration},
		"none: it is renewed":                      {held(work, "own", RenewAfter), Purpose{}, Renew, work, Duration},
		"none: it has expired":                     {held(work, "own", 2*Duration), Purpose{}, Renew, Purpose{}, Duration},
		"of another holder, expired":               {held(work, "other", 2*Duration), Purpose{}, TakeOver, Purpose{}, Duration},
		"a new trial":                              {nil, trial, Create, trial, Trial},
		"a trial again":                            {held(trial, "own", time.Second), trial, Keep, trial, Trial},
		"a trial again, about to expire":           {held(trial, "own", 50*time.Second), trial, Renew, trial, Trial},
		"the work of a trial begins":               {held(trial, "own", time.Second), Purpose{}, Renew, trial, Duration},
		"a trial does not shorten the lease of a work": {
			held(work, "own", RenewAfter), Purpose{Capability: "Remediation", Trial: true}, Renew, Purpose{Capability: "Remediation"}, Duration,
		},
	} {
		t.Run(name, func(t *testing.T) {
			step := c.purpose.step(c.lease, Decide(c.lease, "own", now), now)
			lease := c.lease
			if lease == nil {
				lease = &coordinationv1.Lease{}
			}
			if step != Keep {
				c.purpose.apply(lease, step, "own", nil, now)
			}
			c.says.Trial = false
			if says := PurposeOf(lease); step != c.want || says != c.says || time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second != c.duration {
				t.Errorf("%s, it says %+v for %d s", step, says, *lease.Spec.LeaseDurationSeconds)
			}
		})
	}
}
