package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/expectations"
)

// frozen is a cache that shows the Nodes and Leases of one time, and everything else as it is.
type frozen struct {
	client.Reader
	objects map[string]client.Object
}

func (f *frozen) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	object, shown := f.objects[fmt.Sprintf("%T", into)]
	switch into := into.(type) {
	case *corev1.Node:
		if node, ok := object.(*corev1.Node); ok {
			node.DeepCopyInto(into)
			return nil
		}
		if shown {
			return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
		}
	case *coordinationv1.Lease:
		if lease, ok := object.(*coordinationv1.Lease); ok {
			lease.DeepCopyInto(into)
			return nil
		}
		if shown {
			return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
		}
	}
	return f.Reader.Get(ctx, key, into, options...)
}

// frozenClient reads from a cache, as a manager's client does.
type frozenClient struct {
	client.Client
	*frozen
}

func (f frozenClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return f.frozen.Get(ctx, key, into, options...)
}

func (f frozenClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return f.Client.List(ctx, list, options...)
}

// A maintenance that is deleted before the caches show its cordon or its lease undoes both, once they do.
func TestReconcile_DeletedBeforeCacheShowsWrites(t *testing.T) {
	for _, kind := range []client.Object{&corev1.Node{}, &coordinationv1.Lease{}} {
		t.Run(fmt.Sprintf("%T", kind), func(t *testing.T) {
			s := newFixture(t, newNode("worker"), newMaintenance("nm", "worker"))
			cache := &frozen{Reader: s.client, objects: map[string]client.Object{fmt.Sprintf("%T", kind): nil}}
			if _, ok := kind.(*corev1.Node); ok {
				cache.objects["*v1.Node"] = s.node("worker")
			}
			s.Cache, s.Lease.Client = cache, frozenClient{s.client, cache}
			s.Nodes = expectations.NewObjects(nil, s.clock)
			s.Lease.Written = expectations.NewOwned(cache, func() client.Object { return &coordinationv1.Lease{} }, expectations.OwnedOptions{Clock: s.clock})
			for range 3 {
				s.reconcile("nm")
			}
			if node := s.node("worker"); !node.Spec.Unschedulable || !inMaintenance(node) {
				t.Fatal("the node is not cordoned")
			}
			object := &medik8s.NodeMaintenance{}
			s.read(object, "nm")
			if err := s.client.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if result, _ := s.reconcile("nm"); result.RequeueAfter == 0 {
					t.Error("it is not reconciled again")
				}
			}
			if s.read(object, "nm"); object.Name == "" {
				t.Error("the maintenance is gone before the caches show what it has done")
			}
			clear(cache.objects)
			s.settle("nm")
			leases := &coordinationv1.LeaseList{}
			if err := s.client.List(t.Context(), leases); err != nil {
				t.Fatal(err)
			}
			if node := s.node("worker"); node.Spec.Unschedulable || inMaintenance(node) || len(leases.Items) > 0 {
				t.Errorf("not undone: cordoned %v, recorded %v, %d leases", node.Spec.Unschedulable, inMaintenance(node), len(leases.Items))
			}
		})
	}
}

// TestReconcile_NodeNotInCacheYet: if the event of a maintenance comes before the event of its new node, the maintenance does not fail. It is decided
// when the cache shows the node.
func TestReconcile_NodeNotInCacheYet(t *testing.T) {
	s := newFixture(t, newNode("worker"), newMaintenance("nm", "worker"))
	cache := &frozen{Reader: s.client, objects: map[string]client.Object{"*v1.Node": nil}}
	s.Cache = cache
	for range 3 {
		if result, writes := s.reconcile("nm"); result.RequeueAfter == 0 || strings.Contains(writes, "Node ") {
			t.Errorf("wrote %q, again after %s", writes, result.RequeueAfter)
		}
	}
	if got := s.status("nm").Phase; got == medik8s.PhaseFailed {
		t.Errorf("the phase is %s", got)
	}
	clear(cache.objects)
	s.settle("nm")
	if !s.node("worker").Spec.Unschedulable {
		t.Error("the node is not cordoned")
	}
}

