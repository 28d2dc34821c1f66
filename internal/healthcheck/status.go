package healthcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/paused"
)

// shown is how many Machines a condition names.
const shown = 5

// status is what the object's status is to be. It is the same for the same decision, so that nothing is written at rest.
func (p *pass) status() machinev1beta1.MachineHealthCheckStatus {
	after := *p.check.Status.DeepCopy()
	d := &p.decision
	after.ExpectedMachines, after.CurrentHealthy = &d.expected, &d.healthy
	after.RemediationsAllowed = bounded.Int32(d.remediationsAllowed())
	set := func(kind machinev1beta1.ConditionType, s *state) {
		if s != nil {
			after.Conditions = setCondition(after.Conditions, kind, *s, p.now)
		}
	}
	found, made := p.outsideStates()
	set(machinev1beta1.RemediationAllowedCondition, new(p.allowedState()))
	set(machinev1beta1.ExternalRemediationTemplateAvailable, found)
	set(machinev1beta1.ExternalRemediationRequestAvailable, made)
	set(ConditionProgressing, new(p.progressState()))
	set(ConditionExclusive, new(p.rivals.state()))
	set(ConditionPaused, &state{})
	return after
}

// paused is the status while nothing is done: the counts are from before, and a condition says that they are.
func (p *pass) paused() machinev1beta1.MachineHealthCheckStatus {
	after := *p.check.Status.DeepCopy()
	after.Conditions = setCondition(after.Conditions, ConditionPaused, met(reasonPaused, "it has the annotation "+paused.By(p.check)), p.now)
	return after
}

// allowedState says whether remediation is allowed. The text of too many is the incumbent's.
func (p *pass) allowedState() state {
	d := &p.decision
	switch {
	case p.selectorError != nil:
		return unmet(machinev1beta1.ConditionSeverityError, reasonInvalidSelector, p.selectorError.Error())
	case d.limitError != nil:
		return unmet(machinev1beta1.ConditionSeverityError, reasonInvalidLimit, d.limitError.Error())
	case !d.allowed:
		return unmet(machinev1beta1.ConditionSeverityWarning, reasonTooMany, fmt.Sprintf(
			"Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy "+
				"(total: %d, unhealthy: %d, maxUnhealthy: %s)", d.expected, d.unhealthy, textOfLimit(p.check.Spec.MaxUnhealthy)))
	}
	return met("", "")
}

// progressState says whether what is to be remediated is.
func (p *pass) progressState() state {
	if restriction := p.allowedState(); restriction.reason != "" && p.anyDue() {
		return unmet(restriction.severity, restriction.reason, "Machines wait until remediation is allowed")
	}
	obstacles := p.obstacles()
	if len(obstacles) > 0 {
		return unmet(severityOf(obstacles[0].reason), obstacles[0].reason, textOfObstacles(obstacles))
	}
	if p.decision.underway > 0 || p.next() != nil {
		return met(reasonRemediating, "")
	}
	return met(reasonNothing, "")
}

func (p *pass) anyDue() bool {
	return slices.ContainsFunc(p.decision.verdicts, func(v verdict) bool { return v.finding.due() })
}

// obstacles are all that is in the way, in the order of rankOfObstacles.
func (p *pass) obstacles() []obstacle {
	all := slices.Concat(p.decision.obstacles, p.blocked)
	slices.SortStableFunc(all, func(a, b obstacle) int {
		if rank := slices.Index(rankOfObstacles, a.reason) - slices.Index(rankOfObstacles, b.reason); rank != 0 {
			return rank
		}
		return strings.Compare(a.machine.Name, b.machine.Name)
	})
	return all
}

func textOfObstacles(obstacles []obstacle) string {
	var texts []string
	for i := range obstacles[:min(len(obstacles), shown)] {
		texts = append(texts, fmt.Sprintf("Machine %s: %s", obstacles[i].machine.Name, obstacles[i].message))
	}
	if more := len(obstacles) - shown; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// writeStatus is the only writer of the status. What only it makes true is told afterwards.
func (p *pass) writeStatus(ctx context.Context, after machinev1beta1.MachineHealthCheckStatus) error {
	before := p.check.Status
	if apiequality.Semantic.DeepEqual(before, after) {
		p.tell(&before, &after)
		return nil
	}
	changed := p.check.DeepCopy()
	changed.Status = after
	patch := client.MergeFromWithOptions(p.check, client.MergeFromWithOptimisticLock{})
	if err := p.writer.Status().Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("writing the status of MachineHealthCheck %s: %w", p.key, err)
	}
	p.versions.Expect(string(p.check.UID), expectations.Write{Version: changed.ResourceVersion})
	p.tell(&before, &after)
	return nil
}
