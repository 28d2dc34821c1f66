// Package plan decides which disruptions of Nodes the budget of a NodeGroup admits: which members count as unavailable, how many may be, who goes
// first, and how long an admission counts. It is pure: the cluster is in its input.
package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller/delay"
)

// MaxReservations is how many entries status.reservations and status.admissions of a NodeGroup can have, as their schemas say.
const MaxReservations = 512

// Recheck is when a request that waits is made again at the latest.
const Recheck = delay.Budget

// Patience is how long a request is kept after the time at which it is to be made again. One whose object is gone is not made again.
const Patience = 20 * time.Second

// AdmissionTime is how long an admission counts: by then the work has begun, and shows in the cluster, or it never begins.
const AdmissionTime = time.Minute

// BeginWithin is how long after its admission, by a clock that does not jump, work may begin.
const BeginWithin = AdmissionTime / 2

// Request asks for a place in the budget, to disrupt a Node.
type Request struct {
	// Node and UID identify the Node. Without a UID, it is the Node that has the name now. For a Machine without a Node, they are its MachineName and
	// the Machine's UID.
	Node string
	UID  types.UID
	// Capability is what disrupts the Node, Object what it does that for, as kind/name or kind/namespace/name, and ObjectUID that object's UID.
	Capability v1alpha1.Capability
	Object     string
	ObjectUID  types.UID
	// Person reports that a person asked for the disruption: a NodeMaintenance that no controller owns.
	Person bool
	// Since is when the object began to wait.
	Since time.Time
	// Begun reports that the work may have begun: it goes on whatever the budget says.
	Begun bool
}

// disruption returns what is recorded when the request is admitted.
func (r *Request) disruption(now time.Time) v1alpha1.Reservation {
	return v1alpha1.Reservation{
		Node: r.Node, UID: r.UID, Capability: r.Capability, Object: r.Object, ObjectUID: r.ObjectUID, Time: metav1.NewTime(now).Rfc3339Copy(),
	}
}

// Window says whether disruptions may begin now. The zero value is an open one without end.
type Window struct {
	Closed bool
	// Reason is ReasonWindowClosed or ReasonFrozen, and Message says until when.
	Reason, Message string
	// Changes is when the window opens or closes next; zero is never.
	Changes time.Time
}

// Input is what Admit decides by. It does not change it.
type Input struct {
	Now time.Time
	// Group without a name exists nowhere else: nothing is recorded in it.
	Group *v1alpha1.NodeGroup
	// Members are the members of the group. Signs are the members' signs that do not come from the Node: a lease, a Machine that is being deleted.
	Members *Members
	Signs   map[string]Sign
	// Disrupted are the Nodes that capabilities disrupt, and the Machines that have to replace the Machines that capabilities have deleted.
	Disrupted []v1alpha1.Reservation
	// Admissions are the admissions of the group that count; they are among Disrupted.
	Admissions []v1alpha1.Reservation
	// Missing is how many Nodes the MachineSets of the group lack, growth aside. NotCreated is how many of their Machines are gone and have no new
	// one yet: each counts as a remediation in flight, since nothing shows who deleted it.
	Missing, NotCreated int
	Window              Window
	// Waiting are the requests of the group that wait.
	Waiting *Queue
}

// Answer is the decision about a request.
type Answer struct {
	// Allowed reports that the disruption may begin, once Admission is recorded.
	Allowed bool
	// Admission is nil where nothing is to be recorded.
	Admission *v1alpha1.Reservation
	// Reason and Message say why the request waits, or, where it is allowed, which limit it exceeds.
	Reason, Message string
	// After is when a waiting request is to be made again if no event comes; zero if the request is allowed.
	After time.Duration

	Counts
}

// denial is why a request is not admitted. The message is a function because many denials are not reported.
type denial struct {
	reason  string
	message func() string
	after   time.Duration
}

func message(format string, arguments ...any) func() string {
	return func() string { return fmt.Sprintf(format, arguments...) }
}

// Admit decides about a request. What the cluster shows already of its own work, or its own admission, does not count against it.
func Admit(in *Input, request *Request) Answer {
	switch {
	case in.Group == nil, request.Begun:
		return Answer{Allowed: true}
	case in.Group.Spec.Disruption == nil:
		if in.Group.Spec.Suspend {
			return in.withoutBudget(request)
		}
		return Answer{Allowed: true}
	}
	t := newTally(in)
	counts := t.Counts
	in, hasPlace := in.without(request)
	if hasPlace {
		t = newTally(in)
	}
	refused := gate(in, request)
	if refused == nil {
		refused = t.check(in, request)
	}
	answer := Answer{Allowed: true, Admission: in.admission(request), Counts: counts}
	if in.reports(request) {
		if t.disruptions >= MaxReservations {
			answer.Admission = nil
		}
		return in.report(answer, refused)
	}
	if refused == nil && !hasPlace {
		refused = t.turn(in, request)
	}
	if refused != nil {
		return in.denied(refused, counts)
	}
	return answer
}

// without returns the input without the disruption that a request is for, and whether there is one.
func (in *Input) without(request *Request) (without *Input, found bool) {
	own := slices.IndexFunc(in.Disrupted, func(r v1alpha1.Reservation) bool { return request.Matches(&r) })
	if own < 0 {
		return in, false
	}
	out := *in
	out.Disrupted = slices.DeleteFunc(slices.Clone(in.Disrupted), func(r v1alpha1.Reservation) bool { return request.Matches(&r) })
	if request.Capability == v1alpha1.CapabilityRemediation && in.Group.Status.LastRemediationTime.Equal(&in.Disrupted[own].Time) {
		group := *in.Group
		group.Status.LastRemediationTime = nil // its own, which has kept the interval
		out.Group = &group
	}
	return &out, true
}

