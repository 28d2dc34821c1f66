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
)

const (
	maintenance = v1alpha1.CapabilityMaintenance
	remediation = v1alpha1.CapabilityRemediation
	upgrade     = v1alpha1.CapabilityUpgrade
)

func TestReserve_RecordsOneReservation(t *testing.T) {
	f := newFixture(t)
	answer := f.reserve(newRequest("n0", upgrade), "")
	f.wrote(1)
	if answer.Group != groupName || !answer.Until.Equal(f.clock.Now().Add(30*time.Second)) {
		t.Errorf("the answer is %+v", answer)
	}
	want := v1alpha1.Reservation{
		Node: "n0", UID: "uid-of-n0", Capability: upgrade, Object: "Object/n0", Time: metav1.NewTime(f.clock.Now()).Rfc3339Copy(),
	}
	got := f.group().Status.Reservations
	if len(got) != 1 || !got[0].Time.Equal(&want.Time) || plan.KeyOf(&got[0]) != plan.KeyOf(&want) || got[0].UID != want.UID {
		t.Errorf("the reservations are %+v, want %+v", got, want)
	}
	f.step(20 * time.Second)
	if again := f.reserve(newRequest("n0", upgrade), ""); !again.Until.Equal(answer.Until) {
		t.Errorf("20 seconds later it is good until %s, want %s", again.Until, answer.Until)
	}
	f.wrote(0)
	f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.wrote(0)
}

func TestReserve_RenewsUnusedReservation(t *testing.T) {
	for name, restart := range map[string]bool{"same process": false, "next process": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.reserve(newRequest("n0", upgrade), "")
			f.step(time.Second)
			if restart {
				f.start() // it does not know when, on its own clock, the reservation was written
			} else {
				f.step(29 * time.Second)
			}
			f.requests.Writes = nil
			if answer := f.reserve(newRequest("n0", upgrade), ""); !answer.Until.Equal(f.clock.Now().Add(30 * time.Second)) {
				t.Errorf("it is good until %s", answer.Until)
			}
			f.wrote(1)
			f.reserved("n0")
			if got := f.group().Status.Reservations[0].Time; !got.Time.Equal(f.clock.Now()) {
				t.Errorf("the time is %s", got)
			}
		})
	}
}

func TestReserve_WithoutBudget(t *testing.T) {
	f := newFixture(t)
	if answer := f.reserve(newRequest("elsewhere", upgrade), ""); answer.Group != "" || answer.Reservation != nil || !answer.Until.IsZero() {
		t.Errorf("without a group: %+v", answer)
	}
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption = nil })
	if answer := f.reserve(newRequest("n0", upgrade), ""); answer.Group != groupName || answer.Reservation != nil {
		t.Errorf("without a budget: %+v", answer)
	}
	f.wrote(0)
}

func TestReserve_GroupOfRequest(t *testing.T) {
	f := newFixture(t)
	request := newRequest("never-registered", remediation)
	request.Group = groupName
	f.reserve(request, "")
	f.reserved("never-registered")
}

func TestReserve_ReplacesReservationOfSameNodeAndCapability(t *testing.T) {
	f := newFixture(t)
	f.reserve(newRequest("n0", upgrade), "")
	f.reserve(newRequest("n0", maintenance), "")
	other := newRequest("n0", upgrade)
	other.Object = "Object/other"
	f.reserve(other, "")
	f.reserved("n0", "n0")
	if got := f.group().Status.Reservations[1]; got.Object != "Object/other" {
		t.Errorf("the reservation is %+v", got)
	}
}

func TestReserve_RecordsTimeOfRemediation(t *testing.T) {
	f := newFixture(t)
	f.change(func(group *v1alpha1.NodeGroup) {
		group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(3))
		group.Spec.Disruption.Remediation = &v1alpha1.RemediationPace{
			MaxInFlight: new(intstr.FromInt32(2)), MinInterval: &metav1.Duration{Duration: time.Minute},
		}
	})
	answer := f.reserve(newRequest("n0", remediation), "")
	if last := f.group().Status.LastRemediationTime; last == nil || !last.Time.Equal(f.clock.Now()) {
		t.Errorf("the last remediation was at %s", last)
	}
	if err := f.budgets.Release(t.Context(), groupName, *answer.Reservation); err != nil {
		t.Fatal(err)
	}
	f.reserved()
	f.start()
	f.step(time.Second)
	if answer := f.reserve(newRequest("n1", remediation), plan.ReasonRemediationInterval); answer.After != 59*time.Second {
		t.Errorf("it waits %s", answer.After)
	}
	f.reserve(newRequest("n1", upgrade), "")
	if last := f.group().Status.LastRemediationTime; last == nil {
		t.Error("the time of the last remediation is lost")
	}
}

