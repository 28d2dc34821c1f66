package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// groupName is the name of the NodeGroup, and the value of the label by which it selects its Nodes.
const groupName = "bench"

// parallel is how many requests are sent at once; more make two cores no faster.
const parallel = 16

// patience is how long a step may take.
const patience = 15 * time.Minute

// settled is how long after a start nothing is left to do: a group of so many Nodes is looked at again some seconds after its status was written, and
// for 15 seconds it is checked which resources the API server has.
const settled = 17 * time.Second

// stage is a control plane with Nodes and their group.
type stage struct {
	*bench.Stage
	settings

	value int
}

func measure(ctx context.Context, s settings, r *report) error {
	base, err := bench.NewStage(ctx, s.Settings, cluster.Options{})
	if err != nil {
		return err
	}
	defer base.Close()
	b := &stage{Stage: base, settings: s}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	// The floor of a round is measured before and after it: a control plane becomes slower, or faster, by what it has done.
	before, err := b.floor(ctx, false)
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	for i := range s.rounds {
		one := round{Before: before}
		if err := b.round(ctx, r, &one); err != nil {
			return err
		}
		before = one.After
		bench.Progress("round %d of %d: %.2f s, %.2f of the floor's speed", i+1, s.rounds, one.Seconds, one.Ratio())
		r.Rounds = append(r.Rounds, one)
	}
	// The status of the group does not know of the last floor yet.
	if err := b.operate(ctx, r, func(*harness.Operator) error { return b.settle(ctx) }); err != nil {
		return err
	}
	return b.idle(ctx, r)
}

// prepare registers the Nodes, and has the operator apply a first declaration.
func (b *stage) prepare(ctx context.Context) error {
	bench.Progress("registering %d Nodes", b.nodes)
	err := each(ctx, b.nodes, func(ctx context.Context, i int) error {
		return b.Client.Create(ctx, builder.Node(fmt.Sprintf("bench-%05d", i), builder.WithReady(corev1.ConditionTrue),
			builder.WithNodeLabels(map[string]string{"bench.drover.dev/group": groupName})))
	})
	if err != nil {
		return err
	}
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: groupName}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"bench.drover.dev/group": groupName}}
	group.Spec.Metadata = declared(0)
	if err := b.Client.Create(ctx, group); err != nil {
		return err
	}
	bench.Progress("the first roll-out, which adds the keys")
	return b.operate(ctx, nil, func(*harness.Operator) error { return b.synced(ctx) })
}

// declared is a label, an annotation and a taint.
func declared(value int) *v1alpha1.Metadata {
	text := fmt.Sprintf("v%d", value)
	return &v1alpha1.Metadata{
		Labels:      map[string]v1alpha1.LabelValue{"bench.drover.dev/label": v1alpha1.LabelValue(text)},
		Annotations: map[string]v1alpha1.AnnotationValue{"bench.drover.dev/annotation": v1alpha1.AnnotationValue(text)},
		Taints:      []v1alpha1.Taint{{Key: "bench.drover.dev/taint", Value: text, Effect: corev1.TaintEffectPreferNoSchedule}},
	}
}

// round measures the floor with a watch, the operator, and the floor.
func (b *stage) round(ctx context.Context, r *report, one *round) (err error) {
	if one.Watched, err = b.floor(ctx, true); err != nil {
		return fmt.Errorf("floor with a watch: %w", err)
	}
	err = b.operate(ctx, r, func(*harness.Operator) error {
		if err := b.settle(ctx); err != nil {
			return err
		}
		mark, err := b.Cluster.Audit().Sync(ctx)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := b.declare(ctx); err != nil {
			return err
		}
		if err := b.synced(ctx); err != nil {
			return err
		}
		return b.read(ctx, mark, begun, one)
	})
	if err != nil {
		return err
	}
	if one.After, err = b.floor(ctx, false); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	return nil
}

// settle waits until nothing is left to do.
func (b *stage) settle(ctx context.Context) error {
	if err := b.synced(ctx); err != nil {
		return err
	}
	return bench.Sleep(ctx, settled)
}

// operate runs the shipped program without a limit of its rate, and notes its memory.
func (b *stage) operate(ctx context.Context, r *report, do func(*harness.Operator) error) error {
	return b.With(ctx, func(operator *harness.Operator) error {
		if err := do(operator); err != nil || r == nil {
			return err
		}
		peak, err := bench.PeakMemory(operator.PID)
		r.PeakMemory = max(r.PeakMemory, peak)
		return err
	}, "--metadata-writes-per-second=0")
}

