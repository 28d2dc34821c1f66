package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

// start is the time at which tests begin.
var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// played plays a group whose Nodes are written as soon as they are admitted.
type played struct {
	group *v1alpha1.NodeGroup
	nodes []rollout.Node
	now   time.Time
	// declaration is what the Nodes are to carry; nil for what the group declares.
	declaration *metadataplan.Declaration
	// disrupted are the Nodes that capabilities disrupt; nil for a group without a budget.
	disrupted []v1alpha1.Reservation
}

// newRollout returns a group with Nodes that have been Ready for an hour and are to be written.
func newRollout(count int, settings *v1alpha1.Rollout) *played {
	r := &played{group: &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Generation: 1}}, now: start}
	r.group.Spec.Rollout = settings
	r.group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"team": "blue"}}
	for i := range count {
		before := start.Add(-time.Hour)
		node := rollout.Node{Name: fmt.Sprintf("n%d", i), Zone: string(rune('a' + i%2)), Ready: true, ReadyChange: before, Created: before}
		r.nodes = append(r.nodes, node)
	}
	r.change()
	return r
}

// change has every Node to be written.
func (r *played) change() {
	for i := range r.nodes {
		r.nodes[i].Metadata = metadataplan.GroupDecision{State: metadataplan.Pending, Change: metadataplan.Change{Write: true}}
	}
}

// node returns a Node by its name.
func (r *played) node(name string) *rollout.Node {
	return &r.nodes[slices.IndexFunc(r.nodes, func(n rollout.Node) bool { return n.Name == name })]
}

// decide decides, writes the Nodes that are admitted and the status, and returns the names of the written Nodes.
func (r *played) decide() (written string, d Decision) {
	in := &Input{Group: r.group, Declaration: cmp.Or(r.declaration, metadataplan.GroupDeclarationOf(r.group)), Nodes: slices.Clone(r.nodes), Now: r.now}
	if r.disrupted != nil {
		in.Budget = &Budget{Disrupted: r.disrupted}
	}
	d = Decide(in)
	var names []string
	for i := range r.nodes {
		if n := &r.nodes[i]; n.Metadata.Change.Write && d.Admitted.Has(n.Name) {
			n.Metadata = metadataplan.GroupDecision{State: metadataplan.Synced, Reached: true}
			names = append(names, n.Name)
		}
	}
	r.group.Status.Rollout, r.group.Status.Phase, r.group.Status.ObservedGeneration = d.Rollout, d.Phase, r.group.Generation
	return strings.Join(names, " "), d
}

func number(n int) *intstr.IntOrString {
	value := intstr.FromInt(n)
	return &value
}

func percent(text string) *intstr.IntOrString {
	value := intstr.FromString(text)
	return &value
}

func TestDecide_Waves(t *testing.T) {
	first := int32(1)
	for name, c := range map[string]struct {
		settings *v1alpha1.Rollout
		want     []string
	}{
		"without spec.rollout all at once": {nil, []string{"n0 n1 n2 n3 n4"}},
		"a small first wave":               {&v1alpha1.Rollout{FirstWave: &first, MaxInFlight: number(2)}, []string{"n0", "n2 n4", "n1 n3"}},
		"a percentage is rounded up":       {&v1alpha1.Rollout{MaxInFlight: percent("30%")}, []string{"n0 n2", "n1 n4", "n3"}},
		"one by one, zone by zone":         {&v1alpha1.Rollout{MaxInFlight: number(1)}, []string{"n0", "n2", "n4", "n1", "n3"}},
		"larger than the group":            {&v1alpha1.Rollout{MaxInFlight: number(50)}, []string{"n0 n1 n2 n3 n4"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(5, c.settings)
			for i, want := range c.want {
				if got, _ := r.decide(); got != want {
					t.Fatalf("wave %d has %q, want %q", i+1, got, want)
				}
			}
			if got, d := r.decide(); got != "" || d.Phase != v1alpha1.PhaseIdle || d.Rollout.Wave != fmt.Sprintf("%d/%d", len(c.want), len(c.want)) {
				t.Errorf("at the end it writes %q, phase %s, wave %s", got, d.Phase, d.Rollout.Wave)
			}
		})
	}
}

