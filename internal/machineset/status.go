package machineset

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// report writes the status as it is after what the pass has done.
func (p *pass) report(ctx context.Context) {
	d := &p.decision
	o := &plan.Observation{
		Set: p.set, Problem: d.Problem, Selector: d.Selector, Create: p.trouble(), Scale: p.hindrance(), Now: p.now,
		Counts: plan.Count(d.Members, func(m *machinev1beta1.Machine) bool { return p.missing[m.UID] }, p.now),
	}
	for range p.created {
		// New Machines have the labels of the template, and no Node.
		o.Counts.Replicas++
		o.Counts.FullyLabelled++
		o.Counts.Unlinked++
	}
	after, changed := o.Status()
	p.writeStatus(ctx, after, changed)
}

// trouble is why Machines cannot be created. What the status says of it already stays until it is over: a process that has just started
// has not been patient yet.
func (p *pass) trouble() *plan.Failure {
	creating := &p.memory.creating
	if told := creating.told(); told != nil || creating.times == 0 || p.set.Status.ErrorReason == nil {
		return told
	}
	return &creating.failure
}

// hindrance is why Machines cannot be deleted, adopted or released.
func (p *pass) hindrance() *plan.Failure {
	if told := p.memory.deleting.told(); told != nil {
		return told
	}
	if withheld := p.decision.Withheld; len(withheld) > 0 {
		names := make([]string, len(withheld))
		for i, machine := range withheld {
			names[i] = machine.Name
		}
		return &plan.Failure{Reason: plan.ReasonWithheld, Message: "to be deleted by the API that has the authority over them: " +
			plan.Names(names, maxNamed)}
	}
	return p.ownership()
}

// writeStatus is the only writer of the status.
func (p *pass) writeStatus(ctx context.Context, after machinev1beta1.MachineSetStatus, changed bool) {
	if !changed {
		return
	}
	next := p.set.DeepCopy()
	next.Status = after
	patch := client.MergeFromWithOptions(p.set, client.MergeFromWithOptimisticLock{})
	err := p.writer.Status().Patch(ctx, next, patch, FieldOwner)
	switch class := status.Classify(err); class {
	case status.OK:
		p.versions.Expect(string(p.set.UID), expectations.Write{Version: next.ResourceVersion})
		p.metrics.observe(p.key, p.set, &after)
		p.tell(&after)
	case status.Stale:
		p.stale = true
	case status.Gone:
		// Its Deleted event is on the way, or here already.
	case status.Denied:
		log.FromContext(ctx).Error(err, "the API server refuses the status", "retryAfter", retryDenied.String())
		p.later(retryDenied)
	default:
		if p.err == nil {
			p.err = fmt.Errorf("writing the status of MachineSet %s: %w", p.key, err)
		}
	}
}

// tell sends an event for each failure that the status tells of for the first time.
func (p *pass) tell(after *machinev1beta1.MachineSetStatus) {
	told := map[string]bool{}
	for _, kind := range []machinev1beta1.ConditionType{plan.ConditionCreated, plan.ConditionResized} {
		now, before := plan.Condition(after, kind), plan.Condition(&p.set.Status, kind)
		if !fault(now) || before != nil && before.Status == now.Status && before.Reason == now.Reason {
			continue
		}
		if kind == plan.ConditionCreated && p.decision.Problem == "" {
			p.notices.warning(p.set, EventCreateFailed, "%s", now.Message)
		}
		if !told[now.Message] {
			p.notices.warning(p.set, EventError, "%s", now.Message)
		}
		told[now.Message] = true
	}
}

// fault tells that a condition is not met because something is wrong; not that it takes its time.
func fault(c *machinev1beta1.Condition) bool {
	return c != nil && c.Status == corev1.ConditionFalse && c.Severity != machinev1beta1.ConditionSeverityInfo
}

// claim takes the authority that the spec asks for over into the status, as the incumbent does. The rest waits for the next pass.
func (p *pass) claim(ctx context.Context) {
	after := *p.set.Status.DeepCopy()
	after.AuthoritativeAPI = p.set.Spec.AuthoritativeAPI
	p.writeStatus(ctx, after, true)
	// The event of a write of one's own is left out where nothing waits for it.
	p.later(retryStale)
}

// standBack tells that the Machines are another API's.
func (p *pass) standBack(ctx context.Context) {
	after, changed := plan.StatusElsewhere(&p.set.Status, p.now)
	p.writeStatus(ctx, after, changed)
}

func (p *pass) unknownAuthority(ctx context.Context) {
	log.FromContext(ctx).Info("the authority over the MachineSet is unknown, nothing is done", "authoritativeAPI", p.set.Status.AuthoritativeAPI)
}
