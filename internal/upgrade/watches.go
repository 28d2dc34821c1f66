package upgrade

import (
	"context"
	"maps"
	"time"

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

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/internal/watch"
)

// batchPeriod delays events of objects that all runs or targets depend on, so that several of them are one reconciliation.
const batchPeriod = 10 * time.Millisecond

// Own lists the kinds that no other capability reads, so that their caches can stop with this one.
func Own() []client.Object {
	return []client.Object{
		&v1alpha1.MutexRule{}, &v1alpha1.MutexTarget{}, &v1alpha1.MutexRunConfig{}, &mcfgv1.MachineConfigPool{}, &configv1.ClusterVersion{},
		machineConfigMetadata(), &batchv1.Job{},
	}
}

// Kinds lists what the controllers watch.
func Kinds() []client.Object { return append(Own(), &corev1.Node{}, &coordinationv1.Lease{}) }

// Annotations returns the annotations that the caches of these kinds keep, with the size in bytes beyond which a value cannot be valid.
func Annotations() map[string]int {
	return bounded.Annotations(plan.AnnotationNode, plan.AnnotationNodeUID, plan.AnnotationRule, plan.AnnotationVersion, plan.AnnotationAttempt,
		// On a MachineConfig it is an annotation.
		plan.LabelVersion)
}

// requests returns the objects to reconcile after an event.
type requests func(ctx context.Context) []reconcile.Request

