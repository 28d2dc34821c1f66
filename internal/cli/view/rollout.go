package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/rollout/history"
)

// Rollout is where a roll-out is.
type Rollout struct {
	// Message says it in a line.
	Message string
	// Done reports that there is nothing more to wait for, Failed that waiting would not help.
	Done, Failed bool
	// Rechecked reports that Drover looks again at what has failed: the cause may have just gone.
	Rechecked bool
}

func rolledOut(kind, name string) Rollout {
	return Rollout{Message: fmt.Sprintf("%s %q successfully rolled out", kind, name), Done: true}
}

func waiting(kind, name, format string, args ...any) Rollout {
	return Rollout{Message: fmt.Sprintf("Waiting for %s %q rollout to finish: ", kind, name) + fmt.Sprintf(format, args...)}
}

func failed(kind, name, format string, args ...any) Rollout {
	return Rollout{Message: fmt.Sprintf("%s %q ", kind, name) + fmt.Sprintf(format, args...), Failed: true}
}

// RolloutOfGroup returns where the roll-out of a NodeGroup is, by its status.
func RolloutOfGroup(group *v1alpha1.NodeGroup) Rollout {
	const kind = "nodegroup"
	status := &group.Status
	ready, progressing := condition(group, v1alpha1.ConditionReady), condition(group, v1alpha1.ConditionProgressing)
	blocked := condition(group, v1alpha1.ConditionBlocked)
	switch {
	case group.DeletionTimestamp != nil:
		return failed(kind, group.Name, "is being deleted")
	case status.ObservedGeneration < group.Generation || progressing.Reason == "":
		return Rollout{Message: fmt.Sprintf("Waiting for %s %q spec update to be observed...", kind, group.Name)}
	case status.Phase == v1alpha1.PhaseStopped:
		return failed(kind, group.Name, "has stopped: %s%s", blocked.Message, resumeHint(group, blocked.Reason))
	case progressing.Reason == plan.ReasonDryRun:
		return failed(kind, group.Name, "writes no Node: %s", progressing.Message)
	case progressing.Reason != plan.ReasonComplete:
		return waiting(kind, group.Name, "%s", progressText(group, progressing))
	case blocked.Status == metav1.ConditionTrue && blocked.Reason == replacementplan.ReasonSurgeUnavailable:
		return failed(kind, group.Name, "replaces no Machine: %s", blocked.Message)
	case ready.Reason == plan.ReasonNoExecuteHeld:
		held := failed(kind, group.Name, "is not Ready (%s): %s", ready.Reason, ready.Message)
		held.Rechecked = true
		return held
	case ready.Status != metav1.ConditionTrue:
		return failed(kind, group.Name, "is not Ready (%s): %s", ready.Reason, ready.Message)
	}
	return rolledOut(kind, group.Name)
}

// resumeHint says how a group goes on that has stopped; empty where its message does.
func resumeHint(group *v1alpha1.NodeGroup, reason string) string {
	if reason == plan.ReasonNeedsConfirm {
		return ""
	}
	return "; kubectl drover rollout resume nodegroup/" + group.Name + " continues it"
}

func condition(group *v1alpha1.NodeGroup, kind string) metav1.Condition {
	if found := meta.FindStatusCondition(group.Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// progressText says how far a group is, and what it waits for.
func progressText(group *v1alpha1.NodeGroup, progressing metav1.Condition) string {
	text := fmt.Sprintf("%d of %d nodes are synced", group.Status.Synced, group.Status.Nodes)
	if group.Status.Outdated > 0 {
		text += fmt.Sprintf(", %d are outdated", group.Status.Outdated)
	}
	text += "; " + progressing.Message
	if blocked := condition(group, v1alpha1.ConditionBlocked); blocked.Status == metav1.ConditionTrue {
		text += "; " + blocked.Message
	}
	return text
}

// RolloutOfMachineSet returns where the roll-out of a MachineSet's metadata and the replacement of its Machines are. The replacement is
// nil if none are replaced.
func RolloutOfMachineSet(set *MachineSetStatus, replacement *Replacement) Rollout {
	const kind = "machineset"
	s := &set.Summary
	replacing, replaced := replacement.rollout(kind, set.Name)
	switch {
	case replacing.Failed, !replaced && !set.Paused:
		return replacing
	case set.Unfinished() > 0:
		return waiting(kind, set.Name, "%d of %d machines are synced, %d are pending", s.Synced, s.Machines, set.Unfinished())
	case set.Paused:
		return waiting(kind, set.Name, "it is paused; kubectl drover rollout resume machineset/%s continues it", set.Name)
	case s.Conflict+s.Refused+len(set.Problems) > 0:
		return failed(kind, set.Name, "is rolled out, but %d of %d machines are in conflict and %d lack entries that are refused or invalid; "+
			"kubectl drover plan %s shows them", s.Conflict, s.Machines, max(s.Refused, min(len(set.Problems), s.Machines)), set.Name)
	}
	return rolledOut(kind, set.Name)
}

// RolloutHistory is what `rollout history` shows.
type RolloutHistory struct {
	TypeMeta
	// Object is what the revisions are of, as resource.group/name.
	Object string            `json:"object"`
	Items  []RolloutRevision `json:"items"`
}

// RolloutRevision is what was declared before, or is now.
type RolloutRevision struct {
	Revision int64 `json:"revision"`
	// ControllerRevision is the name of the object that holds it.
	ControllerRevision string    `json:"controllerRevision"`
	Created            time.Time `json:"created"`
	ChangeCause        string    `json:"changeCause,omitempty"`
	// Current reports whether it is declared now.
	Current bool `json:"current"`
	// Spec has the fields of the object's spec that the revision holds.
	Spec map[string]any `json:"spec"`
}

// NewRolloutHistory returns the document of `rollout history`. The revisions are sorted. data is what is declared now.
func NewRolloutHistory(object string, revisions []*appsv1.ControllerRevision, data []byte) (*RolloutHistory, error) {
	list := &RolloutHistory{TypeMeta: TypeMeta{APIVersion, "RolloutHistory"}, Object: object, Items: []RolloutRevision{}}
	for _, revision := range revisions {
		var held struct {
			Spec map[string]any `json:"spec"`
		}
		if err := json.Unmarshal(revision.Data.Raw, &held); err != nil {
			return nil, fmt.Errorf("reading revision %d of %s: %w", revision.Revision, object, err)
		}
		list.Items = append(list.Items, RolloutRevision{
			Revision: revision.Revision, ControllerRevision: revision.Namespace + "/" + revision.Name, Created: revision.CreationTimestamp.Time,
			ChangeCause: strings.TrimSpace(revision.Annotations[history.AnnotationCause]), Current: history.Holds(revision, data), Spec: held.Spec,
		})
	}
	return list, nil
}
