package kubemark

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ktesting "k8s.io/client-go/testing"

	"github.com/drover-io/drover/provider"
)

func TestWhatIsWrongWithASpec(t *testing.T) {
	s := newStage(t)
	for spec, want := range map[string]string{
		`{"colour":"red"}`:            `unknown field "colour"`,
		`{"deletionTimeout":"-1s"}`:   "deletionTimeout: -1s is negative",
		`{"numCores":-1}`:             "a capacity is not negative",
		`{"memoryCapacity":"much"}`:   "quantities must match",
		`{"turnUnhealthyAfter":true}`: "healthyDuration: how long",
		`{"turnUnhealthyPeriodically":true,"healthyDuration":"5s"}`:      "unhealthyDuration: how long",
		`{"labels":{"a b":"c"}}`:                                         "labels: a b=c: ",
		`{"labels":{"node-role.kubernetes.io/worker":""}}`:               "a kubelet may not give itself that label",
		`{"labels":{"node-restriction.kubernetes.io/a":""}}`:             "a kubelet may not give itself that label",
		`{"taints":[{"key":"a","effect":"Never"}]}`:                      "the effect must be",
		`{"labels":{"node.kubernetes.io/a":"b","kubernetes.io/os":"c"}}`: "",
	} {
		_, err := specOf(s.machine("m", spec))
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || provider.ReasonOf(err, "") != machinev1beta1.InvalidConfigurationMachineError {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
	if _, err := specOf(s.machine(strings.Repeat("m", 64), "")); err == nil || !strings.Contains(err.Error(), "a Node cannot be called") {
		t.Errorf("a long name: %v", err)
	}
	none := s.machine("m", "")
	none.Spec.ProviderSpec.Value = nil
	if _, err := specOf(none); err == nil || !strings.Contains(err.Error(), "it must be a "+kindSpec) {
		t.Errorf("none: %v", err)
	}
}

// What OpenShift's kubemark actuator took is taken.
func TestAnOldManifest(t *testing.T) {
	s := newStage(t)
	machine := s.machine("m", "")
	machine.Spec.ProviderSpec.Value.Raw = []byte(`{"apiVersion":"kubemarkproviderconfig.k8s.io/v1alpha1","kind":"KubemarkMachineProviderConfig",
		"metadata":{"creationTimestamp":null},"image":"kubemark:v1","unhealthyDuration":"5s","healthyDuration":"40s",
		"turnUnhealthyPeriodically":true,"turnUnhealthyAfter":false,"deletionTimeout":"0s"}`)
	spec, err := specOf(machine)
	if err != nil {
		t.Fatal(err)
	}
	pod := podOf(machine, spec, Program{Image: "kubemark:v1", Command: []string{defaultCommand}})
	if args := strings.Join(pod.Spec.Containers[0].Args, " "); pod.Namespace != "kubemark-actuator" ||
		!strings.HasSuffix(args, " --turn-unhealthy-periodically=true --healthy-duration=40s --unhealthy-duration=5s") {
		t.Errorf("in %s it runs %s", pod.Namespace, args)
	}
	spec.TurnUnhealthyAfter = true
	if args := strings.Join(arguments("m", spec), " "); !strings.HasSuffix(args, " --turn-unhealthy-after=true --healthy-duration=40s") {
		t.Errorf("it runs %s", args)
	}
}

func TestHowItIs(t *testing.T) {
	waiting := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
		}}}
	}
	for name, c := range map[string]struct {
		change          func(*corev1.Pod)
		state           provider.InstanceState
		status          corev1.ConditionStatus
		reason, message string
	}{
		"new": {func(*corev1.Pod) {}, "Pending", "Unknown", "MachineCreationPending", ""},
		"unschedulable": {func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: "Unschedulable", Message: "0/3 nodes"}}
		}, "Pending", "Unknown", "MachineCreationPending", "no node for the Pod: Unschedulable: 0/3 nodes"},
		"no image": {waiting, "Pending", "Unknown", "MachineCreationPending", "the container: ImagePullBackOff: no such image"},
		"runs":     {running, "Running", "True", "MachineCreationSucceeded", ""},
		"crashes": {func(pod *corev1.Pod) {
			running(pod)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"},
			}}}
		}, "Running", "False", "MachineCreationFailed", "the container: Error: it ended with code 1"},
		"evicted": {func(pod *corev1.Pod) {
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
		}, "Failed", "False", "MachineCreationFailed", "the Pod: Evicted: low on memory"},
		"unknown": {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodUnknown }, "Unknown", "False", "MachineCreationFailed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			machine := s.machine("m", "")
			s.made(machine)
			s.becomes("m", c.change)
			instance := s.seen(machine)
			var status ProviderStatus
			if err := json.Unmarshal(instance.Status.Raw, &status); err != nil {
				t.Fatal(err)
			}
			want := Condition{Type: "MachineCreation", Status: c.status, Reason: c.reason, Message: c.message}
			if instance.State != c.state || status.InstanceState != c.state || status.InstanceID != "hollow/m" || status.Conditions[0] != want {
				t.Errorf("it is %s, and %+v", instance.State, status)
			}
		})
	}
}