// TestReserve_ForgedTimeOfRemediation: another writer of the status does not end the interval after a remediation of this process.
func TestReserve_ForgedTimeOfRemediation(t *testing.T) {
	for name, forged := range map[string]*metav1.Time{"none": nil, "long ago": new(metav1.Unix(1, 0))} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.change(func(group *v1alpha1.NodeGroup) {
				group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(3))
				group.Spec.Disruption.Remediation = &v1alpha1.RemediationPace{
					MaxInFlight: new(intstr.FromInt32(2)), MinInterval: &metav1.Duration{Duration: time.Minute},
				}
			})
			f.reserve(newRequest("n0", remediation), "")
			f.change(func(group *v1alpha1.NodeGroup) {
				group.Status.LastRemediationTime, group.Status.Reservations = forged, nil
			})
			f.step(time.Second)
			if answer := f.reserve(newRequest("n1", remediation), plan.ReasonRemediationInterval); answer.After != 59*time.Second {
				t.Errorf("it waits %s", answer.After)
			}
			f.step(time.Minute)
			f.reserve(newRequest("n1", remediation), "")
		})
	}
}

// Another process reserves between the read and the write.
func TestReserve_Conflict(t *testing.T) {
	f := newFixture(t)
	f.lag()
	other := New(Options{Reader: f.client, Writer: f.client, Membership: &f.members, Clock: f.clock})
	if answer, err := other.Reserve(t.Context(), newRequest("n1", upgrade)); err != nil || !answer.Allowed {
		t.Fatalf("%+v %v", answer, err)
	}
	answer, err := f.budgets.Reserve(t.Context(), newRequest("n0", upgrade))
	if !apierrors.IsConflict(err) || answer.Allowed {
		t.Errorf("allowed %v, error %v", answer.Allowed, err)
	}
	f.reserved("n1")
	f.catchUp()
	f.reserve(newRequest("n0", upgrade), plan.ReasonBudgetExhausted)
}

// The cache shows no write of this process: what it has written counts all the same.
func TestReserve_CacheLags(t *testing.T) {
	f := newFixture(t)
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(2)) })
	f.lag()
	first := f.reserve(newRequest("n0", upgrade), "")
	f.reserve(newRequest("n1", maintenance), "")
	f.reserve(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
	f.wrote(2)
	f.reserve(newRequest("n0", upgrade), "")
	f.wrote(0)
	if err := f.budgets.Release(t.Context(), groupName, *first.Reservation); err != nil {
		t.Fatal(err)
	}
	f.reserve(newRequest("n2", upgrade), "")
	f.reserved("n1", "n2")
	f.catchUp()
	f.reserve(newRequest("n0", upgrade), plan.ReasonBudgetExhausted)
	if f.budgets.group(groupName).latest != nil {
		t.Error("the own write is kept, although the cache shows it")
	}
}

// The group is deleted and created again while the cache lags behind the deletion.
func TestReserve_GroupCreatedAgain(t *testing.T) {
	f := newFixture(t)
	f.lag()
	f.reserve(newRequest("n0", upgrade), "")
	f.cache.group.UID, f.cache.group.ResourceVersion = "new", "1000000"
	answer, err := f.budgets.Reserve(t.Context(), newRequest("n1", upgrade))
	if answer.Allowed || err == nil {
		t.Errorf("allowed %v, error %v", answer.Allowed, err)
	}
	f.reserved("n0")
}

