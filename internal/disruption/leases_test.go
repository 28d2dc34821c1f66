package disruption

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

func TestBegin_LeasesOfOthers(t *testing.T) {
	for name, test := range map[string]struct {
		lease, holder string
		age           time.Duration
		wantReason    string
	}{
		"of an earlier Drover":       {"node-n1", "node-maintenance", time.Minute, plan.ReasonBudgetExhausted},
		"of NodeHealthCheck":         {"node-n1", "NodeHealthCheck-workers", time.Minute, plan.ReasonBudgetExhausted},
		"expired":                    {"node-n1", "node-maintenance", 2 * time.Hour, ""},
		"without a holder":           {"node-n1", "", time.Minute, ""},
		"of a Node of another group": {"node-x", "node-maintenance", time.Minute, ""},
		"of something else":          {"n1", "node-maintenance", time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.lease(test.lease, test.holder, test.age)
			f.begin(newRequest("n0", upgrade), test.wantReason)
		})
	}
}

// TestLease_Hostile: what a writer of leases says in annotations is a sign, and never more than the status takes.
func TestLease_Hostile(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"unknown capability": {nodelease.AnnotationCapability: "Everything"},
		"long object":        {nodelease.AnnotationCapability: string(upgrade), nodelease.AnnotationObject: strings.Repeat("x", 601)},
		"long UID":           {nodelease.AnnotationCapability: string(upgrade), nodelease.AnnotationObjectUID: strings.Repeat("x", 65)},
	} {
		f := newFixture(t)
		f.lease("node-n1", "other", time.Minute)
		lease, _ := f.leaseOf("n1")
		lease.Annotations = annotations
		if err := f.client.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		if state := f.state(); len(state.Disrupted) != 0 || state.Unavailable != 1 {
			t.Errorf("%s: %+v", name, state)
		}
	}
}

// leaseOf returns the lease of a Node, and whether it is held.
func (f *fixture) leaseOf(node string) (lease *coordinationv1.Lease, held bool) {
	f.Helper()
	lease = &coordinationv1.Lease{}
	err := f.client.Get(f.Context(), types.NamespacedName{Namespace: "medik8s-leases", Name: nodelease.Name(node)}, lease)
	if err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
	return lease, err == nil
}
