package operator

import (
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/compact"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade"
	upgradeplan "github.com/drover-io/drover/internal/upgrade/plan"
)

// newScheme knows the types that Drover reads and writes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1beta1.Install, configv1.Install, mcfgv1.Install, medik8s.AddToScheme, kubevirt.AddToScheme,
		mutex.AddToScheme, drover.AddToScheme, autoscaling.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// newMapper knows the resources of the kinds that Drover reads and writes. The capability manager finds out which of them the server has;
// a mapper that asks the server would be asked on every write.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(scope meta.RESTScope, version schema.GroupVersion, kinds ...string) {
		for _, kind := range kinds {
			mapper.Add(version.WithKind(kind), scope)
		}
	}
	add(meta.RESTScopeRoot, corev1.SchemeGroupVersion, "Node", "PersistentVolume", "Namespace")
	add(meta.RESTScopeRoot, storagev1.SchemeGroupVersion, "VolumeAttachment")
	add(meta.RESTScopeRoot, crdKind.GroupVersion(), crdKind.Kind)
	add(meta.RESTScopeRoot, medik8s.GroupVersion, "NodeMaintenance")
	add(meta.RESTScopeRoot, kubevirt.GroupVersion, "NodeMaintenance")
	add(meta.RESTScopeRoot, mcfgv1.GroupVersion, "MachineConfigPool", "MachineConfig")
	add(meta.RESTScopeRoot, configv1.GroupVersion, "ClusterVersion")
	add(meta.RESTScopeRoot, drover.GroupVersion, "NodeGroup")
	add(meta.RESTScopeNamespace, corev1.SchemeGroupVersion, "Pod", "ConfigMap")
	add(meta.RESTScopeNamespace, appsv1.SchemeGroupVersion, "Deployment", "DaemonSet", "ControllerRevision")
	add(meta.RESTScopeNamespace, batchv1.SchemeGroupVersion, "Job")
	add(meta.RESTScopeNamespace, policyv1.SchemeGroupVersion, "PodDisruptionBudget")
	add(meta.RESTScopeNamespace, coordinationv1.SchemeGroupVersion, "Lease")
	add(meta.RESTScopeNamespace, machinev1beta1.GroupVersion, "Machine", "MachineSet", "MachineHealthCheck")
	add(meta.RESTScopeNamespace, autoscaling.GroupVersion, "MachineAutoscaler")
	add(meta.RESTScopeNamespace, mutex.GroupVersion, "MutexRule", "MutexTarget", "MutexRunConfig")
	return mapper
}

// Kinds whose metadata alone is read. The capability manager watches crdKind.
var (
	crdKind           = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	daemonSetKind     = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	machineConfigKind = mcfgv1.GroupVersion.WithKind("MachineConfig")
)

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// cacheOptions caches only what is used, so that thousands of Nodes fit. Namespace limits Machines and MachineSets; "" is all. Who makes
// machines reads more of them.
func cacheOptions(namespace string, makesMachines bool) cache.Options {
	var within fields.Selector
	if namespace != "" {
		// This limits the requests to the namespace, and keeps the cache a plain one: a cache of several namespaces asks on every read whether the kind has
		// namespaces at all.
		within = fields.OneTermEqualSelector("metadata.namespace", namespace)
	}
	trimNodes, trimMachines, trimSets := trim(compact.Node), trim(trimMachine), trim(keepLabels(trimMachineSet))
	if makesMachines {
		trimNodes, trimMachines, trimSets = trim(trimNodeOfMachine), trim(shareProviderSpecs()), trim(keepLabels(trimMachineSetMeta))
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		// A pass reads five objects and changes none: copying them would cost more than deciding. Everything that is read from the
		// cache is read-only.
		DefaultUnsafeDisableDeepCopy: new(true),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:                       {Transform: trimNodes},
			&machinev1beta1.Machine{}:            {Transform: trimMachines, Field: within},
			&machinev1beta1.MachineSet{}:         {Transform: trimSets, Field: within},
			&machinev1beta1.MachineHealthCheck{}: {Transform: trim(trimMeta[*machinev1beta1.MachineHealthCheck]), Field: within},
			&autoscaling.MachineAutoscaler{}:     {Transform: trim(trimMeta[*autoscaling.MachineAutoscaler]), Field: within},
			&corev1.Pod{}:                        {Transform: engine.TrimPod},
			&policyv1.PodDisruptionBudget{}:      {Transform: trim(drain.TrimBudget)},
			&storagev1.VolumeAttachment{}:        {Transform: engine.TrimAttachment},
			metadataOf(daemonSetKind):            {Transform: trim(trimMeta[*metav1.PartialObjectMetadata])},
			metadataOf(crdKind):                  {Transform: trim(trimMeta[*metav1.PartialObjectMetadata])},
			metadataOf(machineConfigKind):        {Transform: trim(trimMeta[*metav1.PartialObjectMetadata])},
			&medik8s.NodeMaintenance{}:           {Transform: trim(trimMeta[*medik8s.NodeMaintenance])},
			&kubevirt.NodeMaintenance{}:          {Transform: trim(trimMeta[*kubevirt.NodeMaintenance])},
			&drover.NodeGroup{}:                  {Transform: trim(trimMeta[*drover.NodeGroup])},
			&mutex.MutexRule{}:                   {Transform: trim(trimMeta[*mutex.MutexRule])},
			&mutex.MutexTarget{}:                 {Transform: trim(trimMeta[*mutex.MutexTarget])},
			&mutex.MutexRunConfig{}:              {Transform: trim(trimMeta[*mutex.MutexRunConfig])},
			&mcfgv1.MachineConfigPool{}:          {Transform: trim(upgrade.TrimPool)},
			&configv1.ClusterVersion{}:           {Transform: trim(keepAnnotations(upgrade.TrimClusterVersion))},
			// Of all the Jobs of a cluster those alone that a run has made.
			&batchv1.Job{}: {Label: madeByRuns(), Transform: trim(keepAnnotations(upgrade.TrimJob))},
			// The heartbeats of all nodes are leases, too. A lease is updated as a whole, so nothing of it that others write may be dropped.
			&coordinationv1.Lease{}: {
				Field: fields.OneTermEqualSelector("metadata.namespace", nodelease.Namespace()), Transform: cache.TransformStripManagedFields(),
			},
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
