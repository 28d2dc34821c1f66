package disruption

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

const (
	maintenance = v1alpha1.CapabilityMaintenance
	remediation = v1alpha1.CapabilityRemediation
	upgrade     = v1alpha1.CapabilityUpgrade
)

func withThreePlaces(group *v1alpha1.NodeGroup) {
	group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(3))
}

// TestBegin_Admits: an admission is one write, counts for a minute, and nothing ends it.
func TestBegin_Admits(t *testing.T) {
	f := newFixture(t)
	f.begin(newRequest("n0", upgrade), "")
	f.wrote(1)
	got := f.group().Status.Admissions
	if len(got) != 1 || got[0].ObjectUID != "object-n0" || !got[0].Time.Time.Equal(f.clock.Now().Truncate(time.Second)) {
		t.Errorf("the admissions are %+v", got)
	}
	f.begin(newRequest("n0", upgrade), "")
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.start() // the next process
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.wrote(1)
	f.step(plan.AdmissionTime)
	f.begin(newRequest("n1", upgrade), "")
	f.wrote(1)
	f.admitted("n1")
}

// TestBegin_Lease: after the admission comes the lease, which says what it is for, and what it says counts in the place of the admission.
func TestBegin_Lease(t *testing.T) {
	f := newFixture(t)
	if permit := f.begin(f.leased(newRequest("n0", upgrade)), ""); permit.Renewal != nodelease.RenewAfter {
		t.Errorf("it is renewed in %s", permit.Renewal)
	}
	f.wrote(2)
	f.step(10 * time.Minute)
	f.start()
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	state := f.state()
	want := []v1alpha1.Reservation{{
		Node: "n0", UID: "uid-of-n0", Capability: upgrade, Object: "Object/n0", ObjectUID: "object-n0",
		Time: metav1.NewTime(f.clock.Now().Add(-10 * time.Minute)).Rfc3339Copy(),
	}}
	if !slices.EqualFunc(state.Disrupted, want, func(a, b v1alpha1.Reservation) bool {
		equal := a.Time.Equal(&b.Time)
		a.Time = b.Time
		return equal && a == b
	}) || state.Unavailable != 1 || state.Waiting != 1 {
		t.Errorf("the state is %+v", state)
	}
	// Its own lease does not count against it, and another object of the name does not have it.
	f.begin(f.leased(newRequest("n0", upgrade)), "")
	f.end(f.leased(newRequest("n0", upgrade)))
	f.begin(newRequest("n1", upgrade), "")
}

// TestBegin_Trial: without the first disruptive write the place is free again after a minute, and the lease as well.
func TestBegin_Trial(t *testing.T) {
	f := newFixture(t)
	request := f.leased(newRequest("n0", remediation))
	request.Trial = true
	f.begin(request, "")
	f.start()
	f.begin(newRequest("n1", remediation), plan.ReasonRemediationsLimited)
	f.step(nodelease.Trial + time.Second)
	f.begin(f.leased(newRequest("n1", remediation)), "")
}

// TestBegin_Order: another holder of the lease comes before the quorum, that before the budget, and a request that waits holds no lease.
func TestBegin_Order(t *testing.T) {
	f := newFixture(t)
	request := f.leased(newRequest("n0", upgrade))
	f.begin(request, "")
	f.step(plan.AdmissionTime)
	guard := &fakeGuard{}
	request.Guard, request.Protected = guard, request.Target
	f.window = plan.Window{Closed: true, Reason: plan.ReasonFrozen, Message: "frozen"}
	f.begin(request, plan.ReasonFrozen)
	if _, held := f.leaseOf("n0"); held {
		t.Error("a request that waits keeps the lease")
	}
	guard.denial = "one is away"
	if permit := f.begin(request, plan.ReasonQuorum); permit.Message != "one is away" {
		t.Errorf("the message is %s", permit.Message)
	}
	f.lease("node-n0", "other", time.Minute)
	if permit := f.begin(request, plan.ReasonLease); permit.Held == nil || permit.Held.Holder != "other" {
		t.Errorf("the lease is held by %+v", permit.Held)
	}
	if guard.locked != 0 || guard.checks != 2 {
		t.Errorf("the guard was asked %d times and is locked %d times", guard.checks, guard.locked)
	}
	f.wrote(0)
}

// TestBegin_Stopped: a process that is stopped after its admission, until another one may count without it, does not begin.
func TestBegin_Stopped(t *testing.T) {
	f := newFixture(t)
	request := f.leased(newRequest("n0", upgrade))
	request.Leases.Clock = &stopping{fixture: f, pause: plan.BeginWithin + time.Second}
	f.begin(request, plan.ReasonQueued)
	f.begin(request, "")
}

