package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// unrecorded are worlds with entries on the Node that only the Machine's values show to be Drover's, and how they end.
var unrecorded = map[string]struct {
	make func(t *testing.T) *world
	want string
}{
	"all kinds change": {func(*testing.T) *world {
		w := newWorld().labels("team=blue").annotations("note=new").taints("t=2:NoSchedule")
		w.machine.Spec.Labels, w.machine.Spec.Annotations, w.machine.Spec.Taints = fields("team=old"), fields("note=old"), list("t=1:NoSchedule")
		w.node.Spec.Taints = list("admin:NoSchedule")
		w.nodelink()
		return w
	}, "machine: team=blue | note=new | t=2:NoSchedule; node: team=blue | note=new | admin:NoSchedule t=2:NoSchedule"},
	"what a Machine had before its Node came is dropped": {func(t *testing.T) *world {
		w := newWorld().labels("team=blue keep=1").annotations("note=x").taints("t:NoSchedule")
		node := w.node
		w.node = nil
		w.pass(t)
		w.node = node
		w.nodelink()
		w.onNode("foreign", "1")
		return w.labels("keep=1").annotations("").taints("")
	}, "machine: keep=1; node: foreign=1 keep=1"},
	"no longer declared, and another writer has changed it on the Node": {func(t *testing.T) *world {
		w := newWorld().labels("team=blue other=1")
		node := w.node
		w.node = nil
		w.pass(t)
		w.node = node
		w.nodelink()
		w.onNode("team", "theirs")
		return w.labels("")
	}, "machine: ; node: team=theirs"},
	"MNMO's list proves one key, the Machine another": {func(*testing.T) *world {
		w := newWorld().labels("team=blue").taints("t=2:NoSchedule")
		w.machine.Spec.Labels, w.machine.Spec.Taints = fields("gone=1 team=old"), list("t=1:NoSchedule")
		w.nodelink()
		w.note(ownership.AnnotationCustomLabels, "gone")
		return w
	}, "machine: team=blue | t=2:NoSchedule; node: team=blue | t=2:NoSchedule"},
	"MNMO has given its labels up": {func(*testing.T) *world {
		w := newWorld().taints("t=2:NoSchedule")
		w.machine.Spec.Taints = list("t=1:NoSchedule")
		w.nodelink()
		w.onNode("former", "1")
		w.note(ownership.AnnotationCustomLabels, "")
		w.note(ownership.AnnotationRecord, `{"labels":["former"],"digest":"x"}`)
		return w
	}, "machine: t=2:NoSchedule; node: former=1 | t=2:NoSchedule"},
	"a taint is set once in addition": {func(*testing.T) *world {
		w := newWorld().labels("team=blue").taints("start:NoSchedule").annotate(AnnotationSetOnceTaints, "start")
		w.machine.Spec.Labels, w.machine.Spec.Taints = fields("team=old"), list("start:NoSchedule")
		w.onNode("team", "old")
		return w
	}, "machine: team=blue; node: team=blue | start:NoSchedule"},
	"a taint was given once before": {func(*testing.T) *world {
		w := newWorld().labels("team=blue").taints("start:NoSchedule").annotate(AnnotationSetOnceTaints, "start")
		w.machine.Spec.Labels = fields("team=old")
		w.onNode("team", "old")
		w.note(ownership.AnnotationRecord, "{")
		return w
	}, "machine: team=blue; node: team=blue"},
}

// If the process is killed between any two patches, or a patch is refused, the next reconciliation comes to the same end.
func TestRecordUpdate_InterruptedAnywhere(t *testing.T) {
	for name, c := range unrecorded {
		t.Run(name, func(t *testing.T) {
			w := c.make(t)
			decision := w.decide()
			if decision.Drift {
				t.Error("counts as drift")
			}
			sent, err := w.applySome(decision, 3)
			if err != nil {
				t.Fatal(err)
			}
			w.pass(t)
			w.expect(t, c.want)
			for patches := range sent {
				w := c.make(t)
				if _, err := w.applySome(w.decide(), patches); err != nil {
					t.Fatal(err)
				}
				if decision := w.pass(t); decision.Settled == Conflicted || decision.Drift {
					t.Errorf("killed after %d patches: %+v", patches, decision)
				}
				w.expect(t, c.want)
			}
		})
	}
}

