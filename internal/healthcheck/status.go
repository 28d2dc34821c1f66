package healthcheck

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// updateStatus writes the status as it is after what has been applied, and sets the metrics.
func (rc *reconciliation) updateStatus(ctx context.Context, current *snapshot, applied *outcome) outcome {
	progress := &plan.Progress{
		Blocked: applied.blocked, Requested: applied.requested, Remaining: applied.remaining,
		TemplateRead: current.external.template != nil, TemplateFailure: applied.templateFailure,
		RequestsListed: current.external.requests != nil, RequestFailure: applied.requestFailure,
	}
	after := plan.Status(&current.input, &current.decision, progress)
	waiting := rc.reportBlocked(plan.AllBlocked(&current.decision, progress), &after)
	rc.metrics.wait(rc.key, rc.state.waiting, waiting)
	rc.metrics.observe(rc.key, current.decision.Expected, !current.decision.Allowed)
	rc.state.reported, rc.state.waiting = true, waiting
	return rc.patchStatus(ctx, after)
}

// patchStatus is the only writer of the status. What is true only with the new status is reported after it.
func (rc *reconciliation) patchStatus(ctx context.Context, after machinev1beta1.MachineHealthCheckStatus) outcome {
	if !apiequality.Semantic.DeepEqual(rc.check.Status, after) {
		changed := rc.check.DeepCopy()
		changed.Status = after
		if err := rc.writer.Status().Patch(ctx, changed, controller.GuardedPatch(rc.check), fieldOwner); err != nil {
			return failed(fmt.Errorf("writing the status of MachineHealthCheck %s: %w", rc.key, err))
		}
		rc.versions.Expect(string(rc.check.UID), expectations.Write{Version: changed.ResourceVersion})
	}
	rc.reportRestriction(&after)
	rc.reportOverlap(&after)
	return outcome{}
}
