package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/rollout"
)

// TestDecide_JoiningNodes: Nodes that register during or after a roll-out, NotReady at first, neither stop it nor keep its waves from going on.
func TestDecide_JoiningNodes(t *testing.T) {
	t.Run("after the roll-out", func(t *testing.T) {
		r := newRollout(5, nil)
		r.decide()
		r.now = r.now.Add(90 * 24 * time.Hour)
		r.join("new", "a")
		if written, d := r.decide(); written != "new" || d.Rollout.Stopped != "" || d.Phase == v1alpha1.PhaseStopped {
			t.Fatalf("writes %q, phase %s: %s", written, d.Phase, d.Rollout.Stopped)
		}
		if _, d := r.decide(); d.Phase != v1alpha1.PhaseIdle {
			t.Errorf("phase %s: %+v", d.Phase, d.Rollout)
		}
	})
	t.Run("during the roll-out", func(t *testing.T) {
		r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(1)})
		r.decide()
		r.now = r.now.Add(time.Minute)
		r.join("new", "a")
		if written, d := r.decide(); written != "n2 new" || d.Rollout.Wave != "2/4" {
			t.Fatalf("writes %q in wave %s", written, d.Rollout.Wave)
		}
		for _, want := range []string{"n1", "n3", ""} {
			if written, d := r.decide(); written != want {
				t.Fatalf("writes %q, want %q: %+v", written, want, d.Rollout)
			}
		}
	})
	t.Run("it was there when a user resumed the roll-out", func(t *testing.T) {
		r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(1)})
		r.decide()
		r.now = r.now.Add(time.Minute)
		r.join("new", "a")
		r.group.Status.Rollout.ResumeTime = timestamp(r.now.Add(time.Minute))
		r.now = r.now.Add(2 * time.Minute)
		r.node("new").ReadyChange = r.now
		if _, d := r.decide(); !strings.Contains(d.Rollout.Stopped, "new") {
			t.Errorf("it does not stop: %+v", d.Rollout)
		}
	})
}

// TestDecide_PauseIsNotProlonged: whatever happens to Nodes of the waves that are over, the pause between two waves stays as long as it is.
func TestDecide_PauseIsNotProlonged(t *testing.T) {
	edited := metadataplan.GroupDecision{State: metadataplan.Pending, Reached: true, Drift: true, Change: metadataplan.Change{Write: true}}
	for name, change := range map[string]func(*played, int){
		"nothing happens": func(*played, int) {},
		"new Nodes join": func(r *played, i int) {
			r.join(fmt.Sprintf("new%d", i), "a").Metadata = metadataplan.GroupDecision{State: metadataplan.Synced, Reached: true}
		},
		"old Nodes join behind the others": func(r *played, i int) {
			if i%8 == 0 {
				r.nodes = append(r.nodes, rollout.Node{Name: fmt.Sprint("old", i), Zone: "z", Ready: true, Created: start.Add(-2 * time.Hour)})
			}
		},
		"a Node that is as declared restarts": func(r *played, i int) {
			r.node("n0").Ready, r.node("n0").ReadyChange = i%2 == 0, r.now
		},
		"a Node is edited": func(r *played, _ int) { r.node("n0").Metadata = edited },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(8, &v1alpha1.Rollout{
				MaxInFlight: number(1), Pause: &metav1.Duration{Duration: 10 * time.Minute}, StopWhen: &v1alpha1.StopConditions{NotReady: percent("100%")},
			})
			r.decide()
			written := 0
			for i := range 60 { // of two minutes
				r.now = r.now.Add(2 * time.Minute)
				change(r, i)
				names, _ := r.decide()
				r.now = r.now.Add(time.Second)
				next, _ := r.decide()
				for name := range strings.FieldsSeq(names + " " + next) {
					if slices.Contains([]string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"}, name) {
						written++
					}
				}
				if most := i*2/10 + 1; written > most {
					t.Fatalf("%d Nodes after %d minutes: %+v", written, i*2, r.group.Status.Rollout)
				}
			}
			if left := len(pendingOf(r)); left > 0 {
				t.Errorf("%d Nodes are still to be written: %+v", left, r.group.Status.Rollout)
			}
		})
	}
}

