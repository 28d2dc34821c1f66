package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// MaxReservations is how many reservations the status of a NodeGroup can have.
const MaxReservations = 512

// Recheck is when a request that waits for others is decided again without an event: a node lease expires without one.
const Recheck = time.Minute

// gateRecheck is the same for a request that waits for a user, who removes spec.suspend or corrects a window.
const gateRecheck = 10 * time.Minute

// Request asks for a place in the budget, to disrupt a Node.
type Request struct {
	// Node and UID are those of the Node. Without a UID it is the Node that has the name now. They are MachineName and the UID of a Machine that has
	// no Node.
	Node string
	UID  types.UID
	// Capability is what disrupts the Node, Object what it does that for.
	Capability v1alpha1.Capability
	Object     string
	// Person reports that a person asked for the disruption: a NodeMaintenance that no controller owns.
	Person bool
	// Since is when the object began to wait.
	Since time.Time
	// Begun reports that the work may have begun: it keeps the place that it has.
	Begun bool
}

// reservation returns what is recorded when the request is admitted.
func (r *Request) reservation(now time.Time) v1alpha1.Reservation {
	return v1alpha1.Reservation{Node: r.Node, UID: r.UID, Capability: r.Capability, Object: r.Object, Time: metav1.NewTime(now)}
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
	Now   time.Time
	Group *v1alpha1.NodeGroup
	// Members are those of the group, Leased the names of the Nodes that have a valid lease.
	Members *Members
	Leased  map[string]bool
	Window  Window
	// Waiting are the requests of the group that wait.
	Waiting *Queue
}

// Answer is the decision about a request.
type Answer struct {
	// Allowed reports that the disruption may begin, once Reservation is recorded.
	Allowed bool
	// Reservation is nil where no reservation is needed. Recorded reports that the group has it already.
	Reservation *v1alpha1.Reservation
	Recorded    bool
	// Reason and Message say why the request waits, or, where it is allowed, which limit it exceeds.
	Reason, Message string
	// After is when to ask again without an event; zero is never.
	After time.Duration
	// Release reports that Reservation, which the group has for a request that has to wait, is to be released: no work begins with it any more.
	Release bool

	Counts
}

// denial is why a request is not admitted. The message is for one that is reported: many are not.
type denial struct {
	reason  string
	message func() string
	after   time.Duration
}

func message(format string, arguments ...any) func() string {
	return func() string { return fmt.Sprintf(format, arguments...) }
}

// Admit decides about a request.
func Admit(in *Input, request *Request) Answer {
	switch {
	case in.Group == nil:
		return Answer{Allowed: true}
	case in.Group.Spec.Disruption == nil:
		if in.Group.Spec.Suspend && !request.Begun {
			return in.withoutBudget(request)
		}
		return Answer{Allowed: true}
	}
	t := newTally(in)
	counts := t.Counts // before others in the queue are counted
	if recorded := in.recorded(request); recorded != nil {
		return in.admitRecorded(request, recorded, counts)
	}
	refused := gate(in, request)
	if refused == nil {
		refused = t.check(in, request)
	}
	answer := Answer{Allowed: true, Reservation: in.reservation(request), Counts: counts}
	if in.reports(request) {
		return in.report(answer, refused)
	}
	if refused == nil {
		refused = t.turn(in, request)
	}
	if refused != nil {
		return in.denied(refused, counts)
	}
	return answer
}

// withoutBudget decides about a request of a suspended group that has no budget.
func (in *Input) withoutBudget(request *Request) Answer {
	refused := gate(in, request)
	if in.reports(request) {
		return in.report(Answer{Allowed: true}, refused)
	}
	return in.denied(refused, Counts{})
}

// admitRecorded decides about a request whose reservation the group has. Unless its work has begun, the place is compared again with the windows and
// with what the others leave of the budget.
func (in *Input) admitRecorded(request *Request, recorded *v1alpha1.Reservation, counts Counts) Answer {
	answer := Answer{Allowed: true, Recorded: true, Reservation: recorded, Counts: counts}
	if request.Begun {
		return answer
	}
	refused := gate(in, request)
	if refused == nil {
		refused = newTally(in.without(recorded)).check(in, request)
	}
	if in.reports(request) {
		return in.report(answer, refused)
	}
	if refused != nil {
		answer = in.denied(refused, counts)
		answer.release(recorded, in.Now)
	}
	return answer
}

