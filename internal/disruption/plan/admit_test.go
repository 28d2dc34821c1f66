package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

type admitCase struct {
	group   *fixture
	request Request
	// wantReason is empty for a request that is admitted; wantMessage is part of the message.
	wantReason, wantMessage string
	wantAfter               time.Duration
}

func (c *admitCase) run(t *testing.T) {
	t.Helper()
	answer := Admit(&c.group.Input, &c.request)
	if answer.Allowed != (c.wantReason == "") || answer.Reason != c.wantReason || !strings.Contains(answer.Message, c.wantMessage) {
		t.Errorf("allowed %v, reason %q: %s", answer.Allowed, answer.Reason, answer.Message)
	}
	isRecorded := answer.Admission != nil && answer.Admission.Node == c.request.Node && answer.Admission.UID == c.request.UID
	if c.wantReason == "" && !c.request.Begun && !isRecorded {
		t.Errorf("the admission is %+v", answer.Admission)
	}
	if c.wantReason != "" && (!strings.HasPrefix(answer.Message, "NodeGroup workers: ") || answer.After != c.wantAfter) {
		t.Errorf("ask again after %s: %s", answer.After, answer.Message)
	}
}

func TestAdmit_Budget(t *testing.T) {
	n0 := newRequest("n0", upgrade)
	uninitialized := withTaint("drover.dev/uninitialized", corev1.TaintEffectNoSchedule)
	for name, test := range map[string]admitCase{
		"nothing is unavailable": {newFixture(3), n0, "", "", 0},
		"another Node is cordoned": {
			newFixture(3, withNode(1, cordoned)),
			n0, ReasonBudgetExhausted, "1 of 3 Nodes are unavailable, and maxUnavailable is 1: n1 (Cordoned)", Recheck,
		},
		"another Node is leased":      {newFixture(3, withLease("n1")), n0, ReasonBudgetExhausted, "n1 (Leased)", Recheck},
		"another Node is not Ready":   {newFixture(3, withNode(1, notReady)), n0, ReasonBudgetExhausted, "n1 (NotReady)", Recheck},
		"another Node is disrupted":   {newFixture(3, withDisruption("n1", metadata)), n0, ReasonBudgetExhausted, "n1 (disrupted for Metadata)", Recheck},
		"a disrupted Node is gone":    {newFixture(3, withDisruption("gone", remediation)), n0, ReasonBudgetExhausted, "1 of 4 Nodes", Recheck},
		"another Node is joining":     {newFixture(3, withNode(1, notReady, uninitialized)), n0, "", "", 0},
		"a joining Node is disrupted": {newFixture(3, withNode(1, uninitialized), withDisruption("n1", remediation)), n0, "", "", 0},
		"the lease of a Node of another group": {
			newFixture(3, withLease("elsewhere")), n0, "", "", 0,
		},
		"the Node is unavailable itself":         {newFixture(3, withNode(0, cordoned)), n0, "", "", 0},
		"the Node is unavailable, and so is one": {newFixture(3, withNode(0, cordoned), withNode(1, notReady)), n0, "", "", 0},
		"the Node is unavailable, a Ready one disrupted": {
			newFixture(3, withNode(0, cordoned), withDisruption("n1", upgrade)), n0, ReasonBudgetExhausted, "2 of 3", Recheck,
		},
		"the Node is not Ready": {
			newFixture(3, withNode(0, notReady), withDisruption("n1", upgrade), withDisruption("n2", upgrade)), n0, "", "", 0,
		},
		"the Node is joining": {newFixture(3, withNode(0, uninitialized), withDisruption("n1", upgrade)), n0, "", "", 0},
		"the Node is gone":    {newFixture(3, withDisruption("n1", upgrade)), newRequest("gone", remediation), "", "", 0},
		"the Node was created again": {
			newFixture(3, withDisruption("n0", upgrade), withNode(0, func(n *corev1.Node) { n.UID = "new" })),
			Request{Node: "n0", UID: "new", Capability: metadata}, ReasonBudgetExhausted, "1 of 4", Recheck,
		},
		"the Node is disrupted for another": {newFixture(3, withDisruption("n0", maintenance)), n0, "", "", 0},
		"two disruptions of one Node": {
			newFixture(4, withMax("2"), withDisruption("n1", maintenance), withDisruption("n1", metadata)), n0, "", "", 0,
		},
		"the Node is returning": {newFixture(3, withReturning("n0")), n0, "", "", 0},
		"the Node is returning, another one is not Ready": {
			newFixture(3, withReturning("n0"), withNode(1, notReady)), n0, ReasonBudgetExhausted, "2 of 3", Recheck,
		},
		"another Node is returning":   {newFixture(3, withReturning("n1")), n0, ReasonBudgetExhausted, "n1 (Returning)", Recheck},
		"maxUnavailable 0":            {newFixture(3, withMax("0")), n0, ReasonBudgetExhausted, "maxUnavailable is 0", Recheck},
		"maxUnavailable 0, not Ready": {newFixture(3, withMax("0"), withNode(0, notReady)), n0, "", "", 0},
		"maxUnavailable 2, one":       {newFixture(3, withMax("2"), withNode(1, cordoned)), n0, "", "", 0},
		"maxUnavailable 2, two": {
			newFixture(3, withMax("2"), withNode(1, cordoned), withLease("n2")), n0, ReasonBudgetExhausted, "2 of 3", Recheck,
		},
		"5% of ten is one, none": {newFixture(10, withMax("5%")), n0, "", "", 0},
		"5% of ten is one, one": {
			newFixture(10, withMax("5%"), withNode(1, cordoned)), n0, ReasonBudgetExhausted, "maxUnavailable is 1 (5%)", Recheck,
		},
		"50% of three is two": {newFixture(3, withMax("50%"), withNode(1, cordoned)), n0, "", "", 0},
		"50% of the two initialized": {
			newFixture(3, withMax("50%"), withNode(1, cordoned), withNode(2, uninitialized)), n0, ReasonBudgetExhausted, "1 of 2", Recheck,
		},
		"not a number": {newFixture(3, withMax("many")), n0, ReasonBudgetExhausted, "", Recheck},
		"names are bounded": {
			newFixture(9, withNode(1, cordoned), withNode(2, cordoned), withNode(3, cordoned), withNode(4, cordoned), withNode(5, cordoned),
				withNode(6, cordoned)),
			n0, ReasonBudgetExhausted, "n5 (Cordoned), and 1 more", Recheck,
		},
		"a leased Node that is cordoned once": {
			newFixture(3, withMax("2"), withNode(1, cordoned), withLease("n1"), withDisruption("n1", upgrade)), n0, "", "", 0,
		},
	} {
		t.Run(name, test.run)
	}
}