func TestReserve_Fails(t *testing.T) {
	no := errors.New("no")
	for name, test := range map[string]struct {
		fail     func(*fixture)
		conflict bool
	}{
		"NodeGroup cannot be read":      {func(f *fixture) { f.requests.Fail = map[string]error{"get NodeGroup": no} }, false},
		"leases cannot be read":         {func(f *fixture) { f.requests.Fail = map[string]error{"list LeaseList": no} }, false},
		"membership is not known":       {func(f *fixture) { f.members.err = no }, false},
		"reservation cannot be written": {func(f *fixture) { f.requests.Fail = map[string]error{"status NodeGroup": no} }, false},
		"NodeGroup is gone": {func(f *fixture) {
			if err := f.client.Delete(f.Context(), f.group()); err != nil {
				f.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			test.fail(f)
			answer, err := f.budgets.Reserve(t.Context(), newRequest("n0", upgrade))
			if answer.Allowed || err == nil || apierrors.IsConflict(err) != test.conflict || !test.conflict && !errors.Is(err, no) {
				t.Errorf("allowed %v, error %v", answer.Allowed, err)
			}
			if !strings.Contains(err.Error(), groupName) && !strings.Contains(err.Error(), "leases") && !strings.Contains(err.Error(), "n0") {
				t.Errorf("the error names nothing: %v", err)
			}
		})
	}
}

func TestReserve_ContextEndsWhileAnotherWrites(t *testing.T) {
	f := newFixture(t)
	g := f.budgets.group(groupName)
	if err := g.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.budgets.Reserve(ctx, newRequest("n0", upgrade)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	g.unlock()
	f.reserve(newRequest("n0", upgrade), "")
}

func TestReserve_Leases(t *testing.T) {
	for name, test := range map[string]struct {
		lease, holder string
		age           time.Duration
		wantReason    string
	}{
		"of Drover":                  {"node-n1", "node-maintenance", time.Minute, plan.ReasonBudgetExhausted},
		"of NodeHealthCheck":         {"node-n1", "NodeHealthCheck-workers", time.Minute, plan.ReasonBudgetExhausted},
		"expired":                    {"node-n1", "node-maintenance", 2 * time.Hour, ""},
		"without a holder":           {"node-n1", "", time.Minute, ""},
		"of a Node of another group": {"node-x", "node-maintenance", time.Minute, ""},
		"of something else":          {"n1", "node-maintenance", time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.lease(test.lease, test.holder, test.age)
			f.reserve(newRequest("n0", upgrade), test.wantReason)
		})
	}
}

func TestReserve_Window(t *testing.T) {
	f := newFixture(t)
	f.window = plan.Window{Closed: true, Reason: plan.ReasonWindowClosed, Message: "closed", Changes: f.clock.Now().Add(time.Hour)}
	if answer := f.reserve(newRequest("n0", upgrade), plan.ReasonWindowClosed); answer.After != time.Hour {
		t.Errorf("it waits %s", answer.After)
	}
	f.step(time.Hour)
	f.window = plan.Window{}
	f.reserve(newRequest("n0", upgrade), "")
}

// The window closes before the work of a reservation begins: its place is given back, and in the next window its turn comes by its age.
func TestReserve_WindowClosesBeforeWorkBegins(t *testing.T) {
	f := newFixture(t)
	first, second := newRequest("n0", upgrade), newRequest("n1", upgrade)
	second.Since = f.clock.Now().Add(-time.Minute)
	f.reserve(first, "")
	f.window = plan.Window{Closed: true, Reason: plan.ReasonWindowClosed, Message: "closed", Changes: f.clock.Now().Add(time.Hour)}
	f.step(plan.OrphanAfter - time.Second)
	f.requests.Writes = nil
	if answer := f.reserve(first, plan.ReasonWindowClosed); answer.After != time.Second {
		t.Errorf("it waits %s", answer.After)
	}
	f.wrote(0)
	f.step(time.Second)
	f.reserve(first, plan.ReasonWindowClosed)
	f.wrote(1)
	f.reserved()
	f.reserve(first, plan.ReasonWindowClosed)
	f.reserve(second, plan.ReasonWindowClosed)
	f.wrote(0)
	f.step(50 * time.Minute)
	f.window = plan.Window{}
	f.reserve(first, plan.ReasonQueued)
	f.reserve(second, "")
	f.reserved("n1")
}

// Another writer is faster than the write that gives a place back.
func TestReserve_ReleasesWithoutOverwriting(t *testing.T) {
	f := newFixture(t)
	f.change(withThreePlaces)
	f.reserve(newRequest("n0", upgrade), "")
	f.lag()
	other := New(Options{Reader: f.client, Writer: f.client, Membership: &f.members, Clock: f.clock})
	if answer, err := other.Reserve(t.Context(), newRequest("n1", upgrade)); err != nil || !answer.Allowed {
		t.Fatalf("%+v %v", answer, err)
	}
	f.window = plan.Window{Closed: true, Reason: plan.ReasonWindowClosed, Message: "closed"}
	f.step(plan.OrphanAfter)
	if _, err := f.budgets.Reserve(t.Context(), newRequest("n0", upgrade)); !apierrors.IsConflict(err) {
		t.Errorf("error %v", err)
	}
	f.reserved("n0", "n1")
	f.catchUp()
	f.reserve(newRequest("n0", upgrade), plan.ReasonWindowClosed)
	f.reserved("n1")
}

// Work that has begun keeps its place.
func TestReserve_WindowClosesAfterWorkBegan(t *testing.T) {
	f := newFixture(t)
	request := newRequest("n0", upgrade)
	f.reserve(request, "")
	f.window = plan.Window{Closed: true, Reason: plan.ReasonWindowClosed, Message: "closed"}
	f.step(time.Hour)
	request.Begun = true
	f.reserve(request, "")
	f.reserved("n0")
}

func TestReserve_ChangesOfMembers(t *testing.T) {
	f := newFixture(t)
	f.replace(1, func(node *corev1.Node) { node.Spec.Unschedulable = true })
	f.reserve(newRequest("n0", upgrade), plan.ReasonBudgetExhausted)
	f.replace(1, func(node *corev1.Node) {
		node.Spec.Unschedulable = false
		node.Spec.Taints = []corev1.Taint{{Key: "example.com/broken", Effect: corev1.TaintEffectNoSchedule}}
	})
	f.change(func(group *v1alpha1.NodeGroup) {
		group.Spec.Disruption.UnavailableTaints = []string{"example.com/broken"}
	})
	f.reserve(newRequest("n0", upgrade), plan.ReasonBudgetExhausted)
	f.members.nodes = slices.Delete(slices.Clone(f.members.nodes), 1, 2)
	f.reserve(newRequest("n0", upgrade), "")
	counts, waiting, err := f.budgets.Counts(t.Context(), groupName, f.members.nodes)
	if want := (plan.Counts{Expected: 2, Limit: 1, Unavailable: 1, ReservedReady: 1}); counts != want || waiting != 0 || err != nil {
		t.Errorf("the counts are %+v, %d wait, error %v", counts, waiting, err)
	}
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption = nil })
	if counts, _, err := f.budgets.Counts(t.Context(), groupName, f.members.nodes); counts != (plan.Counts{}) || err != nil {
		t.Errorf("without a budget, the counts are %+v, error %v", counts, err)
	}
}

// TestFinish_MachineGotNode: the place of a Machine that had no Node, or its request that waits, ends when it is healthy with one.
func TestFinish_MachineGotNode(t *testing.T) {
	of := func(node, object string) Request {
		return Request{Group: groupName, Request: plan.Request{Node: node, Capability: remediation, Object: object}}
	}
	const first, second = "Machine/ns/a", "Machine/ns/b"
	f := newFixture(t)
	f.reserve(of(first, first), "")
	f.reserve(of(second, second), plan.ReasonRemediationsLimited)
	for _, object := range []string{second, first} {
		if err := f.budgets.Finish(t.Context(), of("n0", object)); err != nil {
			t.Fatal(err)
		}
	}
	works, err := f.budgets.Works(t.Context(), groupName, func(context.Context, *v1alpha1.Reservation) (bool, error) { return true, nil })
	if err != nil || len(works) != 1 || works[0].Reservation.Node != first || !works[0].Over {
		t.Errorf("the works are %+v, error %v", works, err)
	}
	if _, waiting, err := f.budgets.Counts(t.Context(), groupName, nil); err != nil || waiting != 0 {
		t.Errorf("%d requests wait, error %v", waiting, err)
	}
}
