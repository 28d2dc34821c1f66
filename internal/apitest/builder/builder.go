// Package builder returns the objects that tests create, with one function for each kind: for unit tests, for tests on a control plane, and for the
// pools of the sandbox. Options change an object before it is returned. The package imports types only, so that tests of pure packages can use it.
package builder

import (
	"maps"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// MachineSetLabel is the label in the selectors of this package's MachineSets. Its value is the MachineSet's name.
const MachineSetLabel = "machine.openshift.io/cluster-api-machineset"

// leaseSeconds is the duration of node leases, an hour as in the medik8s family.
const leaseSeconds = 3600

// meta returns the metadata of an object. An API server replaces the UID.
func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{}, Annotations: map[string]string{},
	}
}

func changed[T any](object T, options []func(T)) T {
	for _, option := range options {
		option(object)
	}
	return object
}

// Node returns a Node without a status.
func Node(name string, options ...func(*corev1.Node)) *corev1.Node {
	return changed(&corev1.Node{ObjectMeta: meta("", name)}, options)
}

// WithNodeLabels adds labels to a Node.
func WithNodeLabels(labels map[string]string) func(*corev1.Node) {
	return func(node *corev1.Node) { maps.Copy(node.Labels, labels) }
}

// WithProviderID sets the providerID of a Node.
func WithProviderID(id string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Spec.ProviderID = id }
}

// WithReady sets the condition Ready of a Node.
func WithReady(status corev1.ConditionStatus) func(*corev1.Node) {
	return WithReadySince(status, time.Time{})
}

// WithReadySince sets the condition Ready of a Node, and the time of its last transition.
func WithReadySince(status corev1.ConditionStatus, since time.Time) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since)}}
	}
}

// Machine returns a Machine that no MachineSet owns.
func Machine(namespace, name string, options ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	return changed(&machinev1beta1.Machine{ObjectMeta: meta(namespace, name)}, options)
}

// WithOwner makes a Machine one of a MachineSet: with the template's labels and annotations, and an owner reference.
func WithOwner(set *machinev1beta1.MachineSet) func(*machinev1beta1.Machine) {
	return func(machine *machinev1beta1.Machine) {
		maps.Copy(machine.Labels, set.Spec.Template.Labels)
		maps.Copy(machine.Annotations, set.Spec.Template.Annotations)
		machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, machinev1beta1.GroupVersion.WithKind("MachineSet"))}
	}
}

// WithNode sets the Node of a Machine; an empty name leaves the Machine without one.
func WithNode(name string) func(*machinev1beta1.Machine) {
	return func(machine *machinev1beta1.Machine) {
		if name != "" {
			machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name}
		}
	}
}

// WithProviderSpec sets the provider spec of a Machine.
func WithProviderSpec(spec machinev1beta1.ProviderSpec) func(*machinev1beta1.Machine) {
	return func(machine *machinev1beta1.Machine) { machine.Spec.ProviderSpec = spec }
}

// MachineSet returns a MachineSet that selects its Machines by MachineSetLabel.
func MachineSet(namespace, name string, replicas int32, options ...func(*machinev1beta1.MachineSet)) *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{ObjectMeta: meta(namespace, name), Spec: machinev1beta1.MachineSetSpec{Replicas: &replicas}}
	WithSelector(map[string]string{MachineSetLabel: name})(set)
	return changed(set, options)
}

// WithSelector sets the labels in a MachineSet's selector and in its template.
func WithSelector(labels map[string]string) func(*machinev1beta1.MachineSet) {
	return func(set *machinev1beta1.MachineSet) {
		set.Spec.Selector.MatchLabels, set.Spec.Template.Labels = maps.Clone(labels), maps.Clone(labels)
	}
}

// RawProviderSpec returns a provider spec with a value in JSON.
func RawProviderSpec(value string) machinev1beta1.ProviderSpec {
	return machinev1beta1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(value)}}
}

