package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/test/harness"
)

// leaseTest has a Node, the namespace of the leases, and a clock.
type leaseTest struct {
	*testing.T

	admin client.Client
	node  *corev1.Node
	clock *clocktesting.FakePassiveClock
}

func newLeaseTest(t *testing.T, name string) *leaseTest {
	t.Helper()
	f := &leaseTest{T: t, admin: harness.ClientFor(t, env.Admin()), clock: clocktesting.NewFakePassiveClock(time.Now())}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nodelease.Namespace()}}
	if err := f.admin.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	f.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := f.admin.Create(t.Context(), f.node); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *leaseTest) leases(holder string) *nodelease.Leases {
	return &nodelease.Leases{Client: f.admin, Namespace: nodelease.Namespace(), Holder: holder, Clock: f.clock}
}

func (f *leaseTest) get() (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: "medik8s-leases", Name: "node-" + f.node.Name}
	return lease, f.admin.Get(f.Context(), key, lease)
}

func (f *leaseTest) acquire(leases *nodelease.Leases) time.Duration {
	f.Helper()
	next, err := leases.Acquire(f.Context(), f.node)
	if err != nil {
		f.Fatal(err)
	}
	return next
}

func TestLeases_AcquireRenewRelease(t *testing.T) {
	f := newLeaseTest(t, "life")
	own, other := f.leases("node-maintenance"), f.leases("NodeHealthCheck-workers")
	if next := f.acquire(own); next != 20*time.Minute {
		t.Errorf("the next renewal is in %s", next)
	}
	before, err := f.get()
	if err != nil {
		t.Fatal(err)
	}
	f.clock.SetTime(f.clock.Now().Add(5 * time.Minute))
	if since, err := own.HeldSince(t.Context(), f.node.Name); err != nil || f.clock.Now().Sub(since).Round(time.Second) != 5*time.Minute {
		t.Errorf("after five minutes the lease is held since %s (%v)", since, err)
	}
	if since, err := other.HeldSince(t.Context(), f.node.Name); err != nil || !since.IsZero() {
		t.Errorf("the other holder has it since %s (%v)", since, err)
	}
	if next := f.acquire(own); next.Round(time.Second) != 15*time.Minute {
		t.Errorf("after five minutes the next renewal is in %s", next)
	}
	if after, err := f.get(); err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the lease was renewed before that was due (%v)", err)
	}
	var held *nodelease.AlreadyHeldError
	if _, err := other.Acquire(t.Context(), f.node); !errors.As(err, &held) || held.Holder != "node-maintenance" {
		t.Errorf("the other holder gets %v", err)
	}
	if err := other.Release(t.Context(), f.node.Name); err != nil {
		t.Error(err)
	}
}

// TestLeases_Expired: a lease expires and another holder takes it over. The former holder gets an error and does not release the lease of the other
// one.
func TestLeases_Expired(t *testing.T) {
	f := newLeaseTest(t, "expired")
	own, other := f.leases("node-maintenance"), f.leases("NodeHealthCheck-workers")
	f.acquire(own)
	f.clock.SetTime(f.clock.Now().Add(2 * time.Hour))
	if since, err := own.HeldSince(t.Context(), f.node.Name); err != nil || !since.IsZero() {
		t.Errorf("the expired lease is held since %s (%v)", since, err)
	}
	f.acquire(other)
	var held *nodelease.AlreadyHeldError
	if _, err := own.Acquire(t.Context(), f.node); !errors.As(err, &held) {
		t.Errorf("the former holder gets %v", err)
	}
	if err := own.Release(t.Context(), f.node.Name); err != nil {
		t.Error(err)
	}
	if lease, err := f.get(); err != nil || *lease.Spec.HolderIdentity != "NodeHealthCheck-workers" || *lease.Spec.LeaseTransitions != 1 {
		t.Errorf("the lease is %+v (%v)", lease.Spec, err)
	}
	if err := other.Release(t.Context(), f.node.Name); err != nil {
		t.Error(err)
	}
	if _, err := f.get(); !apierrors.IsNotFound(err) {
		t.Errorf("reading the released lease gives %v", err)
	}
	if err := other.Release(t.Context(), f.node.Name); err != nil {
		t.Errorf("a second release gives %v", err)
	}
}

