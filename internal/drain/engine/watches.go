package engine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/watch"
)

// IndexNode is the index of Pods and VolumeAttachments by spec.nodeName.
const IndexNode = "spec.nodeName"

// budgetDelay is how long the nodes wait after a change of a budget's status, so that several changes are one reconciliation.
const budgetDelay = time.Second

// Index adds the index of VolumeAttachments to a cache. IndexPods adds the index of pods.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &storagev1.VolumeAttachment{}, IndexNode, func(object client.Object) []string {
		if attachment, ok := object.(*storagev1.VolumeAttachment); ok {
			return []string{attachment.Spec.NodeName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing VolumeAttachments: %w", err)
	}
	return nil
}

// daemonSet returns a DaemonSet for reading its metadata only.
func daemonSet() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"})
	return object
}

// Kinds lists what an Engine reads from the cache.
func Kinds() []client.Object {
	return []client.Object{&corev1.Pod{}, &policyv1.PodDisruptionBudget{}, &storagev1.VolumeAttachment{}, daemonSet()}
}

// TrimAttachment drops the fields of a VolumeAttachment that no drain needs.
func TrimAttachment(object any) (any, error) {
	if attachment, ok := object.(*storagev1.VolumeAttachment); ok {
		attachment.ManagedFields, attachment.Annotations = nil, nil
		attachment.Status = storagev1.VolumeAttachmentStatus{Attached: attachment.Status.Attached}
	}
	return object, nil
}

// Sources returns the watches of a controller that drains nodes. requests returns the requests for a node.
func (e *Engine) Sources(cache ctrlcache.Cache, requests func(ctx context.Context, node string) []reconcile.Request) []source.Source {
	add := func(ctx context.Context, queue watch.Queue, node string) {
		if node != "" {
			queue.Add(watch.PriorityNormal, requests(ctx, node)...)
		}
	}
	budget := func(ctx context.Context, queue watch.Queue, budget *policyv1.PodDisruptionBudget, all bool) {
		for _, node := range e.queue.budgetChanged(client.ObjectKeyFromObject(budget), int(budget.Status.DisruptionsAllowed), disrupted(budget), all) {
			// The queue offers the disruptions of the budget itself. The reconciliation updates the numbers in the status, and these may change many
			// times a second for each of many nodes.
			queue.AddAfter(watch.PriorityNormal, budgetDelay, requests(ctx, node)...)
		}
	}
	return []source.Source{
		// A pod is bound to the node, terminates, or is gone.
		watch.SourceOf(cache, &corev1.Pod{}, watch.Handler[*smallPod]{
			Created: func(ctx context.Context, queue watch.Queue, pod *smallPod, initial bool) {
				if !initial {
					add(ctx, queue, pod.node)
				}
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *smallPod) {
				if differs(before, after) {
					add(ctx, queue, after.node)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, pod *smallPod) { add(ctx, queue, pod.node) },
		}),
		// A budget allows disruptions again, or the numbers in the status of the drain change.
		watch.Source(cache, &policyv1.PodDisruptionBudget{}, watch.Handler[*policyv1.PodDisruptionBudget]{
			Updated: func(ctx context.Context, queue watch.Queue, before, after *policyv1.PodDisruptionBudget) {
				if before.Generation != after.Generation || !apiequality.Semantic.DeepEqual(before.Status, after.Status) {
					budget(ctx, queue, after, before.Generation != after.Generation)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, gone *policyv1.PodDisruptionBudget) {
				e.selectors.forget(client.ObjectKeyFromObject(gone))
				for _, node := range e.queue.budgetGone(client.ObjectKeyFromObject(gone)) {
					add(ctx, queue, node)
				}
			},
		}),
		// A volume is detached.
		watch.Source(cache, &storagev1.VolumeAttachment{}, watch.Handler[*storagev1.VolumeAttachment]{
			Deleted: func(ctx context.Context, queue watch.Queue, gone *storagev1.VolumeAttachment) {
				add(ctx, queue, gone.Spec.NodeName)
			},
		}),
		// An eviction was answered.
		e.answered.Source(requests),
	}
}

func disrupted(budget *policyv1.PodDisruptionBudget) func(pod string) bool {
	return func(pod string) bool { _, ok := budget.Status.DisruptedPods[pod]; return ok }
}
