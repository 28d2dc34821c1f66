package nodes

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodelease"
)

// TestHasBegun: a taint of the same key with the effect NoSchedule is not enough, since others may have set it.
func TestHasBegun(t *testing.T) {
	announced := []corev1.Taint{{Key: "example.com/batch", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	for name, c := range map[string]struct {
		taints []corev1.Taint
		holder string
		want   bool
	}{
		"announced, with the lease":      {announced, Holder, true},
		"announced, without a lease":     {announced, "", false},
		"announced, the lease of others": {announced, "another", false},
		"with the lease alone":           {nil, Holder, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Spec: corev1.NodeSpec{Taints: c.taints}}
			r := newReconciler(t, node)
			leases := &nodelease.Leases{Client: r.Writer, Holder: Holder, Namespace: "leases", Clock: clocktesting.NewFakePassiveClock(r.Clock.Now())}
			if c.holder != "" {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "leases", Name: nodelease.Name("n0")}}
				lease.Spec.HolderIdentity = &c.holder
				if err := r.Writer.Create(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
			}
			r.Guard = &Guard{Leases: leases}
			rc := &reconciliation{Reconciler: r, observation: &observation{Assignment: members.Assignment{Node: node}}}
			if begun, err := rc.hasBegun(t.Context(), []string{"example.com/batch:NoExecute"}); begun != c.want || err != nil {
				t.Errorf("begun is %v, error %v", begun, err)
			}
		})
	}
}
