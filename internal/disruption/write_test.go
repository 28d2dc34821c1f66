package disruption

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// updateStatus has a controller write the phase of the group by what it has observed.
func (f *fixture) updateStatus(observed *v1alpha1.NodeGroup, phase v1alpha1.Phase) error {
	f.Helper()
	update := func(ctx context.Context, latest *v1alpha1.NodeGroup) (*v1alpha1.NodeGroup, error) {
		next := latest.DeepCopy()
		next.Status.Phase = phase
		return next, f.client.Status().Patch(ctx, next, client.MergeFromWithOptions(latest, client.MergeFromWithOptimisticLock{}))
	}
	return f.budgets.UpdateStatus(f.Context(), observed, update)
}

// TestUpdateStatus: admissions that are written after the group was observed do not keep its status from being written, and neither takes the
// other's part away. A cache may lag, and does not have the annotations that no decision reads.
func TestUpdateStatus(t *testing.T) {
	for _, lags := range []bool{false, true} {
		f := newFixture(t)
		f.change(func(group *v1alpha1.NodeGroup) {
			withThreePlaces(group)
			group.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
		})
		if f.lag(); !lags {
			f.catchUp()
		}
		observed := f.group()
		if lags {
			f.cache.group.Annotations = nil
			observed = f.cache.group
		}
		f.begin(newRequest("n0", upgrade), "")
		f.begin(newRequest("n1", upgrade), "")
		if err := f.updateStatus(observed, v1alpha1.PhaseRolling); err != nil {
			t.Errorf("with a cache that lags (%v): %v", lags, err)
		}
		if err := f.updateStatus(observed, v1alpha1.PhaseStopped); !apierrors.IsConflict(err) {
			t.Errorf("with a cache that lags (%v), decided without the first write: %v", lags, err)
		}
		f.end(newRequest("n0", upgrade))
		f.wake()
		f.admitted("n0", "n1")
		if group := f.group(); group.Status.Phase != v1alpha1.PhaseRolling || len(group.Annotations) != 1 {
			t.Errorf("with a cache that lags (%v) the group is %+v", lags, group)
		}
		f.wrote(3)
	}
}

func TestLineage(t *testing.T) {
	var own lineage
	for i := range maxLineage + 1 {
		own = own.add(fmt.Sprint(i), fmt.Sprint(i+1))
	}
	last := fmt.Sprint(maxLineage + 1)
	for from, want := range map[string]bool{last: true, "2": true, "1": false, "": false} {
		if got := own.leadsTo(from, last); got != want {
			t.Errorf("from %q: %v", from, got)
		}
	}
	if own.leadsTo("2", "another") || !own.leadsTo("another", "another") {
		t.Error("a version that another writer has made")
	}
	if own = own.add("another", "own"); own.leadsTo("2", "own") || !own.leadsTo("another", "own") {
		t.Error("an own write after that of another writer")
	}
}

// TestUpdateStatus_OtherWriter: what was decided without the change of another writer is not written.
func TestUpdateStatus_OtherWriter(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeGroup){
		"the spec": func(group *v1alpha1.NodeGroup) { group.Generation++ },
		"a user": func(group *v1alpha1.NodeGroup) {
			group.Annotations = map[string]string{v1alpha1.AnnotationResume: "now"}
		},
		"a finalizer":  func(group *v1alpha1.NodeGroup) { group.Finalizers = []string{v1alpha1.Finalizer} },
		"a new leader": func(group *v1alpha1.NodeGroup) { group.Status.Phase = v1alpha1.PhaseStopped },
	} {
		for _, lags := range []bool{false, true} {
			f := newFixture(t)
			observed := f.group()
			if lags {
				f.lag()
			}
			current := f.group()
			change(current)
			write := f.client.Update
			if name == "a new leader" {
				write = func(ctx context.Context, object client.Object, _ ...client.UpdateOption) error {
					return f.client.Status().Update(ctx, object)
				}
			}
			if err := write(t.Context(), current); err != nil {
				t.Fatal(err)
			}
			if err := f.updateStatus(observed, v1alpha1.PhaseRolling); !apierrors.IsConflict(err) {
				t.Errorf("%s, with a cache that lags (%v): %v", name, lags, err)
			}
		}
	}
}

func TestUpdateStatus_WithoutBudgets(t *testing.T) {
	f := newFixture(t)
	f.budgets = nil
	if err := f.updateStatus(f.group(), v1alpha1.PhaseRolling); err != nil || f.group().Status.Phase != v1alpha1.PhaseRolling {
		t.Errorf("%v", err)
	}
}
