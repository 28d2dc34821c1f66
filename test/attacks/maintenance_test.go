package attacks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/harness"
)

const maintainer = "author of NodeMaintenances"

// newMaintainer returns a client that may do everything with NodeMaintenances, and nothing else.
func newMaintainer(t *testing.T, w *harness.World) client.Client {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attacks-maintenance"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{medik8s.GroupVersion.Group}, Resources: []string{"nodemaintenances", "nodemaintenances/status"}, Verbs: []string{"*"},
	}}}
	w.CreateWithCleanup(role)
	w.CreateWithCleanup(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "maintainer"}},
	})
	config, err := env.As("maintainer")
	if err != nil {
		t.Fatal(err)
	}
	asMaintainer := harness.ClientFor(t, config)
	w.Eventually("the role is in force", func() error {
		return asMaintainer.List(t.Context(), &medik8s.NodeMaintenanceList{})
	})
	return asMaintainer
}

// protectedPod makes a Pod on a Node whose budget lets none go.
func protectedPod(t *testing.T, s *harness.Site, node string) *corev1.Pod {
	t.Helper()
	labels := map[string]string{"app": "protected"}
	s.CreateWithCleanup(builder.PodDisruptionBudget(s.Name, "protected", labels, harness.MinAvailable(1)))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "protected", Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{Name: "app", Image: "sandbox.invalid/app"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	s.CreateWithCleanup(pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := s.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// awaitLastError waits until a NodeMaintenance says something, and returns it.
func awaitLastError(t *testing.T, w *harness.World, name, part string) string {
	t.Helper()
	object := &medik8s.NodeMaintenance{}
	w.Eventually("the NodeMaintenance says "+part, func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			return err
		}
		if !strings.Contains(object.Status.LastError, part) {
			return fmt.Errorf("it is %s", harness.Render(object.Status))
		}
		return nil
	})
	return object.Status.LastError
}

// TestMaintainer_SwitchedOff is about who may create NodeMaintenances, on a cluster without the webhook whose administrator has switched off what
// goes beyond a drain.
func TestMaintainer_SwitchedOff(t *testing.T) {
	w := harness.NewWorld(t, env)
	asMaintainer := newMaintainer(t, w)
	harness.Start(t, env, harness.Options{Args: []string{"--maintenance-force=Off", "--maintenance-out-of-service=Off"}})
	attack(t, maintainer, "has a Pod deleted past its PodDisruptionBudget by spec.drain.force", func(t *testing.T) string {
		s := harness.NewWorld(t, env).Site()
		node := s.AddNode()
		pod := protectedPod(t, s, node)
		m := builder.NodeMaintenance(s.Name, node)
		m.Spec.Drain = &medik8s.DrainSpec{Force: true, Deadline: &metav1.Duration{Duration: time.Second}}
		if err := asMaintainer.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		defer endMaintenance(t, w, m)
		said := awaitLastError(t, w, m.Name, "the deadline is over")
		now := &corev1.Pod{}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), now); err != nil || now.DeletionTimestamp != nil || now.UID != pod.UID {
			t.Errorf("the Pod was deleted at %v: %v", now.DeletionTimestamp, err)
		}
		return said
	})
	attack(t, maintainer, "has a Node that does not answer tainted out-of-service", func(t *testing.T) string {
		s := harness.NewWorld(t, env).Site()
		node := w.Node(s.AddNode())
		pod := protectedPod(t, s, node.Name)
		pod.Finalizers = []string{"example.com/stuck"}
		if err := w.Client.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { release(t, w, pod) })
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].Status = corev1.ConditionUnknown
		}
		if err := w.Client.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		m := builder.NodeMaintenance(s.Name, node.Name)
		m.Spec.Drain = &medik8s.DrainSpec{Unreachable: medik8s.UnreachableOutOfService, Deadline: &metav1.Duration{Duration: 4 * time.Second}}
		if err := asMaintainer.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		defer endMaintenance(t, w, m)
		// By then the Pod's grace period is over, too.
		said := awaitLastError(t, w, m.Name, "the deadline is over")
		for _, taint := range w.Node(node.Name).Spec.Taints {
			if taint.Key == corev1.TaintNodeOutOfService {
				t.Error("the Node has the taint")
			}
		}
		return said
	})
}

// TestMaintainer_Status: users who wait for a maintenance, and programs, believe its status.
func TestMaintainer_Status(t *testing.T) {
	w := harness.NewWorld(t, env)
	asMaintainer := newMaintainer(t, w)
	m := builder.NodeMaintenance("forged-status", "no-such-node")
	w.CreateWithCleanup(m)
	for attempt, text := range map[string]string{
		"writes that a node is drained": `{"status":{"phase":"Succeeded","drainProgress":100}}`,
		"writes that the lease of the node was lost long ago": `{"status":{"errorOnLeaseCount":9,"conditions":[{"type":"LeaseHeld","status":"False",` +
			`"reason":"LeaseLost","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`,
	} {
		attack(t, maintainer, attempt, func(t *testing.T) string {
			return denied(t, asMaintainer.Status().Patch(t.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))))
		})
	}
}

// release lets a Pod go that a finalizer holds.
func release(t *testing.T, w *harness.World, pod *corev1.Pod) {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := w.Client.Patch(w.Context(), pod, patch); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// endMaintenance deletes a NodeMaintenance, and waits until it is gone.
func endMaintenance(t *testing.T, w *harness.World, m *medik8s.NodeMaintenance) {
	t.Helper()
	if err := w.Client.Delete(t.Context(), m); err != nil {
		t.Error(err)
	}
	w.Eventually("the NodeMaintenance is gone", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(m), &medik8s.NodeMaintenance{}); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}
