package machines

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/operator"
	"github.com/drover-io/drover/provider/conformance"
)

// TestProvider_Environment: what providers get to work with is as provider.Environment documents it.
func TestProvider_Environment(t *testing.T) {
	w := prepared(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "provider-environment"}}
	node := builder.Node("provider-environment", builder.WithNodeLabels(map[string]string{"example.com/a": "b"}))
	if err := w.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	settings.Metrics.BindAddress, settings.LeaderElection.Enabled = new("0"), new(false)
	mgr, err := operator.NewManager(env.Admin(), settings)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := mgr.GetCache().Start(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	environment, err := operator.Environment(mgr)
	if err != nil {
		t.Fatal(err)
	}
	conformance.RunEnvironment(t, conformance.EnvironmentSubject{
		Environment: environment, Admin: w.Client, Namespace: namespace.Name, Node: node.Name,
	})
	if err := w.Client.Delete(t.Context(), node); err != nil {
		t.Error(err)
	}
}