func TestAdmit_Ceilings(t *testing.T) {
	one, max := newRequest("n0", upgrade), withMax("5")
	limits := func(inFlight string, interval time.Duration) func(*fixture) {
		return withSpec(func(spec *v1alpha1.Disruption) {
			spec.Remediation = &v1alpha1.RemediationPace{MaxInFlight: new(intstr.Parse(inFlight)), MinInterval: &metav1.Duration{Duration: interval}}
		})
	}
	remediated := func(ago time.Duration) func(*fixture) {
		return func(f *fixture) { f.Group.Status.LastRemediationTime = &metav1.Time{Time: now.Add(-ago)} }
	}
	dead := newFixture(6, max, withNode(0, notReady), withNode(1, notReady), withDisruption("n1", remediation))
	for name, test := range map[string]admitCase{
		"below": {newFixture(6, max, withCeiling(upgrade, "2"), withDisruption("n1", upgrade)), one, "", "", 0},
		"reached": {
			newFixture(6, max, withCeiling(upgrade, "1"), withDisruption("n1", upgrade)),
			one, ReasonCapabilityExhausted, "1 Nodes are disrupted for Upgrade, and its maxUnavailable is 1", Recheck,
		},
		"reached by another": {newFixture(6, max, withCeiling(upgrade, "1"), withDisruption("n1", metadata)), one, "", "", 0},
		"of another":         {newFixture(6, max, withCeiling(metadata, "0")), one, "", "", 0},
		"percentage": {
			newFixture(6, max, withCeiling(upgrade, "20%"), withDisruption("n1", upgrade), withDisruption("n2", upgrade)),
			one, ReasonCapabilityExhausted, "2 (20%)", Recheck,
		},
		"reached by a Node that restarts": {
			newFixture(6, max, withCeiling(upgrade, "1"), withDisruption("n1", upgrade), withNode(1, notReady)), one, ReasonCapabilityExhausted, "", Recheck,
		},
		"reached, the Node is not Ready": {
			newFixture(6, max, withCeiling(upgrade, "1"), withDisruption("n1", upgrade), withNode(0, notReady)), one, ReasonCapabilityExhausted, "", Recheck,
		},
		"reached by the Node itself, for another object": {
			newFixture(6, max, withCeiling(upgrade, "1"), withDisruption("n0", upgrade)),
			Request{Node: "n0", UID: "uid-of-n0", Capability: upgrade, Object: "x"}, "", "", 0,
		},

		"remediation: one is in flight by default": {
			dead, newRequest("n0", remediation), ReasonRemediationsLimited, "1 remediations are in flight, and maxInFlight is 1", Recheck,
		},
		"remediation: two may be": {
			newFixture(6, max, limits("2", 0), withDisruption("n1", remediation)), newRequest("n0", remediation), "", "", 0,
		},
		"remediation: in flight until it is replaced": {
			newFixture(6, max, withDisruption("gone", remediation)), newRequest("n0", remediation), ReasonRemediationsLimited, "", Recheck,
		},
		"remediation: interval over": {
			newFixture(6, max, limits("2", time.Hour), withDisruption("n1", remediation)), newRequest("n0", remediation), "", "", 0,
		},
		"remediation: interval not over": {
			newFixture(6, max, limits("2", 90*time.Minute), withDisruption("n1", remediation)), newRequest("n0", remediation), ReasonRemediationInterval,
			"the last remediation began at 2026-11-23T11:00:00Z, and minInterval is 1h30m0s", Recheck,
		},
		"remediation: interval since one that is over": {
			newFixture(6, max, limits("2", time.Hour), remediated(time.Minute)),
			newRequest("n0", remediation), ReasonRemediationInterval, "", Recheck,
		},
		"remediation: the last one by a clock that was a day ahead": {
			newFixture(6, max, limits("2", time.Hour), remediated(-24*time.Hour)), newRequest("n0", remediation), "", "", 0,
		},
		"remediation: interval not over, and another by a clock that was a day ahead": {
			newFixture(6, max, limits("2", time.Hour), remediated(time.Minute), withDisruption("n1", remediation), func(f *fixture) {
				f.Disrupted[0].Time = metav1.NewTime(now.Add(24 * time.Hour))
			}),
			newRequest("n0", remediation), ReasonRemediationInterval, "", Recheck,
		},
		"remediation limits another capability": {dead, newRequest("n2", upgrade), "", "", 0},
	} {
		t.Run(name, test.run)
	}
}