// TestBegin_Begun: work that has begun goes on whatever the budget and the window say, and renews its lease.
func TestBegin_Begun(t *testing.T) {
	f := newFixture(t)
	request := f.leased(newRequest("n0", upgrade))
	f.begin(request, "")
	f.step(nodelease.RenewAfter)
	f.replace(1, func(node *corev1.Node) { node.Spec.Unschedulable = true })
	f.window = plan.Window{Closed: true, Reason: plan.ReasonFrozen, Message: "frozen"}
	f.requests.Writes = nil
	request.Begun = true
	f.begin(request, "")
	f.wrote(1)
}

func TestBegin_WithoutBudget(t *testing.T) {
	f := newFixture(t)
	f.begin(newRequest("elsewhere", upgrade), "")
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption = nil })
	f.begin(newRequest("n0", upgrade), "")
	f.wrote(0)
	f.budgets = nil
	f.begin(f.leased(newRequest("n0", upgrade)), "")
	f.end(f.leased(newRequest("n0", upgrade)))
	f.wrote(2)
}

// TestBegin_Joining: a Node that has just registered waits for its Machine, and with that for its group. It waits for a minute at most, because its
// kubelet says which Machine that is.
func TestBegin_Joining(t *testing.T) {
	f := newFixture(t)
	request := f.leased(newRequest("elsewhere", upgrade))
	request.Target = newNode("elsewhere")
	request.Target.CreationTimestamp = metav1.NewTime(f.clock.Now())
	machine, failure := "machines/m1", error(nil)
	f.budgets.Joining = func(_ context.Context, node *corev1.Node) (string, error) {
		if node != request.Target {
			t.Errorf("asked for %s", node.Name)
		}
		return machine, failure
	}
	f.begin(request, plan.ReasonJoining)
	f.wrote(0)
	failure = errors.New("no index")
	if _, _, err := f.budgets.Begin(t.Context(), request); err == nil || !strings.Contains(err.Error(), "no index") {
		t.Errorf("error %v", err)
	}
	machine, failure = "", nil
	f.begin(request, "")
	f.wrote(1)
	f.end(request)
	machine = "machines/m1"
	f.begin(request, plan.ReasonJoining)
	f.step(joinTime)
	f.begin(request, "")
	f.end(request)
	// This process's clock is behind.
	request.Target.CreationTimestamp = metav1.NewTime(f.clock.Now().Add(time.Hour))
	f.begin(request, "")
}

// TestBegin_AdmissionWasRemoved: another writer has removed the admission, which the cache does not show yet. With the lease the work shows anyway.
func TestBegin_AdmissionWasRemoved(t *testing.T) {
	for _, leased := range []bool{false, true} {
		f := newFixture(t)
		request := newRequest("n0", upgrade)
		if leased {
			request = f.leased(request)
		}
		f.begin(request, "")
		f.lag()
		group := f.group()
		group.Status.Admissions = nil
		if err := f.client.Status().Update(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		if permit, _, err := f.budgets.Begin(t.Context(), request); apierrors.IsConflict(err) == leased || permit.Allowed != leased && leased {
			t.Errorf("leased %t: allowed %t, error %v", leased, permit.Allowed, err)
		}
	}
}

// TestBegin_ObjectsOfOneName: another object of the same name has its own place.
func TestBegin_ObjectsOfOneName(t *testing.T) {
	f := newFixture(t)
	f.change(withThreePlaces)
	f.begin(newRequest("n0", maintenance), "")
	other := newRequest("n0", maintenance)
	other.ObjectUID = "another"
	f.begin(other, "")
	if got := f.group().Status.Admissions; len(got) != 1 || got[0].ObjectUID != "another" {
		t.Errorf("the admissions are %+v", got)
	}
}

// TestBegin_AdmissionOfMachine: the admission of a Machine that is gone counts no more; its MachineSet shows what is missing.
func TestBegin_AdmissionOfMachine(t *testing.T) {
	f := newFixture(t)
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(1)) })
	request := newRequest("n0", remediation)
	request.Object = "Machine/ns/a"
	f.begin(request, "")
	f.members.nodes = slices.Clone(f.members.nodes)[1:]
	f.members.machines = plan.Machines{Sets: []plan.MachineSet{{Wanted: 3, Nodes: 2, NotCreated: 1}}}
	if state := f.state(); state.Unavailable != 1 || state.Expected != 3 {
		t.Errorf("while it is missing: %+v", state)
	}
	f.members.machines = plan.Machines{Sets: []plan.MachineSet{{Wanted: 2, Nodes: 2}}}
	f.begin(newRequest("n1", upgrade), "")
}

