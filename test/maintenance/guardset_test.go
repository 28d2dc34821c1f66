package maintenance

import (
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// setTaints replaces the taints that the template of a MachineSet declares.
func setTaints(s *harness.Site, set string, taints ...corev1.Taint) {
	s.Helper()
	harness.Update(s.World, s.Set, set, func(set *machinev1beta1.MachineSet) { set.Spec.Template.Spec.Taints = taints })
}

// TestGuard_MachineSet: a taint that a MachineSet declares reaches the Nodes of a NodeGroup after the Pods that do not tolerate it have left one by
// one, as their budget allows; the Machines get it then too. It goes, from both, when the MachineSet does not declare it any more, also from Nodes
// that have left the group by then.
func TestGuard_MachineSet(t *testing.T) {
	s := site(t)
	set := s.Name + "-set"
	s.Pool(cluster.PoolOptions{Name: set, Machines: 2, NodeLabels: map[string]string{harness.SiteLabel: s.Name}})
	s.Deployment("app", harness.Pods{Replicas: 4, Ready: "300ms", Ends: "200ms"})
	s.Running("app", 4, true)
	s.Budget("app", "app", harness.MinAvailable(3))
	s.Allows("app", 1)
	s.AddNode()
	group := dedicate(s, func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes = v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: cluster.MachineNamespace, Names: []string{set}}}
		spec.Metadata = nil
		spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
	})
	// The Nodes are new, but Pods run on them.
	setTaints(s, set, harness.Taint("example.com/dedicated", "batch", corev1.TaintEffectNoExecute))
	for _, name := range []string{set + "-0", set + "-1"} {
		eventuallyDedicated(s, name, corev1.TaintEffectNoExecute)
		s.Settled("app", 4, name)
	}
	eventuallyOnMachines(s, set, 1)
	eventuallyUnreserved(s, group)

	if err := s.Client.Delete(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	s.Mark(set)
	eventuallyDedicated(s, set+"-0", corev1.TaintEffectNoExecute)
	setTaints(s, set)
	eventuallyDedicated(s, set+"-0")
	eventuallyDedicated(s, set+"-1")
	eventuallyOnMachines(s, set, 0)
}

// eventuallyOnMachines waits until the two Machines of a set have so many taints.
func eventuallyOnMachines(s *harness.Site, set string, count int) {
	s.Helper()
	s.Eventually(fmt.Sprintf("the Machines have %d taints", count), func() error {
		for i := range 2 {
			if taints := s.Machine(fmt.Sprintf("%s-%d", set, i)).Spec.Taints; len(taints) != count {
				return fmt.Errorf("Machine %d has %v", i, taints)
			}
		}
		return nil
	})
}
