package machineconfig

import (
	"context"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/openshift"
)

// syncNode moves a Node on: the part of the original that runs on every Node.
func (s *Simulator) syncNode(ctx context.Context, name string) (time.Duration, error) {
	cached := &corev1.Node{}
	if err := s.cache.Get(ctx, types.NamespacedName{Name: name}, cached); err != nil {
		return 0, ignoreNotFound(err)
	}
	node := s.nodes.newest(cached)
	pods, err := s.podsToEvict(ctx, node)
	if err != nil {
		return 0, err
	}
	version, err := s.versionOf(ctx, node.Annotations[openshift.AnnotationDesiredConfig])
	if err != nil {
		return 0, err
	}
	move := Decide(Observation{Node: node, Pods: len(pods), Version: version, Now: s.opts.Clock.Now()}, &s.opts)
	if err := s.writeNode(ctx, node, move.Node); err != nil {
		return 0, ignoreNotFound(err)
	}
	if move.Ready != nil {
		if err := s.writeReady(ctx, node, *move.Ready); err != nil {
			return 0, ignoreNotFound(err)
		}
	}
	if s.nodes.newest(cached) != node && !move.Evict && move.Wait == 0 {
		// It goes on from what was written, without waiting for the watch.
		s.nodeQueue.Add(name)
		if isDone(move.Node) {
			s.addPools(ctx)
		}
	}
	if move.Evict {
		return s.evict(ctx, pods)
	}
	return move.Wait, nil
}

// versionOf is the version that a rendered MachineConfig is of; empty when it is not known, or not there yet.
func (s *Simulator) versionOf(ctx context.Context, config string) (string, error) {
	if config == "" {
		return "", nil
	}
	found := &mcfgv1.MachineConfig{}
	if err := s.cache.Get(ctx, types.NamespacedName{Name: config}, found); err != nil {
		return "", ignoreNotFound(err)
	}
	return found.Annotations[openshift.VersionKey], nil
}

// podsToEvict lists the pods that a drain of a Node has to see off; it looks only while the Node is being drained.
func (s *Simulator) podsToEvict(ctx context.Context, node *corev1.Node) ([]*corev1.Pod, error) {
	if step, _ := stepOf(node); step != openshift.StepDrain || s.opts.CordonOnly {
		return nil, nil
	}
	list := &corev1.PodList{}
	if err := s.cache.List(ctx, list, client.MatchingFields{podNode: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node.Name, err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if isDrained(&list.Items[i]) {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods, nil
}

// isDrained reports whether a drain evicts a pod: not if its DaemonSet would recreate it at once, and not a mirror pod.
func isDrained(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}

// evict asks for the eviction of pods that are neither terminating nor already evicted. It returns when to ask again for pods whose eviction was
// refused.
func (s *Simulator) evict(ctx context.Context, pods []*corev1.Pod) (time.Duration, error) {
	var again time.Duration
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || s.wasEvicted(pod.UID) {
			continue
		}
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
		}
		target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		switch err := s.client.SubResource("eviction").Create(ctx, target, eviction); {
		case err == nil:
			s.markEvicted(pod.UID)
		case apierrors.IsTooManyRequests(err):
			again = s.opts.EvictionRetry
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// It is gone; the watch reports it.
		default:
			return 0, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return again, nil
}

func (s *Simulator) wasEvicted(uid types.UID) bool {
	s.evictedLock.Lock()
	defer s.evictedLock.Unlock()
	return s.evicted[uid]
}

func (s *Simulator) markEvicted(uid types.UID) {
	s.evictedLock.Lock()
	defer s.evictedLock.Unlock()
	s.evicted[uid] = true
}