// TestQueue_ForgetsWhoDoesNotAskAgain: a request whose object is gone waits for less than a minute.
func TestQueue_ForgetsWhoDoesNotAskAgain(t *testing.T) {
	f := newFixture(t)
	f.window = plan.Window{Closed: true, Reason: plan.ReasonWindowClosed, Message: "closed", Changes: f.clock.Now().Add(time.Hour)}
	permit := f.begin(newRequest("n0", upgrade), plan.ReasonWindowClosed)
	if state := f.state(); state.Waiting != 1 || permit.After > 30*time.Second {
		t.Errorf("it is to ask again after %s: %+v", permit.After, state)
	}
	f.step(time.Minute)
	if state := f.state(); state.Waiting != 0 {
		t.Errorf("after a minute: %+v", state)
	}
}

func TestBegin_RecordsTimeOfRemediation(t *testing.T) {
	for name, forge := range map[string]func(*v1alpha1.NodeGroup){
		"as it is": func(*v1alpha1.NodeGroup) {}, "forged": func(g *v1alpha1.NodeGroup) { g.Status.LastRemediationTime = nil },
		"long ago": func(g *v1alpha1.NodeGroup) { g.Status.LastRemediationTime = new(metav1.Unix(1, 0)) },
		"later": func(g *v1alpha1.NodeGroup) {
			g.Status.LastRemediationTime = new(metav1.NewTime(g.Status.LastRemediationTime.Add(24 * time.Hour)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.change(func(group *v1alpha1.NodeGroup) {
				withThreePlaces(group)
				group.Spec.Disruption.Remediation = &v1alpha1.RemediationPace{
					MaxInFlight: new(intstr.FromInt32(2)), MinInterval: &metav1.Duration{Duration: 10 * time.Minute},
				}
			})
			f.begin(newRequest("n0", remediation), "")
			group := f.group()
			if forge(group); f.client.Status().Update(t.Context(), group) != nil {
				t.Fatal("the status was not written")
			}
			f.step(9 * time.Minute)
			f.begin(newRequest("n1", remediation), plan.ReasonRemediationInterval)
			f.begin(newRequest("n1", upgrade), "")
			f.step(time.Minute)
			f.begin(newRequest("n1", remediation), "")
		})
	}
}

// TestBegin_ChangesGroup: a Node that leaves its group while its request waits for others, or comes back with another UID, does not count as gone.
func TestBegin_ChangesGroup(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"it has left":      func(f *fixture) { f.members.nodes = f.members.nodes[1:] },
		"it has come back": func(f *fixture) { f.replace(0, func(node *corev1.Node) { node.UID = "another" }) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.begin(newRequest("n1", upgrade), "")
			f.members.beforeMembers = func() { change(f) }
			permit, _, err := f.budgets.Begin(t.Context(), f.leased(newRequest("n0", upgrade)))
			if permit.Done(); !apierrors.IsConflict(err) || permit.Allowed {
				t.Errorf("allowed %v, error %v", permit.Allowed, err)
			}
		})
	}
}

// Another process admits between the read and the write.
func TestBegin_Conflict(t *testing.T) {
	f := newFixture(t)
	f.lag()
	other := New(Options{Reader: f.client, Writer: f.client, Membership: &f.members, Clock: f.clock})
	if permit, _, err := other.Begin(t.Context(), newRequest("n1", upgrade)); err != nil || !permit.Allowed {
		t.Fatalf("%+v %v", permit, err)
	}
	permit, _, err := f.budgets.Begin(t.Context(), newRequest("n0", upgrade))
	if !apierrors.IsConflict(err) || permit.Allowed && err == nil {
		t.Errorf("allowed %v, error %v", permit.Allowed, err)
	}
	f.admitted("n1")
	f.catchUp()
	f.begin(newRequest("n0", upgrade), plan.ReasonBudgetExhausted)
}

