package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// progressPeriod is how often the status is written if only the progress of nodes changes.
const progressPeriod = time.Second

// updateStatus writes the status as it is after a plan was carried out, and reports what is new in metrics and events.
func (rc *reconciliation) updateStatus(ctx context.Context, run *plan.Run, p *plan.Plan, applied *outcome) outcome {
	report := plan.NewReport(run, p, &applied.Result)
	rc.observePhases(report)
	rc.reportFailedJobs(ctx, run, report)
	known := rc.state.knownNodes(&rc.config.Status)
	after, nodes := report.Status(run, known)
	before := &rc.config.Status
	if apiequality.Semantic.DeepEqual(*before, after) {
		return settled()
	}
	urgent := before.Phase != after.Phase || before.ObservedGeneration != after.ObservedGeneration
	if wait := rc.state.written.Add(progressPeriod).Sub(rc.now); wait > 0 && !urgent {
		out := settled()
		out.Requeue.In(wait)
		return out
	}
	base := cmp.Or(applied.config, rc.config)
	changed := base.DeepCopy()
	changed.Status = after
	if err := rc.patchStatus(ctx, base, changed); err != nil {
		return resultOf(err)
	}
	rc.state.written = rc.now
	rc.reportStatus(ctx, run, report, &after)
	if before.Version == after.Version && report.Listed {
		rc.reportNodes(run, nodes, known)
	}
	if report.Listed || report.Inactive || before.Version != after.Version {
		rc.state.setNodes(nodes)
	}
	return settled()
}

// setNodes records what was last reported of the nodes of a run.
func (s *state) setNodes(nodes []v1alpha1.NodeStatus) {
	s.nodes = map[string]v1alpha1.NodeStatus{}
	for i := range nodes {
		s.nodes[nodes[i].Name] = nodes[i]
	}
}

// patchStatus patches the status of a run, a rule or a target that has not changed since it was observed.
func (r *Reconciler) patchStatus(ctx context.Context, before, after client.Object) error {
	guarded := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Writer.Status().Patch(ctx, after, guarded, fieldOwner); err != nil {
		return fmt.Errorf("writing the status of %T %s: %w", after, client.ObjectKeyFromObject(after), err)
	}
	r.expect(after)
	return nil
}

// patchStatusIfChanged is patchStatus for a rule or a target, which may have been deleted meanwhile.
func (r *Reconciler) patchStatusIfChanged(ctx context.Context, before, after client.Object, changed bool) error {
	if !changed {
		return nil
	}
	if err := r.patchStatus(ctx, before, after); status.Classify(err) != status.Gone {
		return err
	}
	return nil
}

// observePhases sets the metrics, and measures how long nodes were in their phases.
func (rc *reconciliation) observePhases(report *plan.Report) {
	rc.Metrics.setPhase(rc.key, report.Phase)
	if !report.Listed {
		if report.Inactive {
			rc.Metrics.setNodes(rc.key, nil)
			clear(rc.state.phases)
		}
		return
	}
	counts := map[v1alpha1.NodePhase]int{}
	for i := range report.Nodes {
		n := &report.Nodes[i]
		counts[n.Phase]++
		before, known := rc.state.phases[n.Name]
		if known && before.phase == n.Phase {
			continue
		}
		if known {
			rc.Metrics.durations.WithLabelValues(string(before.phase)).Observe(rc.now.Sub(before.since).Seconds())
		}
		rc.state.phases[n.Name] = nodePhase{n.Phase, rc.now}
	}
	rc.Metrics.setNodes(rc.key, counts)
}
