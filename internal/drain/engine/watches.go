package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/watch"
)

// IndexNode is the index of Pods and VolumeAttachments by spec.nodeName.
const IndexNode = "spec.nodeName"

// Index gives the cache the indexes that an Engine reads by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Pod{}, IndexNode, func(object client.Object) []string {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Pods: %w", err)
	}
	err = indexer.IndexField(ctx, &storagev1.VolumeAttachment{}, IndexNode, func(object client.Object) []string {
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

// daemonSet is a DaemonSet of which only the metadata is read.
func daemonSet() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"})
	return object
}

// Kinds lists what an Engine reads from the cache.
func Kinds() []client.Object {
	return []client.Object{&corev1.Pod{}, &policyv1.PodDisruptionBudget{}, &storagev1.VolumeAttachment{}, daemonSet()}
}

// TrimPod drops what no drain reads; of 50,000 Pods every field counts.
func TrimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds, Finalizers: pod.Finalizers,
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds, Priority: pod.Spec.Priority,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, StartTime: pod.Status.StartTime},
	}
	for _, key := range []string{drain.AnnotationMirror, drain.AnnotationKarpenter} {
		if value, ok := pod.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&trimmed.ObjectMeta, key, value)
		}
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		trimmed.OwnerReferences = []metav1.OwnerReference{{Kind: owner.Kind, Name: owner.Name, Controller: owner.Controller}}
	}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			trimmed.Spec.Volumes = append(trimmed.Spec.Volumes, corev1.Volume{
				VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.ClaimName}},
			})
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			trimmed.Status.Conditions = []corev1.PodCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return trimmed, nil
}

// TrimAttachment drops what no drain reads of a VolumeAttachment.
func TrimAttachment(object any) (any, error) {
	if attachment, ok := object.(*storagev1.VolumeAttachment); ok {
		attachment.ManagedFields, attachment.Annotations = nil, nil
		attachment.Status = storagev1.VolumeAttachmentStatus{Attached: attachment.Status.Attached}
	}
	return object, nil
}

// Sources are the watches of a controller that drains: requests tells which of its work items a node concerns.
func (e *Engine) Sources(cache ctrlcache.Cache, requests func(ctx context.Context, node string) []reconcile.Request) []source.Source {
	add := func(ctx context.Context, queue watch.Queue, node string) {
		if node != "" {
			queue.Add(watch.Rollout, requests(ctx, node)...)
		}
	}
	budget := func(ctx context.Context, queue watch.Queue, budget *policyv1.PodDisruptionBudget, all bool) {
		for _, node := range e.queue.budgetChanged(client.ObjectKeyFromObject(budget), int(budget.Status.DisruptionsAllowed), disrupted(budget), all) {
			add(ctx, queue, node)
		}
	}
	return []source.Source{
		// A pod arrives on the node, begins to end, or is gone.
		watch.Source(cache, &corev1.Pod{}, watch.Handler[*corev1.Pod]{
			Created: func(ctx context.Context, queue watch.Queue, pod *corev1.Pod, initial bool) {
				if !initial {
					add(ctx, queue, pod.Spec.NodeName)
				}
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *corev1.Pod) {
				if matters(before, after) {
					add(ctx, queue, after.Spec.NodeName)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, pod *corev1.Pod) { add(ctx, queue, pod.Spec.NodeName) },
		}),
		// A budget allows disruptions again, or its numbers change, which the status tells.
		watch.Source(cache, &policyv1.PodDisruptionBudget{}, watch.Handler[*policyv1.PodDisruptionBudget]{
			Updated: func(ctx context.Context, queue watch.Queue, before, after *policyv1.PodDisruptionBudget) {
				if before.Generation != after.Generation || !apiequality.Semantic.DeepEqual(before.Status, after.Status) {
					budget(ctx, queue, after, before.Generation != after.Generation)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, gone *policyv1.PodDisruptionBudget) {
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
		source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			to := watch.NewQueue(queue)
			context.AfterFunc(ctx, e.listen(func(node string) { add(ctx, to, node) }))
			return nil
		}),
	}
}

func disrupted(budget *policyv1.PodDisruptionBudget) func(pod string) bool {
	return func(pod string) bool { _, ok := budget.Status.DisruptedPods[pod]; return ok }
}

// matters tells whether a change of a pod is one that a drain looks at.
func matters(before, after *corev1.Pod) bool {
	return before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName || before.Status.Phase != after.Status.Phase ||
		!before.DeletionTimestamp.Equal(after.DeletionTimestamp) || !slices.Equal(before.Finalizers, after.Finalizers) ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
		!slices.Equal(before.Status.Conditions, after.Status.Conditions)
}
