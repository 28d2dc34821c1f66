package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// The MachineSets: one whose Machines are replaced, and one for single Machines.
const pool, singlePool = "measured", "single"

// stage is a control plane without other writers: the Nodes of the provider are ready from the start, so not even kwok runs.
type stage struct {
	*bench.Stage
	settings
}

func measure(ctx context.Context, s settings, r *report) error {
	base, err := bench.NewStage(ctx, s.Settings, cluster.Options{})
	if err != nil {
		return err
	}
	defer base.Close()
	st := &stage{base, s}
	if err := st.build(ctx); err != nil {
		return err
	}
	defer st.endHooks(ctx)()
	return st.With(ctx, func(operator *harness.Operator) error {
		if err := st.replacements(ctx, r); err != nil {
			return err
		}
		r.PeakMemory, err = bench.PeakMemory(operator.PID)
		return err
	}, "--controllers=*", "--metadata-writes-per-second=0")
}

// build installs the capability machines, and makes the MachineSets, which are empty yet, and their group.
func (s *stage) build(ctx context.Context) error {
	if err := harness.InstallMachines(ctx, s.Cluster); err != nil {
		return err
	}
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: cluster.MachineNamespace}
	group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"bench.drover.dev/label": "v1"}}
	group.Spec.Replacement = &v1alpha1.Replacement{
		Type: v1alpha1.ReplacementRollingUpdate, MaxSurge: new(intstr.FromInt(s.surge)), MaxInFlight: new(intstr.FromInt(s.surge)),
	}
	group.Spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt(s.budget))}
	return errors.Join(s.Client.Create(ctx, s.machineSet(pool, 0)), s.Client.Create(ctx, s.machineSet(singlePool, 0)), s.Client.Create(ctx, group))
}

// machineSet returns a MachineSet with the template of a version.
func (s *stage) machineSet(name string, version int) *machinev1beta1.MachineSet {
	return harness.NewMachineSet(name, 0, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec = harness.KwokProviderSpec(func(spec *kwok.ProviderSpec) {
			spec.BootDelay, spec.InstanceType = metav1.Duration{Duration: s.boot}, fmt.Sprintf("v%d", version)
		})
		if s.drain > 0 {
			set.Spec.Template.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "bench", Owner: "bench"}}
		}
	})
}

// replacements measures single Machines, and then the replacement of many.
func (s *stage) replacements(ctx context.Context, r *report) error {
	for i := range s.singles {
		boot, deletion, err := s.single(ctx)
		if err != nil {
			return fmt.Errorf("single Machine: %w", err)
		}
		bench.Progress("single Machine %d of %d: boots in %.2f s, is gone after %.2f s", i+1, s.singles, boot, deletion)
		r.Boot, r.Deletion = append(r.Boot, boot), append(r.Deletion, deletion)
	}
	fastest := &schedule{
		machines: s.machines, surge: s.surge, places: min(s.surge, s.budget), boot: seconds(mean(r.Boot)), deletion: seconds(mean(r.Deletion)),
	}
	r.Ideal = fastest.shortest().Seconds()
	bench.Progress("creating %d Machines", s.machines)
	if err := s.Scale(ctx, pool, s.machines); err != nil {
		return err
	}
	for i := range s.rounds {
		one, err := s.replace(ctx, i+1)
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		bench.Progress("round %d of %d: %.1f s, %.3f of the fastest schedule", i+1, s.rounds, one.Seconds, one.Seconds/r.Ideal)
		r.Rounds = append(r.Rounds, one)
	}
	return nil
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }

// single measures how long one Machine takes until its Node works, and until it is gone.
func (s *stage) single(ctx context.Context) (boot, deletion float64, err error) {
	mark, err := s.Cluster.Audit().Sync(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := s.Scale(ctx, singlePool, 1); err != nil {
		return 0, 0, err
	}
	if err := s.Scale(ctx, singlePool, 0); err != nil {
		return 0, 0, err
	}
	writes, err := s.writesSince(ctx, mark)
	if err != nil {
		return 0, 0, err
	}
	deleted, gone := writes.first("delete machines"), writes.last("patch machines")
	// The drain of the Machine writes its Node, too.
	created, works := writes.first("create machines"), writes.until(deleted).last("patch nodes")
	return works.Sub(created).Seconds(), gone.Sub(deleted).Seconds(), writes.check(created, works, deleted, gone)
}

// replace changes the template and waits until all Machines are replaced.
func (s *stage) replace(ctx context.Context, version int) (one round, err error) {
	// What the round before has left to write does not belong to this one.
	if err := bench.Sleep(ctx, 5*time.Second); err != nil {
		return one, err
	}
	mark, err := s.Cluster.Audit().Sync(ctx)
	if err != nil {
		return one, err
	}
	before := &machinev1beta1.MachineSet{}
	if err := s.Client.Get(ctx, types.NamespacedName{Namespace: cluster.MachineNamespace, Name: pool}, before); err != nil {
		return one, err
	}
	after := before.DeepCopy()
	after.Spec.Template = s.machineSet(pool, version).Spec.Template
	begun := time.Now()
	if err := s.Client.Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return one, err
	}
	if err := s.replaced(ctx, after); err != nil {
		return one, err
	}
	writes, err := s.writesSince(ctx, mark)
	if err != nil {
		return one, err
	}
	ended := writes.last("patch machines")
	one.Seconds, one.Writes = ended.Sub(begun).Seconds(), float64(len(writes))/float64(s.machines)
	one.Kinds, one.Most = writes.kinds(s.machines), s.machines+writes.most()
	return one, writes.check(ended)
}

// replaced waits until the template outdates no Machine of a MachineSet.
func (s *stage) replaced(ctx context.Context, set *machinev1beta1.MachineSet) error {
	template := machineapi.TemplateOf(set)
	return harness.WaitLonger(ctx, time.Hour, time.Second, func() error {
		machines, err := s.Machines(ctx, pool)
		if err != nil {
			return err
		}
		outdated := 0
		for i := range machines {
			if template.Outdates(&machines[i]) {
				outdated++
			}
		}
		if outdated > 0 {
			return fmt.Errorf("%d of %d Machines are outdated", outdated, len(machines))
		}
		return nil
	})
}

// write is one of the operator's writes: what is its verb and resource.
type write struct {
	what     string
	answered time.Time
}

// writes are in the order of their answers.
type writes []write

// writesSince reads the operator's writes that succeeded since a mark in the audit log, except for statuses, leases and reviews of requests.
func (s *stage) writesSince(ctx context.Context, mark cluster.AuditMark) (all writes, err error) {
	if _, err := s.Cluster.Audit().Sync(ctx); err != nil {
		return nil, err
	}
	return all, s.Cluster.Audit().Each(mark, func(e *cluster.AuditEvent) error {
		if e.User == harness.User && bench.IsChange(e.Verb, e.Resource) && e.Code < 300 {
			what := e.Verb + " " + e.Resource
			if e.Subresource != "" {
				what += "/" + e.Subresource
			}
			all = append(all, write{what: what, answered: e.Answered})
		}
		return nil
	})
}

// until returns the writes that were answered before a time.
func (w writes) until(at time.Time) writes {
	return slices.DeleteFunc(slices.Clone(w), func(one write) bool { return !one.answered.Before(at) })
}

// first returns when the first write of a kind was answered; zero for none.
func (w writes) first(what string) (at time.Time) {
	for i := range w {
		if w[i].what == what && (at.IsZero() || w[i].answered.Before(at)) {
			at = w[i].answered
		}
	}
	return at
}

// last returns when the last write of a kind was answered; zero for none.
func (w writes) last(what string) (at time.Time) {
	for i := range w {
		if w[i].what == what && w[i].answered.After(at) {
			at = w[i].answered
		}
	}
	return at
}

// most returns how many more Machines were created than deleted, at most.
func (w writes) most() (most int) {
	count := 0
	for i := range w {
		switch w[i].what {
		case "create machines":
			count++
		case "delete machines":
			count--
		}
		most = max(most, count)
	}
	return most
}

// kinds returns how many writes of each kind there were for each of some Machines.
func (w writes) kinds(machines int) map[string]float64 {
	kinds := map[string]float64{}
	for i := range w {
		kinds[w[i].what] += 1 / float64(machines)
	}
	return kinds
}

// check fails if a time is missing.
func (w writes) check(times ...time.Time) error {
	for _, at := range times {
		if at.IsZero() {
			return fmt.Errorf("the audit log lacks a write: %v", w)
		}
	}
	return nil
}
