package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

const (
	lost    = "Machine/openshift-machine-api/a"
	another = "Machine/openshift-machine-api/b"
)

func withRemediations(most string) func(*fixture) {
	return withSpec(func(spec *v1alpha1.Disruption) {
		spec.Remediation = &v1alpha1.RemediationPace{MaxInFlight: new(intstr.Parse(most))}
	})
}

// TestAdmit_MachineWithoutNode: to delete a Machine that never had a Node makes no Node unavailable, and is a remediation like every other one.
func TestAdmit_MachineWithoutNode(t *testing.T) {
	inFlight, ofNode := withReservation(another, remediation), withReservation("n0", remediation)
	its, two := withReservation(lost, remediation), withRemediations("2")
	machine, node := newRequest(lost, remediation), newRequest("n0", remediation)
	for name, c := range map[string]struct {
		fixture *fixture
		request Request
		want    string
	}{
		"alone":                              {newFixture(3), machine, ""},
		"another one is in flight":           {newFixture(3, inFlight), machine, ReasonRemediationsLimited},
		"a Node's is in flight":              {newFixture(3, ofNode), machine, ReasonRemediationsLimited},
		"it is in flight, and a Node's":      {newFixture(3, its), node, ReasonRemediationsLimited},
		"two may be":                         {newFixture(3, two, inFlight), machine, ""},
		"two are":                            {newFixture(3, two, inFlight, ofNode), machine, ReasonRemediationsLimited},
		"a ceiling":                          {newFixture(3, two, withCeiling(remediation, "1"), inFlight), machine, ReasonCapabilityExhausted},
		"a percentage of no Nodes":           {newFixture(0, withRemediations("20%")), machine, ""},
		"none at all":                        {newFixture(3, withRemediations("0%")), machine, ReasonRemediationsLimited},
		"the budget is full":                 {newFixture(3, withReservation("n0", upgrade)), machine, ""},
		"it is in flight, and the others":    {newFixture(3, its), newRequest("n0", upgrade), ""},
		"another one waits for its turn":     {newFixture(3, withWaiting(another, remediation, time.Minute)), machine, ReasonQueued},
		"it has the place already":           {newFixture(3, its), machine, ""},
		"an earlier one of the same name is": {newFixture(3, its), withUID(machine, "new"), ReasonRemediationsLimited},
	} {
		t.Run(name, func(t *testing.T) {
			got := Admit(&c.fixture.Input, &c.request)
			if got.Reason != c.want || got.Allowed != (c.want == "") {
				t.Errorf("allowed %t, reason %q: %s", got.Allowed, got.Reason, got.Message)
			}
		})
	}
}

func withUID(request Request, uid types.UID) Request {
	request.UID = uid
	return request
}

