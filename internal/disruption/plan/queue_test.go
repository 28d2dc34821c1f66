package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

func newWaiting(node string, capability v1alpha1.Capability, since time.Duration) Request {
	return Request{Node: node, Capability: capability, Object: node, Since: now.Add(-since)}
}

func names(q *Queue) (names []string) {
	for r := range q.All(now) {
		names = append(names, r.Node)
	}
	return names
}

func TestQueue_Order(t *testing.T) {
	q := &Queue{}
	if names(q) != nil {
		t.Error("the zero value is not empty")
	}
	for _, r := range []Request{
		newWaiting("replacement", replacement, 30*time.Minute),
		newWaiting("metadata", metadata, 30*time.Minute),
		newWaiting("upgrade-later", upgrade, 10*time.Minute),
		newWaiting("upgrade", upgrade, 20*time.Minute),
		newWaiting("maintenance", maintenance, time.Minute),
		newWaiting("remediation", remediation, time.Minute),
		byPerson(newWaiting("person", maintenance, time.Second)),
		newWaiting("aged-replacement", replacement, 2*time.Hour),
		newWaiting("aged-upgrade", upgrade, time.Hour),
		newWaiting("unknown", "Unknown", 40*time.Minute),
	} {
		q.Put(r)
	}
	want := []string{
		"aged-replacement", "aged-upgrade", "person", "remediation", "maintenance", "upgrade", "upgrade-later", "metadata", "unknown", "replacement",
	}
	if got := names(q); !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
	q.Remove(KeyOf(&v1alpha1.Reservation{Node: "person", Capability: maintenance, Object: "person"}))
	q.Remove(KeyOf(&v1alpha1.Reservation{Node: "person", Capability: maintenance, Object: "person"}))
	if got := names(q); slices.Contains(got, "person") || q.Len() != len(want)-1 {
		t.Errorf("after a removal: %q", got)
	}
}

func TestQueue_PutKeepsAge(t *testing.T) {
	q := &Queue{}
	q.Put(newWaiting("a", upgrade, time.Minute))
	q.Put(newWaiting("b", upgrade, 30*time.Second))
	q.Put(newWaiting("a", upgrade, 0))
	if got := names(q); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the order is %q", got)
	}
	again := byPerson(newWaiting("b", upgrade, 0))
	q.Put(again)
	if got := names(q); !slices.Equal(got, []string{"b", "a"}) || q.Len() != 2 {
		t.Errorf("after the rank changed, the order is %q", got)
	}
	if r, found := q.Get(again.Key()); !found || !r.Person || !r.Since.Equal(now.Add(-30*time.Second)) {
		t.Errorf("the request is %+v", r)
	}
}

// All returns requests in the order that before defines, whatever has been put and removed.
func TestQueue_AllAgreesWithBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &Queue{}
		capabilities := rapid.SampledFrom(order)
		for range rapid.IntRange(0, 40).Draw(t, "puts") {
			r := newWaiting(fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "node")), capabilities.Draw(t, "capability"),
				time.Duration(rapid.IntRange(0, 120).Draw(t, "minutes"))*time.Minute)
			r.Person = rapid.Bool().Draw(t, "person")
			if rapid.Bool().Draw(t, "remove") {
				q.Remove(r.Key())
				continue
			}
			q.Put(r)
		}
		all := slices.Collect(q.All(now))
		if len(all) != q.Len() {
			t.Fatalf("%d of %d", len(all), q.Len())
		}
		for i := 1; i < len(all); i++ {
			if !before(&all[i-1], &all[i], now) || before(&all[i], &all[i-1], now) {
				t.Fatalf("%+v comes before %+v", all[i-1], all[i])
			}
		}
	})
}

