package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider/kubemark"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// hollowNamespace is the one of config/kubemark.
const hollowNamespace = "kubemark-actuator"

// hostLabel is on the real node of these tests, which the test itself plays.
const hostLabel = "example.com/kubemark-host"

// hollowPool is a pool whose Machines are Pods on the test's node; the test does for them what a kubelet does.
type hollowPool struct {
	*harness.Pool
	running map[string]*cluster.HollowNode
}

// newHollowPool installs the provider's permissions and runs an operator with it.
func newHollowPool(t *testing.T, name string, args ...string) *hollowPool {
	t.Helper()
	w := prepared(t)
	kubectlApply(t, "config/kubemark")
	p := &hollowPool{running: map[string]*cluster.HollowNode{}}
	t.Cleanup(func() {
		for pod := range maps.Clone(p.running) {
			p.end(pod)
		}
	})
	p.Pool = w.MakePool(name, 0, nil)
	p.host()
	args = append([]string{"--controllers=*", harness.WithConfig(t, "machines: {providerOptions: {kubemark: {image: kubemark.invalid}}}"),
		"--providers=kwok,kubemark"}, args...)
	w.Operator(harness.Options{Args: args})
	spec := fmt.Sprintf(`{"apiVersion":%q,"kind":"KubemarkMachineProviderConfig","nodeSelector":{%q:"true"},
		"numCores":4,"memoryCapacity":"16Gi","labels":{"topology.kubernetes.io/zone":"zone-k"},
		"taints":[{"key":"kubemark","value":"true","effect":"NoSchedule"}]}`, kubemark.GroupVersion, hostLabel)
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/providerSpec/value","value":%s},
		{"op":"add","path":"/spec/template/spec/metadata","value":{"labels":{"example.com/team":"blue"}}}]`, spec)
	if err := w.Client.Patch(t.Context(), p.Set(), client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	return p
}

func kubectlApply(t *testing.T, name string) {
	t.Helper()
	folder, err := harness.Folder(name)
	if err != nil {
		t.Fatal(err)
	}
	if output, err := harness.Kubectl(t.Context(), env, nil, "apply", "-k", folder); err != nil {
		t.Fatalf("applying %s: %v\n%s", name, err, output)
	}
}

// host makes the real node.
func (p *hollowPool) host() {
	p.Helper()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("20"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-host", Labels: map[string]string{hostLabel: "true"}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		},
	}
	if err := p.Client.Create(p.Context(), node); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { p.delete(node) })
}

func (p *hollowPool) delete(object client.Object) {
	p.Helper()
	// The test's own context has ended when it is cleaned up.
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	if err := p.Client.Delete(ctx, object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		p.Errorf("deleting %T %s: %v", object, object.GetName(), err)
	}
}

// pods waits until there are so many, each on the test's node, by name.
func (p *hollowPool) pods(count int) []corev1.Pod {
	p.Helper()
	var list corev1.PodList
	p.Eventually(fmt.Sprintf("%d hollow Pods are on the node", count), func() error {
		if err := p.Client.List(p.Context(), &list, client.InNamespace(hollowNamespace), client.HasLabels{kubemark.LabelMachineName}); err != nil {
			return err
		}
		placed := slices.DeleteFunc(slices.Clone(list.Items), func(pod corev1.Pod) bool { return pod.Spec.NodeName != p.Name+"-host" })
		if len(placed) != count || len(list.Items) != count {
			return fmt.Errorf("%d of %d are", len(placed), len(list.Items))
		}
		return nil
	})
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// run does what a kubelet does for a Pod: it brings the Secret to where the Pod mounts it, starts what the Pod says, and reports the address.
func (p *hollowPool) run(pod *corev1.Pod, address string) {
	p.Helper()
	container := pod.Spec.Containers[0]
	if !slices.Equal(container.Command, []string{"/" + cluster.Kubemark}) {
		p.Fatalf("the Pod runs %v", container.Command)
	}
	mounts := map[string]string{}
	for _, mount := range container.VolumeMounts {
		mounts[mount.MountPath] = p.TempDir()
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret := &corev1.Secret{}
		p.Eventually("the Secret of Pod "+pod.Name, func() error {
			return p.Client.Get(p.Context(), types.NamespacedName{Namespace: pod.Namespace, Name: volume.Secret.SecretName}, secret)
		})
		path := filepath.Join(mounts["/kubeconfig"], volume.Secret.Items[0].Path)
		if err := os.WriteFile(path, secret.Data[volume.Secret.Items[0].Key], 0o600); err != nil {
			p.Fatal(err)
		}
	}
	node, err := env.StartHollowNode(cluster.HollowNodeOptions{Args: container.Args, Mounts: mounts})
	if err != nil {
		p.Fatal(err)
	}
	p.running[pod.Name] = node
	now := metav1.Now()
	p.status(pod, &corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: container.Name, Image: container.Image, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	})
}

func (p *hollowPool) status(pod *corev1.Pod, status *corev1.PodStatus) {
	p.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":`+harness.JSON(status)+`}`))
	if err := p.Client.Status().Patch(p.Context(), pod.DeepCopy(), patch); err != nil {
		p.Fatal(err)
	}
}