// TestAcquire_ConcurrentHolders has many holders acquire the lease of one node, first a new one, then an expired one.
func TestAcquire_ConcurrentHolders(t *testing.T) {
	const holders = 12
	f := newLeaseTest(t, "race")
	for round := range 5 {
		var acquired atomic.Int32
		var group sync.WaitGroup
		for i := range holders {
			group.Go(func() {
				_, err := f.leases(fmt.Sprintf("holder-%d-%d", round, i)).Acquire(t.Context(), f.node)
				var held *nodelease.AlreadyHeldError
				switch {
				case err == nil:
					acquired.Add(1)
				case !errors.As(err, &held) && !apierrors.IsConflict(err):
					t.Errorf("acquiring the lease gives %v", err)
				}
			})
		}
		group.Wait()
		if acquired.Load() != 1 {
			t.Errorf("round %d: %d holders acquired the lease", round, acquired.Load())
		}
		f.clock.SetTime(f.clock.Now().Add(nodelease.Duration + time.Second))
	}
}

// TestRelease_LeaseTakenOverAfterRead has another holder take the lease over between the read and the delete of a release.
func TestRelease_LeaseTakenOverAfterRead(t *testing.T) {
	f := newLeaseTest(t, "meanwhile")
	own := f.leases("own")
	f.acquire(own)
	own.Client = beforeDelete{f.admin, func(ctx context.Context) error {
		lease, err := f.get()
		if err == nil {
			lease.Spec.HolderIdentity = new("other")
			err = f.admin.Update(ctx, lease)
		}
		return err
	}}
	if err := own.Release(t.Context(), f.node.Name); !apierrors.IsConflict(err) {
		t.Errorf("the release gives %v, want a conflict", err)
	}
	if lease, err := f.get(); err != nil || *lease.Spec.HolderIdentity != "other" {
		t.Errorf("the lease of the other holder is %+v (%v)", lease.Spec, err)
	}
}

// beforeDelete is a client that calls a function before each delete.
type beforeDelete struct {
	client.Client

	before func(ctx context.Context) error
}

func (c beforeDelete) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.before(ctx); err != nil {
		return err
	}
	return c.Client.Delete(ctx, object, options...)
}

// TestAcquire_NamespaceMissing acquires a lease where its namespace does not exist, without the permission to create one and then with it.
func TestAcquire_NamespaceMissing(t *testing.T) {
	const user, namespace = "lease-holder", "leases-elsewhere"
	f := newLeaseTest(t, "homeless")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: nodelease.Namespace(), Name: user}}
	if err := f.admin.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	config, err := env.AsServiceAccount(t.Context(), nodelease.Namespace(), user)
	if err != nil {
		t.Fatal(err)
	}
	allow := func(name, group, resource string) {
		t.Helper()
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get", "create", "update", "delete"}}},
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: nodelease.Namespace(), Name: user}},
		}
		for _, object := range []client.Object{role, binding} {
			if err := f.admin.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	leases := f.leases("own")
	leases.Client, leases.Reader, leases.Namespace = harness.ClientFor(t, config), f.admin, namespace
	// The API server's authorizer learns of a new binding by a watch.
	eventually := func(what string, done func(error) bool) {
		t.Helper()
		var err error
		wait := func(context.Context) (bool, error) {
			_, err = leases.Acquire(t.Context(), f.node)
			return done(err), nil
		}
		if polled := utilwait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, wait); polled != nil {
			t.Fatalf("%s: acquiring the lease gives %v", what, err)
		}
	}
	eventually("without a Role", func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "Drover's Role in it exist")
	})
	allow("test-leases", "coordination.k8s.io", "leases")
	eventually("without the namespace", func(err error) bool {
		var missing *nodelease.NamespaceError
		return errors.As(err, &missing) && missing.Namespace == namespace && apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)
	})
	allow("test-namespaces", "", "namespaces")
	eventually("with the permission to create it", func(err error) bool { return err == nil })
}
