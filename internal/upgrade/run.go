package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// work takes a run as far as it goes. What the pass has found out is in p.found.
func (p *pass) work(ctx context.Context) error {
	if why := p.options.refusal(p.run.Namespace); why != "" {
		return p.refuse(ctx, why)
	}
	if err := p.gather(ctx); err != nil {
		return err
	}
	spec := &p.run.Spec
	switch {
	case paused.Is(p.run.Annotations):
		p.found.message = pausedMessage
		return p.keepLeases(ctx)
	case spec.Abort:
		if err := p.stopJobs(ctx); err != nil {
			return err
		}
		return p.layDown(ctx, v1alpha1.PhaseAborted, "spec.abort is set")
	case spec.Suspend:
		return p.layDown(ctx, v1alpha1.PhaseSuspended, "spec.suspend is set")
	case len(p.scene.Faults) > 0:
		text := strings.Join(p.scene.Faults, "; ")
		p.found.conditions.no(ConditionValidated, text)
		return p.hold(ctx, text)
	}
	p.found.conditions.yes(ConditionValidated, "")
	if p.scene.Unchecked != "" {
		p.found.conditions.no(ConditionChecked, p.scene.Unchecked)
		if p.scene.Holds() {
			// What is aimed at may be known again in a moment, and the nodes must not go before.
			return p.hold(ctx, p.scene.Unchecked)
		}
		p.found.conditions.no(ConditionAvailable, p.scene.Unchecked)
		return p.layDown(ctx, v1alpha1.PhaseIdle, p.scene.Unchecked)
	}
	return p.check(ctx)
}

// pausedMessage says that everything stays as it is: pools, labels and Jobs. Unlike a suspended run, a paused one restores nothing.
const pausedMessage = "paused by the annotation " + paused.Annotation + ": nothing is done until it is removed, also when the run is deleted, " +
	"suspended or aborted; nodes that were released are still upgraded"

// layDown gives everything back, also where nodes are not done. Then nothing of them is under way any more.
func (p *pass) layDown(ctx context.Context, phase v1alpha1.Phase, message string) error {
	err := p.giveBack(ctx, phase, message)
	if err == nil && p.found.phase == phase {
		p.found.lay(p.scene)
	}
	return err
}

// hold leaves everything as it is until somebody has put right what is wrong. Nodes under way stay the run's, and those that join its pools
// become so: without the labels they would be upgraded by themselves.
func (p *pass) hold(ctx context.Context, why string) error {
	p.found.stand(v1alpha1.PhaseInvalid, why)
	if !p.scene.Holds() && p.allOver() {
		p.found.laid = true
	}
	return worst([]error{p.keepLeases(ctx), p.welcome(ctx)})
}

// check compares versions, and goes on when there is something to do.
func (p *pass) check(ctx context.Context) error {
	p.compare()
	p.lookAtDrains(ctx)
	if unknown := p.scene.Unknown(); len(unknown) > 0 && len(unknown) == len(p.scene.Nodes) {
		// Nobody knows whether they are to be held back.
		return p.hold(ctx, p.found.conditions[ConditionChecked].message)
	}
	decision := p.decide()
	return p.proceed(ctx, &decision)
}

// proceed does what was decided, with the pools or without.
func (p *pass) proceed(ctx context.Context, decision *plan.Decision) error {
	switch course := p.scene.Course(decision); {
	case course == plan.CourseRest:
		return p.finish(ctx, decision)
	case p.run.Spec.DryRun && !p.scene.Holds():
		p.found.rehearse(p.scene, decision)
		return nil
	case course == plan.CourseCleanUp:
		return p.cleanUp(ctx, decision)
	}
	return p.gate(ctx, decision)
}

// decide decides on the nodes. In a dry run none is begun.
func (p *pass) decide() plan.Decision {
	input := p.scene.Input()
	if p.run.Spec.DryRun {
		input.Wait = "spec.dryRun is set"
	}
	return plan.Decide(input)
}

// compare notes what is aimed at, and which nodes have another version.
func (p *pass) compare() {
	s, c := p.scene, p.found.conditions
	p.found.version = s.Desired
	if unknown := s.Unknown(); len(unknown) > 0 {
		c.no(ConditionChecked, fmt.Sprintf("the version of %d nodes is not known: %s", len(unknown), clip(strings.Join(unknown, ", "))))
	} else {
		c.yes(ConditionChecked, fmt.Sprintf("version %s is aimed at", s.Desired))
	}
	if s.Complete {
		c.yes(ConditionReady, "the control plane has version "+s.Desired)
	} else {
		c.no(ConditionReady, "the control plane does not have version "+s.Desired+" yet")
	}
	if behind := s.Behind(); behind > 0 {
		c.yes(ConditionAvailable, fmt.Sprintf("%d nodes of the targets have another version than %s", behind, s.Desired))
	} else {
		c.no(ConditionAvailable, "all nodes of the targets have version "+s.Desired)
	}
}

// cleanUp runs the Jobs that are owed after the upgrade of nodes that came to the version while the run was suspended. No pool is needed.
func (p *pass) cleanUp(ctx context.Context, decision *plan.Decision) error {
	p.found.stand(v1alpha1.PhaseWaiting, "")
	if settled, err := p.begin(ctx); err != nil || !settled {
		return err
	}
	p.found.take(decision)
	return p.act(ctx, decision)
}