func TestDecide_PauseBetweenWaves(t *testing.T) {
	r := newRollout(3, &v1alpha1.Rollout{MaxInFlight: number(1), Pause: &metav1.Duration{Duration: time.Minute}})
	for i, step := range []struct {
		after   time.Duration
		written string
		phase   v1alpha1.Phase
	}{
		{0, "n0", v1alpha1.PhaseRolling},
		{time.Second, "", v1alpha1.PhaseWaiting},
		{59 * time.Second, "", v1alpha1.PhaseWaiting},
		{time.Second, "n2", v1alpha1.PhaseRolling},
		{time.Second, "", v1alpha1.PhaseWaiting},
		{time.Minute, "n1", v1alpha1.PhaseRolling},
		{time.Second, "", v1alpha1.PhaseIdle},
	} {
		r.now = r.now.Add(step.after)
		written, d := r.decide()
		if written != step.written || d.Phase != step.phase {
			t.Fatalf("step %d writes %q, phase %s; want %q, %s", i, written, d.Phase, step.written, step.phase)
		}
		if d.Phase == v1alpha1.PhaseWaiting && d.Wake.IsZero() {
			t.Errorf("step %d does not say when the pause ends", i)
		}
	}
}

func TestDecide_MinReadySeconds(t *testing.T) {
	r := newRollout(2, &v1alpha1.Rollout{MaxInFlight: number(1), MinReadySeconds: 30})
	r.decide()
	r.now = r.now.Add(time.Second)
	r.node("n0").Ready, r.node("n0").ReadyChange = true, r.now
	if written, d := r.decide(); written != "" || !d.Wake.Equal(r.now.Add(30*time.Second)) || !slices.Equal(d.Rollout.WaitingFor, []string{"n0"}) {
		t.Fatalf("writes %q, wakes at %s, waits for %v", written, d.Wake, d.Rollout.WaitingFor)
	}
	r.now = r.now.Add(30 * time.Second)
	if written, _ := r.decide(); written != "n1" {
		t.Errorf("writes %q", written)
	}
}

