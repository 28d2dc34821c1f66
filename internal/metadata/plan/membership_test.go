package plan

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

func TestMember(t *testing.T) {
	pool := map[string]string{"pool": "a"}
	controlledBy := func(uid types.UID) func(*machinev1beta1.Machine) {
		controller := true
		return func(m *machinev1beta1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "a", UID: uid, Controller: &controller}}
		}
	}
	cases := []struct {
		name string
		set  *machinev1beta1.MachineSet
		edit func(*machinev1beta1.Machine)
		want bool
	}{
		{"no owner, labels match", memberSet("a", "1", pool), func(*machinev1beta1.Machine) {}, true},
		{"owned by the set", memberSet("a", "1", pool), controlledBy("1"), true},
		{"owned by another set", memberSet("a", "1", pool), controlledBy("2"), false},
		{"owned, but the set exists in a file only", memberSet("a", "", pool), controlledBy(""), false},
		{"a plain owner is no controller", memberSet("a", "1", pool), func(m *machinev1beta1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "c", UID: "9"}}
		}, true},
		{"owned, but the labels went away", memberSet("a", "1", pool), func(m *machinev1beta1.Machine) {
			controlledBy("1")(m)
			m.Labels = nil
		}, false},
		{"labels of spec.metadata do not count", memberSet("a", "1", pool), func(m *machinev1beta1.Machine) {
			m.Spec.Labels, m.Labels = m.Labels, nil
		}, false},
		{"being deleted", memberSet("a", "1", pool), func(m *machinev1beta1.Machine) {
			m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, false},
		{"another namespace", memberSet("a", "1", pool), func(m *machinev1beta1.Machine) { m.Namespace = "other" }, false},
		{"empty selector", memberSet("a", "1", nil), func(*machinev1beta1.Machine) {}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			machine := &machinev1beta1.Machine{
				ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "m", Labels: map[string]string{"pool": "a"}},
			}
			c.edit(machine)
			got, err := Member(c.set, machine)
			if err != nil || got != c.want {
				t.Fatalf("Member = %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestMember_InvalidSelector(t *testing.T) {
	set := memberSet("a", "1", nil)
	set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like"}}
	_, err := Member(set, &machinev1beta1.Machine{})
	if err == nil || !strings.Contains(err.Error(), "MachineSet machines/a: spec.selector") {
		t.Fatalf("error %v does not say where", err)
	}
	if (Membership{}).Has(&machinev1beta1.Machine{}) {
		t.Fatal("the zero Membership takes a Machine")
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