// TestTally_MachineWithoutNode: neither the counts of a group nor the names of what is unavailable have a Machine that never had a Node.
func TestTally_MachineWithoutNode(t *testing.T) {
	f := newFixture(3, withReservation(lost, remediation), withReservation("n0", upgrade))
	if got, want := Count(&f.Input), (Counts{Expected: 3, Limit: 1, Unavailable: 1, ReservedReady: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := newTally(&f.Input).names(); got != "n0 (reserved for Upgrade)" {
		t.Errorf("unavailable are %s", got)
	}
}

func TestMachineName(t *testing.T) {
	key := types.NamespacedName{Namespace: "openshift-machine-api", Name: "a"}
	if name := MachineName(key); name != lost {
		t.Errorf("the name is %s", name)
	}
	for name, want := range map[string]types.NamespacedName{lost: key, "n0": {}, "Machine/": {}, "Machine/a": {Namespace: "a"}} {
		if got, _ := ParseMachineName(name); got != want {
			t.Errorf("%s is Machine %s", name, got)
		}
	}
	if _, found := ParseMachineName("Machine"); found {
		t.Error("a Node's name is a Machine's")
	}
}

// TestRequest_Matches: the reservation of a Machine's remediation may have the name of another Node, or of none.
func TestRequest_Matches(t *testing.T) {
	of := func(node string, capability v1alpha1.Capability, object string) Request {
		return Request{Node: node, UID: types.UID("uid-" + node), Capability: capability, Object: object}
	}
	for name, c := range map[string]struct {
		request, reserved Request
		want              bool
	}{
		"its own":                          {of("n0", remediation, lost), of("n0", remediation, lost), true},
		"it had no Node yet":               {of("n0", remediation, lost), of(lost, remediation, lost), true},
		"it keeps the place of another":    {of(lost, remediation, lost), of("n0", remediation, lost), true},
		"another Machine's":                {of("n0", remediation, lost), of(another, remediation, another), false},
		"another Machine's, of its Node":   {of("n0", remediation, lost), of("n0", remediation, another), false},
		"of another capability":            {of("n0", remediation, lost), of("n1", replacement, lost), false},
		"another Node of the same object":  {of("n0", metadata, lost), of("n1", metadata, lost), false},
		"another Node, and no Machine":     {of("n0", remediation, "x"), of("n1", remediation, "x"), false},
		"an earlier Node of the same name": {of("n0", remediation, lost), withUID(of("n0", remediation, lost), "old"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.request.Matches(new(c.reserved.reservation(now))); got != c.want {
				t.Errorf("it is %t", got)
			}
		})
	}
}

// made returns the request of a Machine that was made so long after the reservations of the fixture, and has never had a Ready Node.
func made(request Request, after time.Duration) Request {
	request.Made = now.Add(-time.Hour).Add(after)
	return request
}

// TestAdmit_Successor: a Machine that came for one that was remediated, and fails before its Node is Ready, keeps the place, and others do not get
// one by that.
func TestAdmit_Successor(t *testing.T) {
	interval := withSpec(func(spec *v1alpha1.Disruption) {
		spec.Remediation = &v1alpha1.RemediationPace{MinInterval: &metav1.Duration{Duration: 2 * time.Hour}}
	})
	gone, upgraded := withReservation("gone", remediation), withReservation("gone", upgrade)
	machine := newRequest(lost, remediation)
	withNode0 := Request{Node: "n0", UID: "uid-n0", Capability: remediation, Object: lost}
	for name, c := range map[string]struct {
		fixture *fixture
		request Request
		want    string
		// place is what is reserved.
		place string
	}{
		"it came for a Node":         {newFixture(3, gone), made(machine, 0), "", "gone"},
		"it came for a Machine":      {newFixture(3, withReservation(another, remediation)), made(machine, time.Minute), "", another},
		"it has a Node":              {newFixture(3, withNode(0, notReady), gone), made(withNode0, 0), "", "n0"},
		"it was there before":        {newFixture(3, gone), made(machine, -time.Second), ReasonRemediationsLimited, ""},
		"it has been Ready":          {newFixture(3, gone), machine, ReasonRemediationsLimited, ""},
		"the Node is still there":    {newFixture(3, withReservation("n0", remediation)), made(machine, 1), ReasonRemediationsLimited, ""},
		"it went for an upgrade":     {newFixture(3, withRemediations("0"), upgraded), made(machine, 1), ReasonRemediationsLimited, ""},
		"too soon":                   {newFixture(3, interval, gone), made(machine, 1), ReasonRemediationInterval, ""},
		"one that waits came for it": {newFixture(3, gone, waitsMade(another)), made(machine, -time.Second), ReasonRemediationsLimited, ""},
		"suspended":                  {newFixture(3, gone, suspended), made(machine, 1), ReasonSuspended, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := Count(&c.fixture.Input)
			got := Admit(&c.fixture.Input, &c.request)
			if got.Reason != c.want || got.Allowed != (c.want == "") {
				t.Fatalf("allowed %t, reason %q: %s", got.Allowed, got.Reason, got.Message)
			}
			if !got.Allowed {
				return
			}
			if r := got.Reservation; r.Node != c.place || r.Object != c.request.Object || !r.Time.Time.Equal(now) {
				t.Errorf("it is to reserve %+v", r)
			}
			if got.Passed == nil || *got.Passed != c.fixture.Group.Status.Reservations[0] {
				t.Errorf("it takes over %+v", got.Passed)
			}
			// It is recorded in the place of the other one, as the writer does it; then the next Machine does not get it.
			c.fixture.Group.Status.Reservations = []v1alpha1.Reservation{*got.Reservation}
			if after := Count(&c.fixture.Input); after.Limit != before.Limit || after.Unavailable > before.Unavailable || after.ReservedReady > 0 {
				t.Errorf("the counts were %+v and are %+v", before, after)
			}
			if again := Admit(&c.fixture.Input, &c.request); !again.Allowed || !again.Recorded {
				t.Errorf("asked again: %+v", again)
			}
			other := made(newRequest("Machine/openshift-machine-api/c", remediation), time.Minute)
			if next := Admit(&c.fixture.Input, &other); next.Reason != ReasonRemediationsLimited {
				t.Errorf("another one: reason %q, %s", next.Reason, next.Message)
			}
		})
	}
}

// waitsMade has the request of a Machine wait that was made after the reservations.
func waitsMade(name string) func(*fixture) {
	return func(f *fixture) { f.Waiting.Put(made(newRequest(name, remediation), time.Minute)) }
}

func suspended(f *fixture) { f.Group.Spec.Suspend = true }
