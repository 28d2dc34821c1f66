package kubemark

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	nodefake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/conformance"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

const namespace = "hollow"

// stage is an actuator on an API server in memory, which numbers the Pods and gives tokens, with a clock of its own.
type stage struct {
	*Actuator
	t      *testing.T
	server *fake.Clientset
	clock  *testclock.FakePassiveClock
	tokens []authenticationv1.TokenRequestSpec
}

func newStage(t *testing.T, nodes ...client.Object) *stage {
	t.Helper()
	s := &stage{t: t, server: fake.NewClientset(), clock: testclock.NewFakePassiveClock(start)}
	numbered := 0
	s.server.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		numbered++
		pod := action.(ktesting.CreateAction).GetObject().(*corev1.Pod) //nolint:errcheck,forcetypeassert // the reactor is for no other
		pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("pod-%d", numbered)), metav1.NewTime(s.clock.Now())
		pod.Status.Phase = corev1.PodPending
		return false, nil, nil
	})
	s.server.PrependReactor("create", "serviceaccounts", func(action ktesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "token" {
			return false, nil, nil
		}
		request := action.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenRequest) //nolint:errcheck,forcetypeassert // so it is
		s.tokens = append(s.tokens, request.Spec)
		answer := request.DeepCopy()
		answer.Status.Token = fmt.Sprintf("token-%d", len(s.tokens))
		answer.Status.ExpirationTimestamp = metav1.NewTime(s.clock.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second))
		return true, answer, nil
	})
	config := &rest.Config{Host: "https://api.example.com:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("authority")}}
	s.Actuator = NewActuator(s.server.CoreV1(), nodefake.NewClientBuilder().WithObjects(nodes...).Build(), config,
		Program{Image: "kubemark", Command: []string{"/kubemark"}}, s.clock)
	return s
}

// machine is one with a spec, as JSON without its kind.
func (s *stage) machine(name, spec string) *machinev1beta1.Machine {
	s.t.Helper()
	fields := map[string]any{"apiVersion": GroupVersion.String(), "kind": kindSpec, "image": "kubemark", "namespace": namespace}
	if spec != "" {
		if err := json.Unmarshal([]byte(spec), &fields); err != nil {
			s.t.Fatal(err)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		s.t.Fatal(err)
	}
	machine := conformance.NewMachine(name)
	machine.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: text}
	return machine
}

func (s *stage) made(machine *machinev1beta1.Machine) *provider.Instance {
	s.t.Helper()
	instance, err := s.Create(s.t.Context(), machine)
	if err != nil {
		s.t.Fatal(err)
	}
	return instance
}

func (s *stage) seen(machine *machinev1beta1.Machine) *provider.Instance {
	s.t.Helper()
	instance, err := s.Get(s.t.Context(), machine)
	if err != nil {
		s.t.Fatal(err)
	}
	return instance
}