// withoutGet is an API server that lets the operator list Nodes, and not read them one by one, as the ClusterRole of maintenance has it.
type withoutGet struct{ client.Reader }

func (withoutGet) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(corev1.Resource("nodes"), key.Name, errors.New("no role allows it"))
}

// TestReconcile_NodeGone: a maintenance whose node is gone is released, with the permissions of the capability alone.
func TestReconcile_NodeGone(t *testing.T) {
	s := newFixture(t, newNode("worker"), newMaintenance("nm", "worker"))
	s.Live = withoutGet{s.client}
	s.settle("nm")
	if err := errors.Join(s.client.Delete(t.Context(), s.node("worker")), s.client.Delete(t.Context(), newMaintenance("nm", "worker"))); err != nil {
		t.Fatal(err)
	}
	s.settle("nm")
	object := &medik8s.NodeMaintenance{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "nm"}, object); !apierrors.IsNotFound(err) {
		t.Errorf("the maintenance is still there, with the finalizers %v: %v", object.Finalizers, err)
	}
	leases := &coordinationv1.LeaseList{}
	if err := s.client.List(t.Context(), leases); err != nil || len(leases.Items) > 0 {
		t.Errorf("%d leases, %v", len(leases.Items), err)
	}
}

// deletesAfterPatch deletes a NodeMaintenance right after the node is patched, as a user may in the middle of a reconciliation.
type deletesAfterPatch struct {
	client.Client
	object client.Object
}

func (c deletesAfterPatch) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := c.Client.Patch(ctx, object, patch, options...); err != nil || object.GetObjectKind().GroupVersionKind().Kind != "Node" {
		return err
	}
	return c.Delete(ctx, c.object)
}

func TestReconcile_DeletedBeforeDrain(t *testing.T) {
	for deleted, want := range map[bool]float64{false: 1, true: 0} {
		s := newFixture(t, newNode("worker"), newMaintenance("nm", "worker"), newPod("pod", "worker"))
		if deleted {
			s.Writer = deletesAfterPatch{s.client, newMaintenance("nm", "worker")}
		}
		s.reconcile("nm")
		if !s.node("worker").Spec.Unschedulable {
			t.Fatal("the node is not cordoned")
		}
		if got := s.evicting(); got != want {
			t.Errorf("deleted %v: %v Pods are being evicted, want %v", deleted, got, want)
		}
	}
}

// A maintenance that acquires the lease before its cache shows the cordon record of a Machine releases it when the cache does. Only the lease shows
// that it has it.
func TestReconcile_LeaseAcquiredBeforeCacheShowsOwner(t *testing.T) {
	node := newNode("n1")
	s := newFixture(t, node, newMaintenance("m", "n1"))
	s.Cache = &frozen{Reader: s.client, objects: map[string]client.Object{"*v1.Node": s.node("n1")}}
	s.Live = apiReader{Reader: s.client, machine: "x"}
	cordoned := s.node("n1")
	cordoned.Spec.Unschedulable = true
	cordoned.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"Machine/x","object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`}
	if err := s.client.Update(t.Context(), cordoned); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconcile(t.Context(), requestFor("m")); err == nil {
		t.Fatal("the node is patched as the cache shows it")
	}
	leases := &coordinationv1.LeaseList{}
	if err := s.client.List(t.Context(), leases); err != nil || len(leases.Items) != 1 {
		t.Fatalf("%d leases: %v", len(leases.Items), err)
	}
	s.Cache = s.client
	s.settle("m")
	s.expect("m", medik8s.PhaseRunning, "is cordoned for Machine ns/m", "Cordoned=HeldForOtherWork")
	if err := s.client.List(t.Context(), leases); err != nil || len(leases.Items) > 0 {
		t.Errorf("the lease, which the Machine needs, is still there: %v", err)
	}
}
