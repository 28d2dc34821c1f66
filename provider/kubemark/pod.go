package kubemark

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The labels of the Pods and Secrets, which OpenShift's actuator had, too.
const (
	LabelMachineName      = "machine.k8s.io/machine-name"
	LabelMachineNamespace = "machine.k8s.io/machine-namespace"
)

// AnnotationMachine on a Pod or Secret holds the UID of the Machine whose it is: one of the same name that was made for another Machine is
// none of its.
const AnnotationMachine = "kubemark.provider.drover.dev/machine-uid"

// LabelHollow is on every Node that is a hollow one. The Pods keep away from it: such a node says that it runs them, and runs nothing.
const LabelHollow = "kubemark.provider.drover.dev/hollow"

// KubeconfigKey is the key of the kubeconfig in a Secret.
const KubeconfigKey = "kubeconfig"

const (
	containerName = "hollow-kubelet"
	folderMount   = "/kubeconfig" // of the Secret
	folderState   = "/tmp"        // the only one that can be written
	nonRootUser   = 65532
)

// metaOf is what is said on all that belongs to a Machine.
func metaOf(machine *machinev1beta1.Machine, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: machine.Name,
		Labels:      map[string]string{LabelMachineName: machine.Name, LabelMachineNamespace: machine.Namespace},
		Annotations: map[string]string{AnnotationMachine: string(machine.UID)},
	}
}

// podOf is the Pod that a Machine becomes. It fits the Pod security standard "restricted": a hollow kubelet mounts and starts nothing, so it
// needs no rights on the machine that it runs on.
func podOf(machine *machinev1beta1.Machine, spec *ProviderSpec, program Program) *corev1.Pod {
	secret := spec.KubeconfigSecret.Name
	if spec.ownSecret() {
		secret = machine.Name
	}
	meta := metaOf(machine, spec.Namespace)
	return &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			ServiceAccountName: spec.ServiceAccountName, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			TerminationGracePeriodSeconds: new(int64(5)),
			NodeSelector:                  spec.NodeSelector, Tolerations: spec.Tolerations, Affinity: realNodes(),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(nonRootUser)), RunAsGroup: new(int64(nonRootUser)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: containerName, Image: program.Image, Command: program.Command, Args: arguments(machine.Name, spec), Resources: spec.Resources,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "kubeconfig", MountPath: folderMount, ReadOnly: true}, {Name: "state", MountPath: folderState},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "kubeconfig", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
					SecretName: secret, Items: []corev1.KeyToPath{{Key: KubeconfigKey, Path: KubeconfigKey}},
				}}},
				// The certificate stays in it when the container starts again.
				{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}

// realNodes keeps the Pod away from hollow nodes.
func realNodes() *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: LabelHollow, Operator: corev1.NodeSelectorOpDoesNotExist}},
		}}},
	}}
}

// arguments are kubemark's flags. The kubelet asks for a certificate of its own with what is in the Secret, so that the API server lets it
// write to its Node and no other.
func arguments(name string, spec *ProviderSpec) []string {
	labels := map[string]string{LabelHollow: "true"}
	maps.Copy(labels, spec.Labels)
	args := []string{
		"--morph=kubelet", "--name=" + name, "--bootstrap-kubeconfig=" + folderMount + "/" + KubeconfigKey,
		"--kubeconfig=" + folderState + "/kubeconfig", "--cert-dir=" + folderState + "/pki",
		// Images are played; otherwise the socket of the real node's runtime would have to be mounted.
		"--use-host-image-service=false", "--kubelet-read-only-port=0", "--node-labels=" + pairs(labels),
	}
	if len(spec.Taints) > 0 {
		taints := make([]string, len(spec.Taints))
		for i := range spec.Taints {
			taints[i] = fmt.Sprintf("%s=%s:%s", spec.Taints[i].Key, spec.Taints[i].Value, spec.Taints[i].Effect)
		}
		args = append(args, "--register-with-taints="+strings.Join(taints, ","))
	}
	capacity := map[string]string{}
	if !spec.NumCores.IsZero() {
		capacity["cpu"] = spec.NumCores.String()
	}
	if !spec.MemoryCapacity.IsZero() {
		capacity["memory"] = spec.MemoryCapacity.String()
	}
	if len(capacity) > 0 {
		args = append(args, "--extended-resources="+pairs(capacity))
	}
	switch {
	case spec.TurnUnhealthyAfter:
		args = append(args, "--turn-unhealthy-after=true", "--healthy-duration="+spec.HealthyDuration.Duration.String())
	case spec.TurnUnhealthyPeriodically:
		args = append(args, "--turn-unhealthy-periodically=true", "--healthy-duration="+spec.HealthyDuration.Duration.String(),
			"--unhealthy-duration="+spec.UnhealthyDuration.Duration.String())
	}
	return args
}

func pairs(values map[string]string) string {
	texts := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, key+"="+values[key])
	}
	return strings.Join(texts, ",")
}
