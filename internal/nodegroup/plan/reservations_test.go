package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

var reserved = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// goneWork is the work of a reservation whose Node is gone; it was made so many minutes after another one.
func goneWork(minutes int) disruptionplan.Work {
	return disruptionplan.Work{Gone: true, Since: reserved, Reservation: v1alpha1.Reservation{
		Node: fmt.Sprintf("n%d", minutes), Capability: v1alpha1.CapabilityRemediation, Object: "Machine/a/b",
		Time: metav1.NewTime(reserved.Add(time.Duration(minutes) * time.Minute)),
	}}
}

func successor(name string, minutes int) Successor {
	return Successor{UID: types.UID(name), Created: reserved.Add(time.Duration(minutes)*time.Minute + time.Second)}
}

// replaced returns the names of the Nodes that count as replaced.
func replaced(works []disruptionplan.Work) (names []string) {
	for i := range works {
		if works[i].Replaced {
			names = append(names, works[i].Reservation.Node)
		}
	}
	return names
}

// TestSuccessors_Match: each new Node takes the place of one that is gone, of the one that was reserved first, and keeps it.
func TestSuccessors_Match(t *testing.T) {
	s := Successors{}
	works := []disruptionplan.Work{goneWork(2), goneWork(0), goneWork(1)}
	steps := []struct {
		nodes []Successor
		want  []string
	}{
		{nil, nil},
		{[]Successor{successor("older", -5)}, nil},
		{[]Successor{successor("older", -5), successor("a", 0)}, []string{"n0"}},
		{[]Successor{successor("older", -5), successor("a", 0)}, []string{"n0"}},
		{[]Successor{successor("a", 0), successor("b", 1)}, []string{"n0", "n1"}},
	}
	for i, step := range steps {
		s.Match(works, step.nodes, -1)
		if got := replaced(works); !slices.Equal(got, step.want) {
			t.Errorf("step %d: replaced are %v, want %v", i, got, step.want)
		}
	}
	// The first two have been released; their successors take no other place.
	rest := []disruptionplan.Work{goneWork(2)}
	s.Match(rest, []Successor{successor("a", 0), successor("b", 1)}, -1)
	if got := replaced(rest); len(got) > 0 {
		t.Errorf("replaced are %v, by the successors of others", got)
	}
	s.Match(nil, nil, -1)
	if len(s.taken) > 0 {
		t.Errorf("with no Node gone, remembered are %v", s.taken)
	}
}

// TestSuccessors_MatchByNextProcess: a Node that joined before the process began may have taken the place of a reservation that is released by now.
func TestSuccessors_MatchByNextProcess(t *testing.T) {
	s, works := Successors{}, []disruptionplan.Work{goneWork(0)}
	joined := []Successor{successor("a", 1)}
	for i, nodes := range [][]Successor{joined, joined, append(joined, successor("b", 2))} {
		s.Match(works, nodes, -1)
		if want := i == 2; works[0].Replaced != want {
			t.Errorf("step %d: replaced is %t, want %t", i, works[0].Replaced, want)
		}
	}
}

// TestSuccessors_MatchByReplicas: where MachineSets say how many Nodes there should be, as many are replaced as they do not lack.
func TestSuccessors_MatchByReplicas(t *testing.T) {
	for missing, want := range map[int][]string{0: {"n0", "n1", "n2"}, 1: {"n0", "n1"}, 3: nil, 9: nil} {
		works := []disruptionplan.Work{goneWork(1), goneWork(2), goneWork(0), {Reservation: v1alpha1.Reservation{Node: "there"}}}
		new(Successors).Match(works, nil, missing)
		if got := replaced(works); !slices.Equal(got, want) {
			t.Errorf("with %d missing, replaced are %v, want %v", missing, got, want)
		}
	}
}

func TestEndReservations(t *testing.T) {
	over := disruptionplan.Work{Over: true, Since: reserved, Reservation: v1alpha1.Reservation{Node: "over"}}
	late := goneWork(0)
	going := disruptionplan.Work{Reservation: v1alpha1.Reservation{Node: "going"}}
	pace := disruptionplan.Pace{MinReady: time.Minute, Deadline: 30 * time.Minute}
	for name, test := range map[string]struct {
		after time.Duration
		want  []string
		wake  time.Duration
	}{
		"not Ready for long enough": {30 * time.Second, nil, time.Minute},
		"Ready for long enough":     {time.Minute, []string{"over"}, 30 * time.Minute},
		"no successor came":         {30 * time.Minute, []string{"over", "n0"}, 0},
	} {
		ended, wake := EndReservations([]disruptionplan.Work{over, late, going}, pace, reserved.Add(test.after))
		var names []string
		for i := range ended {
			names = append(names, ended[i].Node)
		}
		if wants := reserved.Add(test.wake); !slices.Equal(names, test.want) || test.wake > 0 != wake.Equal(wants) {
			t.Errorf("%s: ended are %v, want %v; again at %s, want %s", name, names, test.want, wake, wants)
		}
	}
}
