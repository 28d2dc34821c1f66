package operator

import (
	"maps"
	"sync"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/compact"
	"github.com/drover-io/drover/internal/healthcheck"
	"github.com/drover-io/drover/internal/machine"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineset"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/nodegroup"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/internal/upgrade"
)

// cachedAnnotations are the annotations that Drover reads from its cache. The number is the size in bytes beyond which a value cannot be valid.
// Annotations of Nodes, Pods and MachineConfigPools are not among them: see compact.Node, engine.TrimPod and upgrade.TrimPool.
var cachedAnnotations = allOf(bounded.Annotations(paused.Annotation, paused.ClusterAPIAnnotation),
	map[string]int{undecodable.Annotation: undecodable.MaxValue}, machineapi.Annotations(), machine.Annotations(), machineset.Annotations(),
	healthcheck.Annotations(), metadata.Annotations(), nodegroup.Annotations(), upgrade.Annotations())

func allOf(some ...map[string]int) map[string]int {
	all := map[string]int{}
	for _, limits := range some {
		maps.Copy(all, limits)
	}
	return all
}

// trim makes a transform of the cache from a function that drops what Drover does not read of a kind. Every write that is computed from a cached
// object is a patch of what the write changes, so that what was dropped here stays on the API server.
func trim[T client.Object](drop func(T)) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if known, ok := object.(T); ok {
			known.SetManagedFields(nil)
			drop(known)
		}
		return object, nil
	}
}

// trimMeta drops the labels, and the annotations that Drover does not read. A value that is too long to be valid becomes a short text that is
// not valid either.
func trimMeta[T client.Object](object T) {
	object.SetLabels(nil)
	trimAnnotations(object)
}

// keepAnnotations drops the annotations that Drover does not read, and what a function drops.
func keepAnnotations[T client.Object](drop func(T)) func(T) {
	return func(object T) {
		trimAnnotations(object)
		drop(object)
	}
}

func trimAnnotations(object client.Object) {
	var kept map[string]string
	for key, value := range object.GetAnnotations() {
		limit, read := cachedAnnotations[key]
		if !read {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = bounded.Text(value, limit)
	}
	object.SetAnnotations(kept)
}

// trimNodeOfMachine keeps, beyond what compact.Node keeps, what the machine controllers read: by the addresses a Machine finds its Node, and by the
// conditions and their times its health is judged.
func trimNodeOfMachine(node *corev1.Node) {
	conditions := compact.BoundedConditions(node.Status.Conditions)
	status := corev1.NodeStatus{Conditions: make([]corev1.NodeCondition, len(conditions))}
	for i := range conditions {
		condition := &conditions[i]
		status.Conditions[i] = corev1.NodeCondition{
			Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
		}
	}
	for _, ip := range nodelink.InternalIPs(node.Status.Addresses) {
		status.Addresses = append(status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	node.Status = status
}

// trimMachine is for Drover beside another operator that makes the Machines. Labels stay, since selectors match them.
func trimMachine(machine *machinev1beta1.Machine) {
	trimAnnotations(machine)
	compact.Machine(machine)
	machine.Spec.ProviderSpec.Value = nil
	machine.Status = machinev1beta1.MachineStatus{
		NodeRef: machine.Status.NodeRef, Phase: machine.Status.Phase, AuthoritativeAPI: machine.Status.AuthoritativeAPI,
	}
}

// setAnnotations are the annotations that the cache keeps of MachineSets alone.
var setAnnotations = machineapi.SetAnnotations()

// trimMachineSetMeta drops the annotations of a MachineSet that Drover does not read.
func trimMachineSetMeta(set *machinev1beta1.MachineSet) {
	all := set.Annotations
	trimMeta(set)
	for key, limit := range setAnnotations {
		if value, found := all[key]; found {
			metav1.SetMetaDataAnnotation(&set.ObjectMeta, key, bounded.Text(value, limit))
		}
	}
}

func trimMachineSet(set *machinev1beta1.MachineSet) {
	trimMachineSetMeta(set)
	set.Spec.Template.Spec.ProviderSpec.Value = nil
}

// keepLabels is a transform of MachineSets that keeps their labels, because NodeGroups select MachineSets by labels.
func keepLabels(drop func(*machinev1beta1.MachineSet)) func(*machinev1beta1.MachineSet) {
	return func(set *machinev1beta1.MachineSet) {
		labels := set.Labels
		drop(set)
		set.Labels = labels
	}
}

const (
	// maxSharedProviderSpecs is how many different texts are kept to be shared; a cluster has one for each MachineSet and generation.
	maxSharedProviderSpecs = 256
	// maxSharedProviderSpec is the longest of them, in bytes, so that no tenant can fill the memory with texts that no Machine has any longer.
	maxSharedProviderSpec = 16 << 10
)

// maxOtherAnnotations bounds, in bytes, what the annotations of a Machine that Drover does not read may have together so that they are kept.
const maxOtherAnnotations = 8 << 10

// trimAnnotationsForProvider keeps the annotations that Drover reads, and the others for the provider if they are not large. Tools, not providers,
// read what kubectl apply has recorded.
func trimAnnotationsForProvider(machine *machinev1beta1.Machine) {
	all, size := machine.Annotations, 0
	trimAnnotations(machine)
	for key, value := range all {
		if _, read := cachedAnnotations[key]; !read && key != corev1.LastAppliedConfigAnnotation {
			size += len(key) + len(value)
		}
	}
	if size == 0 || size > maxOtherAnnotations {
		return
	}
	for key, value := range all {
		if _, read := cachedAnnotations[key]; !read && key != corev1.LastAppliedConfigAnnotation {
			metav1.SetMetaDataAnnotation(&machine.ObjectMeta, key, value)
		}
	}
}

// shareProviderSpecs returns a function for Machines that Drover makes, which keeps one copy of a providerSpec that thousands of Machines of a
// MachineSet have in common.
func shareProviderSpecs() func(*machinev1beta1.Machine) {
	var mu sync.Mutex
	texts := map[string][]byte{}
	return func(machine *machinev1beta1.Machine) {
		trimAnnotationsForProvider(machine)
		compact.Machine(machine)
		value := machine.Spec.ProviderSpec.Value
		if value == nil || len(value.Raw) == 0 || len(value.Raw) > maxSharedProviderSpec {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if shared, ok := texts[string(value.Raw)]; ok {
			// It is never changed: objects of the cache are read-only.
			value.Raw = shared
			return
		}
		if len(texts) == maxSharedProviderSpecs {
			clear(texts)
		}
		texts[string(value.Raw)] = value.Raw
	}
}
