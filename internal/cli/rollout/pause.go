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
	"github.com/drover-io/drover/internal/cli/pause"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/rollout"
)

// change is a command that changes an object.
type change struct {
	*cmdutil.Options
	printFlags
	// decide returns the fields to change, nil if there are none, for which already says why. done says what was done.
	decide        func(target client.Object) map[string]any
	done, already string
}

func newPauseCommand(o *cmdutil.Options) *cobra.Command {
	s := &change{Options: o, printFlags: newPrintFlags(), decide: decidePause, done: "paused", already: "is already paused"}
	return s.command(&cobra.Command{
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
	})
}

func newResumeCommand(o *cmdutil.Options) *cobra.Command {
	s := &change{Options: o, printFlags: newPrintFlags(), done: "resumed", already: "is not paused"}
	var confirmed []string
	s.decide = func(target client.Object) map[string]any { return decideResume(target, confirmed, o.Now()) }
	command := s.command(&cobra.Command{
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
	})
	command.Flags().StringSliceVar(&confirmed, "confirm-label-changes", nil,
		"Labels that the roll-out of a NodeGroup may take away or change although Pods or PersistentVolumes require them")
	return command
}

// command completes a command.
func (s *change) command(command *cobra.Command) *cobra.Command {
	s.addFlags(command)
	command.ValidArgsFunction = s.CompleteGroups()
	command.RunE = s.RunE(func(ctx context.Context, c client.WithWatch, args []string) error {
		return each(ctx, s.Options, c, args, func(ctx context.Context, target client.Object) error { return s.apply(ctx, c, target) })
	}, &s.printFlags)
	return command
}

// apply changes one object.
func (s *change) apply(ctx context.Context, c client.Client, target client.Object) error {
	fields := s.decide(target)
	if fields == nil {
		if group, ok := target.(*v1alpha1.NodeGroup); ok {
			if blocked := blockedOf(group); blocked != nil {
				return fmt.Errorf("%s %s; it is blocked (%s): %s", resourceOf(target), s.already, blocked.Reason, blocked.Message)
			}
		}
		return fmt.Errorf("%s %s", resourceOf(target), s.already)
	}
	name := cmdutil.NameOf(target)
	if err := s.Patch(ctx, c, target, fields); err != nil {
		resource, _ := meta.UnsafeGuessKindToResource(target.GetObjectKind().GroupVersionKind())
		return cmdutil.Explain(err, "patching "+name, resource.GroupResource())
	}
	return s.print(s.Options, target, s.done)
}

// decidePause returns the fields that pause an object; nil if it is paused.
func decidePause(target client.Object) map[string]any {
	if group, ok := target.(*v1alpha1.NodeGroup); ok {
		if group.Spec.Suspend {
			return nil
		}
		return map[string]any{"spec": map[string]any{"suspend": true}}
	}
	return withAnnotations(pause.Decide(target.GetAnnotations(), true, ""))
}

// decideResume returns the fields that resume an object; nil if it is neither paused nor stopped, and no change of labels is confirmed. Whether the
// waves of a MachineSet have stopped is not known.
func decideResume(target client.Object, confirmed []string, now time.Time) map[string]any {
	group, ok := target.(*v1alpha1.NodeGroup)
	if !ok {
		annotations, _ := pause.Decide(target.GetAnnotations(), false, "")
		if annotations == nil {
			annotations = map[string]any{v1alpha1.AnnotationResume: now.UTC().Format(time.RFC3339)}
		}
		return withAnnotations(annotations, "")
	}
	fields := map[string]any{}
	if group.Spec.Suspend {
		fields["spec"] = map[string]any{"suspend": nil}
	}
	annotations := map[string]any{}
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
	if len(fields) == 0 {
		return nil
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
func withAnnotations(annotations map[string]any, _ string) map[string]any {
	if annotations == nil {
		return nil
	}
	return map[string]any{"metadata": map[string]any{"annotations": annotations}}
}
