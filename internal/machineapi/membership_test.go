package machineapi

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func memberSet(name string, uid types.UID, match map[string]string) *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: name, UID: uid}}
	set.Spec.Selector.MatchLabels = match
	return set
}

func controlledBy(uid types.UID) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "a", UID: uid, Controller: new(true)}}
	}
}

func deleting(m *machinev1beta1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func unlabelled(m *machinev1beta1.Machine) { m.Labels = nil }

func TestMembership_Relation(t *testing.T) {
	pool := map[string]string{"pool": "a"}
	type edits = []func(*machinev1beta1.Machine)
	for _, c := range []struct {
		name  string
		set   *machinev1beta1.MachineSet
		edits edits
		want  Relation
	}{
		{"owned and selected", memberSet("a", "1", pool), edits{controlledBy("1")}, Owned},
		{"owned and not selected", memberSet("a", "1", pool), edits{controlledBy("1"), unlabelled}, Release},
		{"owned, selected and being deleted", memberSet("a", "1", pool), edits{controlledBy("1"), deleting}, Deleting},
		{"owned, not selected and being deleted: it is not released any more", memberSet("a", "1", pool),
			edits{controlledBy("1"), unlabelled, deleting}, Deleting},
		{"no owner, selected", memberSet("a", "1", pool), nil, Adopt},
		{"no owner, not selected", memberSet("a", "1", pool), edits{unlabelled}, Foreign},
		{"no owner, being deleted", memberSet("a", "1", pool), edits{deleting}, Foreign},
		{"another owner", memberSet("a", "1", pool), edits{controlledBy("2")}, Foreign},
		{"another owner, being deleted", memberSet("a", "1", pool), edits{controlledBy("2"), deleting}, Foreign},
		{"owned, but the set exists in a file only", memberSet("a", "", pool), edits{controlledBy("")}, Foreign},
		{"an owner that is no controller", memberSet("a", "1", pool), edits{controlledBy("1"), func(m *machinev1beta1.Machine) {
			m.OwnerReferences[0].Controller = nil
		}}, Adopt},
		{"labels of spec.metadata do not count", memberSet("a", "1", pool), edits{func(m *machinev1beta1.Machine) {
			m.Spec.Labels, m.Labels = m.Labels, nil
		}}, Foreign},
		{"another namespace", memberSet("a", "1", pool), edits{func(m *machinev1beta1.Machine) { m.Namespace = "other" }}, Foreign},
		{"empty selector, no owner", memberSet("a", "1", nil), nil, Foreign},
		{"empty selector, owned", memberSet("a", "1", nil), edits{controlledBy("1")}, Release},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := &machinev1beta1.Machine{
				ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "m", Labels: map[string]string{"pool": "a"}},
			}
			for _, edit := range c.edits {
				edit(machine)
			}
			membership, err := MembershipOf(c.set)
			if err != nil {
				t.Fatal(err)
			}
			if got := membership.Relation(machine); got != c.want {
				t.Errorf("relation %s, want %s", got, c.want)
			}
			if got, want := membership.Has(machine), c.want == Owned || c.want == Adopt; got != want {
				t.Errorf("has %t, want %t", got, want)
			}
		})
	}
}

func TestMembershipOf_InvalidSelector(t *testing.T) {
	set := memberSet("a", "1", nil)
	set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like"}}
	membership, err := MembershipOf(set)
	if err == nil || !strings.Contains(err.Error(), "MachineSet machines/a: spec.selector") {
		t.Fatalf("error %v does not say where", err)
	}
	for _, invalid := range []Membership{membership, {}} {
		if invalid.Has(&machinev1beta1.Machine{}) || invalid.Selects(&machinev1beta1.Machine{}) {
			t.Fatal("a Machine belongs to a MachineSet without a valid selector")
		}
	}
}

func TestMatching(t *testing.T) {
	var rules []Membership
	for _, set := range []*machinev1beta1.MachineSet{
		memberSet("a", "1", map[string]string{"pool": "a"}),
		memberSet("b", "2", map[string]string{"zone": "x"}),
	} {
		rule, err := MembershipOf(set)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule)
	}
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Labels: map[string]string{"pool": "a"}}}
	if found := Matching(rules, machine); len(found) != 1 || found[0].Set.Name != "a" {
		t.Fatalf("Matching = %v, want the set a", found)
	}
	machine.Labels["zone"] = "x"
	if found := Matching(rules, machine); len(found) != 2 {
		t.Fatalf("Matching = %v, want both sets", found)
	}
}
