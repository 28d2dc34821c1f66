package node

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
	"github.com/drover-io/drover/test/realnode"
)

// values returns the Helm arguments of every install in this package.
func values(more ...string) []string {
	return append([]string{
		"--namespace", harness.SystemNamespace, "--wait", "--timeout", "3m", "--set", "image.repository=" + repository, "--set", "image.tag=" + tag,
		"--set", "image.pullPolicy=Never", "--set", "capabilities.upgrade=true",
	}, more...)
}

// TestRealNodes tests the life of an installation, step by step.
func TestRealNodes(t *testing.T) {
	w := world(t)
	h := helm.New(t, env)
	w.Eventually("the node controller has taken its taints off", func() error {
		for _, name := range []string{first, second} {
			if taints := harness.Taints(w.Node(name)); len(taints) > 0 {
				return fmt.Errorf("node %s has %v", name, taints)
			}
		}
		return nil
	})
	before := states(w)
	kubectl(w, "create", "namespace", harness.SystemNamespace)
	kubectl(w, "label", "namespace", harness.SystemNamespace, "pod-security.kubernetes.io/enforce=restricted")
	h.Run(append([]string{"install", "drover", h.Chart}, values("--set", "capabilities.machines=false")...)...)
	steps := []struct {
		name string
		test func(t *testing.T)
	}{
		{"Pods", testPods},
		{"Leader", testLeader},
		{"Webhook", testWebhook},
		{"Metadata", testMetadata},
		{"Maintenance", testMaintenance},
		{"NodeGroup", testNodeGroup},
		{"Kubemark", func(t *testing.T) {
			inner := helm.New(t, env)
			more := values("--take-ownership", "--set", "capabilities.machines=true", "--set", "kubemark.enabled=true",
				"--set", "kubemark.image="+realnode.KubemarkImage)
			inner.Run(append([]string{"upgrade", "drover", h.Chart}, more...)...)
			testKubemark(t)
		}},
		// From here on the cluster looks like an OpenShift.
		{"Upgrade", testUpgrade},
	}
	for _, step := range steps {
		if !t.Run(step.name, step.test) {
			t.Log(kubectl(w, "logs", "--namespace", harness.SystemNamespace, "--selector", "app.kubernetes.io/name=drover", "--tail=60", "--prefix"))
			t.FailNow()
		}
	}
	said := h.Run("uninstall", "drover", "--namespace", harness.SystemNamespace, "--wait", "--timeout", "2m")
	if !strings.Contains(said, "kept") {
		t.Errorf("it does not say what it leaves behind: %s", said)
	}
	if after := states(w); !maps.Equal(before, after) {
		t.Errorf("the nodes are not as they were:\n%v\nbefore:\n%v", after, before)
	}
	w.Eventually("its Pods go", func() error {
		if pods := droverPods(w); len(pods) > 0 {
			return fmt.Errorf("%d Pods", len(pods))
		}
		return nil
	})
}

// kubectl runs kubectl, which must succeed.
func kubectl(w *harness.World, args ...string) string {
	w.Helper()
	output, err := harness.Kubectl(w.Context(), env, nil, args...)
	if err != nil {
		w.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// states are what Drover may change of the real nodes.
func states(w *harness.World) map[string]string {
	all := map[string]string{}
	for _, name := range []string{first, second} {
		node := w.Node(name)
		annotations := maps.Clone(node.Annotations)
		labels := maps.Clone(node.Labels)
		maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "machineconfig") })
		// docs/install.md says that these stay.
		delete(annotations, "drover.dev/owned-metadata")
		delete(annotations, "managed.openshift.com/customlabels")
		maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "machineconfig") })
		all[name] = fmt.Sprint(labels, annotations, node.Spec.Unschedulable, harness.Taints(node))
	}
	return all
}

func droverPods(w *harness.World) []corev1.Pod {
	w.Helper()
	pods := &corev1.PodList{}
	labels := client.MatchingLabels{"app.kubernetes.io/name": "drover"}
	if err := w.Client.List(w.Context(), pods, client.InNamespace(harness.SystemNamespace), labels); err != nil {
		w.Fatal(err)
	}
	return pods.Items
}

// printed is what a container has printed so far, or, to its end when follow is set.
func printed(ctx context.Context, namespace, pod string, follow bool) (string, error) {
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		return "", err
	}
	stream, err := clients.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: follow}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	return string(text), err
}

// testPods: two Pods run, on both nodes, as an unprivileged user, and their logs can be read.
func testPods(t *testing.T) {
	w := world(t)
	nodes := map[string]bool{}
	for _, pod := range droverPods(w) {
		nodes[pod.Spec.NodeName] = true
		text, err := printed(t.Context(), pod.Namespace, pod.Name, false)
		if err != nil || !strings.Contains(text, "v0.0.0-test") {
			t.Errorf("the log of Pod %s does not have the version: %v\n%.400s", pod.Name, err, text)
		}
	}
	if !nodes[first] || !nodes[second] {
		t.Errorf("its Pods are on %v", slices.Collect(maps.Keys(nodes)))
	}
}

// leader is the Pod that holds the lease of the leader.
func leader(w *harness.World) (string, error) {
	lease := &coordinationv1.Lease{}
	if err := w.Client.Get(w.Context(), types.NamespacedName{Namespace: harness.SystemNamespace, Name: "drover"}, lease); err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", fmt.Errorf("no operator is the leader")
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod, nil
}

// testLeader: if the leader is killed, the other replica takes over.
func testLeader(t *testing.T) {
	w := world(t)
	killed := ""
	w.Eventually("one leads", func() (err error) {
		killed, err = leader(w)
		return err
	})
	kubectl(w, "delete", "pod", "--namespace", harness.SystemNamespace, killed, "--grace-period=0", "--force")
	w.Eventually("another leads", func() error {
		now, err := leader(w)
		if err == nil && now == killed {
			err = fmt.Errorf("Pod %s still leads", now)
		}
		return err
	})
	ready(w)
}

// ready waits until both Pods are.
func ready(w *harness.World) {
	w.Helper()
	w.Eventually("both Pods are ready", func() error {
		count := 0
		pods := droverPods(w)
		for i := range pods {
			for _, condition := range pods[i].Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pods[i].DeletionTimestamp == nil {
					count++
				}
			}
		}
		if count < 2 {
			return fmt.Errorf("%d are", count)
		}
		return nil
	})
}

// testWebhook: the API server asks the Pods whether a NodeMaintenance can be.
func testWebhook(t *testing.T) {
	w := world(t)
	w.Eventually("the webhook answers", func() error {
		output, err := harness.Kubectl(t.Context(), env, strings.NewReader(maintenance("nowhere", "no-such-node")), "create", "-f", "-")
		if err == nil {
			kubectl(w, "delete", "nodemaintenances.nodemaintenance.medik8s.io", "nowhere")
			return fmt.Errorf("a NodeMaintenance of no node is let in")
		}
		if !strings.Contains(output, "no-such-node") {
			return fmt.Errorf("it says %s", output)
		}
		return nil
	})
}

func maintenance(name, node string) string {
	const text = "apiVersion: nodemaintenance.medik8s.io/v1beta1\nkind: NodeMaintenance\nmetadata: {name: %s}\nspec: {nodeName: %s, reason: a test}\n"
	return fmt.Sprintf(text, name, node)
}

// long is how long a test here waits for what a machine does that is busy with many containers.
const long = 4 * time.Minute

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
