package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// The keys that the MachineSets declare.
const (
	labelKey      = "bench.drover.dev/label"
	annotationKey = "bench.drover.dev/annotation"
	taintKey      = "bench.drover.dev/taint"
)

// pool is a MachineSet, and how many Machines it has.
type pool struct {
	name     string
	machines int
}

// fleet is a control plane with MachineSets whose Machines have Nodes, and where their figures go.
type fleet struct {
	*stage

	column column
	pools  []pool
	// machines is how many there are; static says that their Nodes have no heartbeats.
	machines int
	static   bool
	// args are of the operator.
	args []string
	// value is the value that was declared last.
	value int
}

// onFleet makes a control plane with MachineSets. The Nodes have no heartbeats until kwok is started, because the heartbeats of thousands of Nodes
// would take half of a small machine.
func (b *bench) onFleet(ctx context.Context, f *fleet, options cluster.Options, steps func() []step) error {
	for _, p := range f.pools {
		f.machines += p.machines
	}
	name := fmt.Sprint(f.machines)
	if f.static {
		name += " static"
	}
	f.column = b.column("Machines", name)
	options.Components = []string{cluster.Kwok}
	return b.onStage(ctx, options, func(s *stage) error {
		f.stage = s
		if err := s.cluster.Kill(cluster.Kwok, syscall.SIGKILL); err != nil {
			return err
		}
		for _, p := range f.pools {
			if err := cluster.CreatePool(ctx, s.cluster.Admin(), cluster.PoolOptions{Name: p.name, Machines: p.machines, Log: os.Stderr}); err != nil {
				return err
			}
		}
		first := step{"first start, which creates a ConfigMap that an admission policy reads", func(ctx context.Context) error {
			return f.withSynced(ctx, nil, func(context.Context, *operator, time.Time) error { return nil })
		}}
		return inOrder(ctx, append([]step{first}, steps()...))
	})
}

// machineSet returns the key of a MachineSet.
func machineSet(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.MachineNamespace, Name: name}
}

// declare gives MachineSets a new label, annotation and value of a taint.
func (f *fleet) declare(ctx context.Context, pools ...pool) error {
	f.value++
	const template = `{"spec":{"template":{"spec":{"metadata":{"labels":{%q:"v%[4]d"},"annotations":{%[2]q:"v%[4]d"}},` +
		`"taints":[{"key":%[3]q,"value":"v%[4]d","effect":"PreferNoSchedule"}]}}}}`
	for _, p := range pools {
		set := &machinev1beta1.MachineSet{ObjectMeta: harness.Meta(p.name)}
		if err := f.merge(ctx, set, template, labelKey, annotationKey, taintKey, f.value); err != nil {
			return err
		}
	}
	return nil
}

// current lists the Nodes that have the label with the value that was declared last.
func (f *fleet) current(ctx context.Context) ([]corev1.Node, error) {
	return f.nodes(ctx, client.MatchingLabels{labelKey: fmt.Sprintf("v%d", f.value)})
}

// runBare declares new values and has bare writers send what Drover would send. Drover's own code computes it before anything is timed.
func (f *fleet) runBare(ctx context.Context) (float64, error) {
	if err := f.declare(ctx, f.pools...); err != nil {
		return 0, err
	}
	var sets machinev1beta1.MachineSetList
	var machines machinev1beta1.MachineList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&sets, &machines, &nodes} {
		if err := f.client.List(ctx, list); err != nil {
			return 0, err
		}
	}
	objects := plan.Objects{Nodes: map[string]*corev1.Node{}}
	for i := range sets.Items {
		objects.Sets = append(objects.Sets, &sets.Items[i])
	}
	for i := range machines.Items {
		objects.Machines = append(objects.Machines, &machines.Items[i])
	}
	for i := range nodes.Items {
		objects.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	bare := &floor{}
	for _, item := range plan.SurveyOf(objects, ownership.DefaultProtected(), time.Now()).Items {
		if !item.Decision.Machine.Write || !item.Decision.Node.Write {
			return 0, fmt.Errorf("the declaration changes nothing of %s", item.Machine.Name)
		}
		machine, err := plan.MachinePatch(item.Machine, item.Decision.Machine)
		if err != nil {
			return 0, err
		}
		node, err := plan.NodeChange{Set: &item.Decision.Node}.Patch(item.Node)
		if err != nil {
			return 0, err
		}
		bare.items = append(bare.items, []write{
			patch(metadataOf(item.Machine, machinev1beta1.GroupVersion.String(), "Machine"), types.MergePatchType, machine),
			patch(metadataOf(item.Node, "v1", "Node"), types.JSONPatchType, node),
		})
	}
	return bare.run(ctx, f.stage)
}