func TestPolicy_Denials(t *testing.T) {
	pods, forbidden := schema.GroupResource{Resource: "pods"}, errors.New("exceeded quota: pods")
	for name, c := range map[string]struct {
		err    error
		reason machinev1beta1.MachineStatusError
		text   string
	}{
		"invalid": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "m", nil), machinev1beta1.InvalidConfigurationMachineError, "creating pod hollow/m",
		},
		"quota":       {apierrors.NewForbidden(pods, "m", forbidden), machinev1beta1.InsufficientResourcesMachineError, "exceeded quota"},
		"permissions": {apierrors.NewForbidden(pods, "m", errors.New("no")), "", "config/kubemark"},
		"timeout":     {apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "create", pods, "m", "", 0, false), "", "creating pod hollow/m"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.server.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			_, err := s.Create(t.Context(), s.machine("m", ""))
			if provider.ReasonOf(err, "") != c.reason || !strings.Contains(err.Error(), c.text) {
				t.Errorf("it is %v", err)
			}
		})
	}
}

// The Pod needs no right that the Pod security standard "restricted" refuses.
func TestThePodHasNoRights(t *testing.T) {
	s := newStage(t)
	s.made(s.machine("m", ""))
	spec := s.podNamed("m").Spec
	context := spec.Containers[0].SecurityContext
	if !*spec.SecurityContext.RunAsNonRoot || *context.AllowPrivilegeEscalation || context.Privileged != nil ||
		len(context.Capabilities.Drop) != 1 || spec.HostNetwork || len(spec.InitContainers) > 0 {
		t.Errorf("it is %+v", spec)
	}
	for _, volume := range spec.Volumes {
		if volume.HostPath != nil {
			t.Errorf("it mounts %s", volume.HostPath.Path)
		}
	}
}

// The author of a Machine does not choose what the Pod runs.
func TestProgram(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		want    string
	}{
		{nil, "machines.providerOptions.kubemark.image: it is missing"},
		{map[string]string{"image": "a", "colour": "red"}, "kubemark.colour: there is no such option"},
		{map[string]string{"image": "kubemark", "command": "/drover-sandbox-node  hollow"}, ""},
	} {
		program, err := programOf(c.options)
		if c.want == "" && err == nil {
			if len(program.Command) != 2 {
				t.Errorf("the command is %q", program.Command)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.options, err, c.want)
		}
	}
	s := newStage(t)
	for spec, want := range map[string]string{
		`{"image":"another"}`:          "value.image: Machines run the image of machines.providerOptions.kubemark.image, which is kubemark",
		`{"command":["sh","-c","id"]}`: "value.command: Machines run the command of",
		`{"image":""}`:                 "",
		`{"command":["/kubemark"]}`:    "",
		`{"image":"kubemark"}`:         "",
	} {
		machine := s.machine(fmt.Sprintf("program-%d", len(s.server.Actions())), spec)
		_, err := s.Create(t.Context(), machine)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			provider.ReasonOf(err, "") != machinev1beta1.InvalidConfigurationMachineError) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}