// without returns the input of a group that does not have a reservation.
func (in *Input) without(recorded *v1alpha1.Reservation) *Input {
	group, out := *in.Group, *in
	group.Status.Reservations = slices.DeleteFunc(slices.Clone(group.Status.Reservations), func(r v1alpha1.Reservation) bool { return r == *recorded })
	if recorded.Capability == v1alpha1.CapabilityRemediation {
		group.Status.LastRemediationTime = nil // it is that of the reservation, which has kept the interval
	}
	out.Group = &group
	return &out
}

// release has the place of a request that has to wait released as soon as an orphaned one would be: until then its writer, which may be a previous
// leader, may begin, or may have begun without the cache showing it.
func (a *Answer) release(recorded *v1alpha1.Reservation, now time.Time) {
	wait := untilOrphaned(recorded, now)
	if wait > 0 {
		a.After = min(a.After, wait)
		return
	}
	a.Release, a.Reservation = true, recorded
}

// recorded returns the reservation of a request that the group has; nil for none.
func (in *Input) recorded(request *Request) *v1alpha1.Reservation {
	for i := range in.Group.Status.Reservations {
		if recorded := &in.Group.Status.Reservations[i]; request.Matches(recorded) {
			return new(*recorded)
		}
	}
	return nil
}

// reservation returns what is recorded for a request.
func (in *Input) reservation(request *Request) *v1alpha1.Reservation {
	reservation := request.reservation(in.Now)
	if member, found := in.Members.get(request.Node, request.UID); found {
		reservation.UID = member.UID
	}
	return &reservation
}

// report admits a person's request, with the reason for which another one would wait.
func (in *Input) report(answer Answer, refused *denial) Answer {
	if refused == nil {
		return answer
	}
	if refused.reason == ReasonTooManyReservations {
		answer.Reservation = nil
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
			t.reserve(in.reservation(&waiting))
			requests = append(requests, waiting)
		}
	}
	return requests
}

// Count returns what the budget of a group is compared with.
func Count(in *Input) Counts { return newTally(in).Counts }

// Matches reports whether a reservation is the one of a request, also if the Machine had no Node yet when it was made.
func (r *Request) Matches(reservation *v1alpha1.Reservation) bool {
	if key := KeyOf(reservation); key != r.Key() {
		return key == r.keyWithoutNode()
	}
	return r.UID == "" || r.UID == reservation.UID
}

// KeyOf returns the key of a reservation.
func KeyOf(reservation *v1alpha1.Reservation) Key {
	return Key{reservation.Node, reservation.Capability, reservation.Object}
}

// reports reports whether a request is admitted even where the budget has no place for it, no window is open or the group is suspended.
func (in *Input) reports(request *Request) bool {
	disruption := in.Group.Spec.Disruption
	return request.Person && (disruption == nil || disruption.PersonMaintenance != v1alpha1.PersonQueue)
}

func (in *Input) denied(d *denial, counts Counts) Answer {
	return Answer{Reason: d.reason, Message: fmt.Sprintf("NodeGroup %s: %s", in.Group.Name, d.message()), After: d.after, Counts: counts}
}

// gate denies what may not begin now, whatever the budget.
func gate(in *Input, request *Request) *denial {
	switch spec := &in.Group.Spec; {
	case spec.Suspend:
		return &denial{reason: ReasonSuspended, after: gateRecheck, message: message("spec.suspend is set; disruptions wait until it is removed")}
	case in.Window.Closed && !slices.Contains(spec.Disruption.Exempt, request.Capability):
		d := &denial{reason: in.Window.Reason, after: gateRecheck, message: message("%s", in.Window.Message)}
		if !in.Window.Changes.IsZero() {
			d.after = max(in.Window.Changes.Sub(in.Now), time.Millisecond)
		}
		return d
	}
	return nil
}

// turn denies a request for which there is no place left once those before it have theirs.
func (t *tally) turn(in *Input, request *Request) *denial {
	for waiting := range in.Waiting.All(in.Now) {
		if !before(&waiting, request, in.Now) {
			return nil
		}
		if waiting.Key() == request.Key() || gate(in, &waiting) != nil || t.check(in, &waiting) != nil {
			continue
		}
		t.reserve(in.reservation(&waiting))
		if t.check(in, request) != nil {
			const text = "%s waits for its turn: %s of %s is first"
			return &denial{
				reason: ReasonQueued, message: message(text, subject(request.Node), waiting.Capability, subject(waiting.Node)), after: Recheck,
			}
		}
	}
	return nil
}
