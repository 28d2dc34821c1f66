package nodegroup

import (
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/members"
)

// TestSuccessors_MachineSetWithoutNodes: the Node of a MachineSet of one is missing as long as it is gone, although no Node names that MachineSet.
func TestSuccessors_MachineSetWithoutNodes(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := machinev1beta1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	newSet := func(namespace, name string, replicas int32) *machinev1beta1.MachineSet {
		set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
		set.Spec.Replicas = &replicas
		return set
	}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		newSet("machines", "a", 1), newSet("machines", "b", 2), newSet("machines", "older", 4), newSet("other", "c", 8),
	).Build()
	newGroup := func(name string, sets ...string) *members.Group {
		group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: "machines", Names: sets}
		return members.Parse(group)
	}
	older, group := newGroup("first", "older"), newGroup("second", "a", "b", "older")
	groups := []*members.Group{older, group}
	for name, c := range map[string]struct {
		served bool
		want   int
	}{"served": {true, 3}, "not served": {false, -1}} {
		t.Run(name, func(t *testing.T) {
			rc := &reconciliation{
				Reconciler: &Reconciler{
					Dependencies: Dependencies{Cache: cache}, options: Options{Machines: func() bool { return c.served }},
				},
				observation: &observation{group: group, groups: groups}, now: time.Now(),
			}
			nodes, missing, err := rc.successors(t.Context(), time.Minute, time.Time{})
			if len(nodes) != 0 || missing != c.want || err != nil {
				t.Errorf("successors %v, missing %d, error %v", nodes, missing, err)
			}
		})
	}
}