// TestDecide_PauseWhenNodesGo: each wave is followed by a pause, also when Nodes go meanwhile.
func TestDecide_PauseWhenNodesGo(t *testing.T) {
	for name, gone := range map[string][]string{"of waves that are over": {"n0", "n2"}, "of waves that have not begun": {"n7", "n5"}} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(8, &v1alpha1.Rollout{MaxInFlight: number(1), Pause: &metav1.Duration{Duration: 10 * time.Minute}})
			var last time.Time
			for i := range 60 {
				r.now = r.now.Add(2 * time.Minute)
				if i == 19 || i == 27 {
					r.nodes = slices.DeleteFunc(r.nodes, func(n rollout.Node) bool { return n.Name == gone[(i-19)/8] })
				}
				written, _ := r.decide()
				if written == "" {
					continue
				}
				if r.now.Sub(last) < 10*time.Minute {
					t.Fatalf("%s is written %s after the one before: %+v", written, r.now.Sub(last), r.group.Status.Rollout)
				}
				last = r.now
			}
			if r.group.Status.Rollout.EndTime == nil {
				t.Errorf("it does not end: %+v", r.group.Status.Rollout)
			}
		})
	}
}

// TestDecide_ChangedWaves: waves of another size are counted anew, and are followed by pauses.
func TestDecide_ChangedWaves(t *testing.T) {
	r := newRollout(20, &v1alpha1.Rollout{MaxInFlight: number(1), Pause: &metav1.Duration{Duration: time.Minute}})
	for range 9 {
		r.decide()
		r.now = r.now.Add(30 * time.Second)
	}
	r.group.Spec.Rollout.MaxInFlight = number(5)
	r.group.Generation++
	count := 0
	for range 12 {
		written, d := r.decide()
		r.now = r.now.Add(30 * time.Second)
		if written != "" {
			count++
		}
		if len(strings.Fields(written)) > 5 {
			t.Fatalf("writes %q: %+v", written, d.Rollout)
		}
	}
	if count != 4 || r.group.Status.Rollout.EndTime == nil {
		t.Errorf("%d waves: %+v", count, r.group.Status.Rollout)
	}
}

// TestDecide_AfterEnd: a roll-out that has ended is not stopped, and waits for nothing, however many Nodes become NotReady later.
func TestDecide_AfterEnd(t *testing.T) {
	r := newRollout(5, &v1alpha1.Rollout{MaxInFlight: number(2), Pause: &metav1.Duration{Duration: time.Hour}})
	for range 6 {
		r.decide()
		r.now = r.now.Add(time.Hour)
	}
	_, d := r.decide()
	if d.Phase != v1alpha1.PhaseIdle || d.Rollout.EndTime == nil {
		t.Fatalf("phase %s: %+v", d.Phase, d.Rollout)
	}
	ended := d.Rollout
	r.now = r.now.Add(60 * 24 * time.Hour)
	r.node("n0").Ready, r.node("n0").ReadyChange = false, r.now
	if _, d := r.decide(); d.Phase != v1alpha1.PhaseIdle || len(d.Rollout.WaitingFor) > 0 || !equality.Semantic.DeepEqual(d.Rollout, ended) {
		t.Fatalf("phase %s: %+v", d.Phase, d.Rollout)
	}
	// Nodes from elsewhere join: they are written a wave after the other, without a pause.
	for _, name := range []string{"n1", "n2", "n3"} {
		r.node(name).Metadata = metadataplan.GroupDecision{State: metadataplan.Pending, Change: metadataplan.Change{Write: true}}
	}
	for i, want := range []string{"n1 n2", "n3", ""} {
		if written, d := r.decide(); written != want || d.Rollout.Stopped != "" {
			t.Fatalf("step %d writes %q, want %q: %+v", i, written, want, d.Rollout)
		}
	}
	// Another revision is a roll-out of its own.
	r.group.Spec.Metadata.Labels["team"] = "red"
	r.change()
	if written, d := r.decide(); written != "n0 n2" || d.Rollout.EndTime != nil || d.Rollout.Wave != "1/3" {
		t.Errorf("writes %q: %+v", written, d.Rollout)
	}
}

