package machineconfig

import (
	"context"
	"fmt"
	"maps"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/openshift"
)

// podNode is the name of the index of pods by their Node.
const podNode = "spec.nodeName"

func nodeOfPod(object client.Object) []string {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// stripPod keeps of a pod what a drain asks for.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		DeletionTimestamp: pod.DeletionTimestamp, OwnerReferences: pod.OwnerReferences,
	}
	if mirror, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		kept.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirror}
	}
	return &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: kept, Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}}, nil
}

// stripNode leaves out what is large.
func stripNode(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.ManagedFields = nil
		node.Status = corev1.NodeStatus{Conditions: node.Status.Conditions}
	}
	return object, nil
}

// addPools has every pool looked at.
func (s *Simulator) addPools(ctx context.Context) {
	pools, err := s.listPools(ctx)
	if err != nil {
		return // the first event comes before the cache is complete, and the pools' own events follow
	}
	for _, pool := range pools {
		s.poolQueue.Add(pool.Name)
	}
}

// configChanged adds the pools to their queue, and what waits for the version of a rendered MachineConfig.
func (s *Simulator) configChanged(ctx context.Context) func(before, after client.Object) {
	return func(before, after client.Object) {
		s.addPools(ctx)
		config, _ := after.(*mcfgv1.MachineConfig)
		if before != nil || config == nil || !isRendered(config) {
			return
		}
		s.versionQueue.Add(openshift.ClusterVersionName)
		nodes, err := s.listNodes(ctx)
		if err != nil {
			return
		}
		for _, node := range nodes {
			if node.Annotations[openshift.AnnotationDesiredConfig] == config.Name {
				s.nodeQueue.Add(node.Name)
			}
		}
	}
}

// poolChanged has a pool looked at, and all of them when Nodes may have changed pools.
func (s *Simulator) poolChanged(ctx context.Context) func(before, after client.Object) {
	return func(before, after client.Object) {
		old, _ := before.(*mcfgv1.MachineConfigPool)
		pool, _ := after.(*mcfgv1.MachineConfigPool)
		if pool == nil {
			s.pools.gone(before.GetName())
			s.addPools(ctx)
			s.versionQueue.Add(openshift.ClusterVersionName)
			return
		}
		s.poolQueue.Add(pool.Name)
		if old == nil || !apiequality.Semantic.DeepEqual(old.Spec.NodeSelector, pool.Spec.NodeSelector) {
			s.addPools(ctx)
		}
		s.versionQueue.Add(openshift.ClusterVersionName)
	}
}

// nodeChanged has a Node looked at, and the pools that count it, unless nothing changed but a heartbeat.
func (s *Simulator) nodeChanged(ctx context.Context) func(before, after client.Object) {
	return func(before, after client.Object) {
		old, _ := before.(*corev1.Node)
		node, _ := after.(*corev1.Node)
		if node == nil {
			s.nodes.gone(before.GetName())
			s.addPools(ctx)
			return
		}
		if old != nil && equalForDecisions(old, node) {
			return
		}
		s.nodeQueue.Add(node.Name)
		pools, err := s.listPools(ctx)
		if err != nil {
			return
		}
		membership := NewMembership(pools)
		for _, seen := range []*corev1.Node{old, node} {
			if seen == nil {
				continue
			}
			if pool, err := membership.Of(seen.Labels); err != nil {
				s.addPools(ctx)
			} else if pool != "" {
				s.poolQueue.Add(pool)
			}
		}
	}
}

// equalForDecisions reports whether two versions of a Node are the same for all decisions.
func equalForDecisions(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && a.Spec.Unschedulable == b.Spec.Unschedulable &&
		reportsReady(a) == reportsReady(b) && a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero()
}

// podChanged has the Node of a pod looked at.
func (s *Simulator) podChanged(before, after client.Object) {
	if after == nil {
		s.evictedLock.Lock()
		delete(s.evicted, before.GetUID())
		s.evictedLock.Unlock()
		after = before
	}
	for _, node := range nodeOfPod(after) {
		s.nodeQueue.Add(node)
	}
}

func (s *Simulator) listPools(ctx context.Context) ([]*mcfgv1.MachineConfigPool, error) {
	list := &mcfgv1.MachineConfigPoolList{}
	if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pools: %w", err)
	}
	pools := make([]*mcfgv1.MachineConfigPool, 0, len(list.Items))
	for i := range list.Items {
		pools = append(pools, s.pools.newest(&list.Items[i]))
	}
	return pools, nil
}

func (s *Simulator) listNodes(ctx context.Context) ([]*corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	nodes := make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		nodes = append(nodes, s.nodes.newest(&list.Items[i]))
	}
	return nodes, nil
}

func (s *Simulator) listConfigs(ctx context.Context) ([]*mcfgv1.MachineConfig, error) {
	list := &mcfgv1.MachineConfigList{}
	if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the MachineConfigs: %w", err)
	}
	configs := make([]*mcfgv1.MachineConfig, 0, len(list.Items))
	for i := range list.Items {
		configs = append(configs, &list.Items[i])
	}
	return configs, nil
}
