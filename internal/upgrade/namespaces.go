package upgrade

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// refusal says why MutexRunConfigs, MutexRules and MutexTargets of a namespace have no effect; empty where they have one.
func (o *Options) refusal(namespace string) string {
	if len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace) {
		return ""
	}
	return fmt.Sprintf("namespace %s is not among upgrade.namespaces of Drover's configuration: Drover does nothing for this object", namespace)
}

// refuse restores what a run has changed whose namespace may not gate upgrades, and gives up its finalizer. Nothing that the run says counts any
// more, the annotation that pauses it included.
func (p *pass) refuse(ctx context.Context, why string) error {
	p.found.conditions.no(ConditionValidated, why)
	if !slices.Contains(p.run.Finalizers, v1alpha1.Finalizer) {
		p.scene = &plan.Scene{Run: p.run}
		p.found.stand(v1alpha1.PhaseInvalid, why)
		p.found.laid = true
		return nil
	}
	if err := p.gather(ctx); err != nil {
		return err
	}
	if err := p.stopJobs(ctx); err != nil {
		return err
	}
	if err := p.giveBack(ctx, v1alpha1.PhaseInvalid, why); err != nil || p.found.phase != v1alpha1.PhaseInvalid {
		return err
	}
	p.found.laid = true
	return p.removeFinalizer(ctx)
}

// removeFinalizer lets the run go, of which nothing is left to be restored.
func (p *pass) removeFinalizer(ctx context.Context) error {
	changed := p.run.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == v1alpha1.Finalizer })
	patch := client.MergeFromWithOptions(p.run, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Patch(ctx, changed, patch, fieldOwner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	if p.run.DeletionTimestamp != nil {
		p.memory.ended = true
		return nil
	}
	p.wrote(changed)
	p.run = changed
	return nil
}
