package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// groupLabel is the label of the Nodes that the NodeGroup selects.
var groupLabel = map[string]string{"bench.drover.dev/group": "bench"}

// settling is how long after a start something may be left to do: Drover looks at a group of thousands of Nodes again some seconds after it wrote the
// status, and for 15 seconds it checks which resources the API server has.
const settling = 17 * time.Second

// groupBench is a control plane with Nodes and their NodeGroup.
type groupBench struct {
	*stage

	size, value int
}

// nodegroups measures roll-outs to the Nodes of a NodeGroup.
func nodegroups(flags *flag.FlagSet) func(context.Context, *bench) error {
	g := &groupBench{}
	flags.IntVar(&g.size, "nodes", 5000, "number of Nodes")
	return func(ctx context.Context, b *bench) error {
		return b.onStage(ctx, cluster.Options{}, func(s *stage) error {
			g.stage = s
			return inOrder(ctx, []step{
				{fmt.Sprintf("a group of %d Nodes", g.size), g.build},
				{"roll-outs, and bare writers", g.compareRollouts},
				{"start with nothing to do, and rest", g.rest},
			})
		})
	}
}

// build registers the Nodes and has Drover apply a first declaration.
func (g *groupBench) build(ctx context.Context) error {
	err := each(ctx, floorWriters, g.size, func(ctx context.Context, i int) error {
		node := builder.Node(fmt.Sprintf("bench-%05d", i), builder.WithReady(corev1.ConditionTrue), builder.WithNodeLabels(groupLabel))
		return g.client.Create(ctx, node)
	})
	if err != nil {
		return err
	}
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: groupLabel}
	group.Spec.Metadata = g.metadata()
	if err := g.client.Create(ctx, group); err != nil {
		return err
	}
	return g.with(ctx, []string{unlimitedRate}, func(ctx context.Context, _ *operator) error { return g.synced(ctx) })
}

// metadata returns a declaration with the present value.
func (g *groupBench) metadata() *v1alpha1.Metadata {
	text := fmt.Sprintf("v%d", g.value)
	return &v1alpha1.Metadata{
		Labels:      map[string]v1alpha1.LabelValue{labelKey: v1alpha1.LabelValue(text)},
		Annotations: map[string]v1alpha1.AnnotationValue{annotationKey: v1alpha1.AnnotationValue(text)},
		Taints:      []v1alpha1.Taint{{Key: taintKey, Value: text, Effect: corev1.TaintEffectPreferNoSchedule}},
	}
}

func (g *groupBench) group(ctx context.Context) (*v1alpha1.NodeGroup, error) {
	group := &v1alpha1.NodeGroup{}
	return group, g.client.Get(ctx, types.NamespacedName{Name: "bench"}, group)
}

// declare changes all values that the group declares.
func (g *groupBench) declare(ctx context.Context) error {
	g.value++
	group, err := g.group(ctx)
	if err != nil {
		return err
	}
	before := group.DeepCopy()
	group.Spec.Metadata = g.metadata()
	return g.client.Patch(ctx, group, client.MergeFrom(before))
}

// synced waits until the status of the group counts all Nodes as synced.
func (g *groupBench) synced(ctx context.Context) error {
	return wait(ctx, 200*time.Millisecond, func() error {
		group, err := g.group(ctx)
		if err == nil && (group.Status.ObservedGeneration != group.Generation || int(group.Status.Synced) != g.size) {
			err = fmt.Errorf("%d of %d Nodes are synced", group.Status.Synced, g.size)
		}
		return err
	})
}

// settled runs the operator and calls do when nothing is left to do.
func (g *groupBench) settled(ctx context.Context, do func(context.Context, *operator) error) error {
	return g.with(ctx, []string{unlimitedRate}, func(ctx context.Context, o *operator) error {
		if err := g.synced(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, settling); err != nil {
			return err
		}
		return do(ctx, o)
	})
}