// MachineHealthCheck returns a MachineHealthCheck of the Machines that have some labels. They are unhealthy when their Nodes have not been Ready for
// five minutes.
func MachineHealthCheck(
	namespace, name string, labels map[string]string, options ...func(*machinev1beta1.MachineHealthCheck),
) *machinev1beta1.MachineHealthCheck {
	check := &machinev1beta1.MachineHealthCheck{ObjectMeta: meta(namespace, name)}
	check.Spec.Selector.MatchLabels = labels
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		check.Spec.UnhealthyConditions = append(check.Spec.UnhealthyConditions, machinev1beta1.UnhealthyCondition{
			Type: corev1.NodeReady, Status: status, Timeout: metav1.Duration{Duration: 5 * time.Minute},
		})
	}
	return changed(check, options)
}

// MachineAutoscaler returns a MachineAutoscaler that keeps a MachineSet between 1 and 5 replicas.
func MachineAutoscaler(namespace, name, set string, options ...func(*autoscaling.MachineAutoscaler)) *autoscaling.MachineAutoscaler {
	return changed(&autoscaling.MachineAutoscaler{
		ObjectMeta: meta(namespace, name),
		Spec: autoscaling.MachineAutoscalerSpec{
			MinReplicas: 1, MaxReplicas: 5,
			ScaleTargetRef: autoscaling.CrossVersionObjectReference{APIVersion: machinev1beta1.GroupVersion.String(), Kind: "MachineSet", Name: set},
		},
	}, options)
}

// NodeMaintenance returns a NodeMaintenance of a node.
func NodeMaintenance(name, node string, options ...func(*medik8s.NodeMaintenance)) *medik8s.NodeMaintenance {
	return changed(&medik8s.NodeMaintenance{
		ObjectMeta: meta("", name), Spec: medik8s.NodeMaintenanceSpec{NodeName: node, Reason: "test"},
	}, options)
}

// NodeGroup returns a NodeGroup that selects no Nodes.
func NodeGroup(name string, options ...func(*drover.NodeGroup)) *drover.NodeGroup {
	return changed(&drover.NodeGroup{ObjectMeta: meta("", name)}, options)
}

// WithDisruption limits the disruptions of a NodeGroup's Nodes by the default budget.
func WithDisruption(group *drover.NodeGroup) { group.Spec.Disruption = &drover.Disruption{} }

// MachineConfigPool returns a MachineConfigPool of the Nodes that a selector selects.
func MachineConfigPool(name string, selector *metav1.LabelSelector, options ...func(*mcfgv1.MachineConfigPool)) *mcfgv1.MachineConfigPool {
	return changed(&mcfgv1.MachineConfigPool{ObjectMeta: meta("", name), Spec: mcfgv1.MachineConfigPoolSpec{NodeSelector: selector}}, options)
}

// Pod returns a Pod on a node with one container, and no token: without a kubelet nothing mounts its volume.
func Pod(namespace, name, node string, options ...func(*corev1.Pod)) *corev1.Pod {
	return changed(&corev1.Pod{
		ObjectMeta: meta(namespace, name),
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "workload", Image: "sandbox.invalid/workload"}},
		},
	}, options)
}

// WithRunning has a Pod run and be Ready.
func WithRunning(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
}

// PodDisruptionBudget returns a PodDisruptionBudget for the Pods that have some labels.
func PodDisruptionBudget(
	namespace, name string, labels map[string]string, demand func(*policyv1.PodDisruptionBudgetSpec),
) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta(namespace, name)}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	demand(&budget.Spec)
	return budget
}

// NodeLease returns the lease of a node with a holder that has acquired it at a time.
func NodeLease(namespace, node, holder string, acquired time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(acquired)
	lease := &coordinationv1.Lease{ObjectMeta: meta(namespace, "node-"+node)}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: new(int32(leaseSeconds)), AcquireTime: &at, RenewTime: &at,
	}
	return lease
}
