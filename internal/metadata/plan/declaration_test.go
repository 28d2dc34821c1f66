package plan

import (
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/ownership"
)

func TestDeclarationOf(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, c := range []struct {
		name     string
		edit     func(*world)
		desired  string
		problems string
	}{
		{"nothing", func(*world) {}, "", ""},
		{"labels", func(w *world) { w.labels("a=1 example.com/b=") }, "label: a=1 example.com/b=", ""},
		{"bad labels are left out, good ones stay", func(w *world) { w.labels("a=1 -b=1 c=" + long + " /d=1 e/f/g=1 h=-") }, "label: a=1",
			"label -b Invalid, label /d Invalid, label c Invalid, label e/f/g Invalid, label h Invalid"},
		{"annotation values are free, keys in upper case too", func(w *world) { w.annotations("Example.COM/Note=a/b;c bad_/x=1 y=" + long) },
			"annotation: Example.COM/Note=a/b;c y=" + long, "annotation bad_/x Invalid"},
		{"a label's prefix may not be in upper case", func(w *world) { w.labels("Example.COM/Note=a") }, "", "label Example.COM/Note Invalid"},
		{"every effect", func(w *world) { w.taints("a=1:NoSchedule a=1:NoExecute b:PreferNoSchedule") },
			"taint: a:NoExecute=1 a:NoSchedule=1 b:PreferNoSchedule=", ""},
		{"effects that are none", func(w *world) { w.taints("a:NoThing b: c:noschedule d:NoSchedule") }, "taint: d:NoSchedule=",
			"taint a:NoThing Invalid, taint b: Invalid, taint c:noschedule Invalid"},
		{"bad taint keys and values", func(w *world) { w.taints("-:NoSchedule a=" + long + ":NoSchedule") }, "",
			"taint -:NoSchedule Invalid, taint a:NoSchedule Invalid"},
		{"of repeated taints the first counts", func(w *world) { w.taints("a=1:NoSchedule b:NoSchedule a=2:NoSchedule") },
			"taint: a:NoSchedule=1 b:NoSchedule=", "taint a:NoSchedule Duplicate"},
		{"an invalid one before does not count", func(w *world) { w.taints("a=-:NoSchedule a=2:NoSchedule") },
			"taint: a:NoSchedule=2", "taint a:NoSchedule Invalid"},
		{"a policy that is none", func(w *world) { w.annotate(AnnotationConflictPolicy, "overwrite") }, "",
			"annotation drover.dev/conflict-policy Invalid"},
		{"set-once names of taints that are not there", func(w *world) { w.taints("a:NoSchedule").annotate(AnnotationSetOnceTaints, "a,b,a:NoExecute") },
			"taint: a:NoSchedule=", "annotation drover.dev/set-once-taints Invalid, annotation drover.dev/set-once-taints Invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.edit(w)
			pool := DeclarationOf(w.set)
			var parts []string
			for _, kind := range ownership.Kinds {
				if text := textOf(pool.Desired[kind]); text != "" {
					parts = append(parts, string(kind)+": "+text)
				}
			}
			if got := strings.Join(parts, "; "); got != c.desired {
				t.Errorf("desired %s\nwant    %s", got, c.desired)
			}
			if got := reasons(pool.Problems); got != c.problems {
				t.Errorf("problems %s\nwant     %s", got, c.problems)
			}
		})
	}
}

func TestDeclarationOf_Annotations(t *testing.T) {
	for policy, want := range map[string]ownership.Policy{
		"": ownership.Keep, "keep": ownership.Keep, "adopt": ownership.Adopt, "fail": ownership.Fail, "ADOPT": ownership.Keep, " adopt": ownership.Keep,
	} {
		if got := DeclarationOf(newWorld().annotate(AnnotationConflictPolicy, policy).set).Policy; got != want {
			t.Errorf("policy %q is read as %s", policy, got)
		}
	}
	for names, want := range map[string]string{
		"": "", "a": "a:NoExecute,a:NoSchedule", "a:NoExecute": "a:NoExecute", " b , a:NoSchedule ,": "a:NoSchedule,b:NoSchedule", "c": "",
	} {
		w := newWorld().taints("a:NoSchedule a:NoExecute b:NoSchedule").annotate(AnnotationSetOnceTaints, names)
		if got := ownership.FormatCustomLabels(DeclarationOf(w.set).Once); got != want {
			t.Errorf("set-once %q is read as %s, want %s", names, got, want)
		}
	}
}

