package autoscaling

import (
	"context"
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/watch"
)

// Kinds lists what the controller watches.
func Kinds() []client.Object {
	return []client.Object{&v1beta1.MachineAutoscaler{}, &machinev1beta1.MachineSet{}}
}

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		// A MachineAutoscaler is created, changed or deleted. When it goes, the MachineSet may get the bounds of another one.
		watch.Source(cache, &v1beta1.MachineAutoscaler{}, watch.Handler[*v1beta1.MachineAutoscaler]{
			Created: func(_ context.Context, queue watch.Queue, ma *v1beta1.MachineAutoscaler, initial bool) {
				priority := watch.PriorityHigh
				if initial {
					priority = watch.PriorityStartup
				}
				queue.Add(priority, watch.RequestFor(ma))
			},
			Updated: func(_ context.Context, queue watch.Queue, before, after *v1beta1.MachineAutoscaler) {
				if before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
					before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || len(before.Finalizers) != len(after.Finalizers) {
					queue.Add(watch.PriorityHigh, watch.RequestFor(after))
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, ma *v1beta1.MachineAutoscaler) {
				queue.Add(watch.PriorityHigh, watch.RequestFor(ma))
				queue.Add(watch.PriorityNormal, r.targetToAutoscalers(ctx, ma.Namespace, ma.Spec.ScaleTargetRef.Name)...)
			},
		}),
		// A MachineSet that a MachineAutoscaler names appears, goes, or loses its bounds or owner.
		watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
			Created: func(ctx context.Context, queue watch.Queue, set *machinev1beta1.MachineSet, initial bool) {
				if !initial {
					queue.Add(watch.PriorityNormal, r.machineSetToAutoscalers(ctx, set)...)
				}
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
				if before.UID != after.UID || !maps.Equal(before.Annotations, after.Annotations) ||
					!maps.Equal(before.Spec.Template.Spec.Labels, after.Spec.Template.Spec.Labels) {
					queue.Add(watch.PriorityNormal, r.machineSetToAutoscalers(ctx, after)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, set *machinev1beta1.MachineSet) {
				queue.Add(watch.PriorityNormal, r.machineSetToAutoscalers(ctx, set)...)
			},
		}),
	}
}

// machineSetToAutoscalers returns the MachineAutoscalers that name a MachineSet, and the MachineAutoscaler that owns its bounds.
func (r *Reconciler) machineSetToAutoscalers(ctx context.Context, set *machinev1beta1.MachineSet) (requests []reconcile.Request) {
	for _, ma := range r.list(ctx, set.Namespace) {
		if ma.Spec.ScaleTargetRef.Name == set.Name || plan.OwnerOf(&ma) == set.Annotations[machineapi.AutoscalerAnnotation] {
			requests = append(requests, watch.RequestFor(&ma))
		}
	}
	return requests
}

// targetToAutoscalers returns the MachineAutoscalers that name a MachineSet.
func (r *Reconciler) targetToAutoscalers(ctx context.Context, namespace, name string) (requests []reconcile.Request) {
	for _, ma := range r.list(ctx, namespace) {
		if ma.Spec.ScaleTargetRef.Name == name {
			requests = append(requests, watch.RequestFor(&ma))
		}
	}
	return requests
}

func (r *Reconciler) list(ctx context.Context, namespace string) []v1beta1.MachineAutoscaler {
	list := &v1beta1.MachineAutoscalerList{}
	if err := r.cache.List(ctx, list, client.InNamespace(namespace)); err != nil {
		log.FromContext(ctx).Error(err, "cannot list the MachineAutoscalers of a namespace", "namespace", namespace)
	}
	return list.Items
}
