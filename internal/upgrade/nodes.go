package upgrade

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// marking is what is to be changed of one node.
type marking struct {
	node  *corev1.Node
	marks plan.Marks
}

// mark labels the nodes of the targets, and takes the labels from those that are none any more.
func (p *pass) mark(ctx context.Context) (settled bool, err error) {
	s := p.scene
	var asked []string
	for _, claim := range s.Claims {
		if claim.UID == p.run.UID {
			asked = append(asked, claim.Keys...)
		}
	}
	var all []marking
	for _, node := range s.Nodes {
		if node.Disputed {
			continue
		}
		all = append(all, marking{node.Node, plan.Gate(node.Node, p.run.UID, s.Keys, asked, s.Desired)})
	}
	for _, node := range s.Own {
		all = append(all, marking{node, plan.Join(node, p.run.UID)})
	}
	for _, node := range s.Left() {
		all = append(all, marking{node, plan.Strip(node, p.run.UID)})
		if err := p.Lease.ReleaseIfHolder(ctx, node.Name); err != nil {
			return false, err
		}
	}
	settled, err = p.apply(ctx, all)
	if err != nil {
		p.found.conditions.no(ConditionApplied, err.Error())
	}
	if settled {
		p.found.conditions.yes(ConditionApplied, "")
	}
	return settled, err
}

// apply makes marks, on several nodes at once, and tells whether there was nothing to do and nothing is awaited.
func (p *pass) apply(ctx context.Context, all []marking) (settled bool, err error) {
	var mu sync.Mutex
	var failures []error
	settled = true
	group := errgroup.Group{}
	group.SetLimit(parallel)
	for _, m := range all {
		if p.behind(ctx, m.node) {
			settled = false
			continue
		}
		if m.marks.Empty() {
			continue
		}
		settled = false
		group.Go(func() error {
			if err := p.patchNode(ctx, m.node, m.marks); err != nil && status.Classify(err) != status.Gone {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	if !settled {
		p.later(catchUp)
	}
	return settled, worst(failures)
}

// worst is the error that says most: a guard that failed is forgotten beside one that a person has to hear of.
func worst(failures []error) error {
	for _, class := range []status.Class{status.Denied, status.Transient} {
		for _, err := range failures {
			if status.Classify(err) == class {
				return err
			}
		}
	}
	return errors.Join(failures...)
}

func (p *pass) patchNode(ctx context.Context, node *corev1.Node, marks plan.Marks) error {
	patch, err := marks.Patch(node)
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID}}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := p.Writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
		return fmt.Errorf("marking node %s: %w", node.Name, err)
	}
	p.wrote(target)
	return nil
}

// act does what was decided for each node.
func (p *pass) act(ctx context.Context, decision *plan.Decision) error {
	if !decision.Wake.IsZero() {
		p.later(decision.Wake.Sub(p.now))
	}
	nodes := map[string]*plan.Node{}
	for _, node := range p.scene.Nodes {
		nodes[node.Name] = node
	}
	var failures []error
	for i := range decision.Steps {
		step := &decision.Steps[i]
		if err := p.step(ctx, nodes[step.Status.Name], step); err != nil {
			failures = append(failures, err)
		}
	}
	p.found.take(decision)
	p.tellDelays(decision)
	return worst(failures)
}

// step does what one node needs next. The node's lease is taken first, and kept until nothing of it is under way.
func (p *pass) step(ctx context.Context, node *plan.Node, step *plan.Step) error {
	if !busy(step) {
		if p.foreign(node.Node) {
			return nil
		}
		return p.Lease.ReleaseIfHolder(ctx, node.Name)
	}
	again, err := p.Lease.Acquire(ctx, node.Node)
	var held *nodelease.AlreadyHeldError
	switch {
	case errors.As(err, &held):
		if step.Release {
			step.Status.Phase = v1alpha1.NodeRunningJobs
		}
		step.Status.Message, step.Job, step.Release = held.Error(), nil, false
		p.later(min(max(held.Until.Sub(p.now), time.Second), retryDenied))
		return nil
	case err != nil:
		return err
	}
	p.later(again)
	switch {
	case step.Job != nil:
		return p.create(ctx, step)
	case step.Release && !p.behind(ctx, node.Node):
		marks, err := plan.LetGo(node.Node, plan.Release{Version: p.scene.Desired, At: metav1.NewTime(p.now.UTC().Truncate(time.Second))})
		if err != nil {
			return err
		}
		return p.patchNode(ctx, node.Node, marks)
	}
	return nil
}

// welcome labels nodes that have joined the run's pools, as those are now.
func (p *pass) welcome(ctx context.Context) error {
	var all []marking
	for _, newcomer := range p.scene.Newcomers() {
		all = append(all, marking{newcomer.Node, newcomer.Marks})
	}
	_, err := p.apply(ctx, all)
	return err
}

// inOrder takes steps one after another; each has to be settled before the next one.
func inOrder(ctx context.Context, steps ...func(context.Context) (bool, error)) (settled bool, err error) {
	for _, step := range steps {
		if settled, err := step(ctx); err != nil || !settled {
			return false, err
		}
	}
	return true, nil
}

// restore gives back pools, nodes and leases, in an order in which no moment finds a node in two pools or in none. It is done when nothing
// of the run is left.
func (p *pass) restore(ctx context.Context) (done bool, err error) {
	if lost := p.scene.Lost(); len(lost) > 0 {
		return false, refused(strings.Join(lost, "; "))
	}
	canary, targets := p.scene.Claimed(true), p.scene.Claimed(false)
	return inOrder(ctx,
		func(ctx context.Context) (bool, error) {
			if len(canary) == 0 {
				return true, nil
			}
			return p.takeBack(ctx, p.scene.Marked, targets)
		},
		func(ctx context.Context) (bool, error) { return p.giveSelectors(ctx, targets) },
		func(ctx context.Context) (bool, error) { return p.give(ctx, canary) },
		func(ctx context.Context) (bool, error) { return p.give(ctx, targets) },
		func(ctx context.Context) (bool, error) { return p.strip(ctx, p.scene.Marked) },
		p.releaseAll,
	)
}

// refused is what only a person can put right, like what the API server refuses.
func refused(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: text,
	}}
}