func TestAdmit_SuspendAndWindows(t *testing.T) {
	suspended := func(f *fixture) { f.Group.Spec.Suspend = true }
	closed := withWindow(Window{Closed: true, Reason: ReasonWindowClosed, Message: "no window is open until 22:00", Changes: now.Add(10 * time.Hour)})
	frozen := withWindow(Window{Closed: true, Reason: ReasonFrozen, Message: "frozen for the holidays"})
	exemptions := withSpec(func(spec *v1alpha1.Disruption) { spec.Exempt = []v1alpha1.Capability{remediation} })
	for name, test := range map[string]admitCase{
		"suspended":            {newFixture(3, suspended), newRequest("n0", upgrade), ReasonSuspended, "spec.suspend is set", Recheck},
		"suspended, not Ready": {newFixture(3, suspended, withNode(0, notReady)), newRequest("n0", remediation), ReasonSuspended, "", Recheck},
		"window closed":        {newFixture(3, closed), newRequest("n0", upgrade), ReasonWindowClosed, "until 22:00", Recheck},
		"window closed, recorded": {
			newFixture(3, closed, withDisruption("n0", upgrade)), newRequest("n0", upgrade), ReasonWindowClosed, "", Recheck,
		},
		"window closed, recorded and begun": {newFixture(3, closed, withDisruption("n0", upgrade)), begun(newRequest("n0", upgrade)), "", "", 0},
		"frozen":                            {newFixture(3, frozen), newRequest("n0", upgrade), ReasonFrozen, "holidays", Recheck},
		"window closed, exempt":             {newFixture(3, closed, exemptions), newRequest("n0", remediation), "", "", 0},
		"window closed, another is exempt":  {newFixture(3, closed, exemptions), newRequest("n0", upgrade), ReasonWindowClosed, "", Recheck},
		"window closed, none is exempt":     {newFixture(3, closed), newRequest("n0", remediation), ReasonWindowClosed, "", Recheck},
	} {
		t.Run(name, test.run)
	}
}

