package stale

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

// The kinds that rules look at.
var (
	machines     = machinev1beta1.GroupVersion.WithResource("machines")
	machineSets  = machinev1beta1.GroupVersion.WithResource("machinesets")
	healthChecks = machinev1beta1.GroupVersion.WithResource("machinehealthchecks")
	nodes        = corev1.SchemeGroupVersion.WithResource("nodes")
	pods         = corev1.SchemeGroupVersion.WithResource("pods")
	leases       = coordinationv1.SchemeGroupVersion.WithResource("leases")
	jobs         = batchv1.SchemeGroupVersion.WithResource("jobs")
	maintenances = medik8s.GroupVersion.WithResource("nodemaintenances")
	kubevirts    = kubevirt.GroupVersion.WithResource("nodemaintenances")
	runs         = mutex.GroupVersion.WithResource("mutexrunconfigs")
	pools        = mcfgv1.GroupVersion.WithResource("machineconfigpools")
	versions     = configv1.GroupVersion.WithResource("clusterversions")
	nodeGroups   = drover.GroupVersion.WithResource("nodegroups")
)

// State is what rules look at, at one moment. The kinds that a rule does not name are empty.
type State struct {
	Machines     []*machinev1beta1.Machine
	Sets         []*machinev1beta1.MachineSet
	Checks       []*machinev1beta1.MachineHealthCheck
	Nodes        []*corev1.Node
	Pods         []*corev1.Pod
	Leases       []*coordinationv1.Lease
	Jobs         []*batchv1.Job
	Maintenances []Maintenance
	Runs         []*mutex.MutexRunConfig
	Pools        []*mcfgv1.MachineConfigPool
	Versions     []*configv1.ClusterVersion
	Groups       []*drover.NodeGroup
}

// Maintenance is a NodeMaintenance of either group.
type Maintenance struct {
	Name, Node string
	UID        types.UID
	// Ending is whether it is being deleted.
	Ending bool
}

// stateOf reads the objects of a moment.
func stateOf(objects Objects) (*State, error) {
	s := &State{}
	if err := s.readMaintenances(objects); err != nil {
		return nil, err
	}
	for kind, into := range map[schema.GroupVersionResource]func([]*unstructured.Unstructured) error{
		machines: read(&s.Machines), machineSets: read(&s.Sets), healthChecks: read(&s.Checks), nodes: read(&s.Nodes), pods: read(&s.Pods),
		leases: read(&s.Leases), jobs: read(&s.Jobs), runs: read(&s.Runs), pools: read(&s.Pools), versions: read(&s.Versions),
		nodeGroups: read(&s.Groups),
	} {
		if err := into(objects[kind]); err != nil {
			return nil, fmt.Errorf("stale: reading %s: %w", kind.GroupResource(), err)
		}
	}
	return s, nil
}

// read makes a function that reads objects of one type.
func read[T any](into *[]*T) func([]*unstructured.Unstructured) error {
	return func(from []*unstructured.Unstructured) error {
		for _, object := range from {
			typed := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
				return err
			}
			*into = append(*into, typed)
		}
		return nil
	}
}

func (s *State) readMaintenances(objects Objects) error {
	for _, kind := range []schema.GroupVersionResource{maintenances, kubevirts} {
		for _, object := range objects[kind] {
			node, _, err := unstructured.NestedString(object.Object, "spec", "nodeName")
			if err != nil {
				return fmt.Errorf("stale: reading NodeMaintenance %s: %w", object.GetName(), err)
			}
			s.Maintenances = append(s.Maintenances, Maintenance{
				Name: object.GetName(), Node: node, UID: object.GetUID(), Ending: object.GetDeletionTimestamp() != nil,
			})
		}
	}
	return nil
}

// find returns the object of a name; nil for none.
func find[T any, P interface {
	*T
	GetNamespace() string
	GetName() string
}](all []P, namespace, name string) P {
	for _, object := range all {
		if object.GetNamespace() == namespace && object.GetName() == name {
			return object
		}
	}
	return nil
}
