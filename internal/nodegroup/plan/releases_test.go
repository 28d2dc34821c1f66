package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

// left plays Nodes that have left a group and are released as soon as they are admitted.
type left struct {
	*played
	released  []rollout.Node
	releasing sets.Set[string]
}

// newLeft returns a group that had some Nodes. All of them have left it.
func newLeft(count int, settings *v1alpha1.Rollout) *left {
	l := &left{played: newRollout(0, settings)}
	l.group.Spec.Metadata.OnRelease = v1alpha1.ReleaseRemove
	for i := range count {
		l.released = append(l.released, rollout.Node{
			Name: fmt.Sprintf("n%d", i), Created: start.Add(-time.Hour), Labels: map[string]string{"team": "blue", "other": "x"},
			Owned: ownership.Section{}.With(ownership.Label, ownership.KeysOf(map[string]string{"team": ""})),
			Metadata: metadataplan.GroupDecision{State: metadataplan.Pending, Change: metadataplan.Change{
				Write: true, Results: map[ownership.Kind]ownership.Result{ownership.Label: {Set: map[string]string{"other": "y"}, Remove: []string{"team"}}},
			}},
		})
	}
	return l
}

// decide decides, writes the status, and returns the names of the Nodes that may be released.
func (l *left) decide(change func(*Input)) (releasing string, d Decision) {
	in := l.input()
	in.Released, in.Releasing = l.released, l.releasing
	if change != nil {
		change(in)
	}
	d = Decide(in)
	l.group.Status.Rollout, l.group.Status.Phase, l.group.Status.ObservedGeneration = d.Rollout, d.Phase, l.group.Generation
	l.releasing = d.Releasing
	return strings.Join(sets.List(d.Releasing), " "), d
}

// write releases the Nodes that may be released.
func (l *left) write() {
	var rest []rollout.Node
	for i := range l.released {
		if !l.releasing.Has(l.released[i].Name) {
			rest = append(rest, l.released[i])
		}
	}
	l.released = rest
}

// TestDecide_ReleasesInBatches: Nodes that leave a group lose what it has declared in batches, with the pause between them.
func TestDecide_ReleasesInBatches(t *testing.T) {
	l := newLeft(5, &v1alpha1.Rollout{MaxInFlight: number(2), Pause: &metav1.Duration{Duration: time.Minute}})
	for _, want := range []string{"n0 n1", "n2 n3", "n4"} {
		if got, _ := l.decide(nil); got != want {
			t.Fatalf("releases %q, want %q", got, want)
		}
		// In the pause, and when nothing of the batch is done.
		if got, d := l.decide(nil); got != want || want != "n4" && !d.Wake.Equal(l.now.Add(time.Minute)) {
			t.Fatalf("releases %q, want %q, until %s", got, want, d.Wake)
		}
		l.write()
		if got, _ := l.decide(nil); got != "" {
			t.Fatalf("releases %q in the pause", got)
		}
		l.now = l.now.Add(time.Minute)
	}
	if _, d := l.decide(nil); d.Conditions[1].Reason != ReasonComplete {
		t.Errorf("condition %+v", d.Conditions[1])
	}
}

// TestDecide_ReleasesWithoutPause: without a pause as many are being released as may be, and a restart does not make it more in the pause.
func TestDecide_ReleasesWithoutPause(t *testing.T) {
	l := newLeft(4, &v1alpha1.Rollout{MaxInFlight: number(3)})
	if got, d := l.decide(nil); got != "n0 n1 n2" || d.Rollout.ReleaseTime != nil {
		t.Fatalf("releases %q, %+v", got, d.Rollout)
	}
	l.released = l.released[1:]
	if got, d := l.decide(nil); got != "n1 n2 n3" || !d.Wake.IsZero() || d.Conditions[1].Reason != ReasonReleasing {
		t.Fatalf("releases %q: %+v", got, d)
	}
	l = newLeft(4, &v1alpha1.Rollout{MaxInFlight: number(3), Pause: &metav1.Duration{Duration: time.Minute}})
	l.decide(nil)
	l.releasing = nil
	if got, _ := l.decide(nil); got != "" {
		t.Errorf("releases %q after a restart", got)
	}
}

