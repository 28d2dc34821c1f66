package machines

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// rackEvent is a version of a Machine or a Node, with the revision that orders all of them.
type rackEvent struct {
	revision uint64
	name     string
	// node reports that it is a Node; it is Ready or not. A Machine has gone, or is going, or not.
	node, ready, gone bool
}

// rackWatch notes every version of the Machines of a pool, and of their Nodes.
type rackWatch struct {
	mu     sync.Mutex
	events []rackEvent
}

func followRack(p *harness.Pool) *rackWatch {
	p.Helper()
	watcher, err := client.NewWithWatch(p.Cluster.Admin(), client.Options{Scheme: p.Client.Scheme()})
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, done := &rackWatch{}, sync.WaitGroup{}
	for _, list := range []client.ObjectList{&machinev1beta1.MachineList{}, &corev1.NodeList{}} {
		stream, err := watcher.Watch(ctx, list)
		if err != nil {
			cancel()
			p.Fatal(err)
		}
		done.Go(func() { r.read(stream, p.Name) })
	}
	p.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return r
}

func (r *rackWatch) read(stream watch.Interface, pool string) {
	defer stream.Stop()
	for event := range stream.ResultChan() {
		object, ok := event.Object.(client.Object)
		if !ok {
			continue
		}
		seen := rackEvent{name: object.GetName(), gone: event.Type == watch.Deleted || object.GetDeletionTimestamp() != nil}
		seen.revision, _ = strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		switch object := object.(type) {
		case *machinev1beta1.Machine:
			if object.Labels[cluster.MachineSetLabel] != pool {
				continue
			}
		case *corev1.Node:
			seen.node, seen.ready = true, harness.NodeReady(object)
		}
		r.mu.Lock()
		r.events = append(r.events, seen)
		r.mu.Unlock()
	}
}

// most replays all events in their order, and returns how many remediations were in flight at most: of a pool of so many Machines, those without a
// Machine that has ever had a Ready Node and is not being deleted.
func (r *rackWatch) most(machines []machinev1beta1.Machine) (most, deleted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b rackEvent) int { return cmp.Compare(a.revision, b.revision) })
	// The Nodes of the first Machines are Ready when the watches begin.
	present, started := map[string]bool{}, map[string]bool{}
	for i := range machines {
		present[machines[i].Name], started[machines[i].Name] = true, true
	}
	for _, event := range events {
		switch {
		case event.node:
			started[event.name] = started[event.name] || event.ready
		case event.gone && present[event.name]:
			present[event.name] = false
			deleted++
		case !event.gone:
			present[event.name] = true
		}
		inFlight := len(machines)
		for name, here := range present {
			if here && started[name] {
				inFlight--
			}
		}
		most = max(most, inFlight)
	}
	return most, deleted
}

// A rack fails, half of the Machines of a pool. They are replaced two at a time, also by the next operator after a crash.
func TestHealthCheck_RackReplacedWithinLimit(t *testing.T) {
	failRack(t, "rack", map[string]string{"drover.dev/max-remediations-in-flight": "10%"}, "RemediationLimited", turnNotReady)
}

// So it is where a NodeGroup bounds the remediations of all its MachineHealthChecks.
func TestHealthCheck_RackReplacedWithinBudget(t *testing.T) {
	harness.TestAllOnly(t, "TestHealthCheck_RackReplacedWithinLimit has such a rack, and the one with a label such a budget")
	failRack(t, "rack-budget", nil, "WaitingForBudget", turnNotReady, boundOf("rack-budget"))
}

// So it is where the instances are gone, and the Nodes with them.
func TestHealthCheck_LostRackReplacedWithinBudget(t *testing.T) {
	harness.TestAllOnly(t, "the one with the budget of a label is like it")
	failRack(t, "rack-lost", nil, "WaitingForBudget", lose, boundOf("rack-lost"))
}

// The same with a NodeGroup that selects Nodes by a label. The lost Nodes do not exist any more, so nothing has their labels.
func TestHealthCheck_LostRackReplacedWithinBudgetOfLabel(t *testing.T) {
	group := boundOf("rack-label")
	selectRack(group)
	failRack(t, group.Name, nil, "WaitingForBudget", lose, group)
}

