package upgrade

import (
	"context"
	"errors"
	"fmt"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/patch"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// parallelNodes is how many Nodes are patched at once.
const parallelNodes = 16

// apply carries a plan out.
func (rc *reconciliation) apply(ctx context.Context, run *plan.Run, p *plan.Plan) outcome {
	switch p.Action {
	case plan.ActionPause:
		return rc.renewLeases(ctx, run)
	case plan.ActionWait:
		return rc.renewLeases(ctx, run).and(rc.applyStages(ctx, p.Stages))
	case plan.ActionRestore:
		return rc.restore(ctx, run, p)
	case plan.ActionCleanUp:
		out := rc.patchFinalizer(ctx, controllerutil.AddFinalizer)
		if out.Settled {
			out = out.and(rc.applySteps(ctx, run, p.Nodes))
		}
		return out
	case plan.ActionGate:
		return rc.gate(ctx, run, p)
	}
	return settled()
}

// gate prepares MachineConfigPools and Nodes, and then works on the nodes.
func (rc *reconciliation) gate(ctx context.Context, run *plan.Run, p *plan.Plan) outcome {
	out := rc.checkOutdated(ctx, run)
	if out.Settled {
		out = out.and(rc.patchFinalizer(ctx, controllerutil.AddFinalizer))
	}
	if out.Settled {
		out = out.and(rc.applyStages(ctx, p.Stages))
	}
	if !out.Settled {
		// However long this takes, the nodes in progress stay the run's.
		return out.and(rc.renewLeases(ctx, run))
	}
	return out.and(rc.applySteps(ctx, run, p.Nodes))
}

// checkOutdated asks the API server whether a node that is outdated in the cache still is, before the run changes anything. The watches of Nodes and
// runs are not ordered: the cache may show that a run is resumed before it shows that its nodes have been upgraded, and MachineConfigPools would be
// paused for nothing.
func (rc *reconciliation) checkOutdated(ctx context.Context, run *plan.Run) outcome {
	outdated := run.OutdatedNode()
	if run.NeedsRestore() || outdated == nil {
		return settled()
	}
	live := nodeMetadata(outdated.Node)
	if err := rc.Live.Get(ctx, client.ObjectKeyFromObject(outdated.Node), live); err != nil {
		return resultOf(fmt.Errorf("reading Node %s: %w", outdated.Name, err))
	}
	if version := rc.nodeVersions(ctx)(&corev1.Node{ObjectMeta: live.ObjectMeta}); plan.SameVersion(version, run.Desired) {
		return resultOf(apierrors.NewConflict(corev1.Resource("nodes"), outdated.Name, fmt.Errorf("it has version %s now", version)))
	}
	return settled()
}

// patchFinalizer adds the finalizer before anything is changed that has to be restored, or removes it when everything is restored.
func (rc *reconciliation) patchFinalizer(ctx context.Context, change func(o client.Object, finalizer string) bool) outcome {
	changed := rc.config.DeepCopy()
	if !change(changed, v1alpha1.Finalizer) {
		return settled()
	}
	guarded := client.MergeFromWithOptions(rc.config, client.MergeFromWithOptimisticLock{})
	deleted := rc.config.DeletionTimestamp != nil
	if err := rc.Writer.Patch(ctx, changed, guarded, fieldOwner); err != nil && (!deleted || !apierrors.IsNotFound(err)) {
		return resultOf(fmt.Errorf("changing the finalizers of MutexRunConfig %s: %w", rc.key, err))
	}
	out := settled()
	if rc.state.finalized = deleted; !deleted {
		rc.expect(changed)
		out.config = changed
	}
	return out
}

// restore restores everything, and then completes what the plan asks for.
func (rc *reconciliation) restore(ctx context.Context, run *plan.Run, p *plan.Plan) outcome {
	if p.StopJobs {
		if err := rc.stopJobs(ctx, run); err != nil {
			return resultOf(err)
		}
	}
	if p.Unrestorable != "" {
		// Like what the API server denies, only a user can correct it.
		return resultOf(apierrors.NewForbidden(resource("mutexrunconfigs"), rc.key.Name, errors.New(p.Unrestorable)))
	}
	out := rc.applyStages(ctx, p.Stages)
	if !out.Settled {
		return out
	}
	deleted := rc.config.DeletionTimestamp != nil
	if deleted || p.Phase == v1alpha1.PhaseDone && run.Settled() {
		if err := rc.setTimeToLive(ctx, run, deleted); err != nil {
			return out.and(resultOf(err))
		}
	}
	if p.RemoveFinalizer {
		out = out.and(rc.patchFinalizer(ctx, controllerutil.RemoveFinalizer))
	}
	return out
}

// applyStages carries out the first stage that is not settled. The outcome is settled if there is none.
func (rc *reconciliation) applyStages(ctx context.Context, stages []plan.Stage) outcome {
	out := settled()
	for i := range stages {
		stage := &stages[i]
		for j := range stage.MCPs {
			next := rc.applyMCPChange(ctx, &stage.MCPs[j])
			if out = out.and(next); next.Failed || next.ReservedByOther != "" {
				return out
			}
		}
		next := rc.applyNodeChanges(ctx, stage.Nodes)
		if stage.Condition != "" {
			next = next.unmet(stage.Condition)
		}
		if out = out.and(next); !out.Settled {
			return out
		}
		if stage.Condition != "" {
			out = out.with(stage.Condition, true, "")
		}
	}
	return out
}

// applyMCPChange changes a MachineConfigPool if it is not as wanted and the cache shows the last write of it.
func (rc *reconciliation) applyMCPChange(ctx context.Context, change *plan.MCPChange) outcome {
	mcp := change.MCP
	if rc.versions.Pending(ctx, mcp) {
		return unsettled()
	}
	if change.Other != nil {
		if out := rc.checkReservation(ctx, change); !out.Settled {
			return out
		}
	}
	if plan.MCPStateOf(mcp).Equal(change.Want) {
		return settled()
	}
	if change.Reverted != "" {
		rc.Recorder.Event(rc.config, corev1.EventTypeWarning, EventReverted, change.Reverted)
	}
	steps, err := mcpPatch(mcp, change.Want)
	if err != nil {
		return resultOf(fmt.Errorf("rendering the patch of MachineConfigPool %s: %w", mcp.Name, err))
	}
	changed := mcp.DeepCopy()
	if err := rc.Writer.Patch(ctx, changed, client.RawPatch(types.JSONPatchType, steps), fieldOwner); err != nil {
		err = fmt.Errorf("changing MachineConfigPool %s: %w", mcp.Name, err)
		return resultOf(err).unmet(plan.ConditionMCPs)
	}
	rc.expect(changed)
	log.FromContext(ctx).Info("changed a MachineConfigPool", "machineconfigpool", mcp.Name, "paused", change.Want.Paused,
		"reserved", change.Want.Reservation != "")
	return unsettled()
}

// checkReservation is settled if the run of another reservation does not exist any more. Otherwise the MachineConfigPool is waited for.
func (rc *reconciliation) checkReservation(ctx context.Context, change *plan.MCPChange) (out outcome) {
	other := &v1alpha1.MutexRunConfig{}
	err := rc.Live.Get(ctx, change.Other.Run, other)
	switch {
	case apierrors.IsNotFound(err) || err == nil && other.UID != change.Other.UID:
		return settled()
	case err != nil:
		return resultOf(fmt.Errorf("reading MutexRunConfig %s: %w", change.Other.Run, err))
	}
	out.ReservedByOther = fmt.Sprintf("MachineConfigPool %s is reserved by MutexRunConfig %s", change.MCP.Name, change.Other.Run)
	out.Requeue.In(controller.RetryDenied)
	return out.with(plan.ConditionPaused, false, out.ReservedByOther)
}

// mcpPatch returns the patch of a MachineConfigPool. It fails if the MachineConfigPool has changed since it was observed.
func mcpPatch(mcp *mcfgv1.MachineConfigPool, want plan.MCPState) ([]byte, error) {
	have, b := plan.MCPStateOf(mcp), &patch.Builder{}
	b.Test("/metadata/resourceVersion", mcp.ResourceVersion)
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
	if have.Reservation != want.Reservation {
		const annotations = "/metadata/annotations"
		b.Map(annotations, mcp.Annotations)
		if want.Reservation == "" {
			b.Remove(patch.Pointer(annotations, plan.AnnotationReservation))
		} else {
			b.Set(patch.Pointer(annotations, plan.AnnotationReservation), want.Reservation)
		}
	}
	return b.Bytes()
}

// applyNodeChanges changes several Nodes at once. A Node that does not exist any more needs no change.
func (rc *reconciliation) applyNodeChanges(ctx context.Context, changes []plan.NodeChange) outcome {
	for i := range changes {
		if changes[i].ReleaseLease {
			if err := rc.release(ctx, changes[i].Node); err != nil {
				return resultOf(err)
			}
		}
	}
	var mu sync.Mutex
	var errs []error
	var group errgroup.Group
	group.SetLimit(parallelNodes)
	out := settled()
	for i := range changes {
		change := &changes[i]
		if rc.versions.Pending(ctx, change.Node) {
			out = unsettled()
			continue
		}
		if change.Empty() {
			continue
		}
		out = unsettled()
		group.Go(func() error {
			if err := rc.patchNode(ctx, change); status.Classify(err) != status.Gone {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return resultOf(err)
	}
	return out.and(resultOf(worstOf(errs...)))
}

// expect records the version that a write has made.
func (r *Reconciler) expect(object client.Object) {
	r.versions.Expect(string(object.GetUID()), expectations.Write{Version: object.GetResourceVersion()})
}