// TestDecide_ReleasesWait: what keeps a group from writing its Nodes keeps it from releasing them.
func TestDecide_ReleasesWait(t *testing.T) {
	uses := rollout.NewUses([]rollout.LabelChange{{Node: "n0", Before: map[string]string{"team": "blue"}, Released: true}})
	uses.AddPod(podOn("n0", requiresLabel("team")))
	for name, c := range map[string]struct {
		change func(*left, *Input)
		want   string
	}{
		"nothing":                     {func(*left, *Input) {}, "n0"},
		"suspended":                   {func(l *left, _ *Input) { l.group.Spec.Suspend = true }, ""},
		"a dry run":                   {func(l *left, _ *Input) { l.group.Spec.DryRun = true }, ""},
		"an invalid selector":         {func(_ *left, in *Input) { in.SelectorError = fmt.Errorf("bad") }, ""},
		"the label is required":       {func(_ *left, in *Input) { in.Uses = uses }, ""},
		"nothing is lost":             {func(l *left, _ *Input) { l.group.Spec.Metadata.OnRelease = v1alpha1.ReleaseKeep }, "n0 n1 n2"},
		"another group has the Nodes": {func(l *left, _ *Input) { l.released[1].Taken, l.released[2].Taken = true, true }, "n0 n1 n2"},
		"a Node cannot be written":    {func(l *left, _ *Input) { l.released[0].Failing = "denied" }, "n0 n1"},
		"a Node is paused":            {func(l *left, _ *Input) { l.released[0].Metadata.Change = metadataplan.Change{} }, "n0 n1"},
		"the group is being deleted": {func(l *left, _ *Input) {
			l.group.DeletionTimestamp, l.group.Spec.Suspend, l.group.Spec.DryRun = timestamp(start), true, true
		}, "n0"},
		"the group is being deleted with an invalid selector": {func(l *left, in *Input) {
			l.group.DeletionTimestamp, in.SelectorError = timestamp(start), fmt.Errorf("bad")
		}, "n0"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeft(3, &v1alpha1.Rollout{MaxInFlight: number(1)})
			if got, d := l.decide(func(in *Input) { c.change(l, in) }); got != c.want {
				t.Errorf("releases %q, want %q: %+v", got, c.want, d.Conditions)
			}
		})
	}
}

// TestDecide_ReleaseDelay: a Node that has left lately may come back: it is not released yet, and needs no confirmation.
func TestDecide_ReleaseDelay(t *testing.T) {
	delay := func(of time.Duration) func(*left) {
		return func(l *left) { l.group.Spec.Rollout = &v1alpha1.Rollout{ReleaseDelay: &metav1.Duration{Duration: of}} }
	}
	for name, c := range map[string]struct {
		change func(*left)
		out    time.Duration
		want   string
		wake   time.Duration
	}{
		"it has just left":           {func(*left) {}, 0, "", time.Minute},
		"it has been out for long":   {func(*left) {}, time.Minute, "n0", 0},
		"the delay is longer":        {delay(time.Hour), time.Minute, "", 59 * time.Minute},
		"there is no delay":          {delay(0), 0, "n0", 0},
		"with onRelease Keep":        {func(l *left) { l.group.Spec.Metadata.OnRelease = v1alpha1.ReleaseKeep }, 0, "", time.Minute},
		"it was released before":     {func(l *left) { l.releasing = sets.New("n0") }, 0, "", time.Minute},
		"another group has it":       {func(l *left) { l.released[0].Taken = true }, 0, "n0", 0},
		"the group is being deleted": {func(l *left) { l.group.DeletionTimestamp = timestamp(start) }, 0, "n0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeft(1, nil)
			c.change(l)
			l.released[0].Left = start.Add(-c.out)
			got, d := l.decide(nil)
			if wake := d.Wake.Sub(start); got != c.want || wake != c.wake && (c.wake > 0 || !d.Wake.IsZero()) {
				t.Errorf("releases %q, want %q; looks again at %s", got, c.want, d.Wake)
			}
			end, progressing := start.Add(c.wake).UTC().Format(time.RFC3339), d.Conditions[1]
			if delayed := strings.Contains(progressing.Message, "at "+end+" or later"); delayed != (c.wake > 0) || progressing.Reason != ReasonReleasing {
				t.Errorf("condition %+v", progressing)
			}
			in := l.input()
			in.Released = l.released
			if lost := in.Rollout().LostLabels(); len(lost) > 0 && c.want == "" {
				t.Errorf("asks for the confirmation of %+v", lost)
			}
		})
	}
}

// TestLostLabels_Released: of a Node that has left the group only what the group has declared counts.
func TestLostLabels_Released(t *testing.T) {
	l := newLeft(1, nil)
	in := l.input()
	in.Released = l.released
	lost := in.Rollout().LostLabels()
	if len(lost) != 1 || len(lost[0].After) != 1 || lost[0].After["other"] != "x" {
		t.Errorf("lost are %+v", lost)
	}
}
