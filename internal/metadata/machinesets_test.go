package metadata

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/apitest/builder"
)

func TestMachineSets_Of(t *testing.T) {
	a, b, also, broken := setOf("a", blue), setOf("b", blue), setOf("also-b", blue), setOf("broken", blue)
	also.Spec.Selector = b.Spec.Selector
	broken.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Resembles"}}}
	r := newFixture(t, Options{}, a, b, also, broken)
	loose := func(m *machinev1beta1.Machine) { m.OwnerReferences = nil }
	for _, c := range []struct {
		name string
		set  *machinev1beta1.MachineSet
		edit func(*machinev1beta1.Machine)
		want string
	}{
		{"owned and selected", a, func(*machinev1beta1.Machine) {}, "a"},
		{"owned by one of two that select it", b, func(*machinev1beta1.Machine) {}, "b"},
		{"selected by one", a, loose, "a"},
		{"selected by two: ambiguous", b, loose, "also-b b"},
		{"selected by none", setOf("unknown", nil), loose, ""},
		{"owned by one that is gone", setOf("unknown", nil), func(*machinev1beta1.Machine) {}, ""},
		{"owned by an earlier one of the same name", a, func(m *machinev1beta1.Machine) { m.OwnerReferences[0].UID = "old" }, ""},
		{"owned, but no longer selected", a, func(m *machinev1beta1.Machine) { m.Labels = nil }, ""},
		{"owned by something else, such as a control plane", a, func(m *machinev1beta1.Machine) {
			m.OwnerReferences[0].Kind = "ControlPlaneMachineSet"
		}, ""},
		{"owned by one whose selector is invalid", broken, func(*machinev1beta1.Machine) {}, ""},
		{"in another namespace", a, func(m *machinev1beta1.Machine) { m.Namespace = "elsewhere"; loose(m) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := machineOf(c.set, "m", "")
			c.edit(machine)
			found, err := r.machineSets.of(t.Context(), machine)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, one := range found {
				got = append(got, one.key.Name)
			}
			if slices.Sort(got); strings.Join(got, " ") != c.want {
				t.Errorf("MachineSets %q, want %q", got, c.want)
			}
		})
	}
}

// A Machine that several MachineSets select has none, which is easily overlooked: nothing fails, and nothing happens.
func TestReportAmbiguity_OncePerMachineSet(t *testing.T) {
	b, also := setOf("b", blue), setOf("also-b", blue)
	also.Spec.Selector = b.Spec.Selector
	m1, m2 := machineOf(b, "m1", "n1"), machineOf(b, "m2", "")
	m1.OwnerReferences, m2.OwnerReferences = nil, nil
	s := newFixture(t, Options{}, b, also, m1, m2, builder.Node("n1"))
	w := watched(t, s)
	s.must(t, "m1", "")
	if got := s.emitted(); got != "Warning MetadataAmbiguous, Warning MetadataAmbiguous" {
		t.Errorf("each of the two gets an event: %q", got)
	}
	s.must(t, "m1", "")
	s.must(t, "m2", "")
	if got := s.emitted(); got != "" {
		t.Errorf("reported again: %s", got)
	}
	before := b.DeepCopy()
	b.Generation, b.Spec.Selector.MatchLabels = 2, map[string]string{"pool": "b", "more": "x"}
	w.sets.Update(before, b)
	w.sets.Update(b, before)
	s.must(t, "m1", "")
	if got := s.emitted(); got != "Warning MetadataAmbiguous" {
		t.Errorf("a MachineSet whose selector was changed gets a new event: %q", got)
	}
}

// The API server accepts any selector.
func TestReportSelector_Invalid(t *testing.T) {
	s, w, set, _, _ := watchedMachines(t)
	w.sets.Add(set)
	if got := s.emitted(); got != "" {
		t.Errorf("nothing is wrong: %s", got)
	}
	broken := set.DeepCopy()
	broken.Generation, broken.ResourceVersion = 2, "broken"
	broken.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Resembles"}}}
	w.sets.Update(set, broken)
	if got := s.emitted(); got != "Warning MetadataInvalid" {
		t.Errorf("events %q", got)
	}
	scaled := broken.DeepCopy()
	scaled.Generation, scaled.ResourceVersion, scaled.Spec.Replicas = 3, "scaled", new(int32(9))
	w.sets.Update(broken, scaled)
	if got := s.emitted(); got != "" {
		t.Errorf("reported again: %s", got)
	}
	w.sets.Add(scaled)
	if got := s.emitted(); got != "Warning MetadataInvalid" {
		t.Errorf("one that exists at the start: %q", got)
	}
}

// Thousands of Machines ask for the same few MachineSets: each version is parsed once.
func TestMachineSets_ParsedOncePerVersion(t *testing.T) {
	p := newMachineSets(nil)
	set := setOf("a", blue)
	first := p.parse(set)
	if p.parse(set.DeepCopy()) != first {
		t.Error("the same version is parsed again")
	}
	set.ResourceVersion = "2"
	second := p.parse(set)
	if second == first {
		t.Error("a new version is not parsed")
	}
	if p.forget(client.ObjectKeyFromObject(set)); p.parse(set) == second {
		t.Error("not forgotten")
	}
}

// failingReader is a cache that cannot be read.
type failingReader struct{ client.Reader }

var errReader = errors.New("cache is not started")

func (failingReader) Get(_ context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return errReader
}

func (failingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errReader
}

func TestObserve_CacheFails(t *testing.T) {
	s := newFixture(t, Options{})
	s.cache, s.machineSets = failingReader{}, newMachineSets(failingReader{})
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("m")}); !errors.Is(err, errReader) {
		t.Errorf("reconcile: %v", err)
	}
	owned := machineOf(setOf("a", blue), "m", "n")
	loose := owned.DeepCopy()
	loose.OwnerReferences = nil
	for _, machine := range []*machinev1beta1.Machine{owned, loose} {
		if _, err := s.machineSets.of(t.Context(), machine); !errors.Is(err, errReader) {
			t.Errorf("MachineSet: %v", err)
		}
	}
	if _, err := s.observeNode(t.Context(), "n"); !errors.Is(err, errReader) {
		t.Errorf("node: %v", err)
	}
	if err := s.observeMachines(t.Context(), &namedNode{name: "n"}); !errors.Is(err, errReader) {
		t.Errorf("Machines: %v", err)
	}
	if got := s.machineSetToMachines(t.Context(), setOf("a", blue)); len(got) != 0 {
		t.Errorf("members: %v", got)
	}
}

func TestMetadataOf(t *testing.T) {
	target := metadataOf(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}, machineOf(setOf("a", nil), "m", ""))
	if target.Name != "m" || target.Namespace != "machines" || target.Kind != "K" || target.APIVersion != "g/v1" || target.ResourceVersion != "" {
		t.Errorf("%+v", target)
	}
}