func TestAdmit_Person(t *testing.T) {
	queue := withSpec(func(spec *v1alpha1.Disruption) { spec.PersonMaintenance = v1alpha1.PersonQueue })
	closed := withWindow(Window{Closed: true, Reason: ReasonWindowClosed, Message: "no window is open"})
	suspended := func(f *fixture) { f.Group.Spec.Suspend = true }
	unlimited := func(f *fixture) { f.Group.Spec.Disruption = nil }
	request := byPerson(newRequest("n0", maintenance))
	for name, test := range map[string]struct {
		group              *fixture
		allowed            bool
		reason, message    string
		withoutReservation bool
	}{
		"within the budget":        {newFixture(3), true, "", "", false},
		"Report: budget exhausted": {newFixture(3, withNode(1, cordoned)), true, ReasonBudgetExceeded, "n1 (Cordoned)", false},
		"Report: ceiling reached":  {newFixture(3, withCeiling(maintenance, "0")), true, ReasonBudgetExceeded, "maxUnavailable is 0", false},
		"Report: window closed":    {newFixture(3, closed), true, ReasonBudgetExceeded, "no window is open", false},
		"Report: window closed, recorded": {
			newFixture(3, closed, withDisruption("n0", maintenance)), true, ReasonBudgetExceeded, "no window is open", false,
		},
		"Report: suspended":                  {newFixture(3, suspended), true, ReasonBudgetExceeded, "spec.suspend is set", false},
		"Report: suspended, recorded":        {newFixture(3, suspended, withDisruption("n0", maintenance)), true, ReasonBudgetExceeded, "", false},
		"suspended, without a budget":        {newFixture(3, suspended, unlimited), true, ReasonBudgetExceeded, "spec.suspend is set", true},
		"Report: others wait":                {newFixture(3, withWaiting("n1", remediation, 2*time.Hour)), true, "", "", false},
		"Report: reservations full":          {newFixture(3, withManyReservations), true, ReasonBudgetExceeded, "512", true},
		"Report: suspended, full":            {newFixture(3, suspended, withManyReservations), true, ReasonBudgetExceeded, "spec.suspend is set", true},
		"Queue: within the budget":           {newFixture(3, queue), true, "", "", false},
		"Queue: budget exhausted":            {newFixture(3, queue, withNode(1, cordoned)), false, ReasonBudgetExhausted, "n1 (Cordoned)", true},
		"Queue: suspended":                   {newFixture(3, queue, suspended), false, ReasonSuspended, "spec.suspend is set", true},
		"Queue: window closed":               {newFixture(3, queue, closed), false, ReasonWindowClosed, "no window is open", true},
		"Queue: reservations full":           {newFixture(3, queue, withManyReservations), false, ReasonTooManyReservations, "512", true},
		"Queue: a remediation waits: second": {newFixture(3, queue, withWaiting("n1", remediation, time.Minute)), true, "", "", false},
		"Queue: one waits for an hour: next": {
			newFixture(3, queue, withWaiting("n1", replacement, time.Hour)), false, ReasonQueued, "Replacement of Node n1", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := Admit(&test.group.Input, &request)
			if answer.Allowed != test.allowed || answer.Reason != test.reason || !strings.Contains(answer.Message, test.message) {
				t.Errorf("allowed %v, reason %q: %s", answer.Allowed, answer.Reason, answer.Message)
			}
			if (answer.Admission == nil) != test.withoutReservation {
				t.Errorf("the reservation is %+v", answer.Admission)
			}
		})
	}
}

