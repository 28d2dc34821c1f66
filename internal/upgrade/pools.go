package upgrade

import (
	"context"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/patch"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// claim claims the pools and pauses those of the targets. Another run that has one is waited for.
func (p *pass) claim(ctx context.Context) (settled bool, err error) {
	settled = true
	for _, pool := range p.scene.Wanted() {
		if p.behind(ctx, pool) {
			p.later(catchUp)
			settled = false
			continue
		}
		claim := p.scene.Claims[pool.Name]
		if claim != nil && claim.UID != p.run.UID {
			if claim, err = p.inherit(ctx, pool, claim); err != nil || claim == nil {
				return false, err
			}
			if claim.Canary != (pool == p.scene.Canary) {
				// It had another part in that run: first it becomes what it was.
				settled, err = p.shape(ctx, pool, claim.Before(pool))
				return settled, err
			}
		}
		if claim == nil {
			claim = plan.Take(pool, p.key, p.run.UID)
		}
		done, err := p.stop(ctx, pool, claim)
		if err != nil {
			return false, err
		}
		settled = settled && done
	}
	if settled {
		p.found.conditions.yes(ConditionPaused, "")
	}
	return settled, nil
}

// inherit takes over the claim of a run that is gone. Nil without an error means that the run is there.
func (p *pass) inherit(ctx context.Context, pool *mcfgv1.MachineConfigPool, claim *plan.Claim) (*plan.Claim, error) {
	other := &v1alpha1.MutexRunConfig{}
	err := p.Live.Get(ctx, claim.Run, other)
	switch {
	case apierrors.IsNotFound(err) || err == nil && other.UID != claim.UID:
		return claim.Inherit(p.key, p.run.UID), nil
	case err != nil:
		return nil, fmt.Errorf("reading MutexRunConfig %s: %w", claim.Run, err)
	}
	text := fmt.Sprintf("MachineConfigPool %s is claimed by MutexRunConfig %s", pool.Name, claim.Run)
	p.found.conditions.no(ConditionPaused, text)
	p.found.stand(v1alpha1.PhaseClaimed, text)
	p.later(retryDenied)
	return nil, nil
}

// stop makes a claim, and pauses a target pool.
func (p *pass) stop(ctx context.Context, pool *mcfgv1.MachineConfigPool, claim *plan.Claim) (settled bool, err error) {
	shape := plan.ShapeOf(pool)
	claimed := p.scene.Claims[pool.Name] != nil && p.scene.Claims[pool.Name].UID == p.run.UID
	if pool == p.scene.Canary {
		claim.Canary = true
	} else {
		if claimed && !pool.Spec.Paused {
			p.Recorder.Eventf(p.run, corev1.EventTypeWarning, EventPutBack,
				"MachineConfigPool %s was unpaused by somebody else, and is paused again", pool.Name)
		}
		shape.Paused = true
	}
	if !claimed {
		shape.Claim = claim.Text()
	}
	return p.shape(ctx, pool, shape)
}

// drop gives back pools that the run has claimed and does not need any more, in the order of restore, and with them their nodes.
func (p *pass) drop(ctx context.Context) (settled bool, err error) {
	pools := slices.DeleteFunc(p.scene.Claimed(false), func(pool *mcfgv1.MachineConfigPool) bool { return slices.Contains(p.scene.Targets, pool) })
	if len(pools) == 0 {
		return true, nil
	}
	nodes := p.scene.Left()
	return inOrder(ctx,
		func(ctx context.Context) (bool, error) { return p.takeBack(ctx, nodes, pools) },
		func(ctx context.Context) (bool, error) { return p.giveSelectors(ctx, pools) },
		func(ctx context.Context) (bool, error) { return p.strip(ctx, nodes) },
		func(ctx context.Context) (bool, error) { return p.give(ctx, pools) },
	)
}

// sort has the selectors keep apart the nodes that wait from those that were let go.
func (p *pass) sort(ctx context.Context) (settled bool, err error) {
	settled = true
	for _, pool := range p.scene.Targets {
		claim := p.scene.Claims[pool.Name]
		if len(claim.Keys) > 0 {
			claim = claim.Edited(pool.Spec.NodeSelector)
		}
		done, err := p.shape(ctx, pool, claim.With(p.scene.Keys).Held())
		if err != nil {
			return false, err
		}
		settled = settled && done
	}
	if !settled {
		return false, nil
	}
	canary := p.scene.Canary
	claim := p.scene.Claims[canary.Name].With(p.scene.Keys)
	before := p.scene.Claims[canary.Name]
	if len(before.Keys) > 0 && !apiequality.Semantic.DeepEqual(canary.Spec.NodeSelector, before.Open(canary).NodeSelector) {
		p.Recorder.Eventf(p.run, corev1.EventTypeWarning, EventPutBack,
			"the selector of MachineConfigPool %s was changed by somebody else, and is put back", canary.Name)
	}
	settled, err = p.shape(ctx, canary, claim.Open(canary))
	if err == nil && settled {
		p.found.conditions.yes(ConditionPools, "")
	}
	return settled, err
}

// shape makes a pool what it is to be, and tells whether it has been that already.
func (p *pass) shape(ctx context.Context, pool *mcfgv1.MachineConfigPool, want plan.Shape) (settled bool, err error) {
	have := plan.ShapeOf(pool)
	if have.Equal(want) {
		return true, nil
	}
	if p.behind(ctx, pool) {
		p.later(catchUp)
		return false, nil
	}
	steps, err := shapePatch(pool, want)
	if err != nil {
		return false, fmt.Errorf("rendering the change of MachineConfigPool %s: %w", pool.Name, err)
	}
	changed := pool.DeepCopy()
	if err := p.Writer.Patch(ctx, changed, client.RawPatch(types.JSONPatchType, steps), fieldOwner); err != nil {
		err = fmt.Errorf("changing MachineConfigPool %s: %w", pool.Name, err)
		p.found.conditions.no(ConditionPools, err.Error())
		return false, err
	}
	p.wrote(changed)
	log.FromContext(ctx).Info("pool changed", "pool", pool.Name, "paused", want.Paused, "claimed", want.Claim != "")
	p.later(catchUp)
	return false, nil
}

// shapePatch changes what differs, of the pool as it was seen and of no other.
func shapePatch(pool *mcfgv1.MachineConfigPool, want plan.Shape) ([]byte, error) {
	have, b := plan.ShapeOf(pool), &patch.Builder{}
	b.Test("/metadata/resourceVersion", pool.ResourceVersion)
	if have.Paused != want.Paused {
		b.Set("/spec/paused", want.Paused)
	}
	switch {
	case apiequality.Semantic.DeepEqual(have.NodeSelector, want.NodeSelector):
	case want.NodeSelector == nil:
		b.Remove("/spec/nodeSelector")
	default:
		b.Set("/spec/nodeSelector", want.NodeSelector)
	}
	if have.Claim != want.Claim {
		const annotations = "/metadata/annotations"
		b.Map(annotations, pool.Annotations)
		if want.Claim == "" {
			b.Remove(patch.Pointer(annotations, plan.AnnotationClaim))
		} else {
			b.Set(patch.Pointer(annotations, plan.AnnotationClaim), want.Claim)
		}
	}
	return b.Bytes()
}