func TestAdmit_Turns(t *testing.T) {
	two := withMax("2")
	for name, test := range map[string]admitCase{
		"one of a higher rank waits for the only place": {
			newFixture(4, withWaiting("n1", remediation, time.Minute)), newRequest("n0", upgrade), ReasonQueued, "Remediation of Node n1 is first", Recheck,
		},
		"one of a lower rank waits": {newFixture(4, withWaiting("n1", replacement, time.Minute)), newRequest("n0", upgrade), "", "", 0},
		"one of the same rank waits": {
			newFixture(4, withWaiting("n1", upgrade, time.Minute)), newRequest("n0", upgrade), ReasonQueued, "Upgrade of Node n1 is first", Recheck,
		},
		"one of a lower rank has waited for an hour": {
			newFixture(4, withWaiting("n1", replacement, time.Hour)), newRequest("n0", upgrade), ReasonQueued, "Replacement of Node n1", Recheck,
		},
		"there is a place for both": {newFixture(4, two, withWaiting("n1", remediation, time.Minute)), newRequest("n0", upgrade), "", "", 0},
		"there is a place for one of three": {
			newFixture(4, two, withWaiting("n1", remediation, time.Minute), withWaiting("n2", upgrade, time.Minute)), newRequest("n0", upgrade), ReasonQueued,
			"Upgrade of Node n2 is first", Recheck,
		},
		"the one that waits reached its ceiling": {
			newFixture(4, two, withDisruption("n2", metadata), withCeiling(metadata, "1"), withWaiting("n1", metadata, 2*time.Hour)),
			newRequest("n0", upgrade), "", "", 0,
		},
		"the one that waits has a closed window": {
			newFixture(4, withWaiting("n1", upgrade, 2*time.Hour), withWindow(Window{Closed: true}),
				withSpec(func(spec *v1alpha1.Disruption) { spec.Exempt = []v1alpha1.Capability{metadata} })),
			newRequest("n0", metadata), "", "", 0,
		},
		"the one that waits takes no place from others": {
			newFixture(4, withNode(1, notReady), withNode(0, cordoned), withWaiting("n1", maintenance, time.Minute)), newRequest("n0", upgrade), "", "", 0,
		},
		"the request itself waits": {newFixture(4, withWaiting("n0", upgrade, time.Minute)), newRequest("n0", upgrade), "", "", 0},
	} {
		t.Run(name, test.run)
	}
}

func TestNext(t *testing.T) {
	group := newFixture(6, withMax("2"), withWaiting("n1", upgrade, time.Minute), withWaiting("n2", remediation, time.Minute),
		withWaiting("n3", metadata, 0), withWaiting("n4", metadata, 0), withNode(4, notReady))
	for most, want := range map[int][]string{0: nil, 1: {"n2"}, 9: {"n2", "n4"}} {
		var got []string
		for _, r := range Next(&group.Input, most) {
			got = append(got, r.Node)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of at most %d, the next are %q, want %q", most, got, want)
		}
	}
	if group.Group.Spec.Disruption = nil; len(Next(&group.Input, 9)) != 4 {
		t.Error("without a budget, not all that wait are next")
	}
}

// TestNext_Person: a user's NodeMaintenance that waited is next as soon as personMaintenance is Report, or the group has no budget any more: its
// controller does not see that.
func TestNext_Person(t *testing.T) {
	queue := withSpec(func(spec *v1alpha1.Disruption) { spec.PersonMaintenance = v1alpha1.PersonQueue })
	closed := withWindow(Window{Closed: true, Reason: ReasonWindowClosed})
	suspended := func(f *fixture) { f.Group.Spec.Suspend = true }
	withoutBudget := func(f *fixture) { f.Group.Spec.Disruption = nil }
	for name, c := range map[string]struct {
		changes []func(*fixture)
		want    string
	}{
		"Queue, the window is closed":  {[]func(*fixture){queue, closed}, ""},
		"Report, the window is closed": {[]func(*fixture){closed}, "n1"},
		"Queue, suspended":             {[]func(*fixture){queue, suspended}, ""},
		"Report, suspended":            {[]func(*fixture){suspended}, "n1"},
		"Report, no place":             {[]func(*fixture){withMax("0")}, "n1"},
		"suspended without a budget":   {[]func(*fixture){suspended, withoutBudget}, "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(3, c.changes...)
			f.Waiting.Put(byPerson(newWaiting("n1", maintenance, time.Minute)))
			f.Waiting.Put(newWaiting("n2", upgrade, time.Hour))
			var got []string
			for _, r := range Next(&f.Input, 9) {
				got = append(got, r.Node)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("next is %q, want %q", text, c.want)
			}
		})
	}
}

// TestQueue_SameName: of two objects of one name, as when one was deleted and created again, the right one is removed.
func TestQueue_SameName(t *testing.T) {
	for _, uid := range []types.UID{"a", "b"} {
		var q Queue
		for _, other := range []types.UID{"a", "b"} {
			q.Put(withObject(newRequest("n0", upgrade), other))
		}
		q.Remove(new(withObject(newRequest("n0", upgrade), uid)).Key())
		for left := range q.All(now) {
			if left.ObjectUID == uid {
				t.Errorf("%s is left", uid)
			}
		}
	}
}
