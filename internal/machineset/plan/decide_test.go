package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/paused"
)

func TestDecide(t *testing.T) {
	three := func(edits ...func(*machinev1beta1.Machine)) []*machinev1beta1.Machine {
		return []*machinev1beta1.Machine{machineOf("a"), machineOf("b", edits...), machineOf("c")}
	}
	for _, c := range []struct {
		name     string
		replicas int32
		machines []*machinev1beta1.Machine
		edit     func(*Input)
		want     string
	}{
		{"as many as there shall be", 3, three(), nil, "members [a b c]"},
		{"none, and none shall be", 0, nil, nil, "members []"},
		{"some are missing", 5, three(), nil, "members [a b c] create 2"},
		{"there are too many", 1, three(), nil, "members [a b c] delete [a b]"},
		{"there shall be none", 0, three(), nil, "members [a b c] delete [a b c]"},
		{"one is being deleted: its replacement does not wait for that", 3, three(deleting), nil, "members [a c] create 1"},
		{"one has another owner", 3, three(ownedBy("another")), nil, "members [a c] create 1"},
		{"one has no owner", 3, three(loose), nil, "members [a b c] adopt [b]"},
		{"one too many, without an owner: it is adopted first", 2, three(loose), nil, "members [a b c] adopt [b]"},
		{"one is not selected any more: first it is let go", 3, three(relabel), nil, "members [a c] release [b]"},
		{"one has no owner and cannot be adopted", 3, three(loose), func(in *Input) { in.Refused = map[types.UID]bool{"uid-of-b": true} },
			"members [a c] create 1"},
		{"one cannot be let go", 3, three(relabel), func(in *Input) { in.Refused = map[types.UID]bool{"uid-of-b": true} }, "members [a c] create 1"},
		{"a member that was refused before it was one", 3, three(), func(in *Input) { in.Refused = map[types.UID]bool{"uid-of-b": true} },
			"members [a b c]"},
		{"another API's, without an owner", 2, three(loose, migrated), nil, "members [a c]"},
		{"another API's and not selected", 2, three(relabel, migrated), nil, "members [a c]"},
		{"another API's counts", 3, three(migrated), nil, "members [a b c]"},
		{"another API's goes last, and not by this one's hand", 0, three(migrated), nil, "members [a b c] delete [a c] withheld [b]"},
		{"another API's, and marked: no other one is deleted instead", 2, three(migrated, annotated(machineapi.DeleteAnnotation, "")), nil,
			"members [a b c] withheld [b]"},
		{"paused", 5, append(three(loose), machineOf("d", relabel)),
			func(in *Input) { in.Set.Annotations = map[string]string{paused.ClusterAPIAnnotation: ""} }, "members [a c]"},
		{"paused by Drover's annotation", 5, append(three(loose), machineOf("d", relabel)),
			func(in *Input) { in.Set.Annotations = map[string]string{paused.Annotation: ""} }, "members [a c]"},
		{"Drover's annotation says false", 2, three(), func(in *Input) { in.Set.Annotations = map[string]string{paused.Annotation: "false"} },
			"members [a b c] delete [a]"},
		{"a policy", 2, []*machinev1beta1.Machine{machineOf("a", aged(time.Minute)), machineOf("b", aged(time.Hour)), machineOf("c", aged(time.Second))},
			func(in *Input) { in.Set.Spec.DeletePolicy = "Oldest" }, "members [a b c] delete [b]"},
		{"nothing waits for Machines that are available", 3, three(), func(in *Input) { in.Set.Spec.MinReadySeconds = 3600 }, "members [a b c]"},
		{"the first to become available wakes it, also while another is not ready", 3, three(), func(in *Input) {
			in.Set.Spec.MinReadySeconds = 60
			in.Readiness["a"] = Readiness(nodeOf("a", corev1.ConditionTrue, start.Add(-20*time.Second)))
			in.Readiness["b"] = Readiness(nodeOf("b", corev1.ConditionTrue, start.Add(-50*time.Second)))
			in.Readiness["c"] = Readiness(nodeOf("c", corev1.ConditionFalse, start.Add(-59*time.Second)))
		}, "members [a b c] wake in 10s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := inputOf(setOf(c.replicas), c.machines...)
			if c.edit != nil {
				c.edit(&in)
			}
			d := Decide(in)
			if got := brief(d); got != c.want || d.Problem != "" || d.Selector != "pool=web" {
				t.Errorf("got  %s\nwant %s\nproblem %q, selector %q", got, c.want, d.Problem, d.Selector)
			}
		})
	}
}

func TestDecide_InvalidMachineSet(t *testing.T) {
	for _, c := range []struct {
		name     string
		edit     func(*machinev1beta1.MachineSet)
		problem  string
		selector string
		want     string
	}{
		{"no replicas", func(s *machinev1beta1.MachineSet) { s.Spec.Replicas = nil }, "spec.replicas", "pool=web", "members [a b]"},
		{"less than none", func(s *machinev1beta1.MachineSet) { s.Spec.Replicas = new(int32(-1)) }, "spec.replicas", "pool=web", "members [a b]"},
		{"an unknown policy", func(s *machinev1beta1.MachineSet) { s.Spec.Replicas, s.Spec.DeletePolicy = new(int32(1)), "Nicest" },
			"spec.deletePolicy", "pool=web", "members [a b]"},
		{"an unknown policy, and nothing to delete", func(s *machinev1beta1.MachineSet) { s.Spec.DeletePolicy = "Nicest" },
			"", "pool=web", "members [a b] create 1"},
		{"no selector: none is released", func(s *machinev1beta1.MachineSet) { s.Spec.Selector = metav1.LabelSelector{} },
			"spec.selector", "", "members []"},
		{"a selector that the template does not match", func(s *machinev1beta1.MachineSet) { s.Spec.Template.Labels = nil },
			"spec.selector", "", "members []"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := setOf(3)
			c.edit(set)
			d := Decide(inputOf(set, machineOf("a"), machineOf("b")))
			matches := (d.Problem == "") == (c.problem == "") && strings.Contains(d.Problem, c.problem)
			if got := brief(d); got != c.want || d.Selector != c.selector || !matches {
				t.Errorf("got  %s\nwant %s\nproblem %q, selector %q", got, c.want, d.Problem, d.Selector)
			}
		})
	}
}

