package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/metadata/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/rollout"
)

// change is a command that pauses or resumes objects.
type change struct {
	*cmdutil.Options
	cmdutil.PrintFlags
	// decide returns the fields to change, none if there are none, and what is done then.
	decide func(target client.Object) (fields map[string]any, done string)
	// strict makes it an error if there is nothing to change.
	strict bool
}

// targetKinds are the kinds that can be paused.
var targetKinds = []cmdutil.Kind{cmdutil.MachineSetKind, cmdutil.MachineKind, cmdutil.NodeKind, cmdutil.NodeGroupKind}

// NewPauseCommand returns the command pause.
func NewPauseCommand(o *cmdutil.Options) *cobra.Command {
	reason := ""
	s := &change{Options: o, decide: func(target client.Object) (map[string]any, string) { return decidePause(target, reason) }}
	command := command(o, &cobra.Command{
		Use:   "pause (MACHINESET | machine/NAME | node/NAME | nodegroup/NAME)...",
		Short: "Pause Drover on MachineSets, Machines, Nodes and NodeGroups",
		Long: `Stop Drover from changing a MachineSet's Machines and Nodes, one Machine or one Node, with the annotation ` + plan.AnnotationPaused + `.

If you pause a MachineSet, Drover does not write to its Machines and Nodes; if you pause a Machine or its Node, it writes to neither of them.
What Drover wrote before stays. Pausing what is paused changes nothing. A NodeGroup is paused as with kubectl drover rollout pause.`,
		Example: `  # Pause a MachineSet, and say why
  kubectl drover pause workers --reason "until the move is over"

  # Pause a Node and a Machine
  kubectl drover pause node/worker-1 machine/worker-2`,
	}, targetKinds, func(ctx context.Context, c client.WithWatch, target client.Object) error {
		if _, isGroup := target.(*v1alpha1.NodeGroup); isGroup && reason != "" {
			return cmdutil.UsageError("--reason: a NodeGroup keeps no reason")
		}
		return s.apply(ctx, c, target)
	}, &s.PrintFlags)
	command.Flags().StringVar(&reason, "reason", "", "The reason to show to other users; kept in the annotation "+plan.AnnotationPausedReason)
	return command
}

// NewResumeCommand returns the command resume.
func NewResumeCommand(o *cmdutil.Options) *cobra.Command {
	s := &change{Options: o, decide: func(target client.Object) (map[string]any, string) { return decideResume(target, nil, o.Now()) }}
	return command(o, &cobra.Command{
		Use:   "resume (MACHINESET | machine/NAME | node/NAME | nodegroup/NAME)...",
		Short: "Resume Drover on MachineSets, Machines, Nodes and NodeGroups",
		Long: `Let Drover change a paused MachineSet, Machine or Node again, by removing the annotation ` + plan.AnnotationPaused + `.

Drover then writes at once what was declared in the meantime; kubectl drover plan previews it. Resuming what is not paused changes nothing. A
NodeGroup is resumed as with kubectl drover rollout resume.`,
		Example: `  # Resume a MachineSet and a Node
  kubectl drover resume workers node/worker-1`,
	}, targetKinds, s.apply, &s.PrintFlags)
}

func newPauseRolloutCommand(o *cmdutil.Options) *cobra.Command {
	s := &change{Options: o, strict: true, decide: func(target client.Object) (map[string]any, string) { return decidePause(target, "") }}
	return command(o, &cobra.Command{
		Use:   "pause " + arguments,
		Short: "Pause the roll-outs of NodeGroups and MachineSets",
		Long: `Pause the roll-out of a NodeGroup with spec.suspend, and that of a MachineSet with the annotation ` + paused.Annotation + `.

Drover does not write what the paused object declares. For the nodes of a paused NodeGroup, it begins no disruption but NodeMaintenances of users;
their MachineSets still apply their own metadata, except for guarded taints. Drains and upgrades that have begun are completed. Evictions for a
NoExecute taint stop, and the node keeps the taint with the effect NoSchedule until you resume.`,
		Example: `  # Pause the roll-out of a NodeGroup
  kubectl drover rollout pause nodegroup/batch

  # Pause that of a MachineSet
  kubectl drover rollout pause workers`,
	}, kinds, s.apply, &s.PrintFlags)
}

func newResumeRolloutCommand(o *cmdutil.Options) *cobra.Command {
	var confirmed []string
	s := &change{Options: o, strict: true}
	s.decide = func(target client.Object) (map[string]any, string) {
		fields, done := decideResume(target, confirmed, o.Now())
		if _, isGroup := target.(*v1alpha1.NodeGroup); len(fields) == 0 && !isGroup {
			// Whether the waves of a MachineSet have stopped is not known.
			return withAnnotations(map[string]any{v1alpha1.AnnotationResume: o.Now().UTC().Format(time.RFC3339)}), "resumed"
		}
		return fields, done
	}
	command := command(o, &cobra.Command{
		Use:   "resume " + arguments,
		Short: "Resume roll-outs that are paused or have stopped",
		Long: `Resume a roll-out that was paused, or that has stopped because of spec.rollout.stopWhen or of a new Machine that failed.

A NodeGroup goes on with its waves, and a MachineSet with those of metadata.rollout of the operator's configuration, or at once without any. A
MachineSet that is not paused gets the annotation ` + v1alpha1.AnnotationResume + `, by which its waves go on if they have stopped; the command
does not know whether they have. Nodes that were NotReady before do not stop a roll-out again. After a new Machine
that failed, Drover deletes this Machine, so that another one is created. The roll-out of a paused NodeGroup that had stopped before stays stopped
until you resume it a second time.

A roll-out that takes labels away which Pods or PersistentVolumes require goes on when --confirm-label-changes names these labels, all of them each
time. That counts for this roll-out only.`,
		Example: `  # Resume the roll-out of a NodeGroup
  kubectl drover rollout resume nodegroup/batch

  # Let it take a label away that Pods require
  kubectl drover rollout resume nodegroup/batch --confirm-label-changes=example.com/disk`,
	}, kinds, s.apply, &s.PrintFlags)
	command.Flags().StringSliceVar(&confirmed, "confirm-label-changes", nil,
		"Labels that the roll-out of a NodeGroup may take away or change although Pods or PersistentVolumes require them")
	return command
}

