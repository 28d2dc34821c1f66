// Package engine carries out what package drain decides: it reads pods and PodDisruptionBudgets from the caches, and evicts the pods of all nodes
// through one Queue.
package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/watch"
)

// Settings configure an Engine.
type Settings struct {
	// RequestsPerSecond bounds the evictions and deletions of pods of all nodes together; Burst is the largest number of them at once.
	RequestsPerSecond float64
	Burst             int
	// Workers is how many requests may be in progress, not counting requests that wait for an admission webhook. Less than one counts as one.
	Workers int
	// Clock returns the time; nil is the real clock.
	Clock clock.WithTicker
}

// Engine drains nodes. All capabilities share one.
type Engine struct {
	pods   Pods
	cache  client.Reader
	live   client.Reader
	writer client.Client
	queue  *Queue
	clock  clock.Clock
	// selectors are the selectors of the budgets, parsed once per generation.
	selectors *selectors

	metrics *Metrics

	// answered has an event when the answer for a pod of a node has changed.
	answered watch.NodeEvents

	mu sync.Mutex
	// emptied is when the pods of a node in drain were first seen to be gone. It starts anew after a restart.
	emptied map[string]time.Time
}

// New returns an Engine that reads from a cache with the index of Index. live reads what is not cached, writer makes the requests.
func New(pods Pods, cache, live client.Reader, writer client.Client, metrics *Metrics, settings Settings) *Engine {
	if settings.Clock == nil {
		settings.Clock = clock.RealClock{}
	}
	limit := rate.Inf
	if settings.RequestsPerSecond > 0 {
		limit = rate.Limit(settings.RequestsPerSecond)
	}
	e := &Engine{
		pods: pods, cache: cache, live: live, writer: writer, clock: settings.Clock, metrics: metrics,
		queue:     newQueue(settings.Clock, rate.NewLimiter(limit, max(settings.Burst, 1)), metrics, max(settings.Workers, 1)),
		selectors: newSelectors(), emptied: map[string]time.Time{},
	}
	e.queue.send, e.queue.assess, e.queue.changed = e.send, e.assess, e.answered.Emit
	return e
}

// Start makes requests until the context ends. The leader runs it.
func (e *Engine) Start(ctx context.Context) error {
	e.queue.run(ctx)
	return nil
}

// Drain queues the evictions that the drain of a node needs now, and returns the state of the drain. since is when the node was cordoned. It is
// called again for each event of Sources, and at the report's Wake.
func (e *Engine) Drain(ctx context.Context, node *corev1.Node, since time.Time, options drain.Options) (drain.Report, error) {
	decision, err := e.decide(ctx, node, since, options)
	if err != nil {
		return drain.Report{}, err
	}
	e.queue.SetTasks(node.Name, decision.Tasks)
	e.metrics.report(node.Name, decision.Report.Remaining)
	return decision.Report, nil
}

// Preview returns the state that Drain would return, and evicts nothing.
func (e *Engine) Preview(ctx context.Context, node *corev1.Node, options drain.Options) (drain.Report, error) {
	decision, err := e.decide(ctx, node, time.Time{}, options)
	return decision.Report, err
}

// Withdraw ends the drain of a node: no pod of it is evicted any more.
func (e *Engine) Withdraw(node string) {
	e.queue.SetTasks(node, nil)
	e.metrics.report(node, nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.emptied, node)
}

// emptySince records whether the pods of a node are gone, and returns since when.
func (e *Engine) emptySince(node string, empty bool, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !empty {
		delete(e.emptied, node)
		return time.Time{}
	}
	since, known := e.emptied[node]
	if !known {
		since = now
		e.emptied[node] = since
	}
	return since
}