// runBare declares new values and has bare writers send what Drover would send; they watch a kind meanwhile, nil for none. Drover's own code computes
// the writes before anything is timed.
func (g *groupBench) runBare(ctx context.Context, watched client.ObjectList) (float64, error) {
	if err := g.declare(ctx); err != nil {
		return 0, err
	}
	group, err := g.group(ctx)
	if err != nil {
		return 0, err
	}
	nodes, err := g.nodes(ctx)
	if err != nil {
		return 0, err
	}
	bare, declaration := &floor{watched: watched}, plan.GroupDeclarationOf(group)
	for i := range nodes {
		node := &nodes[i]
		decision := plan.DecideGroup(plan.GroupInput{
			Node: node, Declaration: declaration, Confirmed: plan.ParseOwnedKeys(group.Status.OwnedKeys), Remove: true,
			Protected: ownership.DefaultProtected(), Now: time.Now(),
		})
		if !decision.Change.Write {
			return 0, fmt.Errorf("the declaration changes nothing of %s", node.Name)
		}
		body, err := plan.NodeChange{Group: &decision.Change}.Patch(node)
		if err != nil {
			return 0, err
		}
		bare.items = append(bare.items, []write{patch(metadataOf(node, "v1", "Node"), types.JSONPatchType, body)})
	}
	return bare.run(ctx, g.stage)
}

// compareRollouts measures roll-outs beside bare writers, and bare writers that also watch the Nodes, as every operator does.
func (g *groupBench) compareRollouts(ctx context.Context) error {
	var watched []float64
	bare := func(ctx context.Context) (float64, error) { return g.runBare(ctx, nil) }
	all, err := compare(ctx, g.rounds, bare, func(ctx context.Context) (r span, err error) {
		seconds, err := g.runBare(ctx, &corev1.NodeList{})
		if err != nil {
			return r, err
		}
		watched = append(watched, seconds)
		return r, g.settled(ctx, func(ctx context.Context, o *operator) error {
			if r, err = g.rollOut(ctx, o, g.size, func() error { return g.declare(ctx) }); err != nil {
				return err
			}
			return g.synced(ctx)
		})
	})
	if err != nil {
		return err
	}
	var shares []float64
	for i := range all {
		r, c := &all[i], g.column("Round", fmt.Sprint(i+1))
		c.add("bare writers, before", r.before, inSeconds)
		c.add("bare writers, after", r.after, inSeconds)
		c.add("bare writers that watch", watched[i], inSeconds)
		c.add("share of those of the others' speed", (r.before+r.after)/2/watched[i], ratio)
		c.add("last Node", r.lastNode(), inSeconds)
		c.add("share of the bare writers' speed", r.share(), ratio)
		c.add("writes of the Node", float64(len(r.requests.of("patch nodes")))/float64(g.size), perObject, exactly(1))
		// The times of the answers vary a little.
		c.add("writes of the status per second", r.requests.of("patch nodegroups/status").perSecond(), ratio, atMost(1.05))
		c.add("processor time", r.cpu, inSeconds)
		shares = append(shares, r.share())
	}
	g.column("Round", "all").add("share of the bare writers' speed", mean(shares), ratio, atLeast(0.9))
	return nil
}

// rest measures a start with nothing to do, and a while after it.
func (g *groupBench) rest(ctx context.Context) error {
	// The status of the group does not show the last bare writes yet.
	if err := g.settled(ctx, func(context.Context, *operator) error { return nil }); err != nil {
		return err
	}
	c := g.column("Round", "all")
	mark, err := g.cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	err = g.settled(ctx, func(ctx context.Context, o *operator) error {
		made, err := g.requestsSince(ctx, mark, harness.User)
		if err != nil {
			return err
		}
		c.add("start", o.ready.Sub(o.begun).Seconds(), inSeconds)
		c.add("writes at a start", float64(len(made.writes())), count, exactly(0))
		return g.addRest(ctx, o, c)
	})
	c.add("peak memory", g.peak, inMiB, atMost(200))
	return err
}