// gate prepares pools and nodes, step by step, and then works on the nodes.
func (p *pass) gate(ctx context.Context, decision *plan.Decision) error {
	if p.found.phase != v1alpha1.PhaseRunning && p.found.phase != v1alpha1.PhaseStopped {
		p.found.stand(v1alpha1.PhaseWaiting, "the pools are being prepared")
		p.found.count(decision)
	}
	for _, prepare := range []func(context.Context) (bool, error){p.confirm, p.begin, p.drop, p.claim, p.mark, p.sort} {
		if settled, err := prepare(ctx); err != nil || !settled {
			// Whatever is waited for here, for however long: what is under way stays the run's.
			return worst([]error{err, p.keepLeases(ctx)})
		}
	}
	p.found.take(decision)
	return p.act(ctx, decision)
}

// confirm asks the API server whether the first node that has another version in the cache still has it, before the run changes anything. The
// watches of Nodes and runs are not ordered: of a run that is resumed right after its nodes were upgraded, the cache may show that it is resumed
// first, and pools would be paused for nothing.
func (p *pass) confirm(ctx context.Context) (settled bool, err error) {
	i := slices.IndexFunc(p.scene.Nodes, func(node *plan.Node) bool { return node.Version != "" && !plan.Same(node.Version, p.scene.Desired) })
	if p.scene.Holds() || i < 0 {
		return true, nil
	}
	name := p.scene.Nodes[i].Name
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := p.Live.Get(ctx, types.NamespacedName{Name: name}, live); err != nil {
		return false, fmt.Errorf("reading node %s: %w", name, err)
	}
	if version := p.versionOf(ctx)(&corev1.Node{ObjectMeta: live.ObjectMeta}); plan.Same(version, p.scene.Desired) {
		return false, apierrors.NewConflict(corev1.Resource("nodes"), name, fmt.Errorf("it has version %s by now", version))
	}
	return true, nil
}

// begin puts the finalizer on the run, before anything is changed that has to be given back.
func (p *pass) begin(ctx context.Context) (settled bool, err error) {
	if slices.Contains(p.run.Finalizers, v1alpha1.Finalizer) {
		return true, nil
	}
	changed := p.run.DeepCopy()
	changed.Finalizers = append(changed.Finalizers, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(p.run, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return false, fmt.Errorf("adding the finalizer: %w", err)
	}
	p.wrote(changed)
	p.run = changed
	return true, nil
}

// finish gives everything back after the last node.
func (p *pass) finish(ctx context.Context, decision *plan.Decision) error {
	phase, message := p.outcome(decision)
	// Of a node that was left out something may be owed yet, when it has come to the version by itself.
	p.found.settles = decision.Done == len(decision.Steps) && p.allOver()
	switch {
	case p.found.phase == v1alpha1.PhaseRestoring:
		// Nodes that are taken back look as if they had never been let go.
	case p.scene.Holds():
		p.found.take(decision)
		// It is done when everything is given back, and not before.
		p.found.stand(v1alpha1.PhaseRestoring, message)
	default:
		p.found.count(decision)
		p.found.list(decision)
	}
	if err := p.giveBack(ctx, phase, message); err != nil || p.found.phase != v1alpha1.PhaseDone || p.unsettled() {
		return err
	}
	// The status says by now that nothing is owed for these Jobs.
	return p.tidyJobs(ctx, false)
}

// outcome is where a run without anything left to do stands, and why.
func (p *pass) outcome(decision *plan.Decision) (phase v1alpha1.Phase, message string) {
	phase, message = v1alpha1.PhaseIdle, "all nodes of the targets have version "+p.scene.Desired
	if len(p.scene.Nodes) == 0 {
		message = "the pools of the targets have no nodes"
	}
	switch p.run.Status.Phase {
	case v1alpha1.PhaseRestoring, v1alpha1.PhaseRunning, v1alpha1.PhaseStopped, v1alpha1.PhaseDone:
		phase = v1alpha1.PhaseDone
	}
	if p.scene.Holds() {
		phase = v1alpha1.PhaseDone
	}
	if phase == v1alpha1.PhaseDone && decision.Failed > 0 {
		message = fmt.Sprintf("%d nodes were left out, since a Job has failed; the others have version %s", decision.Failed, p.scene.Desired)
	}
	return phase, message
}

// leave is end, and says in the status what keeps the run from going.
func (p *pass) leave(ctx context.Context) error {
	failed := p.end(ctx)
	if status.Classify(failed) != status.Denied || p.scene == nil {
		return failed
	}
	p.found.message = "it is being deleted: " + failed.Error()
	return errors.Join(failed, p.writeStatus(ctx))
}

// end gives everything back and lets the run go.
func (p *pass) end(ctx context.Context) error {
	if !slices.Contains(p.run.Finalizers, v1alpha1.Finalizer) || p.memory.ended {
		return nil
	}
	if err := p.gather(ctx); err != nil {
		return err
	}
	if err := p.stopJobs(ctx); err != nil {
		return err
	}
	if done, err := p.restore(ctx); err != nil || !done {
		return err
	}
	if err := p.tidyJobs(ctx, true); err != nil {
		return err
	}
	return p.removeFinalizer(ctx)
}

// giveBack gives everything back, and then stands in a phase.
func (p *pass) giveBack(ctx context.Context, phase v1alpha1.Phase, message string) error {
	held := p.scene.Holds()
	done, err := p.restore(ctx)
	if err != nil {
		if status.Classify(err) == status.Denied {
			p.found.stand(v1alpha1.PhaseRestoring, message)
		}
		return err
	}
	if !done {
		p.found.stand(v1alpha1.PhaseRestoring, message)
		return nil
	}
	p.found.restored = held || p.run.Status.Phase == v1alpha1.PhaseRestoring
	if p.found.restored {
		p.found.conditions.no(ConditionPaused, "the pools have been given back as they were")
	}
	p.found.stand(phase, message)
	return nil
}