// TestDecide_GroupWithoutNodes: Nodes that join a group which has none yet are rolled out in waves.
func TestDecide_GroupWithoutNodes(t *testing.T) {
	r := newRollout(3, &v1alpha1.Rollout{MaxInFlight: number(1)})
	nodes := r.nodes
	r.nodes = nil
	if _, d := r.decide(); d.Phase != v1alpha1.PhaseIdle || d.Rollout.EndTime != nil {
		t.Fatalf("phase %s: %+v", d.Phase, d.Rollout)
	}
	r.nodes = nodes
	if written, d := r.decide(); written != "n0" {
		t.Errorf("writes %q: %+v", written, d.Rollout)
	}
}

// TestDecide_Suspend: a roll-out goes on from where it was suspended, and Nodes that have become NotReady meanwhile do not stop it.
func TestDecide_Suspend(t *testing.T) {
	r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(1)})
	r.decide()
	r.decide()
	began := r.group.Status.Rollout.StartTime
	r.group.Spec.Suspend = true
	for i := range r.nodes {
		if r.nodes[i].Metadata.Change.Write {
			r.nodes[i].Metadata = metadataplan.GroupDecision{State: metadataplan.Held}
		}
	}
	r.now = r.now.Add(time.Hour)
	r.node("n0").Ready, r.node("n0").ReadyChange = false, r.now
	written, d := r.decide()
	if written != "" || d.Phase != v1alpha1.PhaseSuspended || d.Rollout.Wave != "2/4" || d.Counts.Synced != 2 {
		t.Fatalf("writes %q, phase %s, wave %s, %+v", written, d.Phase, d.Rollout.Wave, d.Counts)
	}
	r.group.Spec.Suspend = false
	r.now = r.now.Add(time.Hour)
	for _, name := range []string{"n1", "n3"} {
		r.node(name).Metadata = metadataplan.GroupDecision{State: metadataplan.Pending, Change: metadataplan.Change{Write: true}}
	}
	for _, want := range []string{"n1", "n3", ""} {
		written, d := r.decide()
		if written != want || d.Rollout.Stopped != "" || !d.Rollout.StartTime.Equal(began) {
			t.Errorf("writes %q, want %q: %+v", written, want, d.Rollout)
		}
	}
}

// pendingOf returns the Nodes of newRollout that are to be written.
func pendingOf(r *played) (names []string) {
	for i := range r.nodes {
		if n := &r.nodes[i]; n.Metadata.Change.Write && strings.HasPrefix(n.Name, "n") && n.Name != "n0" {
			names = append(names, n.Name)
		}
	}
	return names
}

// TestDecide_OtherTaintsOfMachineSets: what MachineSets declare is rolled out in waves, too, and does not have a roll-out go on that has stopped.
func TestDecide_OtherTaintsOfMachineSets(t *testing.T) {
	r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(2)})
	decide := func(templates string) (string, Decision) {
		declaration := *metadataplan.GroupDeclarationOf(r.group)
		declaration.Revision += templates
		r.declaration = &declaration
		return r.decide()
	}
	for _, want := range []string{"n0 n2", "n1 n3", ""} {
		if written, _ := decide(""); written != want {
			t.Fatalf("writes %q, want %q", written, want)
		}
	}
	for _, templates := range []string{".1", ".2", ""} {
		r.now = r.now.Add(time.Hour)
		r.change()
		for _, want := range []string{"n0 n2", "n1 n3", ""} {
			if written, d := decide(templates); written != want || (d.Rollout.EndTime == nil) != (want != "") && want != "n1 n3" {
				t.Fatalf("with %q it writes %q, want %q: %+v", templates, written, want, d.Rollout)
			}
		}
	}
	r.now = r.now.Add(time.Hour)
	r.change()
	decide(".3")
	r.now = r.now.Add(time.Minute)
	r.node("n0").Ready, r.node("n0").ReadyChange = false, r.now
	if _, d := decide(".3"); d.Rollout.Stopped == "" {
		t.Fatalf("it has not stopped: %+v", d.Rollout)
	}
	if written, d := decide(".4"); written != "" || d.Rollout.Stopped == "" || d.Phase != v1alpha1.PhaseStopped {
		t.Errorf("it writes %q, and is %s: %+v", written, d.Phase, d.Rollout)
	}
}

