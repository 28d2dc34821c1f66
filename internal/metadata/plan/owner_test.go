package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/ownership"
)

func TestDecide_ConflictPolicies(t *testing.T) {
	for _, c := range []struct {
		policy  string
		settled State
		writes  bool
		want    string
	}{
		{"", Conflicted, true, "machine: other=1; node: other=1 team=green | team=old:NoSchedule"},
		{"keep", Conflicted, true, "machine: other=1; node: other=1 team=green | team=old:NoSchedule"},
		{"adopt", Synced, true, "machine: other=1 team=blue | team=new:NoSchedule; node: other=1 team=blue | team=new:NoSchedule"},
		{"fail", Conflicted, false, "machine: ; node: team=green | team=old:NoSchedule"},
		{"Adopt", Conflicted, true, "machine: other=1; node: other=1 team=green | team=old:NoSchedule"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			w := newWorld().labels("team=blue other=1").taints("team=new:NoSchedule").annotate(AnnotationConflictPolicy, c.policy)
			w.onNode("team", "green")
			w.node.Spec.Taints = list("team=old:NoSchedule")
			decision := w.pass(t)
			if decision.Settled != c.settled || (decision.Machine.Write || decision.Node.Write) != c.writes || decision.Drift {
				t.Errorf("%+v", decision)
			}
			w.expect(t, c.want)
		})
	}
}

func TestDecide_ConflictEnds(t *testing.T) {
	for _, policy := range []string{"keep", "fail"} {
		w := newWorld().labels("team=blue").annotate(AnnotationConflictPolicy, policy)
		w.onNode("team", "green")
		w.pass(t)
		delete(w.node.Labels, "team")
		w.pass(t)
		w.expect(t, "machine: team=blue; node: team=blue")
	}
	// Dropping a key that was never Drover's removes nothing.
	w := newWorld().labels("team=blue")
	w.onNode("team", "green")
	w.pass(t)
	if w.labels("").pass(t); w.node.Labels["team"] != "green" {
		t.Error("another writer's label is gone")
	}
}

// Creation copies what is declared onto the Machine also where another writer set it on the Node. Removing it ends the conflict.
func TestDecide_ConflictEndsWithTheDeclaration(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.machine.Spec.Labels = fields("team=blue")
	w.onNode("team", "green")
	if decision := w.pass(t); decision.Settled != Conflicted {
		t.Fatalf("%+v", decision)
	}
	if decision := w.labels("").pass(t); decision.Settled != Synced {
		t.Errorf("%s, %s", decision.Settled, reasons(decision.Problems))
	}
	w.expect(t, "machine: ; node: team=green")
}

// A restarted operator knows by the digest on the Node that a conflict has been reported. It costs one write, once.
func TestDecide_ConflictIsRecordedOnce(t *testing.T) {
	w := newWorld().labels("mine=1")
	w.pass(t)
	w.onNode("team", "green")
	if decision := w.labels("mine=1 team=blue").pass(t); !decision.Node.Write || decision.Node.Results[ownership.Label].Changed() || decision.Drift {
		t.Errorf("the record alone is to be written: %+v", decision.Node)
	}
	w.expect(t, "machine: mine=1; node: mine=1 team=green")
}

// The Machine's value counts as proof: machine creation or nodelink copied it to the Node.
func TestDecide_OldValueOfTheMachineIsNoConflict(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.machine.Spec.Labels = fields("team=old")
	w.onNode("team", "old")
	if decision := w.pass(t); decision.Settled != Synced {
		t.Errorf("%+v", decision)
	}
	w.expect(t, "machine: team=blue; node: team=blue")
}

func TestDecide_OwnKeysOfTheMachine(t *testing.T) {
	w := newWorld().labels("team=blue both=pool")
	w.machine.Spec.Labels = fields("hand=made both=machine")
	w.machine.Spec.Taints = list("hand:NoSchedule")
	w.pass(t)
	w.expect(t, "machine: both=pool hand=made team=blue | hand:NoSchedule; node: both=pool hand=made team=blue | hand:NoSchedule")
	record := w.record(t)
	if !record.Labels.Equal(ownership.NewKeys("team", "both")) || !record.Machine.Labels.Equal(ownership.NewKeys("hand")) ||
		w.node.Annotations[ownership.AnnotationCustomLabels] != "both,team" {
		t.Errorf("MNMO's list must not name the Machine's own keys: %+v, %v", record, w.node.Annotations)
	}
	delete(w.machine.Spec.Labels, "hand")
	w.machine.Spec.Taints = nil
	w.pass(t)
	w.expect(t, "machine: both=pool team=blue; node: both=pool team=blue")
}

