package machines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/operator/fault"
)

// TestAutoscaler_DeletesExactlyTheMarked: cluster-autoscaler marks a Machine and then shrinks the group, as fast as it can, while Machines start and
// change. Exactly the marked Machines are deleted.
func TestAutoscaler_DeletesExactlyTheMarked(t *testing.T) {
	shrinkAndGrow(t, besideOthers(t), "marked", 5)
}

// TestAutoscaler_LateEvents: the same if Drover sees marks long after the new size, or the size long after the marks.
func TestAutoscaler_LateEvents(t *testing.T) {
	harness.TestAllOnly(t, "old caches of Machines are in TestStale")
	for _, late := range []string{"machines", "machinesets"} {
		t.Run(late, func(t *testing.T) {
			w := prepared(t)
			w.Operator(harness.Options{
				Args: []string{"--controllers=*"}, Faults: fault.Faults{WatchDelay: 300 * time.Millisecond, WatchDelayOf: late},
			})
			shrinkAndGrow(t, w, "late-"+late, 3)
		})
	}
}

// shrinkAndGrow has a pool of eight shrink by some Machines and grow again, a few times.
func shrinkAndGrow(t *testing.T, w *harness.World, name string, rounds int) {
	t.Helper()
	p := w.MakePool(name, 8, nil)
	p.Runs(8)
	a := group{p.Autoscaler()}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the Machines that go
	for range rounds {
		names := namesOf(p.Machines())
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		done := a.deleteAll(t, names[:1+random.IntN(5)])
		p.Runs(len(names) - len(done))
		expectNames(t, names, done, namesOf(p.Machines()))
		// The pool grows again; the next marks may hit the new Machines.
		if err := a.Increase(t.Context(), int32(len(done))); err != nil { //nolint:gosec // there are eight at most
			t.Fatal(err)
		}
		p.Eventually("there are 8 Machines", func() error {
			if machines := p.Machines(); len(machines) != 8 {
				return fmt.Errorf("there are %d", len(machines))
			}
			return nil
		})
	}
}

// group is an autoscaler in a test.
type group struct{ *harness.Autoscaler }

// deleteAll has the autoscaler delete Machines. Where its update conflicts with another writer it tries again, as in its next round.
func (g group) deleteAll(t *testing.T, names []string) (done []string) {
	t.Helper()
	for len(done) < len(names) {
		more, err := g.DeleteNodes(t.Context(), names[len(done):]...)
		done = append(done, more...)
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	return done
}

// expectNames checks that those are left that have not been deleted.
func expectNames(t *testing.T, all, deleted, left []string) {
	t.Helper()
	want := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(deleted, name) })
	slices.Sort(want)
	if !slices.Equal(want, left) {
		t.Errorf("of %v\nthe autoscaler has deleted %v\nleft are %v", all, deleted, left)
	}
}

func namesOf(machines []machinev1beta1.Machine) []string {
	names := make([]string, len(machines))
	for i := range machines {
		names[i] = machines[i].Name
	}
	return names
}