func TestDecide_Conditions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*played, *Input)
		want   string
	}{
		"synced": {func(r *played, _ *Input) { r.decide() }, "Ready=Synced Progressing=Complete Blocked=NotBlocked Overlapping=Exclusive"},
		"rolling out": {func(*played, *Input) {},
			"Ready=NotSynced Progressing=RollingOut Blocked=NotBlocked Overlapping=Exclusive"},
		"suspended": {func(r *played, _ *Input) { r.group.Spec.Suspend = true },
			"Ready=NotSynced Progressing=Suspended Blocked=NotBlocked Overlapping=Exclusive"},
		"dry run": {func(r *played, _ *Input) { r.group.Spec.DryRun = true },
			"Ready=NotSynced Progressing=DryRun Blocked=NotBlocked Overlapping=Exclusive"},
		"overlap": {func(r *played, in *Input) { r.decide(); in.Overlaps = []Overlap{{Node: "n0", Group: "other"}} },
			"Ready=Synced Progressing=Complete Blocked=NotBlocked Overlapping=Overlapping"},
		"replacing": {func(r *played, in *Input) {
			r.decide()
			in.Replacement = replacementplan.Report{Replacing: true, Progress: "2"}
		},
			"Ready=Synced Progressing=Replacing Blocked=NotBlocked Overlapping=Exclusive"},
		"replacing, and metadata is rolled out": {func(_ *played, in *Input) { in.Replacement = replacementplan.Report{Replacing: true} },
			"Ready=NotSynced Progressing=RollingOut Blocked=NotBlocked Overlapping=Exclusive"},
		"replacing, dry run": {func(r *played, in *Input) {
			r.decide()
			r.group.Spec.DryRun, in.Replacement = true, replacementplan.Report{Replacing: true}
		}, "Ready=Synced Progressing=DryRun Blocked=NotBlocked Overlapping=Exclusive"},
		"a new Machine has failed": {func(r *played, in *Input) {
			r.decide()
			in.Replacement = replacementplan.Report{Replacing: true, Reason: replacementplan.ReasonNewMachineFailed}
		}, "Ready=Synced Progressing=Stopped Blocked=NewMachineFailed Overlapping=Exclusive"},
		"a taint is held back": {func(r *played, _ *Input) {
			r.decide()
			r.nodes[1].Metadata.State = metadataplan.RefusedState
			r.nodes[1].Metadata.Problems = []metadataplan.Problem{{Reason: metadataplan.NoExecuteHeld, Message: "a limit"}}
		}, "Ready=NoExecuteHeld Progressing=Complete Blocked=NoExecuteHeld Overlapping=Exclusive"},
		"a Node is paused": {func(r *played, _ *Input) { r.decide(); r.nodes[1].Metadata.State = metadataplan.Held },
			"Ready=NotSynced Progressing=Complete Blocked=NotBlocked Overlapping=Exclusive"},
		"no Node is selected": {func(r *played, _ *Input) { r.nodes = nil },
			"Ready=NoNodes Progressing=Complete Blocked=NotBlocked Overlapping=Exclusive"},
		"all Nodes are in an older group": {func(r *played, in *Input) {
			r.nodes, in.Overlaps = nil, []Overlap{{Node: "n0", Group: "older"}}
		}, "Ready=Overlapping Progressing=Complete Blocked=NotBlocked Overlapping=Overlapping"},
		"no Node is left of a group that is being deleted": {func(r *played, _ *Input) {
			r.nodes, r.group.DeletionTimestamp = nil, &metav1.Time{Time: start}
		}, "Ready=Synced Progressing=Releasing Blocked=NotBlocked Overlapping=Exclusive"},
		"invalid selector": {func(r *played, in *Input) { r.decide(); in.SelectorError = fmt.Errorf("no") },
			"Ready=InvalidSelector Progressing=Complete Blocked=NotBlocked Overlapping=Exclusive"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(2, nil)
			in := &Input{}
			c.change(r, in)
			in.Group, in.Declaration, in.Nodes, in.Now = r.group, metadataplan.GroupDeclarationOf(r.group), r.nodes, r.now
			var got []string
			for _, condition := range Decide(in).Conditions {
				got = append(got, condition.Type+"="+condition.Reason)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("conditions are %v, want %s", got, c.want)
			}
		})
	}
}

// TestDecide_PhaseOfReplacement: the phase says whether Machines are being replaced, wait, or wait for a user.
func TestDecide_PhaseOfReplacement(t *testing.T) {
	for name, c := range map[string]struct {
		report replacementplan.Report
		want   v1alpha1.Phase
	}{
		"nothing to replace": {replacementplan.Report{Outdated: 1}, v1alpha1.PhaseIdle},
		"replacing":          {replacementplan.Report{Outdated: 2, Replacing: true, Progress: "two"}, v1alpha1.PhaseRolling},
		"no place in the budget": {
			replacementplan.Report{Outdated: 2, Replacing: true, Progress: "two", Reason: "BudgetExhausted", Message: "full"}, v1alpha1.PhaseWaiting,
		},
		"paused": {
			replacementplan.Report{Outdated: 2, Replacing: true, Progress: "two", Reason: replacementplan.ReasonPaused, Message: "paused"},
			v1alpha1.PhaseWaiting,
		},
		"stopped": {
			replacementplan.Report{Outdated: 2, Replacing: true, Progress: "two", Reason: replacementplan.ReasonNewMachineFailed, Message: "failed"},
			v1alpha1.PhaseStopped,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(1, nil)
			r.decide()
			in := &Input{Group: r.group, Declaration: metadataplan.GroupDeclarationOf(r.group), Nodes: r.nodes, Now: r.now, Replacement: c.report}
			if d := Decide(in); d.Phase != c.want {
				t.Errorf("phase %s", d.Phase)
			}
		})
	}
}

