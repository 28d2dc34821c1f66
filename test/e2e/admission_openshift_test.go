package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/test/harness"
)

// mark is a CRD of a group that only OpenShift has.
const mark = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: marks.config.openshift.io}
spec:
  group: config.openshift.io
  names: {plural: marks, singular: mark, kind: Mark, listKind: MarkList}
  scope: Cluster
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

const etcd = "openshift-etcd"

// openShift makes the control plane look like OpenShift's until the test ends.
func (w *webhookWorld) openShift() {
	w.Helper()
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		w.Fatal(err)
	}
	served := func() error {
		_, err := clients.Discovery().ServerResourcesForGroupVersion("config.openshift.io/v1")
		return err
	}
	if output, err := harness.Kubectl(w.Context(), env, strings.NewReader(mark), "apply", "-f", "-"); err != nil {
		w.Fatal(err, output)
	}
	w.Eventually("the group of OpenShift", served)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if output, err := harness.Kubectl(ctx, env, strings.NewReader(mark), "delete", "-f", "-"); err != nil {
			w.Error(err, output)
		}
		// The next test's operator asks once.
		err := harness.WaitFor(ctx, func() error {
			if err := served(); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the group is served still (%w)", err)
			}
			return nil
		})
		if err != nil {
			w.Error(err)
		}
	})
	// A namespace is removed only by a controller that is not running here.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: etcd}}
	if err := w.Client.Create(w.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: etcd, Name: "default"}}
	if err := w.Client.Create(w.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
}

// budget makes a PodDisruptionBudget of etcd that allows so many disruptions.
func (w *webhookWorld) budget(name string, allowed int32) {
	w.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: etcd, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"guard", "etcd-guard"}},
		}}},
	}
	w.CreateWithCleanup(budget)
	budget.Status.DisruptionsAllowed = allowed
	if err := w.Client.Status().Update(w.Context(), budget); err != nil {
		w.Fatal(err)
	}
}

// guardPod makes the guard pod of a node; without a state it has no condition.
func (w *webhookWorld) guardPod(node string, ready corev1.ConditionStatus) {
	w.Helper()
	zero := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: etcd, Name: "etcd-guard-" + node, Labels: map[string]string{"app": "guard"}},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "guard", Image: "guard"}}, TerminationGracePeriodSeconds: &zero,
		},
	}
	w.CreateWithCleanup(pod)
	if ready == "" {
		return
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if err := w.Client.Status().Update(w.Context(), pod); err != nil {
		w.Fatal(err)
	}
}

func TestOpenShift_EtcdBudget(t *testing.T) {
	w := newWebhookWorld(t)
	w.openShift()
	address := w.address()
	w.configure(address)
	w.serve(address, harness.Options{})
	w.asked()
	const spent = "no disruption of etcd is allowed now, and its guard pod openshift-etcd/etcd-guard-openshift-0 is not disrupted yet"
	for _, c := range []struct {
		name    string
		budgets []int32
		own     corev1.ConditionStatus
		others  corev1.ConditionStatus
		want    string
	}{
		{
			"no budget", nil, corev1.ConditionTrue, corev1.ConditionTrue,
			"there is no PodDisruptionBudget in namespace openshift-etcd, so it is not known whether etcd can spare a member",
		},
		{
			"two budgets", []int32{1, 1}, corev1.ConditionTrue, corev1.ConditionTrue,
			"there are 2 PodDisruptionBudgets in namespace openshift-etcd, and one is expected",
		},
		{"a disruption is allowed", []int32{1}, corev1.ConditionTrue, corev1.ConditionTrue, ""},
		{"none is, and the guard pod is ready", []int32{0}, corev1.ConditionTrue, corev1.ConditionFalse, spent},
		{"none is healthy: unknown", []int32{0}, corev1.ConditionUnknown, corev1.ConditionTrue, spent},
		{"none is, and it is this node that is disrupted", []int32{0}, corev1.ConditionFalse, corev1.ConditionTrue, ""},
		{"none is, and the guard pod has no condition", []int32{0}, "", corev1.ConditionTrue, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWebhookWorld(t)
			// What counts elsewhere does not count here: no quorum of nodes is left.
			nodes := w.controlPlane("openshift", "rn")
			for i, allowed := range c.budgets {
				w.budget(fmt.Sprintf("guard-%d", i), allowed)
			}
			w.guardPod(nodes[0], c.own)
			w.guardPod(nodes[1], c.others)
			for _, object := range both("openshift", nodes[0]) {
				err := w.tries(object)
				switch {
				case c.want != "":
					w.denied(err, quorumText(object, nodes[0])+": node "+nodes[0]+": "+c.want)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	t.Run("no guard pod on the node", func(t *testing.T) {
		w := newWebhookWorld(t)
		nodes := w.controlPlane("bare", "rr")
		w.budget("guard", 0)
		w.guardPod(nodes[1], corev1.ConditionTrue)
		if err := w.tries(medik8sOf("bare", nodes[0])); err != nil {
			t.Error(err)
		}
	})
}
