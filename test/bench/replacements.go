package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// singles is how many single Machines are measured.
const singles = 5

// replacementBench is a control plane with MachineSets of the provider kwok and their NodeGroup.
type replacementBench struct {
	*stage

	machines, surge, budget int
	boot, drain             time.Duration
}

// replacements measures the replacement of Machines after a change of their template.
func replacements(flags *flag.FlagSet) func(context.Context, *bench) error {
	r := &replacementBench{}
	flags.IntVar(&r.machines, "machines", 200, "Machines that are replaced")
	flags.IntVar(&r.surge, "surge", 10, "Machines beyond those, and how many may be replaced at the same time")
	flags.IntVar(&r.budget, "budget", 5, "Nodes that may be unavailable at the same time")
	flags.DurationVar(&r.boot, "boot", 10*time.Second, "the time from an instance to its Node")
	flags.DurationVar(&r.drain, "drain", 2*time.Second, "how long a hook keeps a Machine that is deleted")
	return func(ctx context.Context, b *bench) error {
		return b.onStage(ctx, cluster.Options{}, func(s *stage) error {
			r.stage = s
			return r.run(ctx)
		})
	}
}

func (r *replacementBench) run(ctx context.Context) error {
	if err := errors.Join(harness.InstallMachines(ctx, r.cluster), r.client.Create(ctx, r.group())); err != nil {
		return err
	}
	stop, err := r.endHooks(ctx)
	if err != nil {
		return err
	}
	defer stop()
	err = r.withMachines(ctx, func(ctx context.Context, o *operator) error {
		fastest, err := r.fastest(ctx, o)
		if err != nil {
			return err
		}
		progress("creating %d Machines", r.machines)
		if err := r.scale(ctx, r.machineSet("measured", 0), r.machines); err != nil {
			return err
		}
		for i := range r.rounds {
			if err := r.replace(ctx, o, fastest, i+1); err != nil {
				return fmt.Errorf("round %d: %w", i+1, err)
			}
		}
		return nil
	})
	r.column("Round", "all").add("peak memory", r.peak, inMiB)
	return err
}

func (r *replacementBench) group() *v1alpha1.NodeGroup {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: cluster.MachineNamespace}
	group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{labelKey: "v1"}}
	group.Spec.Replacement = &v1alpha1.Replacement{
		Type: v1alpha1.ReplacementRollingUpdate, MaxSurge: new(intstr.FromInt(r.surge)), MaxInFlight: new(intstr.FromInt(r.surge)),
	}
	group.Spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt(r.budget))}
	return group
}

// machineSet returns an empty MachineSet with the template of a version.
func (r *replacementBench) machineSet(name string, version int) *machinev1beta1.MachineSet {
	return harness.NewMachineSet(name, 0, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec = harness.KwokProviderSpec(func(spec *kwok.ProviderSpec) {
			spec.BootDelay, spec.InstanceType = metav1.Duration{Duration: r.boot}, fmt.Sprintf("v%d", version)
		})
		set.Spec.Template.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "bench", Owner: "bench"}}
	})
}

// endHooks removes the hooks of Machines some time after these were deleted: in place of a drain, and for exactly as long for each Machine.
func (r *replacementBench) endHooks(ctx context.Context) (stop func(), err error) {
	ended := map[types.UID]bool{}
	return r.follow(ctx, &machinev1beta1.MachineList{}, func(object client.Object) {
		if object.GetDeletionTimestamp() == nil || ended[object.GetUID()] {
			return
		}
		ended[object.GetUID()] = true
		time.AfterFunc(r.drain, func() {
			if err := r.merge(ctx, object, `{"spec":{"lifecycleHooks":null}}`); err != nil {
				progress("removing the hook of Machine %s: %v", object.GetName(), err)
			}
		})
	})
}