// The revision is what makes thousands of Machines be looked at again: only what matters to them may change it.
func TestRevision(t *testing.T) {
	base := func() *world { return newWorld().labels("a=1").annotations("b=2").taints("c=3:NoSchedule d:NoExecute") }
	for _, c := range []struct {
		name  string
		edit  func(*machinev1beta1.MachineSet)
		moves bool
	}{
		{"nothing", func(*machinev1beta1.MachineSet) {}, false},
		{"scaling", func(s *machinev1beta1.MachineSet) { s.Generation, s.Spec.Replicas = 9, new(int32(5)) }, false},
		{"status", func(s *machinev1beta1.MachineSet) { s.Status.ReadyReplicas, s.ResourceVersion = 5, "77" }, false},
		{"an annotation of the MachineSet", func(s *machinev1beta1.MachineSet) { s.Annotations = fields("x=y") }, false},
		{"the default policy by name", func(s *machinev1beta1.MachineSet) { s.Annotations = fields(AnnotationConflictPolicy + "=keep") }, false},
		{"the order of taints", func(s *machinev1beta1.MachineSet) { s.Spec.Template.Spec.Taints = list("d:NoExecute c=3:NoSchedule") }, false},
		{"a label", func(s *machinev1beta1.MachineSet) { s.Spec.Template.Spec.Labels = fields("a=2") }, true},
		{"a label becomes an annotation", func(s *machinev1beta1.MachineSet) {
			s.Spec.Template.Spec.Labels, s.Spec.Template.Spec.Annotations = nil, fields("a=1 b=2")
		}, true},
		{"a taint's value", func(s *machinev1beta1.MachineSet) { s.Spec.Template.Spec.Taints = list("c=4:NoSchedule d:NoExecute") }, true},
		{"a taint's effect", func(s *machinev1beta1.MachineSet) { s.Spec.Template.Spec.Taints = list("c=3:NoSchedule d:NoSchedule") }, true},
		{"the policy", func(s *machinev1beta1.MachineSet) { s.Annotations = fields(AnnotationConflictPolicy + "=adopt") }, true},
		{"a pause", func(s *machinev1beta1.MachineSet) { s.Annotations = fields(AnnotationPaused + "=") }, true},
		{"what is set once", func(s *machinev1beta1.MachineSet) { s.Annotations = fields(AnnotationSetOnceTaints + "=d") }, true},
		{"an invalid entry", func(s *machinev1beta1.MachineSet) { s.Spec.Template.Spec.Labels = fields("a=1 -=2") }, true},
		{"a repeated taint", func(s *machinev1beta1.MachineSet) {
			s.Spec.Template.Spec.Taints = list("c=3:NoSchedule d:NoExecute c=4:NoSchedule")
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := base()
			c.edit(w.set)
			if moved := DeclarationOf(w.set).Revision != DeclarationOf(base().set).Revision; moved != c.moves {
				t.Errorf("the revision changed: %v", moved)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	a := Entries{ownership.Label: fields("a=1 b=2 c=3")}
	for range 20 {
		if again := (Entries{ownership.Label: fields("c=3 b=2 a=1"), ownership.Taint: {}}); again.Digest() != a.Digest() {
			t.Fatal("the same entries in another order have another digest")
		}
	}
	seen := map[string]string{}
	for text, entries := range map[string]Entries{
		"none":           {},
		"a=1":            {ownership.Label: fields("a=1")},
		"annotation":     {ownership.Annotation: fields("a=1")},
		"a=":             {ownership.Label: fields("a=")},
		"moved boundary": {ownership.Label: {"a1": ""}},
		"two":            {ownership.Label: fields("a=1 b=")},
	} {
		if other, taken := seen[entries.Digest()]; taken {
			t.Errorf("%s has the digest of %s", text, other)
		}
		seen[entries.Digest()] = text
	}
}

// The messages go into events and tables as they are: they have to say what, where and why.
func TestProblem_Messages(t *testing.T) {
	w := newWorld().labels("kubernetes.io/os=x bad=- team=blue hot=1").taints("a=1:NoSchedule a=2:NoSchedule x:Never").
		annotate(AnnotationConflictPolicy, "steal").annotate(AnnotationSetOnceTaints, "zz")
	w.onNode("team", "green")
	w.note(ownership.AnnotationRecord, "[")
	w.contended = func(target Target, _ ownership.Kind, key string) bool { return target == OnNode && key == "hot" }
	var all []string
	for _, problem := range w.decide().Problems {
		all = append(all, problem.Message)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		`label "kubernetes.io/os" belongs to the system; Drover neither sets nor removes it`,
		`label "bad" is left out: `,
		`label "team" has the value "green" on the Node, set by another writer; declared is "blue", policy is keep`,
		`another writer keeps changing label "hot" of the Node; Drover waits before it writes it again`,
		`taint "a:NoSchedule" is declared more than once; the first value "1" counts, "2" is left out`,
		`effect "Never" is none of NoSchedule, PreferNoSchedule, NoExecute`,
		`annotation drover.dev/conflict-policy is "steal", which is none of keep, adopt, fail; keep is used`,
		`annotation drover.dev/set-once-taints names "zz", which is no taint of the template; it has no effect`,
		`Node: annotation drover.dev/owned-metadata is not a record of owned keys, nothing is taken as owned: `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s\nin:\n%s", want, text)
		}
	}
	if len(all) != 9 {
		t.Errorf("%d problems:\n%s", len(all), text)
	}
}
