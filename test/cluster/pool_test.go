package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/test/cluster"
)

// read reads an object of machine.openshift.io/v1beta1.
func read[T any](t *testing.T, resource, name string) *T {
	t.Helper()
	client, err := dynamic.NewForConfig(env.Admin())
	if err != nil {
		t.Fatal(err)
	}
	object, err := client.Resource(machinev1beta1.GroupVersion.WithResource(resource)).
		Namespace(cluster.MachineNamespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return convert[T](t, object)
}

func convert[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		t.Fatal(err)
	}
	return typed
}

// createPool makes a pool that the test deletes at its end, and returns what was logged.
func createPool(t *testing.T, opts cluster.PoolOptions) string {
	t.Helper()
	var log bytes.Buffer
	opts.Log = &log
	if err := cluster.CreatePool(t.Context(), env.Admin(), opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := cluster.DeletePool(context.Background(), env.Admin(), opts)
		if err != nil && !strings.Contains(err.Error(), "there is no pool") {
			t.Error(err)
		}
	})
	return log.String()
}

func poolNodes(t *testing.T, pool string) []corev1.Node {
	t.Helper()
	list, err := clientFor(t, env.Admin(), nil).CoreV1().Nodes().List(t.Context(),
		metav1.ListOptions{LabelSelector: cluster.PoolLabel + "=" + pool})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestPool_MachinesLinkedToNodes(t *testing.T) {
	taint := corev1.Taint{Key: "drover.dev/test", Value: "1", Effect: corev1.TaintEffectPreferNoSchedule}
	log := createPool(t, cluster.PoolOptions{
		Name: "linked", Machines: 20, Labels: map[string]string{"tier": "gold"},
		Annotations: map[string]string{"note": "x"}, Taints: []corev1.Taint{taint},
		NodeLabels: map[string]string{"foreign": "yes"},
	})
	if !strings.Contains(log, "pool linked: 20 machines with their nodes in ") {
		t.Errorf("the log is %q", log)
	}
	set := read[machinev1beta1.MachineSet](t, "machinesets", "linked")
	if *set.Spec.Replicas != 20 || set.Status.Replicas != 20 || set.Status.ReadyReplicas != 20 ||
		set.Status.ObservedGeneration != set.Generation {
		t.Errorf("machine set has %d replicas, generation %d and status %+v", *set.Spec.Replicas, set.Generation, set.Status)
	}
	nodes := poolNodes(t, "linked")
	if len(nodes) != 20 {
		t.Fatalf("%d nodes, want 20", len(nodes))
	}
	addresses := map[string]bool{}
	for _, node := range nodes {
		checkLinked(t, set, &node)
		addresses[node.Status.Addresses[0].Address] = true
	}
	if len(addresses) != 20 {
		t.Errorf("20 nodes have %d addresses", len(addresses))
	}
}

func checkLinked(t *testing.T, set *machinev1beta1.MachineSet, node *corev1.Node) {
	t.Helper()
	machine := read[machinev1beta1.Machine](t, "machines", node.Name)
	if !metav1.IsControlledBy(machine, set) {
		t.Errorf("machine %s has the owners %v", machine.Name, machine.OwnerReferences)
	}
	if machine.Labels[cluster.MachineSetLabel] != set.Name {
		t.Errorf("machine %s has the labels %v", machine.Name, machine.Labels)
	}
	if machine.Spec.Labels["tier"] != "gold" || machine.Spec.Annotations["note"] != "x" || len(machine.Spec.Taints) != 1 {
		t.Errorf("machine %s has the spec %+v", machine.Name, machine.Spec)
	}
	ref := machine.Status.NodeRef
	if ref == nil || ref.Name != node.Name || ref.UID != node.UID || *machine.Status.Phase != "Running" {
		t.Errorf("machine %s has the status %+v", machine.Name, machine.Status)
	}
	want := "kwok://" + cluster.MachineNamespace + "/" + node.Name
	if node.Spec.ProviderID != want || machine.Spec.ProviderID == nil || *machine.Spec.ProviderID != want {
		t.Errorf("node %s has the provider ID %q", node.Name, node.Spec.ProviderID)
	}
	if got := node.Annotations[cluster.MachineAnnotation]; got != cluster.MachineNamespace+"/"+machine.Name {
		t.Errorf("node %s has the machine %q", node.Name, got)
	}
	if _, copied := node.Labels["tier"]; copied || node.Labels["foreign"] != "yes" {
		t.Errorf("node %s has the labels %v", node.Name, node.Labels)
	}
}

// resourceVersions returns the versions of the pool's objects.
func resourceVersions(t *testing.T, pool string) map[string]string {
	t.Helper()
	versions := map[string]string{"set": read[machinev1beta1.MachineSet](t, "machinesets", pool).ResourceVersion}
	for _, node := range poolNodes(t, pool) {
		versions["machine "+node.Name] = read[machinev1beta1.Machine](t, "machines", node.Name).ResourceVersion
		versions["node "+node.Name] = string(node.UID) // kwok may write to its status
	}
	return versions
}

func TestPool_CompletedAfterInterruption(t *testing.T) {
	opts := cluster.PoolOptions{Name: "completed", Machines: 6, Labels: map[string]string{"a": "b"}}
	createPool(t, opts)
	before := resourceVersions(t, "completed")
	createPool(t, opts)
	if after := resourceVersions(t, "completed"); !maps.Equal(before, after) {
		t.Errorf("a second call changed the pool from %v to %v", before, after)
	}
	clients := clientFor(t, env.Admin(), nil)
	if err := clients.CoreV1().Nodes().Delete(t.Context(), "completed-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	opts.FirstIndex, opts.Machines = 2, 7
	createPool(t, opts)
	nodes := poolNodes(t, "completed")
	if len(nodes) != 9 {
		t.Errorf("%d nodes, want 9", len(nodes))
	}
	set := read[machinev1beta1.MachineSet](t, "machinesets", "completed")
	if *set.Spec.Replicas != 9 || set.Status.Replicas != 9 {
		t.Errorf("machine set has %d replicas and %d in its status, want 9", *set.Spec.Replicas, set.Status.Replicas)
	}
	for _, node := range nodes {
		machine := read[machinev1beta1.Machine](t, "machines", node.Name)
		if machine.Status.NodeRef == nil || machine.Status.NodeRef.UID != node.UID {
			t.Errorf("machine %s has the node %+v, want %s", machine.Name, machine.Status.NodeRef, node.UID)
		}
	}
}

func TestPool_PodsAndCopiedMetadata(t *testing.T) {
	opts := cluster.PoolOptions{
		Name: "busy", Machines: 3, RunningPods: 2, CopyToNodes: true, Labels: map[string]string{"tier": "gold"},
		NodeTaints: []corev1.Taint{{Key: "foreign", Effect: corev1.TaintEffectNoSchedule}},
	}
	createPool(t, opts)
	for _, node := range poolNodes(t, "busy") {
		if node.Labels["tier"] != "gold" {
			t.Errorf("node %s has the labels %v", node.Name, node.Labels)
		}
	}
	clients := clientFor(t, env.Admin(), nil)
	eventually(t, "six pods run", func(ctx context.Context) error {
		pods, err := clients.CoreV1().Pods(opts.PodNamespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := 0
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != 6 {
			return fmt.Errorf("%d of %d pods run", running, len(pods.Items))
		}
		return nil
	})
}

func TestPool_Deleted(t *testing.T) {
	opts := cluster.PoolOptions{Name: "deleted", Machines: 4, RunningPods: 1}
	createPool(t, opts)
	if err := cluster.DeletePool(t.Context(), env.Admin(), opts); err != nil {
		t.Fatal(err)
	}
	if nodes := poolNodes(t, "deleted"); len(nodes) != 0 {
		t.Errorf("%d nodes are left", len(nodes))
	}
	client, err := dynamic.NewForConfig(env.Admin())
	if err != nil {
		t.Fatal(err)
	}
	for resource, name := range map[string]string{"machinesets": "deleted", "machines": "deleted-0"} {
		_, err := client.Resource(machinev1beta1.GroupVersion.WithResource(resource)).Namespace(cluster.MachineNamespace).
			Get(t.Context(), name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("reading %s of a deleted pool gave %v", resource, err)
		}
	}
	if err := cluster.DeletePool(t.Context(), env.Admin(), opts); err == nil {
		t.Error("deleting a pool that is not there gave no error")
	}
}

func TestPool_InvalidOptions(t *testing.T) {
	createPool(t, cluster.PoolOptions{Name: "first", Machines: 1})
	for name, opts := range map[string]cluster.PoolOptions{
		"taken by another namespace's pool": {Name: "first", Namespace: "other-machines", Machines: 1},
		"name":                              {Name: "No_Good", Machines: 1},
		"number":                            {Name: "negative", Machines: -1},
		"too many":                          {Name: "huge", Machines: 70000},
	} {
		if err := cluster.CreatePool(t.Context(), env.Admin(), opts); err == nil {
			t.Errorf("%s: the pool was made", name)
		}
	}
}
