package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/nodestate"
)

// served is a discovery client that returns its errors one after another, then the last one every time.
type served struct {
	discovery.ServerResourcesInterfaceWithContext

	answers []error
	asked   int
}

// ServerResourcesForGroupVersionWithContext returns the next error.
func (s *served) ServerResourcesForGroupVersionWithContext(_ context.Context, version string) (*metav1.APIResourceList, error) {
	err := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	return &metav1.APIResourceList{GroupVersion: version}, err
}

var absent = apierrors.NewNotFound(schema.GroupResource{}, "config.openshift.io/v1")

func controlPlane(name string, labels ...string) *corev1.Node {
	node := &members("r")[0]
	node.Name, node.Labels = name, map[string]string{}
	for _, label := range labels {
		node.Labels[label] = ""
	}
	return node
}

func reader(funcs interceptor.Funcs, objects ...client.Object) client.Reader {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

func TestCheck_MembersWithEitherLabel(t *testing.T) {
	nodes := []client.Object{
		controlPlane("a", nodestate.LabelMaster), controlPlane("b", nodestate.LabelControlPlane),
		controlPlane("c", nodestate.LabelMaster, nodestate.LabelControlPlane), controlPlane("worker", "node-role.kubernetes.io/worker"),
	}
	guard := New(reader(interceptor.Funcs{}, nodes...), &served{answers: []error{absent}})
	for _, name := range []string{"a", "b", "c"} {
		if denial, err := guard.Check(t.Context(), controlPlane(name)); denial != "" || err != nil {
			t.Errorf("%s of three: %q, %v", name, denial, err)
		}
	}
	guard = New(reader(interceptor.Funcs{}, nodes[0], nodes[2], nodes[3]), &served{answers: []error{absent}})
	if denial, err := guard.Check(t.Context(), controlPlane("a")); !strings.Contains(denial, "1 of 2") || err != nil {
		t.Errorf("a of two: %q, %v", denial, err)
	}
}

// A failed request does not mean that the cluster is not OpenShift.
func TestCheck_DiscoveryFailsAtFirst(t *testing.T) {
	down := errors.New("no answer")
	discovery := &served{answers: []error{down, down, nil, absent}}
	guard := New(reader(interceptor.Funcs{}), discovery)
	for range 2 {
		if _, err := guard.Check(t.Context(), controlPlane("a")); !errors.Is(err, down) {
			t.Errorf("error %v", err)
		}
	}
	for range 3 {
		denial, err := guard.Check(t.Context(), controlPlane("a"))
		if err != nil || !strings.Contains(denial, "no PodDisruptionBudget in namespace openshift-etcd") {
			t.Errorf("%q, %v", denial, err)
		}
	}
	if discovery.asked != 3 {
		t.Errorf("asked %d times", discovery.asked)
	}
}

func TestCheck_PodsOutsideTheBudget(t *testing.T) {
	b := budget(0, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guard"}})
	pod := func(name string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: etcdNamespace, Name: name, Labels: labels}, Spec: corev1.PodSpec{NodeName: "m0"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
	}
	elsewhere := pod("guard", map[string]string{"app": "guard"})
	elsewhere.Namespace = "default"
	other, own := pod("etcd", map[string]string{"app": "etcd"}), pod("guard", map[string]string{"app": "guard"})
	guard := New(reader(interceptor.Funcs{}, &b, other, elsewhere), &served{answers: []error{nil}})
	if denial, err := guard.Check(t.Context(), controlPlane("m0")); denial != "" || err != nil {
		t.Errorf("without a guard pod: %q, %v", denial, err)
	}
	guard = New(reader(interceptor.Funcs{}, &b, other, own), &served{answers: []error{nil}})
	if denial, err := guard.Check(t.Context(), controlPlane("m0")); !strings.Contains(denial, "guard pod openshift-etcd/guard") || err != nil {
		t.Errorf("with one: %q, %v", denial, err)
	}
}

// An API server that accepts requests and does not answer them must not keep the lock for longer than lockTimeout.
func TestLock_APIServerDoesNotAnswer(t *testing.T) {
	hangs := interceptor.Funcs{List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	for name, discovery := range map[string]discovery.ServerResourcesInterfaceWithContext{
		"lists": &served{answers: []error{absent}}, "discovery": hanging{},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				guard, started := New(reader(hangs), discovery), time.Now()
				for range 2 {
					ctx, unlock := guard.Lock(t.Context())
					if _, err := guard.Check(ctx, controlPlane("a")); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error %v", err)
					}
					unlock()
				}
				if took := time.Since(started); took != 2*lockTimeout {
					t.Errorf("two checks took %s", took)
				}
			})
		})
	}
}

// hanging is a discovery client whose requests are not answered.
type hanging struct {
	discovery.ServerResourcesInterfaceWithContext
}

func (hanging) ServerResourcesForGroupVersionWithContext(ctx context.Context, _ string) (*metav1.APIResourceList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCheck_ListFails(t *testing.T) {
	b := budget(0, nil)
	for name, list := range map[string]client.ObjectList{
		"nodes": &corev1.NodeList{}, "budgets": &policyv1.PodDisruptionBudgetList{}, "pods": &corev1.PodList{},
	} {
		down := errors.New("no answer for " + name)
		failing := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			if kindOf(l) == kindOf(list) {
				return down
			}
			return c.List(ctx, l, o...)
		}}
		answer := error(nil)
		if name == "nodes" {
			answer = absent
		}
		guard := New(reader(failing, &b), &served{answers: []error{answer}})
		if denial, err := guard.Check(t.Context(), controlPlane("m0")); denial != "" || !errors.Is(err, down) {
			t.Errorf("%s: %q, %v", name, denial, err)
		}
	}
}

// The error names the missing permission and is classified as Forbidden.
func TestCheck_LeasesForbidden(t *testing.T) {
	forbidden := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
		if _, leases := l.(*coordinationv1.LeaseList); leases {
			return apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("cannot list"))
		}
		return c.List(ctx, l, o...)
	}}
	nodes := []client.Object{
		controlPlane("a", nodestate.LabelMaster), controlPlane("b", nodestate.LabelMaster), controlPlane("c", nodestate.LabelMaster),
	}
	guard := New(reader(forbidden, nodes...), &served{answers: []error{absent}})
	_, err := guard.Check(t.Context(), controlPlane("a", nodestate.LabelMaster))
	const want = "spare node a: listing the leases of nodes: leases.coordination.k8s.io is forbidden"
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}

func kindOf(list client.ObjectList) string {
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(list)
	if err != nil || len(kinds) == 0 {
		return ""
	}
	return kinds[0].Kind
}