// join adds a Node that has just registered and that its Drover is still to write.
func (r *played) join(name, zone string) *rollout.Node {
	r.nodes = append(r.nodes, rollout.Node{
		Name: name, Zone: zone, Created: r.now, ReadyChange: r.now,
		Metadata: metadataplan.GroupDecision{State: metadataplan.Pending, Change: metadataplan.Change{Write: true}},
	})
	return &r.nodes[len(r.nodes)-1]
}

// TestDecide_Denied: a wave does not wait for a Node that the API server keeps Drover from writing, and the condition Ready names it.
func TestDecide_Denied(t *testing.T) {
	r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(1)})
	r.decide()
	if written, _ := r.decide(); written != "n2" {
		t.Fatalf("writes %q", written)
	}
	r.node("n2").Metadata = metadataplan.GroupDecision{State: metadataplan.Pending, Change: metadataplan.Change{Write: true}}
	r.node("n2").Failing = "the webhook says no"
	for i, want := range []string{"n1", "n3"} {
		in := &Input{Group: r.group, Declaration: metadataplan.GroupDeclarationOf(r.group), Nodes: slices.Clone(r.nodes), Now: r.now}
		if d := Decide(in); !d.Admitted.HasAll("n2", want) || d.Phase != v1alpha1.PhaseRolling {
			t.Fatalf("step %d admits %v, phase %s", i, sets.List(d.Admitted), d.Phase)
		}
		r.group.Status.Rollout = Decide(in).Rollout
		r.node(want).Metadata = metadataplan.GroupDecision{State: metadataplan.Synced, Reached: true}
	}
	in := &Input{Group: r.group, Declaration: metadataplan.GroupDeclarationOf(r.group), Nodes: slices.Clone(r.nodes), Now: r.now}
	d := Decide(in)
	ready := d.Conditions[0]
	if d.Phase != v1alpha1.PhaseIdle || d.Rollout.EndTime == nil || ready.Reason != ReasonDenied || d.Conditions[1].Reason != ReasonComplete {
		t.Errorf("phase %s: %+v", d.Phase, d.Conditions)
	}
	want := "cannot write n2: the webhook says no"
	if ready.Message != want || !d.Admitted.Has("n2") {
		t.Errorf("%s; admitted: %v", ready.Message, sets.List(d.Admitted))
	}
}

// TestDecide_NotReadyOnPurpose: a Node that is taken away or restarted on purpose, or is not initialized, stops no roll-out and holds up no wave.
func TestDecide_NotReadyOnPurpose(t *testing.T) {
	for name, change := range map[string]func(*played, *rollout.Node){
		"leaving": func(_ *played, n *rollout.Node) { n.Leaving = true },
		"joining": func(_ *played, n *rollout.Node) { n.Joining = true },
		"disrupted for maintenance": func(r *played, n *rollout.Node) {
			r.disrupted = []v1alpha1.Reservation{{Node: n.Name, Capability: v1alpha1.CapabilityMaintenance}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(1)})
			r.decide()
			r.now = r.now.Add(time.Minute)
			node := r.node("n0")
			node.Ready, node.ReadyChange = false, r.now
			change(r, node)
			if written, d := r.decide(); written != "n2" || d.Rollout.Stopped != "" {
				t.Errorf("writes %q, stopped: %s", written, d.Rollout.Stopped)
			}
		})
	}
	r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(1)})
	r.decide()
	r.now = r.now.Add(time.Minute)
	r.node("n0").Ready, r.node("n0").ReadyChange = false, r.now
	r.disrupted = []v1alpha1.Reservation{{Node: "n0", Capability: v1alpha1.CapabilityMetadata}}
	if _, d := r.decide(); d.Rollout.Stopped == "" {
		t.Error("a Node that the roll-out itself disrupts does not stop it")
	}
}

