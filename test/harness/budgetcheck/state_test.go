package budgetcheck_test

import (
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/budgetcheck"
)

// TestState: the checker of budgets finds what must not be, and nothing else.
func TestState(t *testing.T) {
	ready := builder.WithReady(corev1.ConditionTrue)
	node := func(name string, options ...func(*corev1.Node)) *corev1.Node {
		return builder.Node(name, slices.Concat([]func(*corev1.Node){ready, withUID(types.UID(name))}, options)...)
	}
	cordoned := func(node *corev1.Node) { node.Spec.Unschedulable = true }
	admitted := func(names ...string) *v1alpha1.NodeGroup {
		group := &v1alpha1.NodeGroup{}
		for _, name := range names {
			group.Status.Admissions = append(group.Status.Admissions, v1alpha1.Reservation{Node: name, UID: types.UID(name)})
		}
		return group
	}
	joined := harness.NewMachine("a", func(machine *machinev1beta1.Machine) { machine.Status.NodeRef = &corev1.ObjectReference{Name: "a"} })
	deleted := joined.DeepCopy()
	deleted.DeletionTimestamp = new(metav1.Now())
	for name, c := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"admitted before: no fault":      {[]client.Object{admitted("a"), node("a", cordoned), node("a"), admitted()}, nil},
		"cordoned before: a fault":       {[]client.Object{node("a", cordoned), admitted("a")}, []string{"Node a is cordoned"}},
		"its admission is old: no fault": {[]client.Object{admitted("a"), node("a", cordoned), admitted(), node("a", cordoned)}, nil},
		"again without one: a fault": {
			[]client.Object{admitted("a"), node("a", cordoned), node("a"), admitted(), node("a", cordoned)}, []string{"Node a is cordoned"},
		},
		"deleted without a place: a fault":  {[]client.Object{node("a"), deleted}, []string{"Node a is deleted"}},
		"another Node of the name: a fault": {[]client.Object{admitted("a"), node("a", cordoned, withUID("other"))}, []string{"Node a is cordoned"}},
		"cordoned before it joins: no fault": {
			[]client.Object{harness.NewMachine("a"), node("a", cordoned), joined, node("a", cordoned)}, nil,
		},
		"cordoned when it has joined: a fault": {
			[]client.Object{harness.NewMachine("a"), node("a"), joined, node("a", cordoned)}, []string{"Node a is cordoned"},
		},
		"two of two: no fault":                 {[]client.Object{node("a"), node("b"), admitted("a", "b")}, nil},
		"two capabilities of a Node: no fault": {[]client.Object{node("a"), node("b"), admitted("a", "a", "b")}, nil},
		"three of two: one fault": {
			[]client.Object{node("a"), node("b"), node("c"), admitted("a", "b", "c"), node("d")}, []string{"3 Nodes that are Ready"},
		},
		"three of two, one is gone: no fault": {[]client.Object{node("a"), node("b"), admitted("a", "b", "c")}, nil},
		"deleted by a user: no fault":         {[]client.Object{harness.NewMachine("excused"), node("excused", cordoned)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := budgetcheck.New(2)
			s.Excuse("excused")
			for i, object := range c.objects {
				s.See(&budgetcheck.Event{Revision: uint64(i + 1), Object: object})
			}
			if faults := s.Faults(); !slices.EqualFunc(faults, c.want, strings.Contains) {
				t.Errorf("the faults are %q", faults)
			}
		})
	}
}

func withUID(uid types.UID) func(*corev1.Node) { return func(node *corev1.Node) { node.UID = uid } }
