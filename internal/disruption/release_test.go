package disruption

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
)

var errBroken = errors.New("broken")

func withThreePlaces(group *v1alpha1.NodeGroup) {
	group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(3))
}

func TestRelease(t *testing.T) {
	f := newFixture(t)
	f.change(withThreePlaces)
	first, second := f.reserve(newRequest("n0", upgrade), ""), f.reserve(newRequest("n1", upgrade), "")
	f.reserve(newRequest("n2", maintenance), "")
	f.requests.Writes = nil
	if err := f.budgets.Release(t.Context(), groupName, *first.Reservation, *second.Reservation); err != nil {
		t.Fatal(err)
	}
	f.wrote(1)
	f.reserved("n2")
	if err := f.budgets.Release(t.Context(), groupName, *first.Reservation, *second.Reservation); err != nil {
		t.Fatal(err)
	}
	f.wrote(0)
}

func TestRelease_RenewedMeanwhile(t *testing.T) {
	f := newFixture(t)
	answer := f.reserve(newRequest("n0", upgrade), "")
	f.step(time.Minute)
	f.reserve(newRequest("n0", upgrade), "")
	if err := f.budgets.Release(t.Context(), groupName, *answer.Reservation); err != nil {
		t.Fatal(err)
	}
	f.reserved("n0")
}

func TestRelease_Fails(t *testing.T) {
	f := newFixture(t)
	answer := f.reserve(newRequest("n0", upgrade), "")
	f.requests.Fail = map[string]error{"status NodeGroup": errBroken}
	if err := f.budgets.Release(t.Context(), groupName, *answer.Reservation); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
	f.reserved("n0")
}

func TestWithdraw(t *testing.T) {
	f := newFixture(t)
	f.reserve(newRequest("n0", upgrade), "")
	f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	for _, node := range []string{"n1", "n0", "n0", "elsewhere"} {
		if err := f.budgets.Withdraw(t.Context(), newRequest(node, upgrade)); err != nil {
			t.Fatal(err)
		}
	}
	f.reserved()
	if _, waiting, err := f.budgets.Counts(t.Context(), groupName, f.members.nodes); waiting != 0 || err != nil {
		t.Errorf("%d wait, error %v", waiting, err)
	}
	if err := f.client.Delete(t.Context(), f.group()); err != nil {
		t.Fatal(err)
	}
	if err := f.budgets.Withdraw(t.Context(), newRequest("n0", upgrade)); err != nil {
		t.Errorf("without the group: %v", err)
	}
}

func TestRenew(t *testing.T) {
	f := newFixture(t)
	if renewed, err := f.budgets.Renew(t.Context(), newRequest("n0", upgrade)); renewed || err != nil {
		t.Errorf("without a reservation: %v %v", renewed, err)
	}
	f.reserve(newRequest("n0", upgrade), "")
	f.step(time.Minute)
	f.requests.Writes = nil
	if renewed, err := f.budgets.Renew(t.Context(), newRequest("n0", upgrade)); !renewed || err != nil {
		t.Errorf("renewed %v, error %v", renewed, err)
	}
	f.wrote(1)
	if got := f.group().Status.Reservations[0].Time; !got.Time.Equal(f.clock.Now()) {
		t.Errorf("the time is %s", got)
	}
	f.reserve(newRequest("n0", upgrade), "")
	f.wrote(0)
	if renewed, err := f.budgets.Renew(t.Context(), newRequest("elsewhere", upgrade)); renewed || err != nil {
		t.Errorf("without a group: %v %v", renewed, err)
	}
	f.requests.Fail = map[string]error{"status NodeGroup": errBroken}
	if renewed, err := f.budgets.Renew(t.Context(), newRequest("n0", upgrade)); renewed || !errors.Is(err, errBroken) {
		t.Errorf("renewed %v, error %v", renewed, err)
	}
}

