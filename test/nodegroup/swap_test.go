package nodegroup

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/test/harness"
)

// labelHalf is the label that divides the Nodes of one test between two groups.
const labelHalf = "example.com/half"

// ofHalf selects one half of the Nodes of the test.
func ofHalf(half string) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) { spec.Nodes.Selector.MatchLabels[labelHalf] = half }
}

// adopting overwrites what other writers have set.
func adopting(spec *v1alpha1.NodeGroupSpec) { metadataOf(spec).ConflictPolicy = v1alpha1.ConflictAdopt }

// suspended sets whether the group is suspended.
func suspended(yes bool) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) { spec.Suspend = yes }
}

// TestSwap_TwoGroups: two groups swap their Nodes. The older group has onRelease Remove, the other Keep. Whatever the order of the changes, the
// result is the same: each Node carries what its new group declares. What only the old group declared goes or stays as its onRelease says. What
// others have set stays. Each Node is written once, even a Node that is in no group for a moment.
func TestSwap_TwoGroups(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(f *fixture){
		"older selector first": func(f *fixture) {
			f.update(f.name+"-a", ofHalf("y"))
			f.update(f.name+"-b", ofHalf("x"))
		},
		"younger selector first": func(f *fixture) {
			f.update(f.name+"-b", ofHalf("x"))
			f.update(f.name+"-a", ofHalf("y"))
		},
		"selectors of suspended groups": func(f *fixture) {
			for group, half := range map[string]string{"-a": "y", "-b": "x"} {
				f.update(f.name+group, suspended(true))
				f.eventuallyCondition(f.name+group, v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonSuspended)
				f.update(f.name+group, ofHalf(half))
			}
			f.update(f.name+"-a", suspended(false))
			f.update(f.name+"-b", suspended(false))
		},
		"labels of the Nodes": func(f *fixture) {
			for i, half := range []string{"y", "y", "x", "x"} {
				f.label(fmt.Sprintf("%s-%02d", f.name, i), labelHalf, half)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := besideOthers(t, "swap"+name[:1], 4)
			f.shareTwoGroups()
			mark := f.AuditMark()
			swap(f)
			f.eventuallySwapped()
			patches := map[string]int{}
			for _, node := range f.written(mark) {
				if patches[node]++; patches[node] > 1 {
					t.Errorf("Node %s has been written %d times", node, patches[node])
				}
			}
		})
	}
}

// shareTwoGroups gives the first two Nodes to a group and the others to a younger one, and waits until all carry what these declare.
func (f *fixture) shareTwoGroups() {
	f.Helper()
	for i, half := range []string{"x", "x", "y", "y"} {
		name := fmt.Sprintf("%s-%02d", f.name, i)
		f.label(name, labelHalf, half)
		f.ChangeNode(name, func(node *corev1.Node) {
			node.Labels["example.com/theirs"] = "kept"
			node.Spec.Taints = append(node.Spec.Taints, harness.Taint("example.com/theirs", "", corev1.TaintEffectNoSchedule))
		})
	}
	f.create(f.newGroup(f.name+"-a", ofHalf("x"), withLabel("example.com/team", "a"), withLabel("example.com/only-a", "yes"),
		withTaint("example.com/dedicated", "a", corev1.TaintEffectNoSchedule), withRelease(v1alpha1.ReleaseRemove), adopting))
	f.create(f.newGroup(f.name+"-b", ofHalf("y"), withLabel("example.com/team", "b"), withLabel("example.com/only-b", "yes"),
		withRelease(v1alpha1.ReleaseKeep), adopting))
	for _, group := range []string{"-a", "-b"} {
		f.eventuallyCondition(f.name+group, v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	}
}

// eventuallySwapped waits until the groups of shareTwoGroups have each other's Nodes.
func (f *fixture) eventuallySwapped() {
	f.Helper()
	for i, want := range []struct {
		team, onlyA, onlyB string
		dedicated          bool
	}{{"b", "", "yes", false}, {"b", "", "yes", false}, {"a", "yes", "yes", true}, {"a", "yes", "yes", true}} {
		name := fmt.Sprintf("%s-%02d", f.name, i)
		f.eventuallyNode(name, "is of the other group", hasLabel("example.com/team", want.team))
		f.eventuallyNode(name, "has the label of group a only there", hasLabel("example.com/only-a", want.onlyA))
		f.eventuallyNode(name, "has the label of group b", hasLabel("example.com/only-b", want.onlyB))
		f.eventuallyNode(name, "has the taint of group a only there", hasTaint("example.com/dedicated", want.dedicated))
		f.eventuallyNode(name, "keeps the label of others", hasLabel("example.com/theirs", "kept"))
		f.eventuallyNode(name, "keeps the taint of others", hasTaint("example.com/theirs", true))
	}
	for _, group := range []string{"-a", "-b"} {
		f.eventuallyCondition(f.name+group, v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
		f.eventuallyCondition(f.name+group, v1alpha1.ConditionOverlapping, metav1.ConditionFalse, plan.ReasonExclusive)
		if s := f.group(f.name + group).Status; s.Nodes != 2 || s.Synced != 2 {
			f.Errorf("the status of NodeGroup %s is %s", f.name+group, harness.JSON(s))
		}
	}
}
