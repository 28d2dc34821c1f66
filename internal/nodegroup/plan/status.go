package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/status"
)

// Condition is a condition without its times.
type Condition struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

func isTrue(kind, reason, format string, args ...any) Condition {
	return Condition{kind, metav1.ConditionTrue, reason, status.Shorten(fmt.Sprintf(format, args...), status.MaxMessage)}
}

func isFalse(kind, reason, format string, args ...any) Condition {
	return Condition{kind, metav1.ConditionFalse, reason, status.Shorten(fmt.Sprintf(format, args...), status.MaxMessage)}
}

func timestamp(now time.Time) *metav1.Time { return &metav1.Time{Time: now.Truncate(time.Second)} }

// conditions decides all conditions and the phase.
func (in *Input) conditions(d *Decision) {
	d.Conditions = []Condition{in.ready(d), in.progressing(d), in.blocked(d), in.overlapping()}
	d.Phase = in.phase(d)
	d.Message = d.message()
	d.Abnormal = d.abnormal()
}

func (in *Input) phase(d *Decision) v1alpha1.Phase {
	switch {
	case d.waves.Suspended:
		return v1alpha1.PhaseSuspended
	case d.Rollout.Stopped != "", d.Unconfirmed != "", d.waves.IsOver(&d.Decision) && d.UnconfirmedReleases != "", in.Replacement.Stopped():
		return v1alpha1.PhaseStopped
	case d.waves.IsOver(&d.Decision) && !in.Replacement.Replacing && !in.isKept(d):
		return v1alpha1.PhaseIdle
	case in.Group.Spec.DryRun, !in.advances(d) && !in.isReplacing():
		return v1alpha1.PhaseWaiting
	}
	return v1alpha1.PhaseRolling
}

// isKept reports whether something waits although all waves are over: guarded taints that are held back, or disruptions. A budget that is exceeded
// while nothing waits for it keeps nothing.
func (in *Input) isKept(d *Decision) bool {
	blocked := d.condition(v1alpha1.ConditionBlocked)
	return blocked.Status == metav1.ConditionTrue && (blocked.Reason != disruptionplan.ReasonBudgetExceeded || in.Budget.Waiting > 0 ||
		in.problems()[metadataplan.NoExecuteHeld] != "")
}

// condition returns one of the conditions.
func (d *Decision) condition(kind string) *Condition {
	return &d.Conditions[slices.IndexFunc(d.Conditions, func(c Condition) bool { return c.Type == kind })]
}

// message returns what keeps the group from going on, or else what it is doing, or that it is as declared.
func (d *Decision) message() string {
	ready, blocked := d.condition(v1alpha1.ConditionReady), d.condition(v1alpha1.ConditionBlocked)
	switch {
	case d.Phase == v1alpha1.PhaseSuspended:
		return d.condition(v1alpha1.ConditionProgressing).Message
	case blocked.Status == metav1.ConditionTrue:
		return blocked.Message
	case d.Phase == v1alpha1.PhaseIdle, ready.Status == metav1.ConditionFalse && ready.Reason != ReasonNotSynced:
		return ready.Message
	}
	return d.condition(v1alpha1.ConditionProgressing).Message
}

// isReplacing reports whether Machines are being replaced, and nothing keeps them waiting. Without surge they are, too.
func (in *Input) isReplacing() bool {
	r := &in.Replacement
	return r.Replacing && (r.Reason == "" || r.Reason == replacementplan.ReasonSurgeUnavailable)
}

// writing reports whether an admitted Node is to be written.
func (in *Input) writing(d *Decision) bool {
	return slices.ContainsFunc(in.Nodes, func(n rollout.Node) bool { return n.IsPending() && d.Admitted.Has(n.Name) })
}

// advances reports whether an admitted Node is to be written, and waits neither for the budget of the group nor for one of its windows.
func (in *Input) advances(d *Decision) bool {
	_, waits := in.blockedByBudget()
	return slices.ContainsFunc(in.Nodes, func(n rollout.Node) bool {
		return n.IsPending() && d.Admitted.Has(n.Name) && (!waits || len(n.Metadata.Guarded) == 0 || in.hasPlace(&n))
	})
}

// hasPlace reports whether the guard of a Node has a place in the budget of the group.
func (in *Input) hasPlace(node *rollout.Node) bool {
	return in.disrupts(node, func(capability v1alpha1.Capability) bool { return capability == v1alpha1.CapabilityMetadata })
}

// problems returns the first message for each reason why the group, or one of its Nodes, has a problem.
func (in *Input) problems() map[metadataplan.Reason]string {
	found := map[metadataplan.Reason]string{}
	for _, problem := range in.Declaration.Problems {
		found[problem.Reason] = problem.Message
	}
	for i := range in.Nodes {
		for _, problem := range in.Nodes[i].Metadata.Problems {
			if found[problem.Reason] == "" {
				found[problem.Reason] = problem.Message + "; first found on Node " + in.Nodes[i].Name
			}
		}
	}
	return found
}

