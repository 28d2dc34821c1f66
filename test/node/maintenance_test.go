package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/realnode"
)

// polite ends some seconds after it was asked to, and says both.
const polite = `trap 'echo asked to end; sleep 2; echo done; exit 0' TERM; echo begun; while true; do sleep 0.2; done`

// openShop runs two Pods on the first node. A PodDisruptionBudget requires one of them all the time.
func openShop(w *harness.World) []corev1.Pod {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	w.Gone(namespace.DeepCopy()) // that of an earlier test
	w.CreateWithCleanup(namespace)
	labels := map[string]string{"app": "shop"}
	deployment := &appsv1.Deployment{ObjectMeta: meta("shop", "shop"), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				// Both are on the node that goes.
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
						Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
							Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{first},
						}}},
					}},
				}},
				Containers: []corev1.Container{{
					Name: "shop", Image: realnode.BusyboxImage, ImagePullPolicy: corev1.PullNever, Command: []string{"sh", "-c", polite},
				}},
			},
		},
	}}
	w.CreateWithCleanup(deployment)
	w.CreateWithCleanup(builder.PodDisruptionBudget("shop", "shop", labels, harness.MinAvailable(1)))
	return on(w, first, 2)
}

// testMaintenance: real containers end in their own time, one after the other where a budget wants that, and the node is given back.
func testMaintenance(t *testing.T) {
	w := world(t)
	was := openShop(w)
	ends := make(chan string, len(was))
	for _, pod := range was {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), long)
			defer cancel()
			text, err := printed(ctx, pod.Namespace, pod.Name, true)
			ends <- fmt.Sprint(text, err)
		}()
	}
	open := watch(w)
	file := t.TempDir() + "/maintenance.yaml"
	write(t, file, maintenance("real-maintenance", first))
	kubectl(w, "create", "-f", file)
	awaitMaintenance(w, "Succeeded")
	for range was {
		if text := <-ends; !strings.Contains(text, "asked to end\ndone") {
			t.Errorf("a container was not let end in its own time: %s", text)
		}
	}
	// Both went, and the budget wanted one to be there all the time: so the second went after the first had come elsewhere.
	on(w, second, 2)
	if fewest, asked := open(); fewest != 1 || asked != len(was) {
		t.Errorf("%d of the Pods were asked to end, and at one time %d were ready, want 1", asked, fewest)
	}
	if node := w.Node(first); !node.Spec.Unschedulable {
		t.Error("the node is not cordoned")
	}
	kubectl(w, "delete", "-f", file)
	w.AwaitNode(first, "is given back", func(node *corev1.Node) error {
		if node.Spec.Unschedulable || len(harness.Taints(node)) > 0 {
			return fmt.Errorf("unschedulable %t, taints %v", node.Spec.Unschedulable, harness.Taints(node))
		}
		return nil
	})
	ready(w)
}

// watch follows the Pods of the shop, change by change, until the function is called that it returns. That function returns how many were ready when
// they were fewest, those aside that had been asked to end, and how many those were.
func watch(w *harness.World) func() (fewest, asked int) {
	w.Helper()
	watcher, err := client.NewWithWatch(w.Cluster.Admin(), client.Options{Scheme: w.Client.Scheme()})
	if err != nil {
		w.Fatal(err)
	}
	pods := &corev1.PodList{}
	if err := watcher.List(w.Context(), pods, client.InNamespace("shop")); err != nil {
		w.Fatal(err)
	}
	ready, asked := map[string]bool{}, map[string]bool{}
	note := func(pod *corev1.Pod) {
		if pod.DeletionTimestamp != nil {
			asked[pod.Name] = true
		}
		ready[pod.Name] = serves(pod)
	}
	count := func() (sum int) {
		for _, is := range ready {
			if is {
				sum++
			}
		}
		return sum
	}
	for i := range pods.Items {
		note(&pods.Items[i])
	}
	fewest := count()
	changes, err := watcher.Watch(w.Context(), &corev1.PodList{}, client.InNamespace("shop"),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: pods.ResourceVersion}})
	if err != nil {
		w.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for change := range changes.ResultChan() {
			if pod, ok := change.Object.(*corev1.Pod); ok {
				note(pod)
				ready[pod.Name] = ready[pod.Name] && change.Type != apiwatch.Deleted
				fewest = min(fewest, count())
			}
		}
	}()
	return func() (int, int) {
		changes.Stop()
		<-ended
		return fewest, len(asked)
	}
}

// serves reports whether a Pod is ready and may stay.
func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// on waits until so many Pods of the shop run on a node, and none elsewhere.
func on(w *harness.World, node string, count int) []corev1.Pod {
	w.Helper()
	pods := &corev1.PodList{}
	err := harness.WaitLonger(w.Context(), long, time.Second/4, func() error {
		if err := w.Client.List(w.Context(), pods, client.InNamespace("shop")); err != nil {
			return err
		}
		running := 0
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName == node && serves(pod) {
				running++
			}
		}
		if running != count || len(pods.Items) != count {
			return fmt.Errorf("%d of %d Pods run on %s", running, len(pods.Items), node)
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return pods.Items
}

func awaitMaintenance(w *harness.World, phase string) {
	w.Helper()
	err := harness.WaitLonger(w.Context(), long, time.Second/4, func() error {
		now := kubectl(w, "get", "nodemaintenances.nodemaintenance.medik8s.io", "real-maintenance", "-o", "jsonpath={.status.phase} {.status.lastError}")
		if got, _, _ := strings.Cut(now, " "); got != phase {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}
