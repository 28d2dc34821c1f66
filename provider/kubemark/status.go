package kubemark

import (
	"encoding/json"
	"fmt"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/provider"
)

// Failed is the state of an instance whose Pod has ended permanently, for example because the Pod was evicted.
const Failed provider.InstanceState = "Failed"

// ProviderStatus is status.providerStatus of the Machine.
type ProviderStatus struct {
	metav1.TypeMeta `json:",inline"`
	// InstanceID is the namespace and the name of the Pod.
	InstanceID string `json:"instanceId"`
	// InstanceState is the phase of the Pod, or Terminating.
	InstanceState provider.InstanceState `json:"instanceState"`
	// Conditions has one, MachineCreation.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition says how far the instance is.
type Condition struct {
	// Type is MachineCreation.
	Type string `json:"type"`
	// Status is True when the hollow node runs, False when it does not, Unknown while it starts.
	Status corev1.ConditionStatus `json:"status"`
	// Reason is MachineCreationSucceeded, MachineCreationFailed or MachineCreationPending.
	Reason string `json:"reason"`
	// Message says what is wrong, in the words of the scheduler and of the real node's kubelet; empty when nothing is.
	Message string `json:"message,omitempty"`
}

const conditionCreation = "MachineCreation"

// instanceOf is the instance that a Pod is.
func instanceOf(pod *corev1.Pod, labels map[string]string) (*provider.Instance, error) {
	state := stateOf(pod)
	condition := Condition{Type: conditionCreation, Message: trouble(pod)}
	switch {
	case state == provider.Running && condition.Message == "":
		condition.Status, condition.Reason = corev1.ConditionTrue, "MachineCreationSucceeded"
	case state == provider.Pending:
		condition.Status, condition.Reason = corev1.ConditionUnknown, "MachineCreationPending"
	default:
		condition.Status, condition.Reason = corev1.ConditionFalse, "MachineCreationFailed"
	}
	text, err := json.Marshal(ProviderStatus{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kindStatus},
		InstanceID: pod.Namespace + "/" + pod.Name, InstanceState: state, Conditions: []Condition{condition},
	})
	if err != nil {
		return nil, fmt.Errorf("rendering status.providerStatus: %w", err)
	}
	instance := &provider.Instance{
		ProviderID: ProviderID(pod.Name), State: state, Status: &runtime.RawExtension{Raw: text},
		Type: labels[corev1.LabelInstanceTypeStable], Region: labels[corev1.LabelTopologyRegion], Zone: labels[corev1.LabelTopologyZone],
	}
	if pod.Status.PodIP != "" {
		instance.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: pod.Status.PodIP}}
	}
	return instance, nil
}

// ProviderID is the providerID of the instance in a Pod; the hollow kubelet gives its Node the same.
func ProviderID(pod string) string { return "kubemark://" + pod }

func stateOf(pod *corev1.Pod) provider.InstanceState {
	switch {
	case pod.DeletionTimestamp != nil:
		return provider.Terminating
	case pod.Status.Phase == corev1.PodRunning:
		return provider.Running
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return Failed
	case pod.Status.Phase == corev1.PodUnknown:
		return provider.Unknown
	}
	return provider.Pending
}

// trouble says why a Pod does not run; empty when it does, or when nothing is known.
func trouble(pod *corev1.Pod) string {
	if pod.Status.Reason != "" {
		return sentence("the Pod", pod.Status.Reason, pod.Status.Message)
	}
	for i := range pod.Status.ContainerStatuses {
		state := pod.Status.ContainerStatuses[i].State
		switch {
		case state.Waiting != nil && state.Waiting.Reason != "":
			return sentence("the container", state.Waiting.Reason, state.Waiting.Message)
		case state.Terminated != nil:
			ended := fmt.Sprintf("it ended with code %d", state.Terminated.ExitCode)
			return sentence("the container", state.Terminated.Reason, strings.TrimSpace(ended+" "+state.Terminated.Message))
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return sentence("no node for the Pod", condition.Reason, condition.Message)
		}
	}
	return ""
}

func sentence(what, reason, message string) string {
	return strings.TrimSuffix(what+": "+reason+": "+message, ": ")
}

// place is where the Pod of a Machine is: where it was recorded to be, or else where the spec wants it. Without either it never was.
func place(machine *machinev1beta1.Machine, spec *ProviderSpec) types.NamespacedName {
	at := types.NamespacedName{Name: machine.Name}
	if spec != nil {
		at.Namespace = spec.Namespace
	}
	if machine.Status.ProviderStatus == nil {
		return at
	}
	status := &ProviderStatus{}
	if json.Unmarshal(machine.Status.ProviderStatus.Raw, status) == nil {
		if namespace, _, found := strings.Cut(status.InstanceID, "/"); found && namespace != "" {
			at.Namespace = namespace
		}
	}
	return at
}