func (in *Input) ready(d *Decision) Condition {
	const kind = v1alpha1.ConditionReady
	found, invalidWindow := in.problems(), in.invalidWindow()
	refused := joined(found[metadataplan.Invalid], found[metadataplan.Duplicate], found[metadataplan.Refused], found[metadataplan.Deselects])
	switch {
	case in.SelectorError != nil:
		return isFalse(kind, ReasonInvalidSelector, "%v", in.SelectorError)
	case invalidWindow != nil:
		return isFalse(kind, ReasonInvalidWindow, "%v; no disruption begins until it is corrected", invalidWindow)
	case found[metadataplan.Untrusted] != "":
		return isFalse(kind, ReasonUntrustedSelector, "%s", found[metadataplan.Untrusted])
	case refused != "":
		return isFalse(kind, ReasonRefusedKeys, "%s", refused)
	case in.isEmpty():
		return in.empty()
	case found[metadataplan.NoExecuteHeld] != "":
		return isFalse(kind, ReasonNoExecuteHeld, "%s", found[metadataplan.NoExecuteHeld])
	case d.Counts.Conflicts > 0:
		return isFalse(kind, ReasonConflicts, "%d Nodes have a declared key that another writer has set: %s", d.Counts.Conflicts,
			found[metadataplan.InConflict])
	case found[metadataplan.Contended] != "":
		return isFalse(kind, ReasonContended, "on %s: %s", in.names(isContended), found[metadataplan.Contended])
	case in.failing() != "":
		return isFalse(kind, ReasonDenied, "%s", in.failing())
	case found[metadataplan.MachineDeclares] != "":
		return isFalse(kind, ReasonMachineDeclares, "%s", found[metadataplan.MachineDeclares])
	case d.Counts.Synced < d.Counts.Nodes:
		return isFalse(kind, ReasonNotSynced, "%d of %d Nodes carry what is declared", d.Counts.Synced, d.Counts.Nodes)
	}
	return isTrue(kind, ReasonSynced, "%d of %d Nodes carry what is declared", d.Counts.Synced, d.Counts.Nodes)
}

// isEmpty reports whether a group that is not being deleted has no Node.
func (in *Input) isEmpty() bool { return len(in.Nodes) == 0 && in.Group.DeletionTimestamp == nil }

// empty returns the condition Ready of a group without Nodes: what it declares reaches none, be that a mistake or a pool that has scaled to zero.
func (in *Input) empty() Condition {
	const kind = v1alpha1.ConditionReady
	if len(in.Overlaps) > 0 {
		nodes, groups := in.overlaps()
		return isFalse(kind, ReasonOverlapping, "the group has no Nodes: each Node that spec.nodes selects belongs to an older group (%s): %s",
			status.FirstNames(groups), status.FirstNames(nodes))
	}
	selection, controlPlane := &in.Group.Spec.Nodes, ""
	if !selection.IncludeControlPlane {
		controlPlane = ", or only Nodes of the control plane, which spec.nodes.includeControlPlane adds"
	}
	text := "spec.nodes.selector matches no Node"
	switch {
	case selection.MachineSets != nil:
		text = "no MachineSet that spec.nodes.machineSets selects has a Node"
	case selection.ClusterAPI != nil:
		text = "the annotations of no Node name the owner of spec.nodes.clusterAPI"
	}
	return isFalse(kind, ReasonNoNodes, "the group has no Nodes: %s%s; Nodes that join it get what it declares", text, controlPlane)
}

// joined returns the texts that are not empty as one.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// isContended reports whether another writer keeps changing a declared key of the Node.
func isContended(n *rollout.Node) bool {
	return slices.ContainsFunc(n.Metadata.Problems, func(p metadataplan.Problem) bool { return p.Reason == metadataplan.Contended })
}

// failing says which Nodes cannot be written; empty for none.
func (in *Input) failing() string {
	at := slices.IndexFunc(in.Nodes, func(n rollout.Node) bool { return n.IsFailing() })
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("cannot write %s: %s", in.names((*rollout.Node).IsFailing), in.Nodes[at].Failing)
}

// names names the Nodes that a condition holds for.
func (in *Input) names(condition func(*rollout.Node) bool) string {
	var found []string
	for i := range in.Nodes {
		if condition(&in.Nodes[i]) {
			found = append(found, in.Nodes[i].Name)
		}
	}
	return status.FirstNames(found)
}

func (in *Input) progressing(d *Decision) Condition {
	const kind = v1alpha1.ConditionProgressing
	pending := d.waves.Pending()
	switch {
	case in.Group.DeletionTimestamp != nil:
		left := in.unreleased()
		return isTrue(kind, ReasonReleasing, "%d Nodes are still to be released: %s", len(left), status.FirstNames(left))
	case in.Group.Spec.Suspend:
		return isFalse(kind, ReasonSuspended, "spec.suspend is set: nothing is written for the group, and disruptions wait, until it is removed")
	case pending > 0 && in.Group.Spec.DryRun:
		return isFalse(kind, ReasonDryRun, "spec.dryRun is set; without it %d Nodes would be written in %d waves", pending, d.Waves)
	case d.Rollout.Stopped != "" || d.Unconfirmed != "":
		return isFalse(kind, ReasonStopped, "wave %s does not go on; %d Nodes are to be written", d.Rollout.Wave, pending)
	case d.waves.IsOver(&d.Decision):
		return in.replacing(d)
	case !in.writing(d) && d.isPausing():
		return isFalse(kind, ReasonPausing, "wave %s begins at %s, after the pause of spec.rollout.pause", d.Rollout.Wave,
			d.waves.PauseEnd(d.Rollout).UTC().Format(time.RFC3339))
	}
	text := fmt.Sprintf("wave %s", d.Rollout.Wave)
	if len(d.Rollout.WaitingFor) > 0 {
		text += " waits for " + strings.Join(d.Rollout.WaitingFor, ", ")
	}
	return isTrue(kind, ReasonRollingOut, "%s; %d Nodes are to be written%s", text, pending, d.waves.FirstWaveText())
}