// rackLabel is a label of Nodes, whose value is the name of their pool.
const rackLabel = "topology.drover.example/rack"

// selectRack has a NodeGroup select the Nodes of the pool of its name by their label.
func selectRack(group *v1alpha1.NodeGroup) {
	group.Spec.Nodes = v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{rackLabel: group.Name}}}
}

// boundOf returns a NodeGroup of a MachineSet where two remediations may be in flight.
func boundOf(set string) *v1alpha1.NodeGroup {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: set}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: cluster.MachineNamespace, Names: []string{group.Name}}
	group.Spec.Disruption = &v1alpha1.Disruption{
		MaxUnavailable: new(intstr.FromString("100%")), Remediation: &v1alpha1.RemediationPace{MaxInFlight: new(intstr.FromInt32(2))},
	}
	return group
}

// turnNotReady has kwok report that a Node is not Ready.
func turnNotReady(w *harness.World, node string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"sandbox.drover.io/ready":"false"}}}`))
	return w.Client.Patch(w.Context(), w.Node(node), patch)
}

// lose has kwok take the instance of a Machine, and deletes the Node of the same name, as a cloud may do.
func lose(w *harness.World, node string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"providerSpec":{"value":{"failure":{"vanishesAfter":"1s"}}}}}`))
	if err := w.Client.Patch(w.Context(), w.Machine(node), patch); err != nil {
		return err
	}
	return w.Client.Delete(w.Context(), w.Node(node))
}

// failRack has half of the Machines of a pool fail, where two may be replaced at a time. reason is why the others wait.
func failRack(
	t *testing.T, name string, annotations map[string]string, reason string, fail func(w *harness.World, node string) error, objects ...client.Object,
) {
	t.Helper()
	w, operator := world(t)
	for _, object := range objects {
		w.CreateWithCleanup(object)
	}
	// Replacements take longer than Drover needs to delete the next Machine.
	p := w.MakePool(name, 20, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.BootDelay, spec.Labels = metav1.Duration{Duration: 3 * time.Second}, map[string]string{rackLabel: name}
	})
	machines := p.Runs(20)
	seen := followRack(p)
	object := &machinev1beta1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.MachineNamespace, Name: p.Name, Annotations: annotations,
		},
		Spec: machinev1beta1.MachineHealthCheckSpec{
			Selector:     metav1.LabelSelector{MatchLabels: map[string]string{cluster.MachineSetLabel: p.Name}},
			MaxUnhealthy: new(intstr.FromString("60%")),
			UnhealthyConditions: []machinev1beta1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: metav1.Duration{}},
			},
		},
	}
	w.CreateWithCleanup(object)
	for i := range 10 {
		if err := fail(w, machines[i].Status.NodeRef.Name); err != nil {
			t.Fatal(err)
		}
	}
	w.Eventually("the condition says that the others wait", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		for _, condition := range object.Status.Conditions {
			if condition.Type == "RemediationProgressing" && condition.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("the status is %s", harness.JSON(object.Status))
	})
	replaced := func() (count int) {
		for i := range 10 {
			if !slices.ContainsFunc(p.Machines(), func(m machinev1beta1.Machine) bool { return m.UID == machines[i].UID }) {
				count++
			}
		}
		return count
	}
	w.Eventually("the first three are gone", func() error {
		if count := replaced(); count < 3 {
			return fmt.Errorf("%d are", count)
		}
		return nil
	})
	if err := operator.Kill(); err != nil {
		t.Fatal(err)
	}
	w.Operator(harness.Options{Args: []string{"--controllers=*"}})
	w.Eventually("all ten are replaced", func() error {
		if count := replaced(); count < 10 {
			return fmt.Errorf("%d are", count)
		}
		_, err := p.Running(20)
		return err
	})
	if most, deleted := seen.most(machines); most > 2 || deleted != 10 {
		t.Errorf("%d remediations were in flight, and %d Machines deleted", most, deleted)
	} else {
		t.Logf("%d remediations were in flight at most", most)
	}
}