// fastest measures single Machines, and returns how many seconds the fastest schedule takes.
func (r *replacementBench) fastest(ctx context.Context, o *operator) (float64, error) {
	var boots, deletions []float64
	for range singles {
		boot, deletion, err := r.single(ctx, o)
		if err != nil {
			return 0, fmt.Errorf("single Machine: %w", err)
		}
		boots, deletions = append(boots, boot), append(deletions, deletion)
	}
	c := r.column("Round", "all")
	c.add("a single Machine boots in", mean(boots), inSeconds)
	c.add("a single Machine is deleted in", mean(deletions), inSeconds)
	limits := &replacementLimits{
		machines: r.machines, surge: r.surge, places: min(r.surge, r.budget),
		boot: time.Duration(mean(boots) * float64(time.Second)), deletion: time.Duration(mean(deletions) * float64(time.Second)),
	}
	return limits.fastest().Seconds(), nil
}

// single measures the seconds from the creation of one Machine until its Node works, and from its deletion until it is gone.
func (r *replacementBench) single(ctx context.Context, o *operator) (boot, deletion float64, err error) {
	set := r.machineSet("single", 0)
	m, err := r.measure(ctx, o.PID, harness.User, func() error { return errors.Join(r.scale(ctx, set, 1), r.scale(ctx, set, 0)) })
	if err != nil {
		return 0, 0, err
	}
	made := m.requests.succeeded()
	created, deleted, gone := made.of("create machines").first(), made.of("delete machines").first(), made.of("patch machines").last()
	// Drover writes the Node also when it drains it.
	works := made.before(deleted).of("patch nodes").last()
	if created.IsZero() || deleted.IsZero() || works.IsZero() {
		return 0, 0, errors.New("the audit log lacks a write")
	}
	return works.Sub(created).Seconds(), gone.Sub(deleted).Seconds(), nil
}

// replace changes the template and waits until all Machines are replaced.
func (r *replacementBench) replace(ctx context.Context, o *operator, fastest float64, version int) error {
	// What is left to write of the round before does not belong to this one.
	if err := sleep(ctx, 5*time.Second); err != nil {
		return err
	}
	before := &machinev1beta1.MachineSet{}
	if err := r.client.Get(ctx, machineSet("measured"), before); err != nil {
		return err
	}
	after := before.DeepCopy()
	after.Spec.Template = r.machineSet("measured", version).Spec.Template
	m, err := r.measure(ctx, o.PID, harness.User, func() error {
		if err := r.client.Patch(ctx, after, client.MergeFrom(before)); err != nil {
			return err
		}
		return r.replaced(ctx, after)
	})
	if err != nil {
		return err
	}
	made := m.requests.writes().succeeded()
	seconds := made.of("patch machines").last().Sub(m.begun).Seconds()
	c := r.column("Round", fmt.Sprint(version))
	c.add("fastest schedule", fastest, inSeconds)
	c.add("Drover", seconds, inSeconds)
	c.add("of the fastest schedule", seconds/fastest, perObject, atMost(1.15))
	c.add("Machines at the same time", float64(r.machines+mostAdded(made)), count, atMost(float64(r.machines+r.surge)))
	c.add("writes for each Machine", float64(len(made))/float64(r.machines), ratio)
	c.addKinds(made, r.machines)
	return nil
}

// replaced waits until no Machine of a MachineSet is outdated.
func (r *replacementBench) replaced(ctx context.Context, set *machinev1beta1.MachineSet) error {
	template := machineapi.TemplateOf(set)
	return wait(ctx, time.Second, func() error {
		machines, err := r.machinesOf(ctx, set.Name)
		if err != nil {
			return err
		}
		for i := range machines {
			if template.Outdates(&machines[i]) {
				return fmt.Errorf("the Machine %s is outdated", machines[i].Name)
			}
		}
		return nil
	})
}

// mostAdded returns how many more Machines were created than deleted, at most.
func mostAdded(made requests) (most int) {
	added := 0
	for i := range made {
		switch kindOf(&made[i]) {
		case "create machines":
			added++
		case "delete machines":
			added--
		}
		most = max(most, added)
	}
	return most
}