// withManyReservations has as many reservations as the status takes.
func withManyReservations(f *fixture) {
	withMax("100%")(f)
	for i := range MaxReservations / 2 {
		name := "gone-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		withDisruption(name, upgrade)(f)
		withDisruption(name, v1alpha1.CapabilityMaintenance)(f)
	}
}

func TestAdmit_TooManyReservations(t *testing.T) {
	for name, test := range map[string]admitCase{
		"Ready":     {newFixture(3, withManyReservations), newRequest("n0", upgrade), ReasonTooManyReservations, "512 Nodes are being disrupted", Recheck},
		"not Ready": {newFixture(3, withManyReservations, withNode(0, notReady)), newRequest("n0", upgrade), ReasonTooManyReservations, "", Recheck},
	} {
		t.Run(name, test.run)
	}
}

func TestAdmit_NoBudget(t *testing.T) {
	withoutBudget := newFixture(3, func(f *fixture) { f.Group.Spec.Disruption = nil })
	for name, in := range map[string]*Input{"no group": {Now: now}, "no spec.disruption": &withoutBudget.Input} {
		request := newRequest("n0", upgrade)
		if answer := Admit(in, &request); !answer.Allowed || answer.Admission != nil {
			t.Errorf("%s: %+v", name, answer)
		}
	}
	suspended := newFixture(3, func(f *fixture) { f.Group.Spec.Disruption, f.Group.Spec.Suspend = nil, true })
	request := newRequest("n0", upgrade)
	if answer := Admit(&suspended.Input, &request); answer.Allowed || answer.Reason != ReasonSuspended {
		t.Errorf("suspended: %+v", answer)
	}
	started := begun(request)
	if answer := Admit(&suspended.Input, &started); !answer.Allowed {
		t.Errorf("suspended, and begun: %+v", answer)
	}
	suspended.Waiting.Put(request)
	if next := Next(&suspended.Input, 1); len(next) > 0 {
		t.Errorf("suspended: %v are next", next)
	}
	suspended.Group.Spec.Suspend = false
	if next := Next(&suspended.Input, 1); len(next) != 1 {
		t.Errorf("resumed: %v are next", next)
	}
}