func (e *Engine) decide(ctx context.Context, node *corev1.Node, since time.Time, options drain.Options) (drain.Decision, error) {
	pods, err := e.pods.On(ctx, node.Name)
	if err != nil {
		return drain.Decision{}, err
	}
	in := drain.Input{
		Node: node, Pods: pods, Options: options, Since: since, Now: e.clock.Now(), LastAnswer: e.queue.LastAnswer,
		Budgets:         e.budgets(ctx),
		DaemonSetExists: func(key types.NamespacedName) bool { return e.daemonSetExists(ctx, key) },
	}
	decision := drain.Decide(in)
	if !options.Volumes || since.IsZero() {
		return decision, nil
	}
	empty := len(decision.Report.Remaining) == 0
	in.Emptied = e.emptySince(node.Name, empty, in.Now)
	if empty {
		if in.Attached, err = e.attached(ctx, node.Name, pods); err != nil {
			return drain.Decision{}, err
		}
		decision = drain.Decide(in)
	}
	return decision, nil
}

// daemonSetExists reports whether a DaemonSet exists. It does if that cannot be read, so that its pods are not evicted.
func (e *Engine) daemonSetExists(ctx context.Context, key types.NamespacedName) bool {
	return !apierrors.IsNotFound(e.cache.Get(ctx, key, daemonSet()))
}

// assess returns the verdict of the budgets on a task, and whether its pod still exists.
func (e *Engine) assess(ctx context.Context, task drain.Task) (drain.Verdict, bool) {
	pod, err := e.pods.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Name})
	if err != nil || pod == nil || pod.UID != task.UID || pod.DeletionTimestamp != nil && task.Grace == nil {
		return drain.Verdict{}, false
	}
	if task.Grace != nil {
		return drain.Verdict{Outcome: drain.Accepted}, true
	}
	return drain.Assess(pod, e.budgets(ctx)(pod)), true
}

// send evicts or deletes the pod of a task, with its UID as the precondition.
func (e *Engine) send(ctx context.Context, task drain.Task) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: task.Name}}
	conditions := client.Preconditions{UID: &task.UID}
	if task.Grace != nil {
		return e.writer.Delete(ctx, pod, conditions, client.GracePeriodSeconds(*task.Grace))
	}
	return e.writer.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    pod.ObjectMeta,
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &task.UID}},
	})
}

// attached lists the volumes attached to a node, except volumes of pods that remain there.
func (e *Engine) attached(ctx context.Context, node string, remaining []*corev1.Pod) ([]string, error) {
	var list storagev1.VolumeAttachmentList
	if err := e.cache.List(ctx, &list, client.MatchingFields{IndexNode: node}); err != nil {
		return nil, fmt.Errorf("listing the volumes of node %s: %w", node, err)
	}
	used := claims(remaining)
	var names []string
	for i := range list.Items {
		attachment := &list.Items[i]
		name := attachment.Name
		if source := attachment.Spec.Source.PersistentVolumeName; source != nil {
			name = *source
			inUse, err := e.usedBy(ctx, name, used)
			if err != nil {
				return nil, err
			}
			if inUse {
				continue
			}
		}
		names = append(names, name)
	}
	return names, nil
}

// claims returns the PersistentVolumeClaims of pods.
func claims(pods []*corev1.Pod) map[types.NamespacedName]bool {
	used := map[types.NamespacedName]bool{}
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
				used[types.NamespacedName{Namespace: pod.Namespace, Name: claim.ClaimName}] = true
			}
		}
	}
	return used
}

// usedBy reports whether a volume is bound to one of the claims. PersistentVolumes are not cached: it reads from the API server if there are claims.
func (e *Engine) usedBy(ctx context.Context, volume string, used map[types.NamespacedName]bool) (bool, error) {
	if len(used) == 0 {
		return false, nil
	}
	object := &corev1.PersistentVolume{}
	err := e.live.Get(ctx, types.NamespacedName{Name: volume}, object)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading PersistentVolume %s: %w", volume, err)
	case object.Spec.ClaimRef == nil:
		return false, nil
	}
	return used[types.NamespacedName{Namespace: object.Spec.ClaimRef.Namespace, Name: object.Spec.ClaimRef.Name}], nil
}
