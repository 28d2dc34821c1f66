package kubemark

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/provider"
)

// GroupVersion is the API group and version of ProviderSpec and ProviderStatus. OpenShift's kubemark actuator used the same, so its manifests keep
// working.
var GroupVersion = schema.GroupVersion{Group: "kubemarkproviderconfig.k8s.io", Version: "v1alpha1"}

// The names of the two kinds, which are OpenShift's, too.
const (
	kindSpec   = "KubemarkMachineProviderConfig"
	kindStatus = "KubemarkMachineProviderStatus"
)

// The defaults of the fields that OpenShift's actuator did not have are what it did without them.
const (
	defaultNamespace      = "kubemark-actuator"
	defaultServiceAccount = "kubemark"
	defaultCommand        = "/kubemark"
)

// ProviderSpec is spec.providerSpec.value of a Machine that is a hollow node. Every field may be left out.
type ProviderSpec struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata is read and not used: OpenShift's kind has it.
	Metadata metav1.ObjectMeta `json:"metadata,omitzero"`
	// Image is empty or equals the image in the provider's options: the author of a Machine does not choose what the Pod runs.
	Image string `json:"image,omitempty"`
	// TurnUnhealthyAfter has the Node turn NotReady permanently after HealthyDuration.
	TurnUnhealthyAfter bool `json:"turnUnhealthyAfter,omitempty"`
	// TurnUnhealthyPeriodically has it be Ready for HealthyDuration, NotReady for UnhealthyDuration, and so on. Like TurnUnhealthyAfter it
	// needs an image that knows the flags for it: drover-sandbox-node does, Kubernetes' own kubemark does not.
	TurnUnhealthyPeriodically bool `json:"turnUnhealthyPeriodically,omitempty"`
	// HealthyDuration and UnhealthyDuration are the times of the two.
	HealthyDuration   metav1.Duration `json:"healthyDuration,omitzero"`
	UnhealthyDuration metav1.Duration `json:"unhealthyDuration,omitzero"`
	// DeletionTimeout is how long after its Machine was deleted the instance stays at least; zero is not at all.
	DeletionTimeout metav1.Duration `json:"deletionTimeout,omitzero"`
	// NumCores and MemoryCapacity are the Node's capacity; zero is kubemark's default, 1 and 3840Mi.
	NumCores       resource.Quantity `json:"numCores,omitzero"`
	MemoryCapacity resource.Quantity `json:"memoryCapacity,omitzero"`

	// Namespace is where the Pods are; empty is kubemark-actuator.
	Namespace string `json:"namespace,omitempty"`
	// Command is empty or equals the command in the provider's options, for the same reason.
	Command []string `json:"command,omitempty"`
	// Resources are the Pod's own; empty asks for 40m of CPU and 100M of memory.
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// KubeconfigSecret names a Secret in Namespace with a kubeconfig, under that key, of a user who may request the certificate of a
	// kubelet. It is shared by the Machines that name it, and stays. Without it each Machine gets a Secret of its own, which ends with it.
	KubeconfigSecret corev1.LocalObjectReference `json:"kubeconfigSecret,omitzero"`
	// ServiceAccountName is whose token is in the Machine's own Secret: it must be allowed to ask for certificates of kubelets. Empty is
	// kubemark, or the namespace's default where KubeconfigSecret is given.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// NodeSelector and Tolerations say on which real nodes the Pod may run. It never runs on a hollow one.
	NodeSelector map[string]string   `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
	// Labels and Taints are what the Node registers with. The labels for the instance type, the region and the zone are also set on the Machine.
	Labels map[string]string `json:"labels,omitempty"`
	Taints []corev1.Taint    `json:"taints,omitempty"`
}

// ownSecret reports whether the Machine has a Secret of its own.
func (s *ProviderSpec) ownSecret() bool { return s.KubeconfigSecret.Name == "" }

// specOf reads the spec of a Machine, with its defaults. Unknown fields are an error: they are misspelt.
func specOf(machine *machinev1beta1.Machine) (*ProviderSpec, error) {
	spec := &ProviderSpec{}
	value := machine.Spec.ProviderSpec.Value
	if value == nil || len(value.Raw) == 0 {
		return nil, provider.InvalidConfiguration("spec.providerSpec.value: it must be a %s of %s", kindSpec, GroupVersion)
	}
	if err := provider.DecodeSpec(value.Raw, spec); err != nil {
		return nil, err
	}
	spec.complete()
	if problem := spec.problem(); problem != "" {
		return nil, provider.InvalidConfiguration("spec.providerSpec.value.%s", problem)
	}
	// The Node is called like the Machine, and its name becomes a label of it.
	if problems := validation.IsValidLabelValue(machine.Name); len(problems) > 0 {
		return nil, provider.InvalidConfiguration("metadata.name: a Node cannot be called %s: %s", machine.Name, problems[0])
	}
	return spec, nil
}

func (s *ProviderSpec) complete() {
	if s.Namespace == "" {
		s.Namespace = defaultNamespace
	}
	if s.ServiceAccountName == "" && s.ownSecret() {
		s.ServiceAccountName = defaultServiceAccount
	}
	if len(s.Resources.Requests) == 0 && len(s.Resources.Limits) == 0 {
		s.Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("40m"), corev1.ResourceMemory: resource.MustParse("100M"),
		}
	}
}

// problem says what is wrong with the spec, beginning with the field; empty when nothing is.
func (s *ProviderSpec) problem() string {
	for _, field := range []struct {
		name string
		time metav1.Duration
	}{
		{"healthyDuration", s.HealthyDuration}, {"unhealthyDuration", s.UnhealthyDuration}, {"deletionTimeout", s.DeletionTimeout},
	} {
		if field.time.Duration < 0 {
			return fmt.Sprintf("%s: %s is negative", field.name, field.time.Duration)
		}
	}
	if (s.TurnUnhealthyAfter || s.TurnUnhealthyPeriodically) && s.HealthyDuration.Duration < time.Second {
		return "healthyDuration: how long is the Node to be Ready before it turns? Give a second or more"
	}
	if s.TurnUnhealthyPeriodically && !s.TurnUnhealthyAfter && s.UnhealthyDuration.Duration < time.Second {
		return "unhealthyDuration: how long is the Node to be NotReady before it turns back? Give a second or more"
	}
	if s.NumCores.Sign() < 0 || s.MemoryCapacity.Sign() < 0 {
		return "numCores, memoryCapacity: a capacity is not negative"
	}
	return s.registrationProblem()
}

// registrationProblem returns what is wrong with the labels and taints that the Node is to register with: the API server would refuse them,
// and only the kubelet's log would show it.
func (s *ProviderSpec) registrationProblem() string {
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(s.Labels[key])...)
		if len(problems) > 0 {
			return fmt.Sprintf("labels: %s=%s: %s", key, s.Labels[key], problems[0])
		}
		if !kubeletMaySet(key) {
			return fmt.Sprintf("labels: %s: a kubelet may not give itself that label; put it into spec.metadata.labels, and Drover will", key)
		}
	}
	for _, taint := range s.Taints {
		problems := append(validation.IsQualifiedName(taint.Key), validation.IsValidLabelValue(taint.Value)...)
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			problems = append(problems, "the effect must be NoSchedule, PreferNoSchedule or NoExecute")
		}
		if len(problems) > 0 {
			return fmt.Sprintf("taints: %s: %s", taint.ToString(), problems[0])
		}
	}
	return ""
}

// kubeletMaySet reports whether the admission plugin NodeRestriction lets a kubelet register with a label: of Kubernetes' own ones only these.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
func kubeletMaySet(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	if !found {
		return true
	}
	of := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	switch {
	case of("node-restriction.kubernetes.io"):
		return false
	case !of("kubernetes.io") && !of("k8s.io"), of("kubelet.kubernetes.io"), of("node.kubernetes.io"):
		return true
	}
	return slices.Contains([]string{
		corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, corev1.LabelTopologyRegion, corev1.LabelTopologyZone,
		corev1.LabelFailureDomainBetaRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelInstanceType,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}, key)
}
