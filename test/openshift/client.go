package openshift

import (
	"context"
	"errors"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/eventually"
)

// NewClient returns a client without a rate limit for the kinds that the simulators and the pools of the sandbox consist of. It does not use
// discovery.
func NewClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1beta1.Install, mcfgv1.Install, configv1.Install} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("openshift: building the scheme: %w", err)
		}
	}
	// The types have fields that the CRDs of a production cluster do not have; the server would warn about them at each write.
	config = rest.CopyConfig(config)
	config.WarningHandler, config.QPS = rest.NoWarnings{}, -1
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: newMapper()})
	if err != nil {
		return nil, fmt.Errorf("openshift: creating a client: %w", err)
	}
	return c, nil
}

// newMapper returns a static mapper: discovery would fail before the CRDs exist, or its answer would be cached.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for version, kinds := range map[schema.GroupVersion][]string{
		corev1.SchemeGroupVersion: {"Namespace", "Node"}, mcfgv1.GroupVersion: {"MachineConfig", "MachineConfigPool"},
		configv1.GroupVersion: {"ClusterVersion"},
	} {
		for _, kind := range kinds {
			mapper.Add(version.WithKind(kind), meta.RESTScopeRoot)
		}
	}
	for version, kinds := range map[schema.GroupVersion][]string{
		corev1.SchemeGroupVersion: {"ConfigMap", "Pod", "Secret", "ServiceAccount"}, machinev1beta1.GroupVersion: {"Machine", "MachineSet"},
	} {
		for _, kind := range kinds {
			mapper.Add(version.WithKind(kind), meta.RESTScopeNamespace)
		}
	}
	return mapper
}

// AwaitPools waits until every pool has reported its first rendered MachineConfig, and every Node of a pool has one.
func AwaitPools(ctx context.Context, reader client.Reader) error {
	if err := eventually.Until(ctx, 0, 20*time.Millisecond, func() error { return missingConfig(ctx, reader) }); err != nil {
		return fmt.Errorf("openshift: waiting for the first configuration of the pools: %w", err)
	}
	return nil
}

// missingConfig returns an error that names what has no rendered MachineConfig yet, or whose status does not report it.
func missingConfig(ctx context.Context, reader client.Reader) error {
	version, pools, nodes := &configv1.ClusterVersion{}, &mcfgv1.MachineConfigPoolList{}, &corev1.NodeList{}
	err := errors.Join(reader.Get(ctx, client.ObjectKey{Name: ClusterVersionName}, version), reader.List(ctx, pools), reader.List(ctx, nodes))
	if err != nil {
		return err
	}
	if len(version.Status.History) == 0 {
		return errors.New("the ClusterVersion has no history")
	}
	var reported, members int32
	for i := range pools.Items {
		pool := &pools.Items[i]
		if pool.Spec.Configuration.Name == "" || pool.Status.ObservedGeneration != pool.Generation {
			return fmt.Errorf("pool %s has not reported a rendered MachineConfig", pool.Name)
		}
		reported += pool.Status.MachineCount
	}
	for i := range nodes.Items {
		member, err := isMember(&nodes.Items[i], pools.Items)
		switch {
		case err != nil:
			return err
		case !member:
			continue
		case nodes.Items[i].Annotations[AnnotationCurrentConfig] == "":
			return fmt.Errorf("node %s has no rendered MachineConfig", nodes.Items[i].Name)
		}
		members++
	}
	if reported != members {
		return fmt.Errorf("the pools report %d nodes of %d", reported, members)
	}
	return nil
}

// isMember reports whether a Node belongs to a pool. Where several custom pools select it, the machine-config-operator updates it for none of them.
func isMember(node *corev1.Node, pools []mcfgv1.MachineConfigPool) (bool, error) {
	selected, custom := false, 0
	for i := range pools {
		selector, err := metav1.LabelSelectorAsSelector(pools[i].Spec.NodeSelector)
		if err != nil {
			return false, err
		}
		if selector.Empty() || !selector.Matches(labels.Set(node.Labels)) {
			continue
		}
		selected = true
		if pools[i].Name != PoolMaster && pools[i].Name != PoolWorker {
			custom++
		}
	}
	return selected && custom <= 1, nil
}