// podNamed reads a Pod; nil when there is none.
func (s *stage) podNamed(name string) *corev1.Pod {
	s.t.Helper()
	pod, err := s.server.CoreV1().Pods(namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}

func (s *stage) secretNamed(name string) *corev1.Secret {
	s.t.Helper()
	secret, err := s.server.CoreV1().Secrets(namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// becomes has the Pod be as a kubelet says.
func (s *stage) becomes(name string, change func(*corev1.Pod)) {
	s.t.Helper()
	pod := s.podNamed(name)
	change(pod)
	if _, err := s.server.CoreV1().Pods(namespace).UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func running(pod *corev1.Pod) { pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.1.2.3" }

func TestConformance(t *testing.T) {
	s := newStage(t)
	conformance.Run(t, conformance.Subject{
		Actuator: s,
		Machine:  func(_ *testing.T, name string) *machinev1beta1.Machine { return s.machine(name, "") },
		Invalid:  func(_ *testing.T, name string) *machinev1beta1.Machine { return s.machine(name, `{"image":"another"}`) },
		Sized: func(_ *testing.T) *machinev1beta1.Machine {
			return s.machine("sized", `{"numCores":4,"labels":{"example.com/a":"b"},"taints":[{"key":"kubemark","effect":"NoSchedule"}]}`)
		},
		Capacity: &provider.Capacity{
			Resources: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("3840Mi"), corev1.ResourcePods: resource.MustParse("110"),
			},
			Labels: map[string]string{corev1.LabelOSStable: "linux", "example.com/a": "b"},
			Taints: []corev1.Taint{{Key: "kubemark", Effect: corev1.TaintEffectNoSchedule}},
		},
		Lose: func(t *testing.T, machine *machinev1beta1.Machine) {
			if err := s.server.CoreV1().Pods(namespace).Delete(t.Context(), machine.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		Count: func(t *testing.T, machine *machinev1beta1.Machine) int {
			list, err := s.server.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: LabelMachineName + "=" + machine.Name})
			if err != nil {
				t.Fatal(err)
			}
			return len(list.Items)
		},
	})
}

func TestAMachineBecomesAPod(t *testing.T) {
	s := newStage(t)
	machine := s.machine("m", `{"numCores":4,"memoryCapacity":"16Gi","labels":{"example.com/a":"b","topology.kubernetes.io/zone":"z"},
		"taints":[{"key":"kubemark","value":"true","effect":"NoSchedule"}],"resources":{"limits":{"memory":"200Mi"}}}`)
	instance := s.made(machine)
	if instance.ProviderID != "kubemark://m" || instance.State != provider.Pending || instance.LookAgain != time.Second || instance.Zone != "z" ||
		len(instance.Addresses) != 0 {
		t.Errorf("made: %+v", instance)
	}
	pod := s.podNamed("m")
	if pod.Labels[LabelMachineName] != "m" || pod.Labels[LabelMachineNamespace] != machine.Namespace {
		t.Errorf("the labels of its Pod are %v", pod.Labels)
	}
	container := pod.Spec.Containers[0]
	got := strings.Join(append(container.Command, container.Args...), " ")
	want := "/kubemark --morph=kubelet --name=m --bootstrap-kubeconfig=/kubeconfig/kubeconfig --kubeconfig=/tmp/kubeconfig --cert-dir=/tmp/pki " +
		"--use-host-image-service=false --kubelet-read-only-port=0 " +
		"--node-labels=example.com/a=b,kubemark.provider.drover.dev/hollow=true,topology.kubernetes.io/zone=z " +
		"--register-with-taints=kubemark=true:NoSchedule --extended-resources=cpu=4,memory=16Gi"
	if got != want || container.Image != "kubemark" || container.Resources.Limits.Memory().String() != "200Mi" {
		t.Errorf("it runs %s with %v\n%s, want\n%s", container.Image, container.Resources, got, want)
	}
	s.becomes("m", running)
	instance = s.seen(machine)
	if instance.State != provider.Running || instance.LookAgain != 0 || len(instance.Addresses) != 1 || instance.Addresses[0].Address != "10.1.2.3" {
		t.Errorf("it runs, and is %+v", instance)
	}
}

func TestItsSecretIsForItAlone(t *testing.T) {
	s := newStage(t)
	machine := s.machine("m", "")
	s.made(machine)
	pod, secret := s.podNamed("m"), s.secretNamed("m")
	if pod.Spec.ServiceAccountName != "kubemark" || *pod.Spec.AutomountServiceAccountToken || pod.Spec.Volumes[0].Secret.SecretName != "m" {
		t.Errorf("the Pod is %+v", pod.Spec)
	}
	if len(s.tokens) != 1 || s.tokens[0].BoundObjectRef.UID != pod.UID || !metav1.IsControlledBy(secret, pod) ||
		secret.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("the tokens are for %+v, the owners %v", s.tokens, secret.OwnerReferences)
	}
	config, err := clientcmd.Load(secret.Data[KubeconfigKey])
	if err != nil {
		t.Fatal(err)
	}
	cluster := config.Clusters["kubemark"]
	if cluster.Server != "https://api.example.com:6443" || string(cluster.CertificateAuthorityData) != "authority" ||
		config.AuthInfos["kubemark"].Token != "token-1" {
		t.Errorf("the kubeconfig is %+v", config)
	}
	// Drover ended before it made it, or another writer deleted it.
	if err := s.server.CoreV1().Secrets(namespace).Delete(t.Context(), "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if s.seen(machine); s.secretNamed("m") == nil {
		t.Error("it is not made again")
	}
	// A Pod may wait longer than its token lives.
	s.clock.SetTime(start.Add(40 * time.Minute))
	s.seen(machine)
	if len(s.tokens) != 2 {
		t.Errorf("a token that is good has been replaced")
	}
	s.clock.SetTime(start.Add(55 * time.Minute))
	if instance := s.seen(machine); len(s.tokens) != 3 || instance.LookAgain != latest {
		t.Errorf("there were %d tokens, and it is looked at again after %s", len(s.tokens), instance.LookAgain)
	}
	s.becomes("m", running)
	s.clock.SetTime(start.Add(5 * time.Hour))
	if s.seen(machine); len(s.tokens) != 3 {
		t.Error("one that runs has got a new token")
	}
}

func TestAKubeconfigThatIsGiven(t *testing.T) {
	s := newStage(t)
	machine := s.machine("m", `{"kubeconfigSecret":{"name":"mine"}}`)
	s.made(machine)
	s.seen(machine)
	pod := s.podNamed("m")
	if pod.Spec.Volumes[0].Secret.SecretName != "mine" || pod.Spec.ServiceAccountName != "" || s.secretNamed("m") != nil || len(s.tokens) > 0 {
		t.Errorf("the Pod is %+v, with %d tokens", pod.Spec, len(s.tokens))
	}
}

func TestItsEnd(t *testing.T) {
	s := newStage(t)
	machine := s.machine("m", `{"deletionTimeout":"30s"}`)
	s.made(machine)
	s.becomes("m", running)
	machine.DeletionTimestamp = &metav1.Time{Time: start}
	if wait, only := provider.AsRequeueAfter(s.Delete(t.Context(), machine)); !only || wait != 30*time.Second || s.podNamed("m") == nil {
		t.Errorf("again after %s", wait)
	}
	s.clock.SetTime(start.Add(30 * time.Second))
	// A real Pod stays until its kubelet has ended it.
	s.becomes("m", func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: start} })
	if instance := s.seen(machine); instance.State != provider.Terminating || instance.LookAgain != time.Second {
		t.Errorf("it is %+v", instance)
	}
	s.becomes("m", func(pod *corev1.Pod) { pod.DeletionTimestamp = nil })
	if err := s.Delete(t.Context(), machine); err != nil || s.podNamed("m") != nil || s.secretNamed("m") != nil || s.seen(machine) != nil {
		t.Errorf("%v, and there are %v, %v, %v", err, s.podNamed("m"), s.secretNamed("m"), s.seen(machine))
	}
}

// A Machine whose Pod is gone has lost its instance, even if the Secret still exists. A deleted Machine is terminating until its Secret is gone.
func TestALostPodLeavesItsSecret(t *testing.T) {
	s := newStage(t)
	machine := s.machine("m", "")
	s.made(machine)
	if err := s.server.CoreV1().Pods(namespace).Delete(t.Context(), "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if instance := s.seen(machine); instance != nil {
		t.Errorf("it is found: %+v", instance)
	}
	machine.DeletionTimestamp = &metav1.Time{Time: start}
	if instance := s.seen(machine); instance == nil || instance.State != provider.Terminating {
		t.Errorf("its Secret is there, and it is %+v", instance)
	}
	if err := s.Delete(t.Context(), machine); err != nil || s.seen(machine) != nil || s.secretNamed("m") != nil {
		t.Errorf("%v, and its Secret is %v", err, s.secretNamed("m"))
	}
}

// A Machine may be deleted and made anew under its name.
func TestThePodOfAnotherMachine(t *testing.T) {
	s := newStage(t)
	s.made(s.machine("m", ""))
	second := s.machine("m", "")
	second.UID = "another"
	if _, err := s.Create(t.Context(), second); err == nil || !strings.Contains(err.Error(), "not this Machine's") {
		t.Errorf("Create: %v", err)
	}
	second.DeletionTimestamp = &metav1.Time{Time: start}
	if err := s.Delete(t.Context(), second); err != nil || s.podNamed("m") == nil || s.secretNamed("m") == nil {
		t.Errorf("Delete: %v", err)
	}
	// What the first one's Secret is, is none of a Pod's that came after it.
	if err := s.server.CoreV1().Pods(namespace).Delete(t.Context(), "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second.DeletionTimestamp = nil
	if _, err := s.Create(t.Context(), second); err == nil || !strings.Contains(err.Error(), "secret hollow/m is there already") {
		t.Errorf("Create: %v", err)
	}
}

// The namespace of a Machine that has been made may not be changed by its spec: the Pod would be lost.
func TestItIsFoundWhereItWasMade(t *testing.T) {
	s := newStage(t)
	machine := s.machine("m", "")
	machine.Status.ProviderStatus = s.made(machine).Status
	for _, spec := range []string{`{"namespace":"elsewhere"}`, `{"numCores":-1}`} {
		machine.Spec = s.machine("m", spec).Spec
		if s.seen(machine) == nil {
			t.Errorf("%s: it is not found", spec)
		}
	}
}

// A hollow node may not take the name of a node, and with it a certificate: that could be a real one.
func TestANodeHasTheNameAlready(t *testing.T) {
	node := func(name, providerID string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	}
	s := newStage(t, node("real", "aws:///a/i-1"), node("bare", ""), node("left", "kubemark://left"))
	for _, name := range []string{"real", "bare"} {
		_, err := s.Create(t.Context(), s.machine(name, ""))
		if err == nil || !strings.Contains(err.Error(), "node "+name+" is there already") || s.podNamed(name) != nil {
			t.Errorf("%s: %v, and its Pod is %v", name, err, s.podNamed(name))
		}
	}
	s.made(s.machine("left", ""))
}
