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
)

func TestPoolOfAMachine(t *testing.T) {
	a, b, also, broken := setOf("a", blue), setOf("b", blue), setOf("also-b", blue), setOf("broken", blue)
	also.Spec.Selector = b.Spec.Selector
	broken.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Resembles"}}}
	r := newStage(t, Options{}, a, b, also, broken)
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
		{"selected by two: nothing tells whose it is", b, loose, "also-b b"},
		{"selected by none", setOf("unknown", nil), loose, ""},
		{"owned by one that is gone", setOf("unknown", nil), func(*machinev1beta1.Machine) {}, ""},
		{"owned by one of the same name that was made anew", a, func(m *machinev1beta1.Machine) { m.OwnerReferences[0].UID = "old" }, ""},
		{"owned, but no longer selected", a, func(m *machinev1beta1.Machine) { m.Labels = nil }, ""},
		{"owned by something else, such as a control plane", a, func(m *machinev1beta1.Machine) {
			m.OwnerReferences[0].Kind = "ControlPlaneMachineSet"
		}, ""},
		{"owned by one whose selector cannot be read", broken, func(*machinev1beta1.Machine) {}, ""},
		{"in another namespace", a, func(m *machinev1beta1.Machine) { m.Namespace = "elsewhere"; loose(m) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := machineOf(c.set, "m", "")
			c.edit(machine)
			found, err := r.pools.of(t.Context(), machine)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, one := range found {
				got = append(got, one.pool.Key.Name)
			}
			if slices.Sort(got); strings.Join(got, " ") != c.want {
				t.Errorf("pools %q, want %q", got, c.want)
			}
		})
	}
}

// A Machine that several sets select has no pool, which is easily overlooked: nothing fails, and nothing happens.
func TestMachinesThatSeveralSetsSelectAreTold(t *testing.T) {
	b, also := setOf("b", blue), setOf("also-b", blue)
	also.Spec.Selector = b.Spec.Selector
	m1, m2 := machineOf(b, "m1", "n1"), machineOf(b, "m2", "")
	m1.OwnerReferences, m2.OwnerReferences = nil, nil
	s := newStage(t, Options{}, b, also, m1, m2, nodeOf("n1"))
	w := watched(t, s)
	s.must(t, "m1", "")
	if got := s.told(); got != "Warning MetadataAmbiguous, Warning MetadataAmbiguous" {
		t.Errorf("each of the two is to hear of it: %q", got)
	}
	s.must(t, "m1", "")
	s.must(t, "m2", "")
	if got := s.told(); got != "" {
		t.Errorf("told again: %s", got)
	}
	before := b.DeepCopy()
	b.Generation, b.Spec.Selector.MatchLabels = 2, map[string]string{"pool": "b", "more": "x"}
	w.sets.Update(before, b)
	w.sets.Update(b, before)
	s.must(t, "m1", "")
	if got := s.told(); got != "Warning MetadataAmbiguous" {
		t.Errorf("a set whose selector was changed is told anew: %q", got)
	}
}

// The API server takes any selector.
func TestSelectorsThatCannotBeReadAreTold(t *testing.T) {
	s, w, set, _, _ := crew(t)
	w.sets.Add(set)
	if got := s.told(); got != "" {
		t.Errorf("nothing is wrong: %s", got)
	}
	broken := set.DeepCopy()
	broken.Generation, broken.ResourceVersion = 2, "broken"
	broken.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Resembles"}}}
	w.sets.Update(set, broken)
	if got := s.told(); got != "Warning MetadataInvalid" {
		t.Errorf("events %q", got)
	}
	scaled := broken.DeepCopy()
	scaled.Generation, scaled.ResourceVersion, scaled.Spec.Replicas = 3, "scaled", new(int32(9))
	w.sets.Update(broken, scaled)
	if got := s.told(); got != "" {
		t.Errorf("told again: %s", got)
	}
	w.sets.Add(scaled)
	if got := s.told(); got != "Warning MetadataInvalid" {
		t.Errorf("one that is there at the start: %q", got)
	}
}

// Thousands of Machines ask for the same few MachineSets: each version is read once.
func TestPoolsAreReadOncePerVersion(t *testing.T) {
	p := newPools(nil)
	set := setOf("a", blue)
	first := p.read(set)
	if p.read(set.DeepCopy()) != first {
		t.Error("the same version is read again")
	}
	set.ResourceVersion = "2"
	second := p.read(set)
	if second == first {
		t.Error("a new version is not read")
	}
	if p.forget(client.ObjectKeyFromObject(set)); p.read(set) == second {
		t.Error("not forgotten")
	}
}

// deaf is a cache that cannot be read.
type deaf struct{ client.Reader }

var errDeaf = errors.New("cache is not started")

func (deaf) Get(_ context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return errDeaf
}

func (deaf) List(context.Context, client.ObjectList, ...client.ListOption) error { return errDeaf }

func TestCachesThatCannotBeRead(t *testing.T) {
	s := newStage(t, Options{})
	s.reader, s.pools = deaf{}, newPools(deaf{})
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("m")}); !errors.Is(err, errDeaf) {
		t.Errorf("reconcile: %v", err)
	}
	owned := machineOf(setOf("a", blue), "m", "n")
	loose := owned.DeepCopy()
	loose.OwnerReferences = nil
	for _, machine := range []*machinev1beta1.Machine{owned, loose} {
		if _, err := s.pools.of(t.Context(), machine); !errors.Is(err, errDeaf) {
			t.Errorf("pool: %v", err)
		}
	}
	if err := s.gatherNode(t.Context(), &gathered{machine: owned}); !errors.Is(err, errDeaf) {
		t.Errorf("node: %v", err)
	}
	if got := s.members(t.Context(), setOf("a", blue)); len(got) != 0 {
		t.Errorf("members: %v", got)
	}
}

func TestPartial(t *testing.T) {
	target := partial(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}, machineOf(setOf("a", nil), "m", ""))
	if target.Name != "m" || target.Namespace != "machines" || target.Kind != "K" || target.APIVersion != "g/v1" || target.ResourceVersion != "" {
		t.Errorf("%+v", target)
	}
}