func TestDecide_MachineWithoutMachineSet(t *testing.T) {
	w := newWorld()
	w.set = nil
	w.machine.Spec.Labels = fields("hand=made theirs=1")
	w.onNode("theirs", "2")
	decision := w.pass(t)
	if decision.Machine.Write || decision.Settled != Conflicted {
		t.Errorf("%+v", decision)
	}
	w.expect(t, "machine: hand=made theirs=1; node: hand=made theirs=2")
	w.machine.Spec.Labels = nil
	w.pass(t)
	w.expect(t, "machine: ; node: theirs=2")
}

// A Machine whose MachineSet is gone keeps what it has; it can still be taken off the Machine by hand.
func TestDecide_MachineSetIsDeleted(t *testing.T) {
	w := newWorld().labels("team=blue").taints("a:NoSchedule")
	w.pass(t)
	w.set = nil
	if decision := w.pass(t); decision.Node.Write || decision.Machine.Write || decision.State != Synced {
		t.Errorf("%+v", decision)
	}
	delete(w.machine.Spec.Labels, "team")
	w.pass(t)
	w.expect(t, "machine: a:NoSchedule; node: a:NoSchedule")
}

func TestDecide_Drift(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(*world)
		drift bool
		want  string
	}{
		{"a value changed by hand", func(w *world) { w.onNode("team", "x") }, true, "team=blue | t=1:NoSchedule"},
		{"a label removed by hand", func(w *world) { delete(w.node.Labels, "team") }, true, "team=blue | t=1:NoSchedule"},
		{"all labels removed by hand", func(w *world) { w.node.Labels = nil }, true, "team=blue | t=1:NoSchedule"},
		{"all taints removed by hand", func(w *world) { w.node.Spec.Taints = nil }, true, "team=blue | t=1:NoSchedule"},
		{"a taint's value", func(w *world) { w.node.Spec.Taints = list("t=2:NoSchedule") }, true, "team=blue | t=1:NoSchedule"},
		{"a foreign label is none", func(w *world) { w.onNode("x", "y") }, false, "team=blue x=y | t=1:NoSchedule"},
		{"a new declaration is none", func(w *world) { w.labels("team=red") }, false, "team=red | t=1:NoSchedule"},
		{"nor is both at once", func(w *world) { w.labels("team=red"); w.onNode("team", "x") }, false, "team=red | t=1:NoSchedule"},
		{"a new generation alone is nothing", func(w *world) { w.set.Generation++ }, false, "team=blue | t=1:NoSchedule"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld().labels("team=blue").taints("t=1:NoSchedule")
			w.pass(t)
			c.edit(w)
			if decision := w.pass(t); decision.Drift != c.drift {
				t.Errorf("drift is %v", decision.Drift)
			}
			if got := strings.TrimPrefix(w.where(), "machine: "); !strings.HasSuffix(got, "node: "+c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// There is no manual edit where a key becomes owned only now.
func TestDecide_KeyBecomesOwnedWithoutDrift(t *testing.T) {
	for name, edit := range map[string]func(*world){
		"the policy is adopt now": func(w *world) { w.annotate(AnnotationConflictPolicy, "adopt") },
		"the conflict ends":       func(w *world) { delete(w.node.Labels, "team") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().labels("mine=1 team=blue")
			w.onNode("team", "green")
			if decision := w.pass(t); decision.Settled != Conflicted || w.record(t).Digest != decision.Digest {
				t.Fatalf("%+v", decision)
			}
			edit(w)
			if decision := w.pass(t); decision.Drift || !decision.Node.Write || decision.Settled != Synced {
				t.Errorf("drift %v: %+v", decision.Drift, decision.Node)
			}
			w.onNode("team", "x")
			if !w.pass(t).Drift {
				t.Error("from now on it is")
			}
		})
	}
}

func TestDecide_FirstWrite(t *testing.T) {
	w := newWorld().labels("team=blue")
	if !w.pass(t).FirstWrite || w.pass(t).FirstWrite {
		t.Error("a Node is new until it is written")
	}
	if w.node = newWorld().node; !w.pass(t).FirstWrite {
		t.Error("a Node that registers anew is new")
	}
	if w.node = nil; w.pass(t).FirstWrite {
		t.Error("there is no Node")
	}
}

// Declaring a key that is refused writes nothing, and must not make the next hand edit look like a roll-out.
func TestDecide_DriftAfterARefusedKey(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.pass(t)
	if w.labels("team=blue kubernetes.io/os=x").pass(t).Node.Write {
		t.Error("a refused key is written")
	}
	w.onNode("team", "x")
	if !w.pass(t).Drift {
		t.Error("a hand edit is no drift")
	}
}

// MAO's nodelink copies from a cache that may be stale: it puts back what was removed a moment ago.
func TestDecide_ReleasedKeysAreRestored(t *testing.T) {
	for _, c := range []struct {
		name, value string
		after       time.Duration
		drift       bool
		want        string
	}{
		{"at once", "blue", time.Second, true, ""},
		{"too late to be a stale cache", "blue", ownership.ReleaseWindow, false, "team=blue"},
		{"with another value it is another writer's", "red", time.Second, false, "team=red"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld().labels("team=blue")
			w.pass(t)
			w.labels("").pass(t)
			w.onNode("team", c.value)
			w.now = w.now.Add(c.after)
			decision := w.pass(t)
			if decision.Drift != c.drift {
				t.Errorf("drift is %v", decision.Drift)
			}
			w.expect(t, "machine: ; node: "+c.want)
		})
	}
}

func TestDecide_ContendedKeys(t *testing.T) {
	w := newWorld().labels("team=blue other=1")
	w.pass(t)
	w.onNode("team", "x")
	w.contended = func(target Target, kind ownership.Kind, key string) bool {
		return target == OnNode && kind == ownership.Label && key == "team"
	}
	w.labels("team=blue other=2")
	decision := w.decide()
	if decision.State != Held || decision.Settled != Held || reasons(decision.Problems) != "label team Fighting" {
		t.Errorf("%+v", decision)
	}
	w.pass(t)
	w.expect(t, "machine: other=2 team=blue; node: other=2 team=x")
	w.contended = nil
	w.pass(t)
	w.expect(t, "machine: other=2 team=blue; node: other=2 team=blue")
}

// A contended key that is no longer declared is not forgotten.
func TestDecide_ContendedKeysNoLongerDeclared(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.pass(t)
	w.contended = func(target Target, _ ownership.Kind, _ string) bool { return target == OnNode }
	w.labels("").pass(t)
	w.expect(t, "machine: ; node: team=blue")
	w.contended = nil
	w.pass(t)
	w.expect(t, "machine: ; node: ")
}

// Another writer that removes the record writes as often as Drover does. Only the record waits: what is declared is still written,
// and the record with it.
func TestDecide_ContendedRecord(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.pass(t)
	w.node.Annotations, w.machine.Annotations = nil, nil
	w.contended = func(_ Target, kind ownership.Kind, key string) bool {
		return kind == ownership.Annotation && key == ownership.AnnotationRecord
	}
	decision := w.pass(t)
	if decision.Machine.Write || decision.Node.Write || decision.Settled != Held ||
		reasons(decision.Problems) != "annotation drover.dev/owned-metadata Fighting, annotation drover.dev/owned-metadata Fighting" {
		t.Errorf("%+v", decision)
	}
	delete(w.node.Labels, "team")
	delete(w.machine.Spec.Labels, "team")
	if decision := w.pass(t); !decision.Node.Write || decision.Settled != Synced || w.record(t).Labels.Len() != 1 {
		t.Errorf("%+v", decision)
	}
	w.node.Annotations, w.contended = nil, nil
	if decision := w.pass(t); !decision.Node.RecordOnly() {
		t.Errorf("%+v", decision)
	}
}

func TestDecide_SetOnceTaints(t *testing.T) {
	once := func() *world {
		return newWorld().taints("start=1:NoSchedule always:NoExecute").annotate(AnnotationSetOnceTaints, "start")
	}
	t.Run("set with the first write, and removed from the Machine so that nodelink does not repeat it", func(t *testing.T) {
		w := once()
		w.machine.Spec.Taints = list("start=1:NoSchedule")
		w.pass(t)
		w.expect(t, "machine: always:NoExecute; node: always:NoExecute start=1:NoSchedule")
		w.node.Spec.Taints = list("always:NoExecute")
		w.pass(t)
		w.expect(t, "machine: always:NoExecute; node: always:NoExecute")
	})
	t.Run("another writer's value stays", func(t *testing.T) {
		w := once()
		w.node.Spec.Taints = list("start=9:NoSchedule")
		if decision := w.pass(t); decision.Settled != Synced {
			t.Errorf("%+v", decision)
		}
		w.expect(t, "machine: always:NoExecute; node: start=9:NoSchedule always:NoExecute")
	})
	t.Run("not given to a Node that Drover or MNMO knows", func(t *testing.T) {
		w := once()
		w.note(ownership.AnnotationCustomLabels, "team")
		w.pass(t)
		w.expect(t, "machine: always:NoExecute; node: always:NoExecute")
	})
	t.Run("not given to a Node that is known and has nothing of Drover's left", func(t *testing.T) {
		w := newWorld().taints("start=1:NoSchedule").annotate(AnnotationSetOnceTaints, "start")
		w.note(ownership.AnnotationCustomLabels, "gone")
		w.pass(t)
		w.expect(t, "machine: ; node: ")
	})
	t.Run("an owned taint that becomes set-once is given up, not removed", func(t *testing.T) {
		w := once().annotate(AnnotationSetOnceTaints, "")
		w.pass(t)
		w.annotate(AnnotationSetOnceTaints, "start:NoSchedule").pass(t)
		w.expect(t, "machine: always:NoExecute; node: always:NoExecute start=1:NoSchedule")
		w.taints("always:NoExecute").pass(t)
		w.expect(t, "machine: always:NoExecute; node: always:NoExecute start=1:NoSchedule")
	})
	t.Run("a Node that registers anew gets it again", func(t *testing.T) {
		w := once()
		w.pass(t)
		w.node = newWorld().node
		w.pass(t)
		w.expect(t, "machine: always:NoExecute; node: always:NoExecute start=1:NoSchedule")
	})
	t.Run("the system's are refused", func(t *testing.T) {
		w := newWorld().taints("node.kubernetes.io/x:NoSchedule").annotate(AnnotationSetOnceTaints, "node.kubernetes.io/x")
		if decision := w.pass(t); reasons(decision.Problems) != "taint node.kubernetes.io/x:NoSchedule Refused" {
			t.Errorf("problems: %s", reasons(decision.Problems))
		}
		w.expect(t, "machine: ; node: ")
	})
}

// MNMO's own record is read as proof, so that a cluster can go from one to the other and back.
func TestDecide_FromMNMO(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.machine.Spec.Labels = fields("team=old gone=1")
	w.node.Labels = fields("team=old gone=1 foreign=1")
	w.note(ownership.AnnotationCustomLabels, "gone,team")
	w.pass(t)
	w.expect(t, "machine: team=blue; node: foreign=1 team=blue")
}

func TestDecide_BackToMNMOAndAgain(t *testing.T) {
	w := newWorld().labels("team=blue zone=a")
	w.pass(t)
	// MNMO drops zone and adds tier; another writer takes over zone; then tier is no longer declared, before Drover is back.
	w.machine.Spec.Labels = fields("team=blue tier=1")
	w.node.Labels = fields("team=blue tier=1 zone=mine")
	w.note(ownership.AnnotationCustomLabels, "team,tier")
	w.labels("team=blue").pass(t)
	w.expect(t, "machine: team=blue; node: team=blue zone=mine")
	if got := w.node.Annotations[ownership.AnnotationCustomLabels]; got != "team" {
		t.Errorf("MNMO's list is %q", got)
	}
	// Another writer removes MNMO's list: Drover's own record is enough, and the list comes back.
	delete(w.node.Annotations, ownership.AnnotationCustomLabels)
	w.pass(t)
	w.expect(t, "machine: team=blue; node: team=blue zone=mine")
	if got := w.node.Annotations[ownership.AnnotationCustomLabels]; got != "team" {
		t.Errorf("MNMO's list is %q", got)
	}
}

// An untidy list that means the same is left as it is.
func TestDecide_ListOfMNMOInAnotherOrder(t *testing.T) {
	w := newWorld().labels("a=1 b=1")
	w.pass(t)
	w.note(ownership.AnnotationCustomLabels, " b , a ")
	if decision := w.decide(); decision.Node.Write {
		t.Errorf("%+v", decision.Node)
	}
}

func TestDecide_MachineOfAnotherMachineSet(t *testing.T) {
	w := newWorld().labels("team=blue old=1")
	w.pass(t)
	w.set.Name = "others"
	w.labels("team=red").pass(t)
	w.expect(t, "machine: team=red; node: team=red")
	if record := w.record(t); record.Source != "others" {
		t.Errorf("record %+v", record)
	}
}

func TestDecide_DoesNotChangeItsInput(t *testing.T) {
	w := newWorld().labels("team=blue kubernetes.io/os=x").annotations("n=1").taints("t:NoSchedule t=2:NoSchedule").
		annotate(AnnotationSetOnceTaints, "t")
	w.onNode("team", "green")
	w.machine.Spec.Taints = list("m:NoSchedule")
	metav1.SetMetaDataAnnotation(&w.machine.ObjectMeta, ownership.AnnotationRecord, `{"labels":["x"]}`)
	before := w.where()
	pool := DeclarationOf(w.set)
	in := w.input()
	in.Declaration = pool
	Decide(in)
	Decide(in)
	w.expect(t, before)
	again := DeclarationOf(w.set)
	if again.Revision != pool.Revision || again.Desired.Digest() != pool.Desired.Digest() || len(again.Problems) != len(pool.Problems) {
		t.Error("the pool changed")
	}
}