// apply changes one object.
func (s *change) apply(ctx context.Context, c client.WithWatch, target client.Object) error {
	fields, done := s.decide(target)
	if len(fields) > 0 || !s.strict {
		return s.Change(ctx, s.Options, c, target, fields, done)
	}
	if group, ok := target.(*v1alpha1.NodeGroup); ok {
		if blocked := blockedOf(group); blocked != nil {
			return fmt.Errorf("%s is %s; it is blocked (%s): %s", resourceOf(target), done, blocked.Reason, blocked.Message)
		}
	}
	return fmt.Errorf("%s is %s", resourceOf(target), done)
}

// decidePause returns the fields that pause an object, with nil for those to remove, and what is done then. A NodeGroup has no reason.
func decidePause(target client.Object, reason string) (fields map[string]any, done string) {
	if group, ok := target.(*v1alpha1.NodeGroup); ok {
		if group.Spec.Suspend {
			return nil, "already paused"
		}
		return map[string]any{"spec": map[string]any{"suspend": true}}, "paused"
	}
	live := target.GetAnnotations()
	_, hasReason := live[plan.AnnotationPausedReason]
	isPaused := paused.Is(live)
	if isPaused && (reason == "" || reason == live[plan.AnnotationPausedReason]) {
		return nil, "already paused"
	}
	annotations := map[string]any{plan.AnnotationPaused: "true"}
	if reason != "" {
		annotations[plan.AnnotationPausedReason] = reason
	} else if hasReason {
		// It is the reason of an earlier pause.
		annotations[plan.AnnotationPausedReason] = nil
	}
	if isPaused {
		return withAnnotations(annotations), "already paused, reason changed"
	}
	return withAnnotations(annotations), "paused"
}

// decideResume returns the fields that resume an object; none if it is neither paused nor stopped, and no change of labels is confirmed.
func decideResume(target client.Object, confirmed []string, now time.Time) (fields map[string]any, done string) {
	if group, ok := target.(*v1alpha1.NodeGroup); ok {
		if fields = decideResumeGroup(group, confirmed, now); len(fields) == 0 {
			return nil, "not paused"
		}
		return fields, "resumed"
	}
	live := target.GetAnnotations()
	_, isAnnotated := live[plan.AnnotationPaused]
	_, hasReason := live[plan.AnnotationPausedReason]
	if !isAnnotated && !hasReason {
		return nil, "not paused"
	}
	fields = withAnnotations(map[string]any{plan.AnnotationPaused: nil, plan.AnnotationPausedReason: nil})
	if !paused.Is(live) {
		return fields, "not paused, annotation removed"
	}
	return fields, "resumed"
}

func decideResumeGroup(group *v1alpha1.NodeGroup, confirmed []string, now time.Time) map[string]any {
	fields, annotations := map[string]any{}, map[string]any{}
	if group.Spec.Suspend {
		fields["spec"] = map[string]any{"suspend": nil}
	}
	// A job that pauses a group at night and resumes it in the morning does not resume what has stopped: that takes a second command.
	if stopped := stopTime(group); !group.Spec.Suspend && !stopped.IsZero() {
		annotations[v1alpha1.AnnotationResume] = notBefore(now, stopped).UTC().Format(time.RFC3339)
	}
	if current := group.Status.Rollout; len(confirmed) > 0 && current != nil && current.StartTime != nil {
		annotations[v1alpha1.AnnotationConfirm] = rollout.Confirmation(confirmed, notBefore(now, current.StartTime.Time))
	}
	if len(annotations) > 0 {
		fields["metadata"] = map[string]any{"annotations": annotations}
	}
	return fields
}

// notBefore returns the time, or the later one that the operator has recorded if this computer's clock is behind the operator's.
func notBefore(now, recorded time.Time) time.Time {
	if now.Before(recorded) {
		return recorded
	}
	return now
}

// stopTime returns when the roll-out of a group, or the replacement of its Machines, has stopped; zero where it has not.
func stopTime(group *v1alpha1.NodeGroup) time.Time {
	if rollout := group.Status.Rollout; rollout != nil && rollout.Stopped != "" && rollout.StopTime != nil {
		return rollout.StopTime.Time
	}
	if blocked := blockedOf(group); blocked != nil && blocked.Reason == replacementplan.ReasonNewMachineFailed {
		return blocked.LastTransitionTime.Time
	}
	return time.Time{}
}

// blockedOf returns the condition Blocked of a group that is blocked; nil for none.
func blockedOf(group *v1alpha1.NodeGroup) *metav1.Condition {
	blocked := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionBlocked)
	if blocked == nil || blocked.Status != metav1.ConditionTrue {
		return nil
	}
	return blocked
}

// withAnnotations returns a change of annotations as one of an object.
func withAnnotations(annotations map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": annotations}}
}
