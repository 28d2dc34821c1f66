package machineconfig

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/test/openshift"
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
	progress, err := s.progress(ctx, phase)
	if err != nil {
		return 0, err
	}
	desired := ""
	if version.Spec.DesiredUpdate != nil {
		desired = version.Spec.DesiredUpdate.Version
	}
	next, wait := phase.Next(desired, progress, now, &s.opts)
	// The status goes first: the pools act on the phase, and what they do comes after the history says so.
	if status := next.Status(version, now); !apiequality.Semantic.DeepEqual(status, version.Status) {
		version.Status = status
		if err := s.client.Status().Update(ctx, version); err != nil {
			return 0, fmt.Errorf("the status of ClusterVersion %s: %w", name, err)
		}
	}
	if text := next.Format(); text != version.Annotations[openshift.AnnotationPhase] {
		annotations := map[string]any{"annotations": map[string]any{openshift.AnnotationPhase: text}}
		if _, err := patch(ctx, s, version, annotations, nil); err != nil {
			return 0, fmt.Errorf("ClusterVersion %s: %w", name, err)
		}
		s.logf("cluster: %s: %s", next.Version, next.Stage)
	}
	return wait, nil
}

// progress looks at the pools. A cluster without the pool master, or with no Node in it, has no masters to wait for.
func (s *Simulator) progress(ctx context.Context, phase Phase) (Progress, error) {
	progress := Progress{Masters: true, Rendered: true}
	pools, err := s.listPools(ctx)
	if err != nil {
		return Progress{}, err
	}
	for _, pool := range pools {
		version, err := s.versionOf(ctx, pool.Spec.Configuration.Name)
		if err != nil {
			return Progress{}, err
		}
		rendered := version == phase.For(pool.Name)
		observed := pool.Status.ObservedGeneration == pool.Generation
		if pool.Name == openshift.PoolMaster {
			progress.Masters = rendered && observed && isTrue(pool, mcfgv1.MachineConfigPoolUpdated)
		}
		impossible := observed && isTrue(pool, mcfgv1.MachineConfigPoolRenderDegraded)
		progress.Rendered = progress.Rendered && (rendered || impossible)
	}
	return progress, nil
}
