package operator

import (
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/nodelease"
	upgradeplan "github.com/drover-io/drover/internal/upgrade/plan"
)

// newScheme knows the types that Drover reads and writes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1beta1.Install, configv1.Install, mcfgv1.Install, medik8s.AddToScheme, kubevirt.AddToScheme,
		mutex.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// newMapper knows the resources of the kinds that Drover reads and writes. Which of them the server has is the switchboard's question;
// a mapper that asks the server would be asked on every write.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(machinev1beta1.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	mapper.Add(machinev1beta1.GroupVersion.WithKind("MachineSet"), meta.RESTScopeNamespace)
	mapper.Add(machinev1beta1.GroupVersion.WithKind("MachineHealthCheck"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(crdKind, meta.RESTScopeRoot)
	for _, kind := range []string{"PersistentVolume", "Namespace"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"), meta.RESTScopeRoot)
	mapper.Add(medik8s.GroupVersion.WithKind("NodeMaintenance"), meta.RESTScopeRoot)
	mapper.Add(kubevirt.GroupVersion.WithKind("NodeMaintenance"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), meta.RESTScopeNamespace)
	mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	addUpgrade(mapper)
	return mapper
}

// addUpgrade adds what the upgrade gate reads and writes.
func addUpgrade(mapper *meta.DefaultRESTMapper) {
	for _, kind := range []string{"MutexRule", "MutexTarget", "MutexRunConfig"} {
		mapper.Add(mutex.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"MachineConfigPool", "MachineConfig"} {
		mapper.Add(mcfgv1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(configv1.GroupVersion.WithKind("ClusterVersion"), meta.RESTScopeRoot)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
}

// crdKind is what the switchboard watches.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// cacheOptions caches only what is used, so that thousands of Nodes fit. Namespace limits Machines and MachineSets; "" is all. Who makes
// machines reads more of them.
func cacheOptions(namespace string, makesMachines bool) cache.Options {
	var within fields.Selector
	if namespace != "" {
		// This makes the requests those of the namespace, and keeps the cache a plain one: a cache of several namespaces asks on every
		// read whether the kind has namespaces at all.
		within = fields.OneTermEqualSelector("metadata.namespace", namespace)
	}
	node, machine, set := trimNode, trimMachine, trimMachineSet
	if makesMachines {
		node, machine, set = trimNodeOfMachine, shareProviderSpecs(), cache.TransformStripManagedFields()
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		// A pass reads five objects and changes none: copying them would cost more than deciding. Everything that is read from the
		// cache is read-only.
		DefaultUnsafeDisableDeepCopy: new(true),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:                       {Transform: node},
			&machinev1beta1.Machine{}:            {Transform: machine, Field: within},
			&machinev1beta1.MachineSet{}:         {Transform: set, Field: within},
			&machinev1beta1.MachineHealthCheck{}: {Transform: cache.TransformStripManagedFields(), Field: within},
			&corev1.Pod{}:                        {Transform: engine.TrimPod},
			&storagev1.VolumeAttachment{}:        {Transform: engine.TrimAttachment},
			&mcfgv1.MachineConfigPool{}:          {Transform: trimPool},
			// Of all the Jobs of a cluster those alone that a run has made.
			&batchv1.Job{}: {Label: madeByRuns()},
			// The heartbeats of all nodes are leases, too.
			&coordinationv1.Lease{}: {Field: fields.OneTermEqualSelector("metadata.namespace", nodelease.Namespace())},
		},
	}
}

// madeByRuns selects the Jobs of the upgrade gate.
func madeByRuns() labels.Selector {
	requirement, err := labels.NewRequirement(upgradeplan.LabelRun, selection.Exists, nil)
	if err != nil {
		panic(err) // the key is a constant
	}
	return labels.NewSelector().Add(*requirement)
}

// trimPool drops what the machine-config-operator counts.
func trimPool(object any) (any, error) {
	if pool, ok := object.(*mcfgv1.MachineConfigPool); ok {
		pool.ManagedFields = nil
		pool.Status = mcfgv1.MachineConfigPoolStatus{}
		pool.Spec.Configuration = mcfgv1.MachineConfigPoolStatusConfiguration{}
	}
	return object, nil
}

// trimNode drops what no capability reads. The list of images alone is most of a Node.
func trimNode(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.ManagedFields = nil
		node.Status = corev1.NodeStatus{Conditions: trimConditions(node.Status.Conditions)}
	}
	return object, nil
}

// trimNodeOfMachine keeps besides what the machine controllers read: by the addresses a Machine finds its Node, and by the conditions and
// their times its health is judged.
func trimNodeOfMachine(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	node.ManagedFields = nil
	status := corev1.NodeStatus{}
	for _, condition := range node.Status.Conditions {
		status.Conditions = append(status.Conditions, corev1.NodeCondition{
			Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
		})
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			status.Addresses = append(status.Addresses, address)
		}
	}
	node.Status = status
	return node, nil
}

// shareProviderSpecs makes a transform for Machines that keeps one copy of a providerSpec, which thousands of Machines of a pool have in common.
func shareProviderSpecs() toolscache.TransformFunc {
	var mu sync.Mutex
	texts := map[string][]byte{}
	return func(object any) (any, error) {
		machine, ok := object.(*machinev1beta1.Machine)
		if !ok {
			return object, nil
		}
		machine.ManagedFields = nil
		value := machine.Spec.ProviderSpec.Value
		if value == nil || len(value.Raw) == 0 {
			return machine, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if shared, ok := texts[string(value.Raw)]; ok {
			// It is never changed: objects of the cache are read-only.
			value.Raw = shared
			return machine, nil
		}
		if len(texts) == mostProviderSpecs {
			clear(texts)
		}
		texts[string(value.Raw)] = value.Raw
		return machine, nil
	}
}

// mostProviderSpecs is how many different ones are remembered to be shared; a cluster has one for each pool and generation.
const mostProviderSpecs = 256

// trimConditions keeps types and states; times and texts change with every heartbeat.
func trimConditions(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	kept := make([]corev1.NodeCondition, 0, 1)
	for _, condition := range conditions {
		if condition.Type == corev1.NodeReady {
			kept = append(kept, corev1.NodeCondition{Type: condition.Type, Status: condition.Status})
		}
	}
	return kept
}

func trimMachine(object any) (any, error) {
	if machine, ok := object.(*machinev1beta1.Machine); ok {
		machine.ManagedFields = nil
		machine.Spec.ProviderSpec.Value = nil
		machine.Status = machinev1beta1.MachineStatus{
			NodeRef: machine.Status.NodeRef, Phase: machine.Status.Phase, AuthoritativeAPI: machine.Status.AuthoritativeAPI,
		}
	}
	return object, nil
}

func trimMachineSet(object any) (any, error) {
	if set, ok := object.(*machinev1beta1.MachineSet); ok {
		set.ManagedFields = nil
		set.Spec.Template.Spec.ProviderSpec.Value = nil
	}
	return object, nil
}
