package nodegroup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// recheckUses is how often Drover looks for what requires labels that a roll-out takes away, and recheckPending for Pods that are unschedulable.
// Neither has an event that a controller could watch without keeping all Pods of the cluster.
const (
	recheckUses    = 5 * time.Minute
	recheckPending = 30 * time.Second
)

// nodesByName is how many Nodes are asked for their Pods one after another; for more, all Pods of the cluster are read.
const nodesByName = 50

// pageSize is how many objects are read at once, and maxPending how many unschedulable Pods are looked at.
const pageSize, maxPending = 50, 200

// lookups is what was read last for a roll-out.
type lookups struct {
	revision          string
	usesAt, pendingAt time.Time
	uses              *plan.Uses
	// unschedulable are Pods that have no Node, and pending the names of those of them that count since a time.
	unschedulable []*corev1.Pod
	pending       []string
	pendingSince  time.Time
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
	if in.CountsPending() {
		if err := rc.observePending(ctx, in, known); err != nil {
			return err
		}
		requeue.In(known.pendingAt.Add(recheckPending).Sub(rc.now))
	}
	lost := in.LostLabels()
	if len(lost) == 0 {
		known.uses = nil
		return nil
	}
	if known.uses == nil || rc.now.Sub(known.usesAt) >= recheckUses {
		known.uses, known.usesAt = rc.usesOf(ctx, lost), rc.now
	}
	in.Uses = known.uses
	requeue.In(known.usesAt.Add(recheckUses).Sub(rc.now))
	return nil
}

// observePending reads the Pods that have no Node.
func (rc *reconciliation) observePending(ctx context.Context, in *plan.Input, known *lookups) error {
	if rc.now.Sub(known.pendingAt) >= recheckPending {
		var pods []*corev1.Pod
		err := each(ctx, rc.API, &corev1.PodList{}, fields.OneTermEqualSelector("spec.nodeName", ""), func(pod *corev1.Pod) {
			if len(pods) < maxPending && plan.IsUnschedulable(pod) {
				pods = append(pods, plan.TrimPod(pod))
			}
		})
		if err != nil {
			return fmt.Errorf("counting Pods for spec.rollout.stopWhen.pendingPods: %w", err)
		}
		known.unschedulable, known.pendingAt, known.pendingSince = pods, rc.now, time.Time{}
	}
	if since := in.Since(); !since.Equal(known.pendingSince) {
		known.pending, known.pendingSince = in.Pending(known.unschedulable, rc.members()), since
	}
	in.PendingPods = known.pending
	return nil
}

// usesOf reads the Pods and PersistentVolumes that require Nodes to be as they were before changes of their labels.
func (rc *reconciliation) usesOf(ctx context.Context, changes []plan.LabelChange) *plan.Uses {
	nodes := sets.New[string]()
	for i := range changes {
		nodes.Insert(changes[i].Node)
	}
	var pods []*corev1.Pod
	keep := func(pod *corev1.Pod) {
		if nodes.Has(pod.Spec.NodeName) && plan.RequiresLabels(pod) {
			pods = append(pods, plan.TrimPod(pod))
		}
	}
	selectors := []fields.Selector{fields.Everything()}
	if nodes.Len() <= nodesByName {
		selectors = nil
		for _, name := range sets.List(nodes) {
			selectors = append(selectors, fields.OneTermEqualSelector("spec.nodeName", name))
		}
	}
	for _, selector := range selectors {
		if err := each(ctx, rc.API, &corev1.PodList{}, selector, keep); err != nil {
			return &plan.Uses{Err: err}
		}
	}
	var volumes []*corev1.PersistentVolume
	err := each(ctx, rc.API, &corev1.PersistentVolumeList{}, fields.Everything(), func(volume *corev1.PersistentVolume) {
		if affinity := volume.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
			volumes = append(volumes, volume)
		}
	})
	return &plan.Uses{Found: plan.LabelUses(changes, pods, volumes), Err: err}
}

// each reads objects page by page into copies of an empty list, and calls visit with each of them.
func each[T client.Object](ctx context.Context, api client.Reader, list client.ObjectList, selector fields.Selector, visit func(T)) error {
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		next, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is not a list", list)
		}
		return next, api.List(ctx, next, &client.ListOptions{Limit: options.Limit, Continue: options.Continue, FieldSelector: selector})
	}
	// Pods are of any size up to that of a request, and any tenant can create them.
	lister := pager.New(page)
	lister.PageSize, lister.PageBufferSize, lister.FullListIfExpired = pageSize, 0, false
	return lister.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		if object, ok := item.(T); ok {
			visit(object)
		}
		return nil
	})
}
