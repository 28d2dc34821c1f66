package machineconfig

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// syncVersion moves the cluster's update on and writes the status of the ClusterVersion.
func (s *Simulator) syncVersion(ctx context.Context, name string) (time.Duration, error) {
	version := &configv1.ClusterVersion{}
	if err := s.cache.Get(ctx, types.NamespacedName{Name: name}, version); err != nil {
		return 0, ignoreNotFound(err)
	}
	now := s.opts.Clock.Now()
	phase, err := PhaseOf(version, now)
	if err != nil {
		return 0, fmt.Errorf("ClusterVersion %s: %w", name, err)
	}
	updated, err := s.mastersUpdated(ctx, phase)
	if err != nil {
		return 0, err
	}
	desired := ""
	if version.Spec.DesiredUpdate != nil {
		desired = version.Spec.DesiredUpdate.Version
	}
	next, wait := phase.Next(desired, updated, now, &s.opts)
	// The status goes first: the pools act on the phase, and what they do comes after the history says so.
	if status := next.Status(version, now); !apiequality.Semantic.DeepEqual(status, version.Status) {
		version.Status = status
		if err := s.client.Status().Update(ctx, version); err != nil {
			return 0, fmt.Errorf("the status of ClusterVersion %s: %w", name, err)
		}
	}
	if text := next.Format(); text != version.Annotations[AnnotationPhase] {
		annotations := map[string]any{"annotations": map[string]any{AnnotationPhase: text}}
		if _, err := patch(ctx, s, version, annotations, nil); err != nil {
			return 0, fmt.Errorf("ClusterVersion %s: %w", name, err)
		}
		s.logf("cluster: %s: %s", next.Version, next.Stage)
	}
	return wait, nil
}

// mastersUpdated tells whether every Node of the pool master runs its rendered MachineConfig of this phase. A cluster without the pool, or
// with no Node in it, has nothing to wait for.
func (s *Simulator) mastersUpdated(ctx context.Context, phase Phase) (bool, error) {
	pools, err := s.listPools(ctx)
	if err != nil {
		return false, err
	}
	for _, pool := range pools {
		if pool.Name == PoolMaster {
			return s.runs(ctx, pool, phase.Masters)
		}
	}
	return true, nil
}

// runs tells whether every Node of a pool runs its rendered MachineConfig of a version.
func (s *Simulator) runs(ctx context.Context, pool *mcfgv1.MachineConfigPool, version string) (bool, error) {
	target, err := s.versionOf(ctx, pool.Spec.Configuration.Name)
	return target == version && pool.Status.ObservedGeneration == pool.Generation && isTrue(pool, mcfgv1.MachineConfigPoolUpdated), err
}
