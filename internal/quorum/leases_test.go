package quorum

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/nodestate"
)

func leaseOf(node, holder string, renewed time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(renewed)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: nodelease.DefaultNamespace, Name: nodelease.Name(node)},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &at, LeaseDurationSeconds: new(int32(3600))},
	}
	if holder != "" {
		lease.Spec.HolderIdentity = &holder
	}
	return lease
}

func TestGuard_LeasesOfOtherControlPlaneNodes(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name   string
		lease  *coordinationv1.Lease
		denied bool
	}{
		{"another control-plane node is leased: denied", leaseOf("b", "drover-machines", now), true},
		{"the node's own lease: allowed", leaseOf("a", "node-maintenance", now), false},
		{"the lease of a worker: allowed", leaseOf("worker", "node-maintenance", now), false},
		{"the lease has expired: allowed", leaseOf("b", "drover-machines", now.Add(-2*time.Hour)), false},
		{"the lease has no holder: allowed", leaseOf("b", "", now), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			guard := New(reader(interceptor.Funcs{}, controlPlane("a", nodestate.LabelMaster), controlPlane("b", nodestate.LabelMaster),
				controlPlane("c", nodestate.LabelMaster), controlPlane("worker"), c.lease), &served{answers: []error{absent}})
			denial, err := guard.Check(t.Context(), controlPlane("a", nodestate.LabelMaster))
			if err != nil || (denial != "") != c.denied || c.denied && !strings.Contains(denial, `control-plane node b, held by "drover-machines"`) {
				t.Errorf("denial %q, error %v", denial, err)
			}
		})
	}
}