// metadataOf returns an object that requests only metadata from the API server, as Drover does.
func metadataOf(object client.Object, version, kind string) *metav1.PartialObjectMetadata {
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind}}
	partial.Namespace, partial.Name = object.GetNamespace(), object.GetName()
	return partial
}

// synced waits until an operator counts all Machines as synced, and returns when that was. The operator is asked only when it has little to do: the
// metrics of thousands of Machines take a good part of a second of processor time, which would be measured as well.
func (f *fleet) synced(ctx context.Context, o *operator) (at time.Time, err error) {
	at = o.ready
	return at, wait(ctx, 100*time.Millisecond, func() error {
		if at.IsZero() {
			if err := quiet(ctx, o.PID); err != nil {
				return err
			}
			at = time.Now()
		}
		text, err := o.Scrape(ctx, f.token)
		if err != nil {
			return err
		}
		lines := strings.Split(text, "\n")
		for _, p := range f.pools {
			line := fmt.Sprintf(`drover_metadata_nodes{machineset=%q,namespace=%q,state="synced"} %d`, p.name, cluster.MachineNamespace, p.machines)
			if !slices.Contains(lines, line) {
				at = time.Time{}
				return fmt.Errorf("the operator does not count all Machines of %s as synced", p.name)
			}
		}
		return nil
	})
}

// withSynced runs the operator, and calls do when it counts all Machines as synced.
func (f *fleet) withSynced(ctx context.Context, args []string, do func(ctx context.Context, o *operator, at time.Time) error) error {
	return f.with(ctx, append(args, f.args...), func(ctx context.Context, o *operator) error {
		at, err := f.synced(ctx, o)
		if err != nil {
			return err
		}
		return do(ctx, o, at)
	})
}

// rollOutTo rolls out new values to the Machines of some MachineSets. meanwhile is called after the change; nil stands for nothing.
func (f *fleet) rollOutTo(ctx context.Context, args []string, pools []pool, meanwhile func(context.Context) error) (r span, err error) {
	machines := 0
	for _, p := range pools {
		machines += p.machines
	}
	err = f.withSynced(ctx, args, func(ctx context.Context, o *operator, _ time.Time) error {
		r, err = f.rollOut(ctx, o, machines, func() error {
			if err := f.declare(ctx, pools...); err != nil || meanwhile == nil {
				return err
			}
			return meanwhile(ctx)
		})
		if err != nil {
			return err
		}
		nodes, err := f.current(ctx)
		if err == nil && len(nodes) != machines {
			err = fmt.Errorf("%d of %d Nodes have the label that is declared", len(nodes), machines)
		}
		return err
	})
	return r, err
}

