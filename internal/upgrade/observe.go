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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// errJobsPending is why nothing can be decided about a run yet.
var errJobsPending = errors.New("the cache does not show the Jobs that were last created or deleted for it yet")

// observe reads everything that a run depends on from the cache. The outcome fails while the cache does not show which Jobs the run has.
func (rc *reconciliation) observe(ctx context.Context) (*plan.Run, outcome) {
	pending, err := rc.jobs.Pending(ctx, string(rc.config.UID))
	if pending {
		// An aborted run would leave a Job running that it does not know.
		err = apierrors.NewConflict(resource("mutexrunconfigs"), rc.key.Name, errJobsPending)
	}
	if err != nil {
		return nil, resultOf(err)
	}
	in, err := rc.readInput(ctx)
	if err != nil {
		return nil, resultOf(err)
	}
	out := settled()
	if !in.Ending {
		in.Drains, out = rc.observeDrains(ctx, in.Nodes)
	}
	run := plan.Resolve(in)
	if !run.Wake.IsZero() {
		out.Requeue.In(run.Wake.Sub(rc.now))
	}
	return run, out
}

func resource(name string) schema.GroupResource {
	return v1alpha1.GroupVersion.WithResource(name).GroupResource()
}

func (rc *reconciliation) readInput(ctx context.Context) (*plan.Input, error) {
	var rules v1alpha1.MutexRuleList
	var targets v1alpha1.MutexTargetList
	var jobs batchv1.JobList
	if err := rc.list(ctx, &rules); err != nil {
		return nil, err
	}
	if err := rc.list(ctx, &targets); err != nil {
		return nil, err
	}
	if err := rc.list(ctx, &jobs, client.MatchingLabels{plan.LabelRun: string(rc.config.UID)}); err != nil {
		return nil, err
	}
	mcps, nodes, err := rc.readNodes(ctx)
	if err != nil {
		return nil, err
	}
	version, err := rc.readClusterVersion(ctx)
	if err != nil {
		return nil, err
	}
	return &plan.Input{
		Config: rc.config, Ending: rc.isEnding(), Rules: byKey(rules.Items), Targets: byKey(targets.Items), MCPs: mcps, Nodes: nodes,
		Jobs: byKey(jobs.Items), Version: version, VersionOf: rc.nodeVersions(ctx), Refusal: rc.options.refusal,
		LeaseOf: func(node string) (string, time.Time) {
			other, err := rc.Leases.HeldByOther(ctx, node)
			if err != nil || other == nil {
				return "", time.Time{} // to acquire it shows the error
			}
			return other.Holder, other.Until
		},
		PassedOver: rc.state.passedOver, Now: rc.now,
	}, nil
}

// readNodes reads all MachineConfigPools and Nodes.
func (r *Reconciler) readNodes(ctx context.Context) ([]*mcfgv1.MachineConfigPool, []*corev1.Node, error) {
	var mcps mcfgv1.MachineConfigPoolList
	var nodes corev1.NodeList
	if err := r.list(ctx, &mcps); err != nil {
		return nil, nil, err
	}
	// A Node's MachineConfigPool depends on all of them.
	if err := undecodable.CheckAll(mcps.Items); err != nil {
		return nil, nil, err
	}
	if err := r.list(ctx, &nodes); err != nil {
		return nil, nil, err
	}
	return pointersTo(mcps.Items), pointersTo(nodes.Items), nil
}

func (r *Reconciler) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.Cache.List(ctx, list, options...); err != nil {
		return fmt.Errorf("reading a %T: %w", list, err)
	}
	return nil
}

func pointersTo[T any](items []T) []*T {
	pointers := make([]*T, len(items))
	for i := range items {
		pointers[i] = &items[i]
	}
	return pointers
}

func byKey[T any, P interface {
	*T
	client.Object
}](items []T) map[types.NamespacedName]P {
	objects := make(map[types.NamespacedName]P, len(items))
	for i := range items {
		object := P(&items[i])
		objects[client.ObjectKeyFromObject(object)] = object
	}
	return objects
}

// readClusterVersion returns the ClusterVersion; nil if there is none.
func (rc *reconciliation) readClusterVersion(ctx context.Context) (*configv1.ClusterVersion, error) {
	version := &configv1.ClusterVersion{}
	err := rc.Cache.Get(ctx, types.NamespacedName{Name: plan.ClusterVersion}, version)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ClusterVersion %s: %w", plan.ClusterVersion, err)
	}
	return version, nil
}

// nodeVersions returns the function that returns a node's version. Many nodes have the same rendered MachineConfig, which is read once.
func (rc *reconciliation) nodeVersions(ctx context.Context) func(*corev1.Node) string {
	known := map[string]string{}
	configVersion := func(name string) string {
		version, found := known[name]
		if found {
			return version
		}
		config := machineConfigMetadata()
		if err := rc.Cache.Get(ctx, types.NamespacedName{Name: name}, config); err == nil {
			version = config.Annotations[plan.LabelVersion]
		}
		known[name] = version
		return version
	}
	return func(node *corev1.Node) string { return plan.VersionOf(node, rc.options.NodeVersion, configVersion) }
}

// machineConfigMetadata returns an object for reading the metadata of MachineConfigs.
func machineConfigMetadata() *metav1.PartialObjectMetadata {
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfig"))
	return kind
}
