package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
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

// Names returns at most five names, and how many more there are.
func Names(names []string) string {
	slices.Sort(names)
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// conditions decides all conditions and the phase.
func (in *Input) conditions(d *Decision) {
	d.Conditions = []Condition{in.ready(d), in.progressing(d), in.blocked(d), in.overlapping()}
	switch {
	case in.isSuspended():
		d.Phase = v1alpha1.PhaseSuspended
	case d.Rollout.Stopped != "", d.Unconfirmed != "", d.Replacement.Stopped():
		d.Phase = v1alpha1.PhaseStopped
	case in.isOver(d) && !d.Replacement.Replacing:
		d.Phase = v1alpha1.PhaseIdle
	case in.Group.Spec.DryRun, !in.writing(d) && !d.isReplacing():
		d.Phase = v1alpha1.PhaseWaiting
	default:
		d.Phase = v1alpha1.PhaseRolling
	}
}

// isOver reports whether the roll-out of metadata is over.
func (in *Input) isOver(d *Decision) bool { return !in.unfinished() && d.Wave > d.Waves }

// isReplacing reports whether Machines are being replaced, and nothing keeps them waiting. Without surge they are, too.
func (d *Decision) isReplacing() bool {
	r := &d.Replacement
	return r.Replacing && (r.Reason == "" || r.Reason == replacementplan.ReasonSurgeUnavailable)
}

// writing reports whether an admitted Node is to be written.
func (in *Input) writing(d *Decision) bool {
	return slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Metadata.Change.Write && d.Admitted.Has(n.Name) })
}

func (in *Input) ready(d *Decision) Condition {
	const kind = v1alpha1.ConditionReady
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
	switch {
	case in.SelectorError != nil:
		return isFalse(kind, ReasonInvalidSelector, "%v", in.SelectorError)
	case found[metadataplan.Untrusted] != "":
		return isFalse(kind, ReasonUntrustedSelector, "%s", found[metadataplan.Untrusted])
	case found[metadataplan.Invalid]+found[metadataplan.Duplicate]+found[metadataplan.Refused] != "":
		return isFalse(kind, ReasonRefusedKeys, "%s", found[metadataplan.Invalid]+found[metadataplan.Duplicate]+found[metadataplan.Refused])
	case found[metadataplan.NoExecuteHeld] != "":
		return isFalse(kind, ReasonNoExecuteHeld, "%s", found[metadataplan.NoExecuteHeld])
	case d.Counts.Conflicts > 0:
		return isFalse(kind, ReasonConflicts, "%d Nodes have a declared key that another writer has set: %s", d.Counts.Conflicts,
			found[metadataplan.InConflict])
	case found[metadataplan.MachineDeclares] != "":
		return isFalse(kind, ReasonMachineDeclares, "%s", found[metadataplan.MachineDeclares])
	case d.Counts.Synced < d.Counts.Nodes:
		return isFalse(kind, ReasonNotSynced, "%d of %d Nodes carry what is declared", d.Counts.Synced, d.Counts.Nodes)
	}
	return isTrue(kind, ReasonSynced, "%d of %d Nodes carry what is declared", d.Counts.Synced, d.Counts.Nodes)
}

// pending returns how many Nodes are to be written.
func (in *Input) pending() int {
	pending := 0
	for i := range in.Nodes {
		if in.Nodes[i].Metadata.Change.Write {
			pending++
		}
	}
	return pending
}

func (in *Input) progressing(d *Decision) Condition {
	const kind = v1alpha1.ConditionProgressing
	pending := in.pending()
	switch {
	case in.Group.DeletionTimestamp != nil:
		return isTrue(kind, ReasonReleasing, "%d Nodes are still to be released", pending+len(in.Released))
	case in.Group.Spec.Suspend:
		return isFalse(kind, ReasonSuspended, "spec.suspend is set; %d Nodes are to be written", pending)
	case pending > 0 && in.Group.Spec.DryRun:
		return isFalse(kind, ReasonDryRun, "spec.dryRun is set; without it %d Nodes would be written in %d waves", pending, d.Waves)
	case in.isOver(d):
		return in.replacing(d)
	case !in.writing(d) && pending > 0 && d.Rollout.Stopped == "" && d.Unconfirmed == "":
		return isFalse(kind, ReasonPausing, "wave %s begins after the pause of spec.rollout.pause", d.Rollout.Wave)
	}
	text := fmt.Sprintf("wave %s", d.Rollout.Wave)
	if len(d.Rollout.WaitingFor) > 0 {
		text += " waits for " + strings.Join(d.Rollout.WaitingFor, ", ")
	}
	return isTrue(kind, ReasonRollingOut, "%s; %d Nodes are to be written", text, pending)
}

// replacing returns the condition Progressing when all Nodes carry what is declared.
func (in *Input) replacing(d *Decision) Condition {
	const kind = v1alpha1.ConditionProgressing
	switch {
	case !d.Replacement.Replacing:
		return isFalse(kind, ReasonComplete, "all Nodes carry what is declared or cannot")
	case in.Group.Spec.DryRun:
		return isFalse(kind, ReasonDryRun, "spec.dryRun is set; without it Machines would be replaced: %s", d.Replacement.Progress)
	}
	return isTrue(kind, ReasonReplacing, "%s", d.Replacement.Progress)
}

// blocked puts what waits for a user before what the controllers end.
func (in *Input) blocked(d *Decision) Condition {
	const kind = v1alpha1.ConditionBlocked
	if d.Rollout.Stopped != "" {
		return isTrue(kind, cmp.Or(d.Rollout.StopReason, ReasonNodesNotReady), "%s", d.Rollout.Stopped)
	}
	if d.Unconfirmed != "" {
		return isTrue(kind, ReasonNeedsConfirm, "%s", d.Unconfirmed)
	}
	if d.Replacement.Stopped() {
		return isTrue(kind, d.Replacement.Reason, "%s", d.Replacement.Message)
	}
	if blocked, found := in.blockedByBudget(); found {
		return blocked
	}
	if d.Replacement.Reason != "" {
		return isTrue(kind, d.Replacement.Reason, "%s", d.Replacement.Message)
	}
	return isFalse(v1alpha1.ConditionBlocked, ReasonNotBlocked, "nothing stops the group")
}

func (in *Input) overlapping() Condition {
	if len(in.Overlaps) == 0 {
		return isFalse(v1alpha1.ConditionOverlapping, ReasonExclusive, "no other group selects Nodes of this one")
	}
	var nodes, groups []string
	for _, overlap := range in.Overlaps {
		if !slices.Contains(nodes, overlap.Node) {
			nodes = append(nodes, overlap.Node)
		}
		if !slices.Contains(groups, overlap.Group) {
			groups = append(groups, overlap.Group)
		}
	}
	return isTrue(v1alpha1.ConditionOverlapping, ReasonOverlapping,
		"these groups select the same Nodes, of which each belongs to the oldest group: %s; Nodes: %s", Names(groups), Names(nodes))
}