// compareRollouts measures roll-outs to all Machines beside bare writers.
func (f *fleet) compareRollouts(ctx context.Context, rounds int, share, worst aim) error {
	all, err := compare(ctx, rounds, f.runBare, func(ctx context.Context) (span, error) {
		return f.rollOutTo(ctx, []string{unlimitedRate}, f.pools, nil)
	})
	if err != nil {
		return err
	}
	floors := []float64{all[0].before}
	for i := range all {
		floors = append(floors, all[i].after)
	}
	slices.SortFunc(all, byShare)
	r, c, size := all[len(all)/2], f.column, float64(f.machines)
	nodes := r.requests.of("patch nodes")
	times := nodes.seconds(r.begun)
	c.add("bare writers, fastest", slices.Min(floors), inSeconds)
	c.add("bare writers, slowest", slices.Max(floors), inSeconds)
	c.add("last Node", r.lastNode(), inSeconds)
	c.add("share of the bare writers' speed", r.share(), ratio, share)
	c.add("share in the worst round", all[0].share(), ratio, worst)
	c.add("per Node p50", quantile(times, 0.5), inSeconds)
	c.add("per Node p99", quantile(times, 0.99), inSeconds)
	machines := r.requests.of("patch machines")
	c.add("writes of the Machine", float64(len(machines))/size, perObject, exactly(1))
	c.add("writes of the Node", float64(len(nodes))/size, perObject, exactly(1))
	c.add("other requests", float64(len(r.requests)-len(nodes)-len(machines)), count)
	c.add("processor time per 1000 Machines", r.cpu/size*1000, inSeconds)
	return nil
}

// limitedRollout measures a roll-out with the default limit of the rate, and how soon a manual edit in the middle of it is reverted.
func (f *fleet) limitedRollout(ctx context.Context) error {
	var reverts []float64
	r, err := f.rollOutTo(ctx, nil, f.pools, func(ctx context.Context) (err error) {
		reverts, err = f.edits(ctx)
		return err
	})
	if err != nil {
		return err
	}
	f.column.add("with the default limit", r.lastNode(), inSeconds)
	f.column.add("a manual edit reverted, p50", quantile(reverts, 0.5), inSeconds)
	f.column.add("a manual edit reverted, max", quantile(reverts, 1), inSeconds, atMost(1))
	return nil
}

// edits changes Nodes that have the new values, one after the other, until all Nodes have them or twenty were changed.
func (f *fleet) edits(ctx context.Context) (reverts []float64, err error) {
	random := rand.New(rand.NewPCG(1, 0))
	for len(reverts) < 20 {
		nodes, err := f.current(ctx)
		if err != nil {
			return nil, err
		}
		if len(nodes) == f.machines {
			break
		}
		if len(nodes) == 0 {
			continue
		}
		took, err := f.edit(ctx, nodes[random.IntN(len(nodes))].Name)
		if err != nil {
			return nil, err
		}
		reverts = append(reverts, took)
	}
	return reverts, nil
}

// edit removes the label of a Node and waits until it is back.
func (f *fleet) edit(ctx context.Context, name string) (float64, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	begun := time.Now()
	if err := f.merge(ctx, node, `{"metadata":{"labels":{%q:null}}}`, labelKey); err != nil {
		return 0, err
	}
	err := wait(ctx, 5*time.Millisecond, func() error {
		err := f.client.Get(ctx, types.NamespacedName{Name: name}, node)
		if err == nil && node.Labels[labelKey] != fmt.Sprintf("v%d", f.value) {
			err = errors.New("the label is not back")
		}
		return err
	})
	return time.Since(begun).Seconds(), err
}

// restart measures a start with nothing to do, until the operator counts all Machines as synced.
func (f *fleet) restart(ctx context.Context, what string, limit, memory aim, args ...string) error {
	mark, err := f.cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	return f.withSynced(ctx, args, func(ctx context.Context, o *operator, at time.Time) error {
		f.column.add(what, at.Sub(o.begun).Seconds(), inSeconds, limit)
		made, err := f.requestsSince(ctx, mark, harness.User)
		if err != nil {
			return err
		}
		f.column.add(what+": writes", float64(len(made.writes())), count, exactly(0))
		peak, err := peakMemory(o.PID)
		f.column.add(what+": peak memory", peak, inMiB, memory)
		return err
	})
}

// rest watches the operator at rest.
func (f *fleet) rest(ctx context.Context) error {
	if !f.static {
		if err := errors.Join(f.cluster.StartComponent(ctx, cluster.Kwok), f.pin()); err != nil {
			return err
		}
	}
	return f.withSynced(ctx, nil, func(ctx context.Context, o *operator, _ time.Time) error { return f.addRest(ctx, o, f.column) })
}