// declare changes all values that the group declares.
func (b *stage) declare(ctx context.Context) error {
	b.value++
	group, err := b.group(ctx)
	if err != nil {
		return err
	}
	before := group.DeepCopy()
	group.Spec.Metadata = declared(b.value)
	return b.Client.Patch(ctx, group, client.MergeFrom(before))
}

func (b *stage) group(ctx context.Context) (*v1alpha1.NodeGroup, error) {
	group := &v1alpha1.NodeGroup{}
	return group, b.Client.Get(ctx, types.NamespacedName{Name: groupName}, group)
}

// synced waits until the status counts all Nodes as synced with the present spec.
func (b *stage) synced(ctx context.Context) error {
	return harness.WaitLonger(ctx, patience, 200*time.Millisecond, func() error {
		group, err := b.group(ctx)
		if err == nil && (group.Status.ObservedGeneration != group.Generation || int(group.Status.Synced) != b.nodes) {
			err = fmt.Errorf("%d of %d Nodes are synced", group.Status.Synced, b.nodes)
		}
		return err
	})
}

// floor changes what the group declares and sends all patches as fast as it can. They are computed before. With watched it also watches the Nodes, as
// no operator can do without.
func (b *stage) floor(ctx context.Context, watched bool) (seconds float64, err error) {
	if err := b.declare(ctx); err != nil {
		return 0, err
	}
	group, err := b.group(ctx)
	if err != nil {
		return 0, err
	}
	var nodes corev1.NodeList
	if err := b.Client.List(ctx, &nodes); err != nil {
		return 0, err
	}
	declaration, patches := plan.GroupDeclarationOf(group), make([][]byte, len(nodes.Items))
	for i := range nodes.Items {
		decision := plan.DecideGroup(plan.GroupInput{
			Node: &nodes.Items[i], Declaration: declaration, Confirmed: plan.ParseOwnedKeys(group.Status.OwnedKeys), Remove: true,
			Protected: ownership.DefaultProtected(), Now: time.Now(),
		})
		if !decision.Change.Write {
			return 0, fmt.Errorf("%s has nothing to be written", nodes.Items[i].Name)
		}
		if patches[i], err = plan.GroupPatch(&nodes.Items[i], decision.Change); err != nil {
			return 0, err
		}
	}
	writer, err := b.Bare(ctx)
	if err != nil {
		return 0, err
	}
	if watched {
		events, err := writer.Watch(ctx, &corev1.NodeList{})
		if err != nil {
			return 0, err
		}
		defer events.Stop()
		go func() {
			for range events.ResultChan() {
			}
		}()
	}
	begun := time.Now()
	err = each(ctx, len(patches), func(ctx context.Context, i int) error {
		node := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		node.Name = nodes.Items[i].Name
		return writer.Patch(ctx, node, client.RawPatch(types.JSONPatchType, patches[i]))
	})
	return time.Since(begun).Seconds(), err
}

// each calls a function for each number below a count, several at once.
func each(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// read finds the roll-out in the audit log.
func (b *stage) read(ctx context.Context, mark cluster.AuditMark, begun time.Time, one *round) error {
	if _, err := b.Cluster.Audit().Sync(ctx); err != nil {
		return err
	}
	var statuses []time.Time
	err := b.Cluster.Audit().Each(mark, func(e *cluster.AuditEvent) error {
		switch {
		case e.User != harness.User || !e.Write():
		case e.Resource == "nodes":
			one.Writes += 1 / float64(b.nodes)
			one.Seconds = max(one.Seconds, e.Answered.Sub(begun).Seconds())
		case e.Resource == "nodegroups" && e.Subresource == "status":
			statuses = append(statuses, e.Answered)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if one.Seconds == 0 {
		return errors.New("the audit log has no write of a Node")
	}
	one.StatusWrites = bench.PerSecond(statuses)
	return nil
}

// idle measures a start with nothing to do, and a while after it.
func (b *stage) idle(ctx context.Context, r *report) error {
	mark, err := b.Cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	return b.operate(ctx, r, func(operator *harness.Operator) error {
		if err := operator.Says(ctx, "capability node-groups: running"); err != nil {
			return err
		}
		r.Restart = time.Since(begun).Seconds()
		bench.Progress("at rest for %s", b.settings.rest)
		if r.RestartWrites, err = b.Changes(ctx, mark); err != nil {
			return err
		}
		if mark, err = b.Cluster.Audit().Sync(ctx); err != nil {
			return err
		}
		if r.RestSeconds, _, err = bench.Usage(ctx, operator.PID, b.settings.rest); err != nil {
			return err
		}
		r.RestWrites, err = b.Changes(ctx, mark)
		return err
	})
}