// end does what a kubelet does for a Pod that has been deleted.
func (p *hollowPool) end(pod string) {
	p.Helper()
	if node := p.running[pod]; node != nil {
		delete(p.running, pod)
		if err := node.Stop(); err != nil {
			p.Error(err)
		}
		if p.Failed() {
			p.Logf("what hollow node %s said:\n%s", pod, node.Log())
		}
	}
	p.delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: hollowNamespace, Name: pod}})
}

// nothing waits until of a Machine nothing is left.
func (p *hollowPool) nothing(machine string) {
	p.Helper()
	p.Gone(machine)
	p.Eventually("Pod and Secret "+machine+" are gone", func() error {
		for _, object := range []client.Object{&corev1.Pod{}, &corev1.Secret{}} {
			err := p.Client.Get(p.Context(), types.NamespacedName{Namespace: hollowNamespace, Name: machine}, object)
			if err == nil {
				return fmt.Errorf("%T %s is there", object, machine)
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

func TestKubemark_MachinesBecomeNodes(t *testing.T) {
	harness.TestAllOnly(t, "it needs the program of hollow nodes")
	p := newHollowPool(t, "hollow")
	p.Scale(2)
	pods := p.pods(2)
	p.status(&pods[0], &corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: pods[0].Spec.Containers[0].Name, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
		},
	}}})
	p.Eventually("the Machine says what its Pod waits for", func() error {
		machine := p.Machine(pods[0].Name)
		if machine.Annotations["machine.openshift.io/instance-state"] == "Pending" &&
			machine.Status.ProviderStatus != nil && strings.Contains(string(machine.Status.ProviderStatus.Raw), "ImagePullBackOff: no such image") {
			return nil
		}
		return fmt.Errorf("it says %s", harness.JSON(machine.Status))
	})
	for i := range pods {
		p.run(&pods[i], fmt.Sprintf("10.99.0.%d", i+1))
	}
	for i, machine := range p.Runs(2) {
		checkHollow(p, &machine, fmt.Sprintf("10.99.0.%d", i+1))
	}
	p.Scale(1)
	p.follow(1)
	p.Scale(0)
	p.follow(0)
	for _, pod := range pods {
		p.nothing(pod.Name)
	}
}

// follow ends the Pods that are being deleted until so many Machines are left.
func (p *hollowPool) follow(count int) {
	p.Helper()
	p.Eventually(fmt.Sprintf("%d Machines are left", count), func() error {
		for name := range maps.Clone(p.running) {
			pod := &corev1.Pod{}
			err := p.Client.Get(p.Context(), types.NamespacedName{Namespace: hollowNamespace, Name: name}, pod)
			if err != nil {
				return err
			}
			if pod.DeletionTimestamp != nil {
				p.end(name)
			}
		}
		_, err := p.Running(count)
		return err
	})
}

func checkHollow(p *hollowPool, machine *machinev1beta1.Machine, address string) {
	p.Helper()
	node := p.Node(machine.Name)
	want := "kubemark://" + machine.Name
	if machine.Spec.ProviderID == nil || *machine.Spec.ProviderID != want || node.Spec.ProviderID != want {
		p.Errorf("machine %s has the providerID %v, its Node %s", machine.Name, machine.Spec.ProviderID, node.Spec.ProviderID)
	}
	// The Node may have been quicker than the provider's next look.
	p.Eventually("the Pod's address on Machine "+machine.Name, func() error {
		list := p.Machine(machine.Name).Status.Addresses
		if len(list) != 1 || list[0] != (corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address}) {
			return fmt.Errorf("it has %v", list)
		}
		return nil
	})
	if got := machine.Labels["machine.openshift.io/zone"]; got != "zone-k" {
		p.Errorf("machine %s is in the zone %q", machine.Name, got)
	}
	info, cpu, memory := node.Status.NodeInfo, node.Status.Capacity.Cpu().String(), node.Status.Capacity.Memory().String()
	if !strings.HasPrefix(info.KubeletVersion, "v1.") || info.ContainerRuntimeVersion != "fakeRuntime://0.1.0" || cpu != "4" || memory != "16Gi" {
		p.Errorf("node %s is %+v with %s CPUs and %s", node.Name, info, cpu, memory)
	}
	if node.Labels[kubemark.LabelHollow] != "true" || node.Labels["topology.kubernetes.io/zone"] != "zone-k" ||
		!slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "kubemark" }) {
		p.Errorf("node %s has the labels %v and the taints %v", node.Name, node.Labels, node.Spec.Taints)
	}
	p.Eventually("the pool's label on Node "+node.Name, func() error {
		if labels := p.Node(node.Name).Labels; labels["example.com/team"] != "blue" {
			return fmt.Errorf("it has %v", labels)
		}
		return nil
	})
	// It has registered as itself, and so can write to no other Node.
	requests, err := env.Audit().Counts(0, func(e *cluster.AuditEvent) bool {
		return e.User == "system:node:"+node.Name && e.Verb == "create" && e.Resource == "nodes" && e.Code == http.StatusCreated
	})
	if err != nil || len(requests) == 0 {
		p.Errorf("node %s was registered by another kubelet: %v", node.Name, err)
	}
}

