package operator

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/nodes"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade"
)

// TestReservedFor_Run: the reservation of a run counts for as long as the run has the lease of the Node.
func TestReservedFor_Run(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, mutex.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	run := &mutex.MutexRunConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "run"}}
	lease := func(holder string) client.Object {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: nodelease.Namespace(), Name: nodelease.Name("n1")},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}
	}
	byName := func(object client.Object) []string { return []string{object.GetName()} }
	for name, c := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"works on the Node":                   {[]client.Object{run, lease(upgrade.Holder)}, true},
		"has released the Node":               {[]client.Object{run}, false},
		"another holder has the lease":        {[]client.Object{run, lease("another")}, false},
		"is gone, and the lease is there yet": {[]client.Object{lease(upgrade.Holder)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.objects...).
				WithIndex(&coordinationv1.Lease{}, metav1.ObjectNameField, byName).
				WithIndex(&mutex.MutexRunConfig{}, metav1.ObjectNameField, byName).Build()
			reserved := &reservedFor{live: live, controllers: []string{"*"}}
			got, err := reserved.exists(t.Context(), &v1alpha1.Reservation{
				Node: "n1", Capability: v1alpha1.CapabilityUpgrade, Object: "MutexRunConfig/numo/run",
			})
			if got != c.want || err != nil {
				t.Errorf("it is %v, error %v", got, err)
			}
		})
	}
}

// TestReservedFor_Guard: the reservation of a guarded taint counts while the controller of NodeGroups has a lease of the Node that has not expired.
func TestReservedFor_Guard(t *testing.T) {
	lease := func(holder string, renewed time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: nodelease.Namespace(), Name: nodelease.Name("n1")},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: new(int32(3600)), RenewTime: &metav1.MicroTime{Time: time.Now().Add(-renewed)},
			},
		}
	}
	for name, c := range map[string]struct {
		lease *coordinationv1.Lease
		want  bool
	}{
		"evicts Pods":                  {lease(nodes.Holder, time.Minute), true},
		"another holder has the lease": {lease("another", time.Minute), false},
		"the lease has expired":        {lease(nodes.Holder, 61*time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithObjects(c.lease).
				WithIndex(&coordinationv1.Lease{}, metav1.ObjectNameField, func(object client.Object) []string { return []string{object.GetName()} }).Build()
			got, err := (&reservedFor{live: live}).exists(t.Context(), &v1alpha1.Reservation{
				Node: "n1", Capability: v1alpha1.CapabilityMetadata, Object: "NodeGroup/g",
			})
			if got != c.want || err != nil {
				t.Errorf("it is %v, error %v", got, err)
			}
		})
	}
}
