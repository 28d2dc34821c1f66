package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/nodelink"
)

func TestBesideTheIncumbent(t *testing.T) {
	controllers := machineAPIOperator().deployment
	deployment := func(replicas *int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: controllers.Namespace, Name: controllers.Name}, Spec: appsv1.DeploymentSpec{Replicas: replicas},
		}
	}
	for name, c := range map[string]struct {
		openshift, named bool
		mao              *appsv1.Deployment
		want             string
	}{
		"plain Kubernetes":            {},
		"OpenShift":                   {openshift: true, want: "this is OpenShift"},
		"OpenShift, named":            {openshift: true, named: true},
		"OpenShift, named, and alive": {openshift: true, named: true, mao: deployment(new(int32(1))), want: controllers.String()},
		"OpenShift, named, scaled":    {openshift: true, named: true, mao: deployment(new(int32(0)))},
		"plain Kubernetes, and alive": {mao: deployment(nil), want: controllers.String()},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if c.mao != nil {
				builder.WithObjects(c.mao)
			}
			s := &server{}
			if c.openshift {
				s.serve(nil, "clusteroperators")
			}
			i := machineAPIOperator()
			i.live, i.discovery, i.named = builder.Build(), s, c.named
			got, err := i.present(t.Context())
			if err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// Whom the API server does not answer does not know, and must not act.
func TestTheIncumbentCannotBeAskedFor(t *testing.T) {
	no := errors.New("no")
	s := &server{}
	s.serve(no)
	if _, err := besideMAO(nil, s).present(t.Context()); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
	forbidden := apierrors.NewForbidden(appsv1.Resource("deployments"), "machine-api-controllers", no)
	if _, err := besideMAO(refusing(forbidden), &server{}).present(t.Context()); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "config/machines") {
		t.Errorf("error %v", err)
	}
	if _, err := besideMAO(refusing(no), &server{}).present(t.Context()); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
}

// besideMAO returns what looks for machine-api-operator.
func besideMAO(live client.Reader, discovery discovery.DiscoveryInterface) *otherOperator {
	o := machineAPIOperator()
	o.live, o.discovery = live, discovery
	return &o
}

// refusing is an API server that answers every question with an error.
func refusing(err error) client.Reader {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		},
	}).Build()
}

func TestWhatMachinesNeedIsCached(t *testing.T) {
	node := fullNode()
	moved := metav1.NewTime(time.Unix(7, 0))
	node.Status.Conditions[0].LastTransitionTime = moved
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n"}}
	for range 20_000 {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"})
	}
	node = trimmed(t, trimNodeOfMachine, node)
	if len(node.Status.Conditions) != 2 || node.Status.Conditions[0].LastTransitionTime != moved || node.Status.Conditions[1].Message != "" ||
		len(node.Status.Addresses) != nodelink.MaxInternalIPs || node.Status.Images != nil || node.ManagedFields != nil {
		t.Errorf("the Node is %+v", node)
	}
	share := shareProviderSpecs()
	first, second := trimmed(t, share, fullMachine()), trimmed(t, share, fullMachine())
	a, b := first.Spec.ProviderSpec.Value.Raw, second.Spec.ProviderSpec.Value.Raw
	if len(a) == 0 || &a[0] != &b[0] || first.Status.ProviderStatus == nil || first.ManagedFields != nil {
		t.Errorf("equal texts are kept twice, or the Machine is %+v", first)
	}
	for i := range 3 * maxSharedProviderSpecs {
		machine := fullMachine()
		machine.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(strings.Repeat("x", i+1))}
		if got := trimmed(t, share, machine); len(got.Spec.ProviderSpec.Value.Raw) != i+1 {
			t.Fatalf("text %d has %d characters", i, len(got.Spec.ProviderSpec.Value.Raw))
		}
	}
	bare := fullMachine()
	bare.Spec.ProviderSpec.Value = nil
	if got := trimmed(t, share, bare); got.Spec.ProviderSpec.Value != nil {
		t.Errorf("%+v", got.Spec.ProviderSpec.Value)
	}
}