func TestRecordUpdate_OnlyWhatTheMachineAloneShows(t *testing.T) {
	for name, c := range map[string]struct {
		make   func(*world)
		update bool
	}{
		"nothing to prove":       {func(*world) {}, false},
		"the Machine's value":    {func(w *world) { w.machine.Spec.Labels = fields("team=old"); w.onNode("team", "old") }, true},
		"another writer's value": {func(w *world) { w.machine.Spec.Labels = fields("team=old"); w.onNode("team", "theirs") }, false},
		"declared already":       {func(w *world) { w.machine.Spec.Labels = fields("team=blue"); w.onNode("team", "blue") }, false},
		"the Machine's own key":  {func(w *world) { w.machine.Spec.Labels = fields("hand=1"); w.onNode("hand", "1") }, false},
		"recorded on the Node":   {func(w *world) { w.labels("team=old").pass(panics{}); w.labels("team=blue") }, false},
		"the Node may not be":    {func(w *world) { w.machine.Spec.Labels = fields("team=old"); w.onNode("team", "old"); w.shared = true }, false},
		"policy fail, a conflict": {func(w *world) {
			w.labels("team=blue other=1").annotate(AnnotationConflictPolicy, "fail")
			w.machine.Spec.Labels = fields("team=old")
			w.node.Labels = fields("team=old other=theirs")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().labels("team=blue")
			c.make(w)
			if update := w.decide().RecordUpdate; update.Write() != c.update {
				t.Errorf("update %+v", update)
			}
		})
	}
}

// What another writer changes between the observation and the update does not become Drover's.
func TestRecordPatch_FailsOnConcurrentWrites(t *testing.T) {
	for name, c := range map[string]struct {
		write func(*world)
		fails bool
	}{
		"nothing":                       {func(*world) {}, false},
		"a heartbeat":                   {func(w *world) { w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}} }, false},
		"a foreign label":               {func(w *world) { w.onNode("x", "y") }, false},
		"the label":                     {func(w *world) { w.onNode("team", "theirs") }, true},
		"the label goes":                {func(w *world) { delete(w.node.Labels, "team") }, true},
		"the annotation":                {func(w *world) { w.note("note", "theirs") }, true},
		"the taints":                    {func(w *world) { w.node.Spec.Taints = nil }, true},
		"another operator's record":     {func(w *world) { w.note(ownership.AnnotationRecord, "{}") }, true},
		"all annotations with the note": {func(w *world) { w.node.Annotations = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := unrecorded["all kinds change"].make(t)
			patch, err := RecordPatch(w.node, w.decide().RecordUpdate)
			if err != nil {
				t.Fatal(err)
			}
			c.write(w)
			if _, err := patchNode(w.node, patch); (err != nil) != c.fails {
				t.Errorf("error %v, want one: %v", err, c.fails)
			}
		})
	}
}

// A record update creates no list for MNMO, which would look as if MNMO had run. An existing list decides about labels, and has to name them.
func TestRecordUpdate_ListOfMNMO(t *testing.T) {
	for name, c := range map[string]struct {
		list *string
		want string
	}{"none": {nil, ""}, "an empty one": {new(""), "team"}, "one of others": {new("zone"), "team,zone"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().labels("team=blue")
			w.machine.Spec.Labels = fields("team=old zone=a")
			w.nodelink()
			if c.list != nil {
				w.note(ownership.AnnotationCustomLabels, *c.list)
			}
			if _, err := w.applySome(w.decide(), 1); err != nil {
				t.Fatal(err)
			}
			w.expect(t, "machine: team=old zone=a; node: team=old zone=a")
			got, there := w.node.Annotations[ownership.AnnotationCustomLabels]
			if got != c.want || there != (c.list != nil) {
				t.Errorf("the list is %q (%v)", got, there)
			}
		})
	}
}

// The record of a Node that two Machines name, or that is being deleted, cannot be written: the Machine keeps its value.
func TestDecide_KeepsTheMachinesValueWhileTheNodeMayNotBeWritten(t *testing.T) {
	w := newWorld().labels("team=blue new=1")
	w.machine.Spec.Labels = fields("team=old")
	w.onNode("team", "old")
	w.shared = true
	w.pass(t)
	w.expect(t, "machine: new=1 team=old; node: team=old")
	w.shared = false
	w.pass(t)
	w.expect(t, "machine: new=1 team=blue; node: new=1 team=blue")
}
