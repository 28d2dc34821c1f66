package replacement

import (
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/watch"
)

// TestSources_OnlyWhatConcernsReplacement: events of Machines and Nodes that nothing can be replaced for cause no reconciliation. One of them reads
// all Machines of a MachineSet.
func TestSources_OnlyWhatConcernsReplacement(t *testing.T) {
	none := newGroup(func(group *v1alpha1.NodeGroup) { group.Spec.Replacement = nil })
	for name, c := range map[string]struct {
		group   *v1alpha1.NodeGroup
		options []func(*machinev1beta1.Machine, *corev1.Node)
		// machine and node are the requests for events of either.
		machine, node string
	}{
		"a group that replaces": {group: newGroup(), machine: "[/gpu]", node: "[/gpu]"},
		"a group that does not": {group: none, machine: "[/gpu]", node: "[]"},
		"no group":              {machine: "[]", node: "[]"},
		"no group any more, it is marked as the next to be deleted": {
			options: []func(*machinev1beta1.Machine, *corev1.Node){markedAs(machineapi.ReplacementMark)},
			machine: "[" + client.ObjectKeyFromObject(newSet(1)).String() + "]", node: "[]",
		},
		"no group, a user has marked it": {
			options: []func(*machinev1beta1.Machine, *corev1.Node){markedAs("true")}, machine: "[]", node: "[]",
		},
		"no group any more, it is marked": {
			options: []func(*machinev1beta1.Machine, *corev1.Node){replacing}, machine: "[" + client.ObjectKeyFromObject(newSet(1)).String() + "]", node: "[]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := all([]client.Object{newSet(1)}, newPair("a", c.options...))
			if c.group != nil {
				objects = append(objects, c.group)
			}
			f := newFixture(t, objects...)
			var machines machinev1beta1.MachineList
			if err := f.client.List(t.Context(), &machines); err != nil || len(machines.Items) != 1 {
				t.Fatalf("%d Machines: %v", len(machines.Items), err)
			}
			if got := fmt.Sprint(f.reconciler.machineToRequests(t.Context(), &machines.Items[0])); got != c.machine {
				t.Errorf("for the Machine: %s, want %s", got, c.machine)
			}
			if got := fmt.Sprint(f.reconciler.nodeToRequests(t.Context(), machines.Items[0].Status.NodeRef.Name)); got != c.node {
				t.Errorf("for the Node: %s, want %s", got, c.node)
			}
		})
	}
}

// TestGroupUpdated: of a group's status, only that its roll-out has stopped or goes on concerns its Machines.
func TestGroupUpdated(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*v1alpha1.NodeGroupStatus)
		requests int
	}{
		"counts":  {func(s *v1alpha1.NodeGroupStatus) { s.Synced++ }, 0},
		"a wave":  {func(s *v1alpha1.NodeGroupStatus) { s.Rollout = &v1alpha1.RolloutStatus{Wave: "1/2"} }, 0},
		"stopped": {func(s *v1alpha1.NodeGroupStatus) { s.Rollout = &v1alpha1.RolloutStatus{Stopped: "2 Nodes"} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := newGroup()
			after, f := before.DeepCopy(), newFixture(t, before)
			c.change(&after.Status)
			for _, states := range [][2]*v1alpha1.NodeGroup{{before, after}, {after, before}} {
				queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
				f.reconciler.groupUpdated(t.Context(), watch.NewQueue(queue), states[0], states[1])
				if queue.Len() != c.requests {
					t.Errorf("%d requests, want %d", queue.Len(), c.requests)
				}
				queue.ShutDown()
			}
		})
	}
}

// TestReconcile_Pace: a group that takes long to read is left alone for several times as long.
func TestReconcile_Pace(t *testing.T) {
	f := newFixture(t, all([]client.Object{newGroup(), newSet(1)}, newPair("new"))...)
	f.reconciles()
	state := f.reconciler.states.Peek(client.ObjectKey{Name: "gpu"})
	state.interval = share * 100 * time.Millisecond
	if result := f.reconciles(); result.RequeueAfter != state.interval {
		t.Errorf("it is left alone for %s", result.RequeueAfter)
	}
	f.clock.SetTime(f.clock.Now().Add(state.interval))
	if result := f.reconciles(); result.RequeueAfter != 0 {
		t.Errorf("then it is left alone for %s", result.RequeueAfter)
	}
}
