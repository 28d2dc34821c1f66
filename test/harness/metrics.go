package harness

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
)

// MetricsToken returns a token of an account that has the role for /metrics, as a Prometheus would.
func MetricsToken(ctx context.Context, c *cluster.Cluster, admin client.Client) (string, error) {
	const name = "prometheus"
	account := &corev1.ServiceAccount{ObjectMeta: Meta(name)}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drover-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: cluster.MachineNamespace, Name: name}},
	}
	for _, err := range []error{admin.Create(ctx, account), admin.Create(ctx, binding)} {
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	config, err := c.AsServiceAccount(ctx, cluster.MachineNamespace, name)
	if err != nil {
		return "", err
	}
	return config.BearerToken, nil
}

// Scrape reads the operator's metrics with a token, empty for none.
func (o *Operator) Scrape(ctx context.Context, token string) (string, error) {
	// The certificate is made anew at each start, so clients cannot verify it.
	config := &rest.Config{Host: o.Metrics, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	stream, err := clients.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	return string(text), err
}