func TestIsReserved(t *testing.T) {
	f := newFixture(t)
	expect := func(what, node string, want bool) {
		t.Helper()
		if got, err := f.budgets.IsReserved(t.Context(), newRequest(node, upgrade)); got != want || err != nil {
			t.Errorf("%s: %v, error %v", what, got, err)
		}
	}
	expect("without a reservation", "n0", false)
	expect("without a group", "elsewhere", true)
	f.reserve(newRequest("n0", upgrade), "")
	f.requests.Writes = nil
	expect("with a reservation", "n0", true)
	expect("with that of another Node", "n1", false)
	f.wrote(0)
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption = nil })
	expect("without a budget", "n1", true)
	f.members.err = errBroken
	if _, err := f.budgets.IsReserved(t.Context(), newRequest("n0", upgrade)); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
}

func TestWorks(t *testing.T) {
	f := newFixture(t)
	f.change(withThreePlaces)
	for _, node := range []string{"n0", "n1", "n2"} {
		f.reserve(newRequest(node, upgrade), "")
	}
	if err := f.budgets.Finish(t.Context(), newRequest("n0", upgrade)); err != nil {
		t.Fatal(err)
	}
	if err := f.budgets.Finish(t.Context(), newRequest("elsewhere", upgrade)); err != nil {
		t.Fatal(err)
	}
	exists := func(_ context.Context, r *v1alpha1.Reservation) (bool, error) { return r.Object == "Object/n1", nil }
	check := func(want map[string][2]bool) {
		t.Helper()
		works, err := f.budgets.Works(t.Context(), groupName, exists)
		if err != nil || len(works) != 3 {
			t.Fatalf("%d works, error %v", len(works), err)
		}
		for _, work := range works {
			if got := [2]bool{work.Over, work.Orphaned}; got != want[work.Reservation.Node] {
				t.Errorf("%s: over, orphaned are %v", work.Reservation.Node, got)
			}
		}
	}
	check(map[string][2]bool{"n0": {true, false}, "n2": {false, true}})
	f.start()
	check(map[string][2]bool{"n0": {false, true}, "n2": {false, true}})
	failing := func(context.Context, *v1alpha1.Reservation) (bool, error) { return false, errBroken }
	if _, err := f.budgets.Works(t.Context(), groupName, failing); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
}

// The same Node is disrupted again for the same object: the end of the first time does not count.
func TestFinish_ReservedAgain(t *testing.T) {
	f := newFixture(t)
	answer := f.reserve(newRequest("n0", upgrade), "")
	if err := f.budgets.Finish(t.Context(), newRequest("n0", upgrade)); err != nil {
		t.Fatal(err)
	}
	if err := f.budgets.Release(t.Context(), groupName, *answer.Reservation); err != nil {
		t.Fatal(err)
	}
	f.reserve(newRequest("n0", upgrade), "")
	works, err := f.budgets.Works(t.Context(), groupName, func(context.Context, *v1alpha1.Reservation) (bool, error) { return true, nil })
	if err != nil || len(works) != 1 || works[0].Over {
		t.Errorf("%+v, error %v", works, err)
	}
}

// What ends a reservation needs the group, too.
func TestRelease_GroupGone(t *testing.T) {
	f := newFixture(t)
	answer := f.reserve(newRequest("n0", upgrade), "")
	if err := f.client.Delete(t.Context(), f.group()); err != nil {
		t.Fatal(err)
	}
	if err := f.budgets.Release(t.Context(), groupName, *answer.Reservation); !apierrors.IsConflict(err) {
		t.Errorf("Release: %v", err)
	}
	if _, err := f.budgets.Works(t.Context(), groupName, nil); !apierrors.IsConflict(err) {
		t.Errorf("Works: %v", err)
	}
	if _, err := f.budgets.Renew(t.Context(), newRequest("n0", upgrade)); !apierrors.IsConflict(err) {
		t.Errorf("Renew: %v", err)
	}
}

func TestBudgets_MembershipFails(t *testing.T) {
	f := newFixture(t)
	f.members.err = &meta.NoKindMatchError{}
	request := newRequest("n0", upgrade)
	_, err := f.budgets.Renew(t.Context(), request)
	for name, err := range map[string]error{
		"Withdraw": f.budgets.Withdraw(t.Context(), request), "Finish": f.budgets.Finish(t.Context(), request), "Renew": err,
	} {
		if !meta.IsNoMatchError(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