// enqueueAll enqueues objects when an object of another kind is created, deleted, or changes in a way that matters; nil is any way.
func enqueueAll[T client.Object](
	r *Reconciler, cache ctrlcache.Cache, kind T, all requests, matters func(before, after T) bool,
) source.Source {
	add := func(ctx context.Context, queue watch.Queue) {
		queue.AddAfter(watch.PriorityNormal, batchPeriod, all(ctx)...)
	}
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

// enqueueSelf enqueues each object of a kind.
func enqueueSelf[T client.Object](cache ctrlcache.Cache, kind T) source.Source {
	return watch.Source(cache, kind, watch.Handler[T]{
		Created: func(_ context.Context, queue watch.Queue, object T, initial bool) {
			priority := watch.PriorityNormal
			if initial {
				priority = watch.PriorityStartup
			}
			queue.Add(priority, requestFor(object))
		},
		Updated: func(_ context.Context, queue watch.Queue, _, after T) {
			queue.Add(watch.PriorityHigh, requestFor(after))
		},
		Deleted: func(_ context.Context, queue watch.Queue, object T) {
			queue.Add(watch.PriorityNormal, requestFor(object))
		},
	})
}

func requestFor(object client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

// sources are the watches of runs, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		enqueueSelf(cache, &v1alpha1.MutexRunConfig{}),
		// An object that a run names is created, deleted or validated.
		enqueueAll(r, cache, &v1alpha1.MutexRule{}, r.allRuns, nil),
		enqueueAll(r, cache, &v1alpha1.MutexTarget{}, r.allRuns, func(before, after *v1alpha1.MutexTarget) bool {
			return before.Generation != after.Generation
		}),
		enqueueAll(r, cache, &mcfgv1.MachineConfigPool{}, r.allRuns, mcpMatters),
		// The desired version changes, or the control plane has it.
		enqueueAll(r, cache, &configv1.ClusterVersion{}, r.allRuns, func(before, after *configv1.ClusterVersion) bool {
			return before.Generation != after.Generation || before.Status.Desired.Version != after.Status.Desired.Version ||
				lastUpdate(before) != lastUpdate(after)
		}),
		enqueueAll(r, cache, machineConfigMetadata(), r.allRuns, func(before, after *metav1.PartialObjectMetadata) bool {
			return before.Annotations[plan.LabelVersion] != after.Annotations[plan.LabelVersion]
		}),
		// A node is upgraded, changes its MachineConfigPool, or becomes available or unavailable. Heartbeats do not matter.
		enqueueAll(r, cache, &corev1.Node{}, r.allRuns, func(before, after *corev1.Node) bool {
			return before.UID != after.UID || plan.Unavailable(before) != plan.Unavailable(after) || !maps.Equal(before.Labels, after.Labels) ||
				!maps.Equal(before.Annotations, after.Annotations)
		}),
		// A Job ends.
		watch.Source(cache, &batchv1.Job{}, watch.Handler[*batchv1.Job]{
			Created: func(ctx context.Context, queue watch.Queue, job *batchv1.Job, _ bool) {
				queue.Add(watch.PriorityNormal, r.runOf(ctx, job)...)
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *batchv1.Job) {
				if plan.IsFinished(before) != plan.IsFinished(after) {
					queue.Add(watch.PriorityHigh, r.runOf(ctx, after)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, job *batchv1.Job) {
				r.versions.Forget(string(job.UID))
				queue.Add(watch.PriorityHigh, r.runOf(ctx, job)...)
			},
		}),
		// The budget of a node's NodeGroup has a place.
		r.Budgets.Source(drover.CapabilityUpgrade, func(ctx context.Context, _ string) []reconcile.Request { return r.allRuns(ctx) }),
		// A node lease is acquired or released.
		enqueueAll(r, cache, &coordinationv1.Lease{}, r.allRuns, func(before, after *coordinationv1.Lease) bool {
			return nodelease.HolderOf(before) != nodelease.HolderOf(after)
		}),
	}
}

func (r *ruleReconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{enqueueSelf(cache, &v1alpha1.MutexRule{})}
}

// sources are the watches of targets: the MachineConfigPools that they name, and the labels that these select Nodes by.
func (r *targetReconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		enqueueSelf(cache, &v1alpha1.MutexTarget{}),
		enqueueAll(r.Reconciler, cache, &mcfgv1.MachineConfigPool{}, r.allTargets, mcpMatters),
		enqueueAll(r.Reconciler, cache, &corev1.Node{}, r.allTargets, func(before, after *corev1.Node) bool {
			return !maps.Equal(before.Labels, after.Labels)
		}),
	}
}

// lastUpdate identifies the newest entry of the history and its state.
func lastUpdate(version *configv1.ClusterVersion) string {
	if len(version.Status.History) == 0 {
		return ""
	}
	return version.Status.History[0].Version + string(version.Status.History[0].State)
}

// mcpMatters ignores the numbers of machines that the machine-config-operator counts.
func mcpMatters(before, after *mcfgv1.MachineConfigPool) bool {
	return before.UID != after.UID || before.Generation != after.Generation ||
		before.Annotations[plan.AnnotationReservation] != after.Annotations[plan.AnnotationReservation]
}

func (r *Reconciler) allRuns(ctx context.Context) []reconcile.Request {
	return r.runsWith(ctx, func(*v1alpha1.MutexRunConfig) bool { return true })
}

// runOf returns the run of a Job.
func (r *Reconciler) runOf(ctx context.Context, job *batchv1.Job) []reconcile.Request {
	return r.runsWith(ctx, func(run *v1alpha1.MutexRunConfig) bool { return run.UID == types.UID(job.Labels[plan.LabelRun]) })
}

func (r *Reconciler) runsWith(ctx context.Context, matches func(*v1alpha1.MutexRunConfig) bool) (found []reconcile.Request) {
	var runs v1alpha1.MutexRunConfigList
	if err := r.Cache.List(ctx, &runs); err != nil {
		log.FromContext(ctx).Error(err, "cannot list MutexRunConfigs")
	}
	for i := range runs.Items {
		if matches(&runs.Items[i]) {
			found = append(found, requestFor(&runs.Items[i]))
		}
	}
	return found
}

func (r *targetReconciler) allTargets(ctx context.Context) (found []reconcile.Request) {
	var targets v1alpha1.MutexTargetList
	if err := r.Cache.List(ctx, &targets); err != nil {
		log.FromContext(ctx).Error(err, "cannot list MutexTargets")
	}
	for i := range targets.Items {
		found = append(found, requestFor(&targets.Items[i]))
	}
	return found
}