// takeBack moves those of some nodes that were let go back into their own pools, which are paused. Whatever has become of the targets
// meanwhile: the record of the release says which nodes these are.
func (p *pass) takeBack(ctx context.Context, nodes []*corev1.Node, pools []*mcfgv1.MachineConfigPool) (settled bool, err error) {
	var keys []string
	for _, pool := range pools {
		keys = append(keys, p.scene.Claims[pool.Name].Keys...)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	var all []marking
	for _, node := range nodes {
		all = append(all, marking{node, plan.TakeBack(node, p.run.UID, keys)})
	}
	return p.apply(ctx, all)
}

// giveSelectors gives target pools their selectors back, still paused.
func (p *pass) giveSelectors(ctx context.Context, pools []*mcfgv1.MachineConfigPool) (settled bool, err error) {
	settled = true
	for _, pool := range pools {
		claim := p.scene.Claims[pool.Name]
		if len(claim.Keys) > 0 {
			claim = claim.Edited(pool.Spec.NodeSelector)
		}
		shape := claim.Stopped()
		shape.Paused = pool.Spec.Paused
		done, err := p.shape(ctx, pool, shape)
		if err != nil {
			return false, err
		}
		settled = settled && done
	}
	return settled, nil
}

// give gives pools back as they were.
func (p *pass) give(ctx context.Context, pools []*mcfgv1.MachineConfigPool) (settled bool, err error) {
	settled = true
	for _, pool := range pools {
		if _, err := p.shape(ctx, pool, p.scene.Claims[pool.Name].Before(pool)); err != nil {
			return false, err
		}
		settled = false
	}
	return settled, nil
}

// strip takes the labels from nodes, and gives their leases back.
func (p *pass) strip(ctx context.Context, nodes []*corev1.Node) (settled bool, err error) {
	var all []marking
	for _, node := range nodes {
		if err := p.Lease.ReleaseIfHolder(ctx, node.Name); err != nil {
			return false, err
		}
		all = append(all, marking{node, plan.Strip(node, p.run.UID)})
	}
	return p.apply(ctx, all)
}