func TestKubemark_UnhealthyThenLost(t *testing.T) {
	harness.TestAllOnly(t, "it needs the program of hollow nodes")
	p := newHollowPool(t, "hollow-lost", "--machines-instance-check=1s")
	patch := `{"spec":{"template":{"spec":{"providerSpec":{"value":{"turnUnhealthyAfter":true,"healthyDuration":"4s"}}}}}}`
	p.Merge(p.Set(), patch)
	p.Scale(1)
	pod := p.pods(1)[0]
	p.run(&pod, "10.99.1.1")
	p.Runs(1)
	p.Eventually("the Node turns NotReady, and the Machine says so", func() error {
		node := p.Node(pod.Name)
		conditions := harness.JSON(node.Status.Conditions)
		if harness.NodeReady(node) || !strings.Contains(conditions, "asked to be unhealthy") {
			return fmt.Errorf("the conditions are %s", conditions)
		}
		return nil
	})
	condition(p.Pool, pod.Name, "Ready", "NodeNotReady")
	// Without its Pod the Machine has lost its instance permanently.
	p.end(pod.Name)
	condition(p.Pool, pod.Name, "InstanceExists", "InstanceMissing")
	var status kubemark.ProviderStatus
	machine := p.Machine(pod.Name)
	if err := json.Unmarshal(machine.Status.ProviderStatus.Raw, &status); err != nil || status.InstanceState != "Unknown" ||
		*machine.Status.Phase != machinev1beta1.PhaseFailed {
		t.Errorf("%v; machine %s is %s", err, machine.Name, harness.JSON(machine.Status))
	}
	p.Scale(0)
	p.nothing(pod.Name)
}
