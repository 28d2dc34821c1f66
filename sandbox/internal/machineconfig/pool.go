package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/test/openshift"
)

// syncPool renders a pool's MachineConfig, sends Nodes to it and writes the pool's status.
func (s *Simulator) syncPool(ctx context.Context, name string) (time.Duration, error) {
	cached := &mcfgv1.MachineConfigPool{}
	if err := s.cache.Get(ctx, types.NamespacedName{Name: name}, cached); err != nil {
		return 0, ignoreNotFound(err)
	}
	pool := s.pools.newest(cached)
	phase, err := s.phase(ctx)
	if err != nil || phase == nil || pool.DeletionTimestamp != nil {
		return 0, err
	}
	pool, renderError, err := s.render(ctx, pool, *phase)
	if err != nil {
		return 0, err
	}
	nodes, conflicts, err := s.membersOf(ctx, pool.Name)
	if err != nil {
		return 0, err
	}
	if nodes, err = s.rollOut(ctx, pool, nodes); err != nil {
		return 0, err
	}
	state := PoolState{Pool: pool, Nodes: nodes, Conflicts: conflicts, RenderError: renderError, Now: s.opts.Clock.Now()}
	return 0, s.writePoolStatus(ctx, pool, state.Status())
}

// phase is how far the cluster's update is; nil when there is no ClusterVersion, or no Phase yet.
func (s *Simulator) phase(ctx context.Context) (*Phase, error) {
	version := &configv1.ClusterVersion{}
	if err := s.cache.Get(ctx, types.NamespacedName{Name: openshift.ClusterVersionName}, version); err != nil {
		return nil, ignoreNotFound(err)
	}
	if version.Annotations[openshift.AnnotationPhase] == "" {
		return nil, nil
	}
	phase, err := PhaseOf(version, s.opts.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("ClusterVersion %s: %w", version.Name, err)
	}
	return &phase, nil
}

// render sees to it that a pool's spec.configuration is what it is to be, also while it is paused. The first error is one of the pool.
func (s *Simulator) render(ctx context.Context, pool *mcfgv1.MachineConfigPool, phase Phase) (now *mcfgv1.MachineConfigPool, wrong, err error) {
	configs, err := s.listConfigs(ctx)
	if err != nil {
		return nil, nil, err
	}
	rendered, wrong := Render(pool, configs, phase.For(pool.Name))
	if wrong != nil {
		return pool, wrong, nil
	}
	sources, wrong := sourcesOf(pool, configs)
	if wrong != nil {
		return pool, wrong, nil
	}
	if err := s.ensureConfig(ctx, rendered); err != nil {
		return nil, nil, err
	}
	target := targetOf(rendered, sources)
	if apiequality.Semantic.DeepEqual(target, pool.Spec.Configuration) {
		return pool, nil, nil
	}
	written, err := patch(ctx, s, pool, nil, map[string]any{"spec": map[string]any{"configuration": target}})
	if err != nil {
		return nil, nil, fmt.Errorf("pool %s: %w", pool.Name, err)
	}
	s.pools.wrote(written)
	s.logf("pool %s: now rendered for %s as %s", pool.Name, phase.For(pool.Name), target.Name)
	return written, nil, nil
}

// ensureConfig makes a MachineConfig that is not there.
func (s *Simulator) ensureConfig(ctx context.Context, config *mcfgv1.MachineConfig) error {
	err := s.cache.Get(ctx, types.NamespacedName{Name: config.Name}, &mcfgv1.MachineConfig{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	if err := s.client.Create(ctx, config.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("MachineConfig %s: %w", config.Name, err)
	}
	return nil
}

// membersOf lists a pool's Nodes, and says which Nodes other custom pools select too.
func (s *Simulator) membersOf(ctx context.Context, pool string) (nodes []*corev1.Node, conflicts []string, err error) {
	pools, err := s.listPools(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := s.listNodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	membership := NewMembership(pools)
	for _, node := range all {
		in, err := membership.Of(node.Labels)
		var conflict *ConflictError
		switch {
		case errors.As(err, &conflict) && conflict.has(pool):
			conflicts = append(conflicts, fmt.Sprintf("node %s is %v", node.Name, conflict))
		case err == nil && in == pool:
			nodes = append(nodes, node)
		}
	}
	return nodes, conflicts, nil
}

// rollOut gives new Nodes their first configuration, sends others to the pool's target as far as it may, and returns the Nodes as they are
// then.
func (s *Simulator) rollOut(ctx context.Context, pool *mcfgv1.MachineConfigPool, nodes []*corev1.Node) ([]*corev1.Node, error) {
	target := pool.Spec.Configuration.Name
	if target == "" {
		return nodes, nil
	}
	changed := map[string]*corev1.Node{}
	for _, node := range nodes {
		if !isManaged(node) && node.DeletionTimestamp == nil {
			changed[node.Name] = firstBoot(pool, node)
		}
	}
	if !pool.Spec.Paused {
		limit, err := MaxUnavailable(pool, len(nodes))
		if err != nil {
			limit = 0 // the error is in the pool's status
		}
		for _, node := range Candidates(target, nodes, limit) {
			sent := node.DeepCopy()
			sent.Annotations[openshift.AnnotationDesiredConfig] = target
			changed[node.Name] = sent
		}
	}
	var group errgroup.Group // one that fails does not stop the others
	group.SetLimit(s.opts.Parallel)
	for _, node := range nodes {
		if after := changed[node.Name]; after != nil {
			group.Go(func() error { return ignoreNotFound(s.writeNode(ctx, node, after)) })
		}
	}
	err := group.Wait()
	for i, node := range nodes {
		if changed[node.Name] != nil {
			nodes[i] = s.nodes.newest(node)
			s.nodeQueue.Add(node.Name)
		}
	}
	return nodes, err
}

// firstBoot is a new Node as its first boot leaves it: with the configuration that the pool's other Nodes have.
func firstBoot(pool *mcfgv1.MachineConfigPool, node *corev1.Node) *corev1.Node {
	config := pool.Status.Configuration.Name
	if config == "" {
		config = pool.Spec.Configuration.Name
	}
	booted := node.DeepCopy()
	if booted.Annotations == nil {
		booted.Annotations = map[string]string{}
	}
	booted.Annotations[openshift.AnnotationCurrentConfig], booted.Annotations[openshift.AnnotationDesiredConfig] = config, config
	booted.Annotations[openshift.AnnotationState] = openshift.StateDone
	booted.Annotations[openshift.AnnotationDesiredDrain] = uncordonRequest(config)
	booted.Annotations[openshift.AnnotationLastAppliedDrain] = uncordonRequest(config)
	return booted
}

// writePoolStatus writes a pool's status if it is another one.
func (s *Simulator) writePoolStatus(ctx context.Context, pool *mcfgv1.MachineConfigPool, status mcfgv1.MachineConfigPoolStatus) error {
	if apiequality.Semantic.DeepEqual(pool.Status, status) {
		return nil
	}
	written := pool.DeepCopy()
	written.Status = status
	if err := s.client.Status().Update(ctx, written); err != nil {
		return fmt.Errorf("the status of pool %s: %w", pool.Name, err)
	}
	s.pools.wrote(written)
	return nil
}