// The cache shows no write of this process: what it has written counts all the same.
func TestBegin_CacheLags(t *testing.T) {
	f := newFixture(t)
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(2)) })
	f.lag()
	f.begin(newRequest("n0", upgrade), "")
	f.begin(newRequest("n1", maintenance), "")
	f.begin(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
	f.wrote(2)
	f.begin(newRequest("n0", upgrade), "")
	f.wrote(1)
	f.catchUp()
	f.begin(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
	if f.budgets.group(groupName).latest != nil {
		t.Error("the own write is kept, although the cache shows it")
	}
}

// The group is deleted and created again while the cache lags behind the deletion.
func TestBegin_GroupCreatedAgain(t *testing.T) {
	f := newFixture(t)
	f.lag()
	f.begin(newRequest("n0", upgrade), "")
	f.cache.group.UID, f.cache.group.ResourceVersion = "new", "1000000"
	if _, _, err := f.budgets.Begin(t.Context(), newRequest("n1", upgrade)); err == nil {
		t.Error("it has begun")
	}
	f.admitted("n0")
}

func TestBegin_Fails(t *testing.T) {
	no := errors.New("no")
	for name, test := range map[string]struct {
		fail     func(*fixture)
		conflict bool
	}{
		"NodeGroup cannot be read":    {func(f *fixture) { f.requests.Fail = map[string]error{"get NodeGroup": no} }, false},
		"leases cannot be read":       {func(f *fixture) { f.requests.Fail = map[string]error{"list LeaseList": no} }, false},
		"membership is not known":     {func(f *fixture) { f.members.err = no }, false},
		"admission cannot be written": {func(f *fixture) { f.requests.Fail = map[string]error{"status NodeGroup": no} }, false},
		"requests cannot be listed": {func(f *fixture) {
			f.budgets.Requests = func(context.Context, string) ([]plan.Requested, error) { return nil, no }
		}, false},
		"NodeGroup is gone": {func(f *fixture) {
			if err := f.client.Delete(f.Context(), f.group()); err != nil {
				f.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			test.fail(f)
			permit, _, err := f.budgets.Begin(t.Context(), newRequest("n0", upgrade))
			if err == nil || apierrors.IsConflict(err) != test.conflict || !test.conflict && !errors.Is(err, no) {
				t.Fatalf("allowed %v, error %v", permit.Allowed, err)
			}
			if !strings.Contains(err.Error(), groupName) && !strings.Contains(err.Error(), "leases") && !strings.Contains(err.Error(), "n0") &&
				!strings.Contains(err.Error(), "requests") {
				t.Errorf("the error names nothing: %v", err)
			}
		})
	}
}

func TestBegin_ContextEndsWhileAnotherWrites(t *testing.T) {
	f := newFixture(t)
	g := f.budgets.group(groupName)
	if err := g.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := f.budgets.Begin(ctx, newRequest("n0", upgrade)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	g.unlock()
	f.begin(newRequest("n0", upgrade), "")
}

// fakeGuard is a guard of the control plane.
type fakeGuard struct {
	denial         string
	checks, locked int
}

func (g *fakeGuard) Applies(*corev1.Node) bool { return true }

func (g *fakeGuard) Check(context.Context, *corev1.Node) (string, error) {
	g.checks++
	return g.denial, nil
}

func (g *fakeGuard) Lock(ctx context.Context) (context.Context, func()) {
	g.locked++
	return ctx, func() { g.locked-- }
}

// stopping is the clock of leases in a process that is stopped once, before it acquires one.
type stopping struct {
	*fixture

	pause time.Duration
	asked int
}

func (s *stopping) Now() time.Time {
	if s.asked++; s.asked == 2 { // first it asks whether another holder has the lease
		s.step(s.pause)
	}
	return s.clock.Now()
}

func (s *stopping) Since(at time.Time) time.Duration { return s.Now().Sub(at) }

// TestBegin_Bounded: the first disruptive write is made soon after the admission, or not at all. A request that has to wait goes on without a
// deadline.
func TestBegin_Bounded(t *testing.T) {
	begun := newRequest("n1", upgrade)
	begun.Begun = true
	for name, test := range map[string]struct {
		request *Request
		change  func(*fixture)
		waits   bool
	}{
		"admitted":              {newRequest("n0", upgrade), func(*fixture) {}, false},
		"with a lease":          {newRequest("n2", upgrade), func(*fixture) {}, false},
		"begun":                 {begun, func(*fixture) {}, false},
		"in no group":           {newRequest("elsewhere", upgrade), func(*fixture) {}, false},
		"without any budgets":   {newRequest("n0", upgrade), func(f *fixture) { f.budgets = nil }, false},
		"there is no place now": {newRequest("n0", upgrade), func(f *fixture) { f.replace(1, func(n *corev1.Node) { n.Spec.Unschedulable = true }) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			test.change(f)
			if name == "with a lease" {
				f.leased(test.request)
			}
			permit, ctx, err := f.budgets.Begin(t.Context(), test.request)
			defer permit.Done()
			deadline, isBounded := ctx.Deadline()
			if err != nil || permit.Allowed == test.waits || isBounded == test.waits || ctx.Err() != nil {
				t.Fatalf("allowed %v, bounded %v (%v), error %v", permit.Allowed, isBounded, ctx.Err(), err)
			}
			if left := time.Until(deadline); isBounded && (left > plan.BeginWithin || left < plan.BeginWithin/2) {
				t.Errorf("the write may take %s", left)
			}
		})
	}
}