// What the cluster shows of a request's own work, or its own admission, does not count against it; the budget and the windows do.
func TestAdmit_OwnPlace(t *testing.T) {
	two, closed := withMax("2"), withWindow(Window{Closed: true, Reason: ReasonWindowClosed, Message: "closed"})
	own, other := withDisruption("n0", upgrade), withDisruption("n1", metadata)
	paced := func(f *fixture) {
		withSpec(func(spec *v1alpha1.Disruption) {
			spec.Remediation = &v1alpha1.RemediationPace{MinInterval: &metav1.Duration{Duration: 2 * time.Hour}}
		})(f)
		f.Group.Status.LastRemediationTime = &f.Disrupted[0].Time
	}
	request := newRequest("n0", upgrade)
	another := request
	another.Object = "x"
	for name, test := range map[string]struct {
		group   *fixture
		request Request
		want    string
	}{
		"within the budget":                   {newFixture(3, two, own, other), request, ""},
		"it does not count against itself":    {newFixture(3, own, withNode(0, cordoned)), request, ""},
		"as many others as the budget":        {newFixture(3, own, withNode(1, cordoned)), request, ReasonBudgetExhausted},
		"begun, as many others as the budget": {newFixture(3, own, withNode(1, cordoned)), begun(request), ""},
		"the budget is smaller now":           {newFixture(3, own, other), request, ReasonBudgetExhausted},
		"its own remediation is the last one": {newFixture(3, withDisruption("n0", remediation), paced), newRequest("n0", remediation), ""},
		"another waits: it has its place":     {newFixture(3, own, withWaiting("n1", remediation, 2*time.Hour)), request, ""},
		"window closed":                       {newFixture(3, own, closed), request, ReasonWindowClosed},
		"of another object":                   {newFixture(3, two, withCeiling(upgrade, "0"), own), another, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := Admit(&test.group.Input, &test.request)
			if answer.Allowed != (test.want == "") || answer.Reason != test.want {
				t.Errorf("allowed %v, reason %q: %s", answer.Allowed, answer.Reason, answer.Message)
			}
			if want := Count(&test.group.Input); answer.Allowed && !test.request.Begun && answer.Counts != want {
				t.Errorf("the counts are %+v, want %+v", answer.Counts, want)
			}
		})
	}
}

// An admission counts for a minute. It counts too if the clock that recorded it was a little ahead, but not if that clock was wrong.
func TestFreshAdmissions(t *testing.T) {
	for name, test := range map[string]struct {
		age  time.Duration
		want int
	}{
		"new": {0, 1}, "almost a minute old": {59 * time.Second, 1}, "a minute old": {time.Minute, 0}, "a little ahead": {-10 * time.Second, 1},
		"an hour ahead": {-time.Hour, 0},
	} {
		group := &v1alpha1.NodeGroup{}
		group.Status.Admissions = []v1alpha1.Reservation{{Node: "n0", Time: metav1.NewTime(now.Add(-test.age))}}
		if got := FreshAdmissions(group, now); len(got) != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAdmit_Counts(t *testing.T) {
	group := newFixture(10, withMax("30%"), withNode(1, cordoned), withDisruption("n2", upgrade), withDisruption("gone", remediation),
		withWaiting("n3", remediation, time.Minute))
	request := newRequest("n0", upgrade)
	want := Counts{Expected: 11, Limit: 4, Unavailable: 3, DisruptedReady: 1}
	if answer := Admit(&group.Input, &request); answer.Counts != want {
		t.Errorf("the counts are %+v, want %+v", answer.Counts, want)
	}
	if got := Count(&group.Input); got != want {
		t.Errorf("the counts are %+v, want %+v", got, want)
	}
}

// TestCount_SignsOfOneNode: whatever is written to one Node, it counts once, and the budget has its other places.
func TestCount_SignsOfOneNode(t *testing.T) {
	const noSchedule = corev1.TaintEffectNoSchedule
	signs := []change{
		notReady, cordoned, withTaint("karpenter.sh/disrupted", noSchedule), withTaint("medik8s.io/drain", noSchedule), withDrain("drain-b", "drain-a"),
		withMachineConfig("a", "b", "Working"), withAnnotations("weave.works/kured-reboot-in-progress", "x"),
		withCondition(corev1.NodeDrained, corev1.ConditionTrue), withCondition(corev1.NodeMaintenanceInProgress, corev1.ConditionTrue),
		withCondition(corev1.NodeDrainInProgress, corev1.ConditionTrue),
	}
	for at := range signs {
		f := newFixture(4, withMax("2"), withNode(0, signs[:at+1]...), withLease("n0"), withDisruption("n0", maintenance), withDisruption("n0", upgrade))
		if counts := Count(&f.Input); counts.Unavailable != 1 || counts.Expected != 4 {
			t.Errorf("with %d signs the counts are %+v", at+1, counts)
		}
		request := newRequest("n1", maintenance)
		if answer := Admit(&f.Input, &request); !answer.Allowed {
			t.Errorf("with %d signs another Node waits: %s", at+1, answer.Message)
		}
	}
}
