package cluster_test

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/test/cluster"
)

func clientFor(t *testing.T, cfg *rest.Config, err error) kubernetes.Interface {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// whoAmI asks the server who it takes the caller for.
func whoAmI(t *testing.T, cfg *rest.Config, err error) string {
	t.Helper()
	clients := clientFor(t, cfg, err)
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(context.Background(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("asking who I am: %v", err)
	}
	return review.Status.UserInfo.Username
}

func TestIdentity_Authenticated(t *testing.T) {
	ctx := context.Background()
	if got := whoAmI(t, env.Admin(), nil); got != "kubernetes-admin" {
		t.Errorf("administrator is %q", got)
	}
	cfg, err := env.As("jane", "dev")
	if got := whoAmI(t, cfg, err); got != "jane" {
		t.Errorf("user is %q, want jane", got)
	}
	admin := clientFor(t, env.Admin(), nil)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	_, err = admin.CoreV1().ServiceAccounts(cluster.MachineNamespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err = env.AsServiceAccount(ctx, cluster.MachineNamespace, "robot")
	want := "system:serviceaccount:" + cluster.MachineNamespace + ":robot"
	if got := whoAmI(t, cfg, err); got != want {
		t.Errorf("service account is %q, want %q", got, want)
	}
	path, err := env.Kubeconfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	fromFile, err := clientcmd.BuildConfigFromFlags("", path)
	if got := whoAmI(t, fromFile, err); got != want {
		t.Errorf("service account by kubeconfig is %q, want %q", got, want)
	}
}

func TestIdentity_AnonymousRefused(t *testing.T) {
	clients := clientFor(t, env.Anonymous(), nil)
	if _, err := clients.Discovery().ServerVersion(); !apierrors.IsUnauthorized(err) {
		t.Errorf("anonymous request gave %v, want unauthorized", err)
	}
}

func TestIdentity_NodeCannotChangeTaints(t *testing.T) {
	ctx := context.Background()
	admin := clientFor(t, env.Admin(), nil)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "restricted"}}
	if _, err := admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cfg, err := env.AsNode("restricted")
	kubelet := clientFor(t, cfg, err)
	if _, err := kubelet.CoreV1().Nodes().Get(ctx, "restricted", metav1.GetOptions{}); err != nil {
		t.Errorf("a kubelet cannot read its node: %v", err)
	}
	taint := []byte(`{"spec":{"taints":[{"key":"mine","effect":"NoSchedule"}]}}`)
	_, err = kubelet.CoreV1().Nodes().Patch(ctx, "restricted", types.MergePatchType, taint, metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet that taints its node gets %v, want forbidden", err)
	}
}
