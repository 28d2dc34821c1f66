package maintenance

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestMaintenance_MetadataOnTheSameNode: what the pool declares comes and goes, and neither touches what is the other's.
func TestMaintenance_MetadataOnTheSameNode(t *testing.T) {
	s := site(t)
	pool := s.Name
	s.Pool(cluster.PoolOptions{Name: pool, Machines: 2})
	node := pool + "-0"
	declare := func(taint, label string) {
		harness.Update(s.World, s.Set, pool, func(set *machinev1beta1.MachineSet) {
			spec := &set.Spec.Template.Spec
			spec.Labels, spec.Annotations, spec.Taints = nil, nil, nil
			if taint != "" {
				spec.Labels, spec.Annotations = map[string]string{"example.com/team": label}, map[string]string{"example.com/note": label}
				spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", taint, corev1.TaintEffectNoSchedule)}
			}
		})
		s.Mark(pool)
	}
	declare("one", "blue")
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	both := func(taint, label string) {
		t.Helper()
		n := s.Node(node)
		if err := inMaintenance(n); err != nil {
			t.Error(err)
		}
		err := harness.Has(n, map[string]string{"example.com/team": label}, map[string]string{"example.com/note": label},
			"example.com/dedicated="+taint+":NoSchedule")
		if err != nil || len(n.Spec.Taints) != 3 {
			t.Errorf("the node is %s: %v", looks(n), err)
		}
	}
	both("one", "blue")
	declare("two", "red")
	both("two", "red")
	declare("", "")
	if n := s.Node(node); inMaintenance(n) != nil || len(n.Spec.Taints) != 2 {
		t.Errorf("when the pool declares nothing the node is %s", looks(n))
	}
	declare("three", "green")
	m.End()
	n, other := s.Node(node), s.Node(pool+"-1")
	if n.Spec.Unschedulable || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Value != "three" || n.Labels["example.com/team"] != "green" ||
		len(n.Labels) != len(other.Labels) {
		t.Errorf("finally the node is\n%s\nand its sibling\n%s", looks(n), looks(other))
	}
	declare("four", "blue")
	if n := s.Node(node); len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Value != "four" {
		t.Errorf("after the maintenance the pool changes the node to %s", looks(n))
	}
}