// TestAutoscaler_FromZero: a MachineSet without Machines has what cluster-autoscaler needs to know of its Nodes, from its provider, and after a
// change of the template the new values. The Node that comes is as the annotations said.
func TestAutoscaler_FromZero(t *testing.T) {
	w := besideOthers(t)
	size := func(cpu, memory string) func(*kwok.ProviderSpec) {
		return func(spec *kwok.ProviderSpec) {
			spec.Capacity = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("30"),
			}
			spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	p := w.MakePool("from-zero", 0, func(set *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		size("4", "16Gi")(spec)
		set.Spec.Template.Spec.Labels = map[string]string{"node-role.kubernetes.io/batch": ""}
	})
	a := group{p.Autoscaler()}
	eventuallyAnnotated(p, map[string]string{
		"capacity.cluster-autoscaler.kubernetes.io/cpu": "4", "capacity.cluster-autoscaler.kubernetes.io/memory": "16Gi",
		"capacity.cluster-autoscaler.kubernetes.io/maxPods": "30", "capacity.cluster-autoscaler.kubernetes.io/taints": "dedicated=batch:NoSchedule",
		"machine.openshift.io/vCPU": "4", "machine.openshift.io/memoryMb": "16384", "machine.openshift.io/maxPods": "30",
	})
	if labels := p.Set().Annotations["capacity.cluster-autoscaler.kubernetes.io/labels"]; !strings.Contains(labels, "node-role.kubernetes.io/batch=") ||
		!strings.Contains(labels, "node.kubernetes.io/instance-type=kwok.fake") {
		t.Errorf("labels %q", labels)
	}

	set := p.Set()
	set.Spec.Template.Spec.ProviderSpec = harness.KwokProviderSpec(size("8", "32Gi"))
	if err := w.Client.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"capacity.cluster-autoscaler.kubernetes.io/cpu": "8", "machine.openshift.io/memoryMb": "32768"}
	eventuallyAnnotated(p, want)

	if err := a.Increase(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	machines := p.Runs(1)
	node := w.Node(machines[0].Name)
	if cpu := node.Status.Capacity[corev1.ResourceCPU]; cpu.String() != want["capacity.cluster-autoscaler.kubernetes.io/cpu"] {
		t.Errorf("the Node has %s CPUs", cpu.String())
	}
	if members, err := a.Members(t.Context()); err != nil || !slices.Equal(members, []string{node.Spec.ProviderID}) {
		t.Errorf("members %v, %v; the Node's providerID is %s", members, err, node.Spec.ProviderID)
	}
	version := p.Set().Annotations["drover.dev/capacity"]
	a.deleteAll(t, namesOf(machines))
	p.Runs(0)
	if after := p.Set().Annotations["drover.dev/capacity"]; after != version {
		t.Errorf("the record was %s and is %s", version, after)
	}
}

// eventuallyAnnotated waits until the MachineSet has some annotations.
func eventuallyAnnotated(p *harness.Pool, want map[string]string) {
	p.Helper()
	p.Eventually("MachineSet "+p.Name+" is annotated", func() error {
		annotations := p.Set().Annotations
		for key, value := range want {
			if has, found := annotations[key]; !found && value != "" || has != value {
				return fmt.Errorf("%s is %q, not %q", key, has, value)
			}
		}
		return nil
	})
}

// TestAutoscaler_FailedMachines: a Machine that fails becomes so with its reason and its message, in one write: autoscalers read both.
func TestAutoscaler_FailedMachines(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("autoscaled-failing", 0, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.Failure.Create = machinev1beta1.InvalidConfigurationMachineError
	})
	watcher := watchMachines(t, p)
	a := p.Autoscaler()
	if err := a.Increase(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	name := ""
	if err := untilFailed(t, watcher, &name); err != nil {
		t.Fatal(err)
	}
	p.Eventually("the autoscaler sees a failed Machine", func() error {
		members, err := a.Members(t.Context())
		if want := []string{"failed-machine-" + cluster.MachineNamespace + "_" + name}; err == nil && !slices.Equal(members, want) {
			err = fmt.Errorf("members %v", members)
		}
		return err
	})
}

// watchMachines begins to watch the Machines of a pool.
func watchMachines(t *testing.T, p *harness.Pool) watch.Interface {
	t.Helper()
	scheme, err := harness.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	watching, err := client.NewWithWatch(p.Cluster.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := watching.Watch(t.Context(), &machinev1beta1.MachineList{}, client.InNamespace(cluster.MachineNamespace),
		client.MatchingLabels{cluster.MachineSetLabel: p.Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	return watcher
}

// untilFailed reads versions of a Machine until it has failed, and checks that none has a part of the failure only.
func untilFailed(t *testing.T, watcher watch.Interface, name *string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return errors.New("no Machine has failed")
		case event := <-watcher.ResultChan():
			machine, ok := event.Object.(*machinev1beta1.Machine)
			if !ok {
				return fmt.Errorf("event %+v", event)
			}
			failed := machine.Status.Phase != nil && *machine.Status.Phase == machinev1beta1.PhaseFailed
			hasReason, hasMessage := machine.Status.ErrorReason != nil, machine.Status.ErrorMessage != nil
			if failed != hasReason || failed != hasMessage {
				t.Errorf("failed: %t, a reason: %t, a message: %t", failed, hasReason, hasMessage)
			}
			if failed {
				*name = machine.Name
				return nil
			}
		}
	}
}
