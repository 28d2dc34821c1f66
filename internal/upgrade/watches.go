package upgrade

import (
	"context"
	"maps"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/internal/watch"
)

// Own lists the kinds that nobody else reads here, so that their caches can go with the capability.
func Own() []client.Object {
	return []client.Object{
		&v1alpha1.MutexRule{}, &v1alpha1.MutexTarget{}, &v1alpha1.MutexRunConfig{}, &mcfgv1.MachineConfigPool{}, &configv1.ClusterVersion{},
		configMetadata(), &batchv1.Job{},
	}
}

// Kinds lists what the controllers watch.
func Kinds() []client.Object { return append(Own(), &corev1.Node{}, &coordinationv1.Lease{}) }

// listing makes requests for all objects of a kind.
type listing func(ctx context.Context) []reconcile.Request

// on puts all of them into the queue when an object of another kind has changed in a way that matters; nil matters always.
func on[T client.Object](r *Reconciler, cache ctrlcache.Cache, kind T, all listing, matters func(before, after T) bool) source.Source {
	add := func(ctx context.Context, queue watch.Queue) { queue.AddAfter(watch.Rollout, gathering, all(ctx)...) }
	return watch.Source(cache, kind, watch.Handler[T]{
		Created: func(ctx context.Context, queue watch.Queue, _ T, initial bool) {
			if !initial {
				add(ctx, queue)
			}
		},
		Updated: func(ctx context.Context, queue watch.Queue, before, after T) {
			if matters == nil || matters(before, after) {
				add(ctx, queue)
			}
		},
		Deleted: func(ctx context.Context, queue watch.Queue, object T) {
			r.versions.Forget(string(object.GetUID()))
			add(ctx, queue)
		},
	})
}

// themselves puts each object of a kind into the queue.
func themselves[T client.Object](cache ctrlcache.Cache, kind T) source.Source {
	request := func(object client.Object) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	}
	return watch.Source(cache, kind, watch.Handler[T]{
		Created: func(_ context.Context, queue watch.Queue, object T, initial bool) {
			priority := watch.Rollout
			if initial {
				priority = watch.Initial
			}
			queue.Add(priority, request(object))
		},
		Updated: func(_ context.Context, queue watch.Queue, _, after T) { queue.Add(watch.Repair, request(after)) },
		Deleted: func(_ context.Context, queue watch.Queue, object T) { queue.Add(watch.Rollout, request(object)) },
	})
}

// sources are the watches of runs, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		themselves(cache, &v1alpha1.MutexRunConfig{}),
		// What a run names comes, goes, or is found valid.
		on(r, cache, &v1alpha1.MutexRule{}, r.all, nil),
		on(r, cache, &v1alpha1.MutexTarget{}, r.all, func(before, after *v1alpha1.MutexTarget) bool { return before.Generation != after.Generation }),
		on(r, cache, &mcfgv1.MachineConfigPool{}, r.all, poolMatters),
		// Another version is aimed at, or the control plane has it.
		on(r, cache, &configv1.ClusterVersion{}, r.all, func(before, after *configv1.ClusterVersion) bool {
			return before.Generation != after.Generation || before.Status.Desired.Version != after.Status.Desired.Version ||
				newest(before) != newest(after)
		}),
		on(r, cache, configMetadata(), r.all, func(before, after *metav1.PartialObjectMetadata) bool {
			return before.Annotations[plan.LabelVersion] != after.Annotations[plan.LabelVersion]
		}),
		on(r, cache, &corev1.Node{}, r.all, nodeMatters),
		// A Job comes to its end.
		watch.Source(cache, &batchv1.Job{}, watch.Handler[*batchv1.Job]{
			Created: func(_ context.Context, queue watch.Queue, job *batchv1.Job, _ bool) {
				queue.Add(watch.Rollout, r.of(job)...)
			},
			Updated: func(_ context.Context, queue watch.Queue, before, after *batchv1.Job) {
				if plan.Over(before) != plan.Over(after) {
					queue.Add(watch.Repair, r.of(after)...)
				}
			},
			Deleted: func(_ context.Context, queue watch.Queue, job *batchv1.Job) {
				r.versions.Forget(string(job.UID))
				queue.Add(watch.Repair, r.of(job)...)
			},
		}),
		// A lease is given back or taken away.
		on(r, cache, &coordinationv1.Lease{}, r.all, func(before, after *coordinationv1.Lease) bool {
			return nodelease.HolderOf(before) != nodelease.HolderOf(after)
		}),
	}
}

func (r *ruleReconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{themselves(cache, &v1alpha1.MutexRule{})}
}

func (r *targetReconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		themselves(cache, &v1alpha1.MutexTarget{}),
		on(r.Reconciler, cache, &mcfgv1.MachineConfigPool{}, r.all, poolMatters),
		on(r.Reconciler, cache, &corev1.Node{}, r.all, func(before, after *corev1.Node) bool { return !maps.Equal(before.Labels, after.Labels) }),
	}
}

func newest(version *configv1.ClusterVersion) string {
	if len(version.Status.History) == 0 {
		return ""
	}
	return version.Status.History[0].Version + string(version.Status.History[0].State)
}

// poolMatters ignores what the machine-config-operator counts.
func poolMatters(before, after *mcfgv1.MachineConfigPool) bool {
	return before.UID != after.UID || before.Generation != after.Generation ||
		before.Annotations[plan.AnnotationClaim] != after.Annotations[plan.AnnotationClaim]
}

// nodeMatters ignores heartbeats.
func nodeMatters(before, after *corev1.Node) bool {
	return before.UID != after.UID || plan.Unavailable(before) != plan.Unavailable(after) || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations)
}

// all lists the runs.
func (r *Reconciler) all(ctx context.Context) []reconcile.Request {
	list := &v1alpha1.MutexRunConfigList{}
	if err := r.Cache.List(ctx, list); err != nil {
		log.FromContext(ctx).Error(err, "cannot list MutexRunConfigs")
		return nil
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i] = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}
	}
	return requests
}

// all lists the targets.
func (r *targetReconciler) all(ctx context.Context) []reconcile.Request {
	list := &v1alpha1.MutexTargetList{}
	if err := r.Cache.List(ctx, list); err != nil {
		log.FromContext(ctx).Error(err, "cannot list MutexTargets")
		return nil
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i] = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}
	}
	return requests
}

// of is the run that a Job is of, as far as this process knows it.
func (r *Reconciler) of(job *batchv1.Job) []reconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, m := range r.known {
		if m.uid == types.UID(job.Labels[plan.LabelRun]) {
			return []reconcile.Request{{NamespacedName: key}}
		}
	}
	return nil
}
