package nodegroup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/rollout"
)

// recheckUses is how often Drover looks for what requires labels that a roll-out takes away, and recheckPending for Pods that are unschedulable.
// Neither has an event that a controller could watch without keeping all Pods of the cluster.
const (
	recheckUses    = 5 * time.Minute
	recheckPending = 30 * time.Second
)

// nodesByName is how many Nodes are asked for their Pods one after another; for more, all Pods of the cluster are read.
const nodesByName = 50

// maxPending is how many unschedulable Pods are counted.
const maxPending = 200

// lookups is what was read last for a roll-out.
type lookups struct {
	revision          string
	usesAt, pendingAt time.Time
	uses              *rollout.Uses
	// pending are the names of the unschedulable Pods that count since a time.
	pending      []string
	pendingSince time.Time
}

// observePods adds to the input what requires labels that go, and the Pods that are unschedulable.
func (rc *reconciliation) observePods(ctx context.Context, in *plan.Input, requeue *controller.Requeue) error {
	if rc.API == nil {
		return nil
	}
	known := &rc.state.lookups
	if known.revision != in.Declaration.Revision {
		*known = lookups{revision: in.Declaration.Revision}
	}
	waves := in.Rollout()
	if waves.CountsPending() {
		if err := rc.observePending(ctx, in, known); err != nil {
			return err
		}
		requeue.In(known.pendingAt.Add(recheckPending).Sub(rc.now))
	}
	lost := waves.LostLabels()
	if len(lost) == 0 {
		known.uses = nil
		return nil
	}
	// The declaration does not say which Nodes are in the group: others may have left it meanwhile.
	if known.uses == nil || !known.uses.Cover(lost) || rc.now.Sub(known.usesAt) >= recheckUses {
		known.uses, known.usesAt = rc.usesOf(ctx, lost), rc.now
		if known.uses.Err != nil {
			known.usesAt = rc.now.Add(recheckPending - recheckUses)
		}
	}
	in.Uses = known.uses
	requeue.In(known.usesAt.Add(recheckUses).Sub(rc.now))
	return nil
}

// observePending reads the Pods that have no Node.
func (rc *reconciliation) observePending(ctx context.Context, in *plan.Input, known *lookups) error {
	waves := in.Rollout()
	since := waves.Since()
	if rc.now.Sub(known.pendingAt) >= recheckPending || !since.Equal(known.pendingSince) {
		var names []string
		isPending := waves.PendingIn(rc.members(), in.DeclaredKeys())
		noNode := fields.OneTermEqualSelector("spec.nodeName", "")
		err := pages.Each(ctx, rc.API, &corev1.PodList{}, noNode, func(pod *corev1.Pod) bool {
			if isPending(pod) {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
			return len(names) < maxPending
		})
		if err != nil {
			return fmt.Errorf("counting Pods for spec.rollout.stopWhen.pendingPods: %w", err)
		}
		known.pending, known.pendingAt, known.pendingSince = names, rc.now, since
	}
	in.PendingPods = known.pending
	return nil
}

// usesOf looks for the Pods and PersistentVolumes that require Nodes to be as they were before changes of their labels.
func (rc *reconciliation) usesOf(ctx context.Context, changes []rollout.LabelChange) *rollout.Uses {
	uses := rollout.NewUses(changes)
	uses.End(rc.readUses(ctx, changes, uses))
	return uses
}

// readUses reads the Pods of the Nodes that change, and the PersistentVolumes.
func (rc *reconciliation) readUses(ctx context.Context, changes []rollout.LabelChange, uses *rollout.Uses) error {
	selectors := []fields.Selector{fields.Everything()}
	if len(changes) <= nodesByName {
		selectors = nil
		for i := range changes {
			selectors = append(selectors, fields.OneTermEqualSelector("spec.nodeName", changes[i].Node))
		}
	}
	for _, selector := range selectors {
		err := pages.Each(ctx, rc.API, &corev1.PodList{}, selector, func(pod *corev1.Pod) bool {
			uses.AddPod(pod)
			return true
		})
		if err != nil {
			return err
		}
	}
	return pages.Each(ctx, rc.API, &corev1.PersistentVolumeList{}, fields.Everything(), func(volume *corev1.PersistentVolume) bool {
		uses.AddVolume(volume)
		return true
	})
}