// unreleased returns the names of the Nodes whose record names the group, those included that are paused.
func (in *Input) unreleased() (names []string) {
	for i := range in.Nodes {
		if !in.Nodes[i].Owned.Empty() {
			names = append(names, in.Nodes[i].Name)
		}
	}
	for i := range in.Released {
		names = append(names, in.Released[i].Name)
	}
	return names
}

// delayText says which of the Nodes that have left are not released yet in case they come back; empty for none.
func (d *Decision) delayText() string {
	if d.Delayed == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them at %s or later unless they come back (spec.rollout.releaseDelay)", d.Delayed, d.DelayEnd.UTC().Format(time.RFC3339))
}

// isPausing reports whether the next wave waits for the end of the pause.
func (d *Decision) isPausing() bool { return d.waves.PauseEnd(d.Rollout).After(d.waves.Now) }

// replacing returns the condition Progressing when all Nodes carry what is declared.
func (in *Input) replacing(d *Decision) Condition {
	const kind = v1alpha1.ConditionProgressing
	switch {
	case len(in.Released) > 0 && !in.isDryRun():
		const text = "%d Nodes that have left the group are still to be released%s: %s"
		return isTrue(kind, ReasonReleasing, text, len(in.Released), d.delayText(), status.FirstNames(in.unreleased()))
	case !in.Replacement.Replacing && in.isEmpty():
		return isFalse(kind, ReasonComplete, "the group has no Nodes to write")
	case !in.Replacement.Replacing:
		return isFalse(kind, ReasonComplete, "all Nodes carry what is declared or cannot")
	case in.Replacement.Reason == replacementplan.ReasonPaused:
		return isFalse(kind, replacementplan.ReasonPaused, "%s", in.Replacement.Progress)
	case in.Group.Spec.DryRun:
		return isFalse(kind, ReasonDryRun, "spec.dryRun is set; without it Machines would be replaced: %s", in.Replacement.Progress)
	}
	if in.Replacement.Stopped() {
		return isFalse(kind, ReasonStopped, "%s", in.Replacement.Progress)
	}
	return isTrue(kind, ReasonReplacing, "%s", in.Replacement.Progress)
}

// blocked puts what waits for a user before what the controllers end.
func (in *Input) blocked(d *Decision) Condition {
	const kind = v1alpha1.ConditionBlocked
	if d.Rollout.Stopped != "" {
		return isTrue(kind, cmp.Or(d.Rollout.StopReason, rollout.ReasonNodesNotReady), "%s", d.Rollout.Stopped)
	}
	if text := cmp.Or(d.Unconfirmed, d.UnconfirmedReleases); text != "" {
		return isTrue(kind, ReasonNeedsConfirm, "%s", text)
	}
	if in.Replacement.Stopped() {
		return isTrue(kind, in.Replacement.Reason, "%s", in.Replacement.Message)
	}
	if blocked, found := in.blockedByBudget(); found {
		return blocked
	}
	if in.Replacement.Reason != "" {
		return isTrue(kind, in.Replacement.Reason, "%s", in.Replacement.Message)
	}
	if held := in.problems()[metadataplan.NoExecuteHeld]; held != "" {
		return isTrue(kind, ReasonNoExecuteHeld, "%s", held)
	}
	return isFalse(v1alpha1.ConditionBlocked, ReasonNotBlocked, "nothing stops the group")
}

func (in *Input) overlapping() Condition {
	if len(in.Overlaps) == 0 {
		return isFalse(v1alpha1.ConditionOverlapping, ReasonExclusive, "no other group selects Nodes of this one")
	}
	nodes, groups := in.overlaps()
	return isTrue(v1alpha1.ConditionOverlapping, ReasonOverlapping,
		"these groups select the same Nodes, of which each belongs to the oldest group: %s; Nodes: %s", status.FirstNames(groups), status.FirstNames(nodes))
}

// overlaps returns the names of the Nodes that other groups select, too, and of these groups.
func (in *Input) overlaps() (nodes, groups []string) {
	for _, overlap := range in.Overlaps {
		if !slices.Contains(nodes, overlap.Node) {
			nodes = append(nodes, overlap.Node)
		}
		if !slices.Contains(groups, overlap.Group) {
			groups = append(groups, overlap.Group)
		}
	}
	return nodes, groups
}