// withoutBudget decides about a request of a suspended group that has no budget.
func (in *Input) withoutBudget(request *Request) Answer {
	refused := gate(in, request)
	if in.reports(request) {
		return in.report(Answer{Allowed: true}, refused)
	}
	return in.denied(refused, Counts{})
}

// admission returns what is recorded for a request.
func (in *Input) admission(request *Request) *v1alpha1.Reservation {
	admission := request.disruption(in.Now)
	if member, found := in.Members.get(request.Node, request.UID); found {
		admission.UID = member.UID
	}
	return &admission
}

// report admits a person's request. It reports the reason why another request would have to wait.
func (in *Input) report(answer Answer, refused *denial) Answer {
	if refused == nil {
		return answer
	}
	answer.Reason, answer.Message = ReasonBudgetExceeded, fmt.Sprintf("NodeGroup %s: %s", in.Group.Name, refused.message())
	return answer
}

// Next returns the waiting requests that would be admitted now, at most so many, in the order of their turns.
func Next(in *Input, most int) (requests []Request) {
	switch {
	case in.Group == nil, in.Group.Spec.Disruption == nil && !in.Group.Spec.Suspend:
		return slices.Collect(in.Waiting.All(in.Now))
	case in.Group.Spec.Disruption == nil:
		return slices.DeleteFunc(slices.Collect(in.Waiting.All(in.Now)), func(request Request) bool { return !in.reports(&request) })
	}
	t := newTally(in)
	for waiting := range in.Waiting.All(in.Now) {
		if len(requests) == most {
			break
		}
		if in.reports(&waiting) || gate(in, &waiting) == nil && t.check(in, &waiting) == nil {
			t.disrupt(in.admission(&waiting))
			requests = append(requests, waiting)
		}
	}
	return requests
}

// Count returns what the budget of a group is compared with.
func Count(in *Input) Counts { return newTally(in).Counts }

// Matches reports whether a disruption belongs to a request. It does so too if the Machine had no Node yet when the disruption was admitted.
func (r *Request) Matches(of *v1alpha1.Reservation) bool {
	switch {
	case of.Capability != r.Capability, of.Object != r.Object, r.ObjectUID != "" && of.ObjectUID != "" && r.ObjectUID != of.ObjectUID:
		return false
	case of.Node != r.Node:
		return isMachine(r.Object) && of.Node == r.Object
	}
	return r.UID == "" || r.UID == of.UID
}

// FreshAdmissions returns the admissions of a group that count. An admission that lies farther ahead than AdmissionTime was recorded by a wrong
// clock.
func FreshAdmissions(group *v1alpha1.NodeGroup, now time.Time) (fresh []v1alpha1.Reservation) {
	for i := range group.Status.Admissions {
		if age := now.Sub(group.Status.Admissions[i].Time.Time); age < AdmissionTime && age > -AdmissionTime {
			fresh = append(fresh, group.Status.Admissions[i])
		}
	}
	return fresh
}

// KeyOf returns the key of a disruption.
func KeyOf(of *v1alpha1.Reservation) Key {
	return Key{of.Node, of.Capability, of.Object, of.ObjectUID}
}

// reports reports whether a request is admitted even where the budget has no place for it, no window is open or the group is suspended.
func (in *Input) reports(request *Request) bool {
	disruption := in.Group.Spec.Disruption
	return request.Person && (disruption == nil || disruption.PersonMaintenance != v1alpha1.PersonQueue)
}

func (in *Input) denied(d *denial, counts Counts) Answer {
	text := d.message()
	if in.Group.Name != "" {
		text = fmt.Sprintf("NodeGroup %s: %s", in.Group.Name, text)
	}
	return Answer{Reason: d.reason, Message: text, After: d.after, Counts: counts}
}

// gate denies what may not begin now, whatever the budget.
func gate(in *Input, request *Request) *denial {
	switch spec := &in.Group.Spec; {
	case spec.Suspend:
		return &denial{reason: ReasonSuspended, after: Recheck, message: message("spec.suspend is set; disruptions wait until it is removed")}
	case in.Window.Closed && !slices.Contains(spec.Disruption.Exempt, request.Capability):
		d := &denial{reason: in.Window.Reason, after: Recheck, message: message("%s", in.Window.Message)}
		if !in.Window.Changes.IsZero() {
			d.after = min(max(in.Window.Changes.Sub(in.Now), time.Millisecond), Recheck)
		}
		return d
	}
	return nil
}

// turn denies a request if no place is left once the requests before it have theirs.
func (t *tally) turn(in *Input, request *Request) *denial {
	for waiting := range in.Waiting.All(in.Now) {
		if !before(&waiting, request, in.Now) {
			return nil
		}
		if waiting.Key() == request.Key() || gate(in, &waiting) != nil || t.check(in, &waiting) != nil {
			continue
		}
		t.disrupt(in.admission(&waiting))
		if t.check(in, request) != nil {
			const text = "%s waits for its turn: %s of %s is first"
			return &denial{
				reason: ReasonQueued, message: message(text, subject(request.Node), waiting.Capability, subject(waiting.Node)), after: Recheck,
			}
		}
	}
	return nil
}
