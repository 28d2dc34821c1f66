package openshift

import (
	"path/filepath"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
)

// TestBundle_Permissions: with what the Operator Lifecycle Manager grants by the bundle, and no more, Drover does its work without being refused
// anything. The leases of nodes are in its own namespace, where alone it has a right on leases.
func TestBundle_Permissions(t *testing.T) {
	w := harness.NewWorld(t, env)
	// An earlier test may have deleted it, and not waited.
	kubectl(t, nil, "delete", "namespace", harness.SystemNamespace, "--ignore-not-found", "--timeout=3m")
	grantBundle(w)
	kubectl(t, nil, "apply", "--server-side", "-k", folder(t, "config/crd/nodemaintenance"))
	mark := w.AuditMark()
	t.Run("work", func(t *testing.T) {
		s := harness.NewWorld(t, env).Site()
		node := s.AddNode()
		s.Operator(harness.Options{
			Args: []string{"--controllers=metadata,maintenance,maintenance-kubevirt"}, Elect: true,
			Env: []string{nodelease.NamespaceVariable + "=" + harness.SystemNamespace},
		})
		m := s.Maintain(node, nil)
		m.Phase(medik8s.PhaseSucceeded)
		lease := &coordinationv1.Lease{}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: harness.SystemNamespace, Name: nodelease.Name(node)}, lease); err != nil {
			t.Error("the node's lease:", err)
		}
		m.End()
		older := s.MaintainKubevirt(node)
		older.Phase(medik8s.PhaseSucceeded)
		older.End()
	})
	helm.NotRefused(w, mark)
	kubectl(t, nil, "delete", "namespace", harness.SystemNamespace, "--timeout=3m")
}

// grantBundle gives the service account what the Operator Lifecycle Manager gives it.
func grantBundle(w *harness.World) {
	w.Helper()
	csv := decode(w, filepath.Join(folder(w, "bundle"), "manifests/drover.clusterserviceversion.yaml"))
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: harness.SystemNamespace, Name: harness.ServiceAccount}
	meta := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "bundle"}
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: harness.SystemNamespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: harness.ServiceAccount}},
	} {
		if err := w.Client.Create(w.Context(), object); err != nil {
			w.Fatal(err)
		}
	}
	rules := func(field string) []rbacv1.PolicyRule {
		list, _, err := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", field)
		if err != nil || len(list) != 1 {
			w.Fatalf("%s: %d, %v", field, len(list), err)
		}
		role := &rbacv1.Role{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[0].(map[string]any), role); err != nil { //nolint:errcheck // it panics
			w.Fatal(err)
		}
		return role.Rules
	}
	reference := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "bundle"}
	}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta(""), Rules: rules("clusterPermissions")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta(""), RoleRef: reference("ClusterRole"), Subjects: []rbacv1.Subject{account}},
		&rbacv1.Role{ObjectMeta: meta(harness.SystemNamespace), Rules: rules("permissions")},
		&rbacv1.RoleBinding{ObjectMeta: meta(harness.SystemNamespace), RoleRef: reference("Role"), Subjects: []rbacv1.Subject{account}},
	} {
		w.CreateWithCleanup(object)
	}
}