// TestDecide_OtherTaintsAfterAFailure: a wave waits for a Node that has failed since the roll-out began, also when a MachineSet gets its first Node.
func TestDecide_OtherTaintsAfterAFailure(t *testing.T) {
	r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(2), StopWhen: &v1alpha1.StopConditions{NotReady: number(3)}})
	if written, _ := r.decide(); written != "n0 n2" {
		t.Fatalf("writes %q", written)
	}
	r.now = r.now.Add(time.Minute)
	r.node("n0").Ready, r.node("n0").ReadyChange = false, r.now
	for _, templates := range []string{"", ".1", ".2"} {
		r.now = r.now.Add(time.Minute)
		declaration := *metadataplan.GroupDeclarationOf(r.group)
		declaration.Revision += templates
		r.declaration = &declaration
		if written, d := r.decide(); written != "" || d.Rollout.EndTime != nil {
			t.Errorf("with %q it writes %q: %+v", templates, written, d.Rollout)
		}
	}
}

// TestDecide_OtherTaintsReachNewNodes: what MachineSets declare since the roll-out began reaches the Nodes in waves that have been created meanwhile.
func TestDecide_OtherTaintsReachNewNodes(t *testing.T) {
	r := newRollout(2, &v1alpha1.Rollout{MaxInFlight: number(1)})
	if written, _ := r.decide(); written != "n0" {
		t.Fatalf("writes %q", written)
	}
	for _, name := range []string{"n2", "n3"} {
		r.now = r.now.Add(time.Minute)
		r.nodes = append(r.nodes, rollout.Node{Name: name, Zone: "b", Created: r.now, Ready: true, ReadyChange: r.now})
	}
	r.now = r.now.Add(time.Minute)
	r.change()
	declaration := *metadataplan.GroupDeclarationOf(r.group)
	declaration.Revision += ".1"
	r.declaration = &declaration
	for _, want := range []string{"n0", "n1", "n2", "n3", ""} {
		if written, d := r.decide(); written != want {
			t.Fatalf("writes %q, want %q: %+v", written, want, d.Rollout)
		}
	}
}

// TestDecide_NewNodesStopARollout: a Node that was created since the roll-out began stops it when it becomes NotReady in a wave of what MachineSets
// declare since then.
func TestDecide_NewNodesStopARollout(t *testing.T) {
	r := newRollout(1, &v1alpha1.Rollout{MaxInFlight: number(1), StopWhen: &v1alpha1.StopConditions{NotReady: number(1)}})
	r.decide()
	r.change() // the only wave is not over
	r.now = r.now.Add(time.Minute)
	for _, name := range []string{"n1", "n2"} {
		r.nodes = append(r.nodes, rollout.Node{Name: name, Zone: "b", Created: r.now, Ready: true, ReadyChange: r.now})
	}
	r.change()
	r.now = r.now.Add(time.Minute)
	declaration := *metadataplan.GroupDeclarationOf(r.group)
	declaration.Revision += ".1"
	r.declaration = &declaration
	for _, want := range []string{"n0", "n1"} {
		if written, d := r.decide(); written != want {
			t.Fatalf("writes %q, want %q: %+v", written, want, d.Rollout)
		}
	}
	r.now = r.now.Add(time.Minute)
	r.node("n1").Ready, r.node("n1").ReadyChange = false, r.now
	if written, d := r.decide(); written != "" || d.Rollout.Stopped == "" {
		t.Errorf("writes %q: %+v", written, d.Rollout)
	}
}