// TestDecide_Properties: whatever happens to Nodes, no more of them are admitted beyond the waves that are over than one wave has, and a group whose
// Nodes are Ready comes to its end.
func TestDecide_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		r := newRollout(rapid.IntRange(1, 12).Draw(t, "nodes"), &v1alpha1.Rollout{
			MaxInFlight: number(size), StopWhen: &v1alpha1.StopConditions{NotReady: percent("100%")},
		})
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			r.now = r.now.Add(2 * time.Second)
			node := &r.nodes[rapid.IntRange(0, len(r.nodes)-1).Draw(t, "node")]
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				node.Ready, node.ReadyChange = !node.Ready, r.now
			case 1:
				node.Metadata = metadataplan.GroupDecision{State: metadataplan.Pending, Change: metadataplan.Change{Write: true}}
			}
			pending := sets.New[string]()
			for i := range r.nodes {
				if r.nodes[i].Metadata.Change.Write {
					pending.Insert(r.nodes[i].Name)
				}
			}
			_, d := r.decide()
			// Before the current wave a Node is written again at once.
			if d.Wave <= d.Waves && len(d.Admitted) > d.Wave*size {
				t.Fatalf("wave %d of %d admits %v", d.Wave, size, sets.List(d.Admitted))
			}
		}
		for i := range r.nodes {
			r.nodes[i].Ready, r.nodes[i].ReadyChange = true, r.now
		}
		for range 2 * len(r.nodes) {
			r.now = r.now.Add(2 * time.Second)
			if _, d := r.decide(); d.Phase == v1alpha1.PhaseIdle {
				return
			}
		}
		if r.group.Status.Rollout.Stopped == "" {
			t.Fatalf("it does not end: %+v", r.group.Status.Rollout)
		}
	})
}

// TestDecide_ProgressingMessages: the message says until when the roll-out pauses, or which Nodes it waits for, those included that are paused.
func TestDecide_ProgressingMessages(t *testing.T) {
	message := func(d *Decision) string { return d.Conditions[1].Message }
	r := newRollout(2, &v1alpha1.Rollout{MaxInFlight: number(1), Pause: &metav1.Duration{Duration: time.Minute}, MinReadySeconds: 30})
	r.decide()
	r.now = r.now.Add(time.Second)
	r.node("n0").ReadyChange = r.now
	if _, d := r.decide(); message(&d) != "wave 1/2 waits for n0; 1 Nodes are to be written" || d.Conditions[1].Status != metav1.ConditionTrue {
		t.Error(message(&d))
	}
	r.now = r.now.Add(30 * time.Second)
	if _, d := r.decide(); message(&d) != "wave 2/2 begins at 2026-07-01T12:01:31Z, after the pause of spec.rollout.pause" {
		t.Error(message(&d))
	}
	r.now = r.now.Add(time.Second)
	r.node("n1").Ready, r.node("n1").ReadyChange = false, r.now
	_, d := r.decide()
	if message(&d) != "wave 2/2 does not go on; 1 Nodes are to be written" || d.Conditions[1].Reason != ReasonStopped {
		t.Error(message(&d))
	}
	r.group.DeletionTimestamp = &metav1.Time{Time: r.now}
	r.node("n1").Owned = ownership.Section{Labels: ownership.NewKeys("team")}
	r.node("n1").Metadata = metadataplan.GroupDecision{State: metadataplan.Held}
	if _, d := r.decide(); message(&d) != "1 Nodes are still to be released: n1" {
		t.Error(message(&d))
	}
}