// A reconciliation is bounded, and the status reports progress.
func TestDecide_Burst(t *testing.T) {
	if d := Decide(inputOf(setOf(5000))); len(d.CreateFor) != Burst {
		t.Errorf("creates %d at once", len(d.CreateFor))
	}
	var machines []*machinev1beta1.Machine
	for i := range Burst + 10 {
		machines = append(machines, machineOf(fmt.Sprintf("m%03d", i)))
	}
	machines[7].Annotations[machineapi.DeleteAnnotation] = ""
	d := Decide(inputOf(setOf(3), machines...))
	if len(d.Delete) != Burst || d.Delete[0].Name != "m007" {
		t.Errorf("deletes %d at once, %s first", len(d.Delete), d.Delete[0].Name)
	}
}

// The order of a cache is any.
func TestDecide_AnyOrder(t *testing.T) {
	machines := []*machinev1beta1.Machine{
		machineOf("c", loose), machineOf("a", loose), machineOf("b", loose), machineOf("f", relabel), machineOf("e", relabel), machineOf("d"),
	}
	if got := brief(Decide(inputOf(setOf(3), machines...))); got != "members [c a b d] adopt [a b c] release [e f]" {
		t.Error(got)
	}
}

func TestAuthorityOf(t *testing.T) {
	for _, c := range []struct {
		spec, status machinev1beta1.MachineAuthority
		want         Authority
	}{
		{"", "", MachineAPI},
		{"MachineAPI", "", Unset},
		{"ClusterAPI", "", Unset},
		{"", "MachineAPI", MachineAPI},
		{"MachineAPI", "MachineAPI", MachineAPI},
		{"ClusterAPI", "MachineAPI", MachineAPI},
		{"MachineAPI", "Migrating", OtherAPI},
		{"MachineAPI", "ClusterAPI", OtherAPI},
		{"ClusterAPI", "ClusterAPI", OtherAPI},
		{"MachineAPI", "SomethingNew", Unknown},
	} {
		set := setOf(1)
		set.Spec.AuthoritativeAPI, set.Status.AuthoritativeAPI = c.spec, c.status
		if got := AuthorityOf(set); got != c.want {
			t.Errorf("spec %q, status %q: %s, want %s", c.spec, c.status, got, c.want)
		}
	}
}

// TestDecide_Replacing: an outdated Machine that is being replaced does not count, so that the new one is created first.
func TestDecide_Replacing(t *testing.T) {
	outdated, replacing := annotated(machineapi.TemplateHashAnnotation, "v1:old"), annotated(machineapi.ReplacingAnnotation, "")
	current := annotated(machineapi.TemplateHashAnnotation, machineapi.TemplateOf(setOf(3)).Hash())
	members := func(edits ...func(*machinev1beta1.Machine)) []*machinev1beta1.Machine {
		return []*machinev1beta1.Machine{machineOf("a"), machineOf("b", edits...), machineOf("c")}
	}
	for _, c := range []struct {
		name     string
		replicas int32
		machines []*machinev1beta1.Machine
		surge    int
		want     string
	}{
		{"one is", 3, members(outdated, replacing), 1, "members [a b c] create 1"},
		{"one is, and the new one is there", 3, append(members(outdated, replacing), machineOf("d")), 1, "members [a b c d]"},
		{"one is, and goes", 3, append(members(outdated, replacing, deleting), machineOf("d")), 0, "members [a c d]"},
		{"one is outdated only", 3, members(outdated), 0, "members [a b c]"},
		{"the template was undone", 3, append(members(current, replacing), machineOf("d")), 0, "members [a b c d] delete [a]"},
		{"the template was undone after one was marked for its deletion", 3,
			append(members(current, replacing, annotated(machineapi.DeleteAnnotation, machineapi.DeletionMark)), machineOf("d")), 0,
			"members [a b c d] delete [a]"},
		{"the template was undone, and a user has marked one", 3,
			append(members(current, annotated(machineapi.DeleteAnnotation, "true")), machineOf("d")), 0, "members [a b c d] delete [b]"},
		{"one is marked for its deletion, and there are too many", 2, members(outdated, annotated(machineapi.DeleteAnnotation, machineapi.DeletionMark)),
			0, "members [a b c] delete [b]"},
		{"one is, and there are too many", 1, members(outdated, replacing), 1, "members [a b c] delete [a]"},
		{"one is, and there shall be none", 0, members(outdated, replacing), 0, "members [a b c] delete [a b c]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(inputOf(setOf(c.replicas), c.machines...))
			if got := brief(d); got != c.want || d.Surge != c.surge {
				t.Errorf("got  %s, surge %d\nwant %s, surge %d", got, d.Surge, c.want, c.surge)
			}
		})
	}
}
