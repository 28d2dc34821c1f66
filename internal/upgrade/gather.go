package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// configKind is what is read the metadata of.
var configKind = mcfgv1.GroupVersion.WithKind("MachineConfig")

// gather reads all that a run needs from the caches.
func (p *pass) gather(ctx context.Context) error {
	w := &plan.World{Run: p.run, VersionOf: p.versionOf(ctx), Now: p.now, Refusal: p.options.refusal, Held: func(node string) string {
		held, err := p.Lease.HeldByOther(ctx, node)
		if err != nil || held == nil {
			return "" // taking it will tell
		}
		// That a lease runs out is no event.
		p.later(max(held.Until.Sub(p.now), time.Second))
		return fmt.Sprintf("its lease is held by %q", held.Holder)
	}}
	var err error
	w.Rules, err = byName(ctx, p.Cache, &v1alpha1.MutexRuleList{}, func(l *v1alpha1.MutexRuleList) []v1alpha1.MutexRule { return l.Items })
	if err != nil {
		return err
	}
	w.Targets, err = byName(ctx, p.Cache, &v1alpha1.MutexTargetList{}, func(l *v1alpha1.MutexTargetList) []v1alpha1.MutexTarget { return l.Items })
	if err != nil {
		return err
	}
	if w.Pools, err = listPools(ctx, p.Cache); err != nil {
		return err
	}
	if w.Nodes, err = listNodes(ctx, p.Cache); err != nil {
		return err
	}
	if w.Version, err = p.clusterVersion(ctx); err != nil {
		return err
	}
	if w.Jobs, err = p.jobs(ctx); err != nil {
		return err
	}
	if p.ending() {
		p.scene = plan.SurveyEnding(w)
		return nil
	}
	p.scene = plan.Survey(w)
	if !p.scene.Wake.IsZero() {
		p.later(p.scene.Wake.Sub(p.now))
	}
	return nil
}

// ending reports whether nothing is planned any more, whatever else the spec says: everything is to be restored, or to stay as it is.
func (p *pass) ending() bool {
	return p.run.DeletionTimestamp != nil || p.run.Spec.Abort || p.run.Spec.Suspend || paused.Is(p.run.Annotations) ||
		p.options.refusal(p.run.Namespace) != ""
}

// byName lists a kind.
func byName[L client.ObjectList, T any, P interface {
	*T
	client.Object
}](ctx context.Context, from client.Reader, list L, items func(L) []T, where ...client.ListOption) (map[types.NamespacedName]P, error) {
	if err := from.List(ctx, list, where...); err != nil {
		return nil, fmt.Errorf("listing %T: %w", list, err)
	}
	all := items(list)
	out := make(map[types.NamespacedName]P, len(all))
	for i := range all {
		object := P(&all[i])
		out[client.ObjectKeyFromObject(object)] = object
	}
	return out, nil
}

func listPools(ctx context.Context, from client.Reader) ([]*mcfgv1.MachineConfigPool, error) {
	list := &mcfgv1.MachineConfigPoolList{}
	if err := from.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	pools := make([]*mcfgv1.MachineConfigPool, len(list.Items))
	for i := range list.Items {
		pools[i] = &list.Items[i]
	}
	return pools, nil
}

func listNodes(ctx context.Context, from client.Reader) ([]*corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := from.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	return nodes, nil
}

// clusterVersion reads the one ClusterVersion; nil for none.
func (p *pass) clusterVersion(ctx context.Context) (*configv1.ClusterVersion, error) {
	version := &configv1.ClusterVersion{}
	err := p.Cache.Get(ctx, types.NamespacedName{Name: plan.ClusterVersion}, version)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ClusterVersion %s: %w", plan.ClusterVersion, err)
	}
	return version, nil
}

// versionOf makes the function that tells a node's version. Many nodes have the same rendered MachineConfig.
func (p *pass) versionOf(ctx context.Context) func(*corev1.Node) string {
	known := map[string]string{}
	configOf := func(name string) string {
		version, seen := known[name]
		if seen {
			return version
		}
		config := configMetadata()
		if err := p.Cache.Get(ctx, types.NamespacedName{Name: name}, config); err == nil {
			version = config.Annotations[plan.LabelVersion]
		}
		known[name] = version
		return version
	}
	return func(node *corev1.Node) string { return plan.VersionOf(node, p.options.NodeVersion, configOf) }
}

func configMetadata() *metav1.PartialObjectMetadata {
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(configKind)
	return kind
}

// errJobsPending is why nothing can be decided about a run yet.
var errJobsPending = errors.New("the cache does not show the Jobs that were last created or deleted for it yet")

// jobs reads the run's Jobs. The error is a conflict while the cache does not show what was last created or deleted of them: an abort would
// leave a Job running that it does not know.
func (p *pass) jobs(ctx context.Context) (map[types.NamespacedName]*batchv1.Job, error) {
	pending, err := p.owned.Pending(ctx, string(p.run.UID))
	if err != nil {
		return nil, err
	}
	if pending {
		return nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("mutexrunconfigs").GroupResource(), p.run.Name, errJobsPending)
	}
	return byName(ctx, p.Cache, &batchv1.JobList{}, func(l *batchv1.JobList) []batchv1.Job { return l.Items },
		client.MatchingLabels{plan.LabelRun: string(p.run.UID)})
}
