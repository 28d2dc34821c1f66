package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
)

// write creates the lease of the Node with a holder, empty for none, renewed and acquired some time ago.
func (f *leaseTest) write(holder string, age time.Duration) {
	f.Helper()
	at := metav1.NewMicroTime(f.clock.Now().Add(-age))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-" + f.node.Name}}
	lease.Spec = coordinationv1.LeaseSpec{RenewTime: &at, AcquireTime: &at, LeaseDurationSeconds: new(int32(3600))}
	if holder != "" {
		lease.Spec.HolderIdentity = &holder
	}
	if err := f.admin.Create(f.Context(), lease); err != nil {
		f.Fatal(err)
	}
}

// holder returns the holder that the API server has, "-" when there is no lease.
func (f *leaseTest) holder() string {
	f.Helper()
	lease, err := f.get()
	if apierrors.IsNotFound(err) {
		return "-"
	}
	if err != nil {
		f.Fatal(err)
	}
	return nodelease.HolderOf(lease)
}

// TestLeases_NotAcquired: a caller that may not have acquired the lease does not acquire it, and does not renew or release another holder's lease.
func TestLeases_NotAcquired(t *testing.T) {
	for i, c := range []struct {
		name   string
		holder string
		age    time.Duration
		// isHolder and mustWait are what is reported, next is the delay until the next renewal, released the holder after the release.
		isHolder, mustWait bool
		next               time.Duration
		released           string
	}{
		{"no lease", "-", 0, false, false, 0, "-"},
		{"own", "own", 15 * time.Minute, true, false, 5 * time.Minute, "-"},
		{"own, renewal due", "own", 30 * time.Minute, true, false, 20 * time.Minute, "-"},
		{"own, expired", "own", 2 * time.Hour, true, false, 20 * time.Minute, "-"},
		{"of another holder", "other", time.Minute, false, true, 0, "other"},
		{"of another holder, expired", "other", 2 * time.Hour, false, false, 0, "other"},
		{"without a holder", "", time.Minute, false, true, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newLeaseTest(t, fmt.Sprintf("not-acquired-%d", i))
			if c.holder != "-" {
				f.write(c.holder, c.age)
			}
			own := f.leases("own")
			if is, err := own.IsHolder(t.Context(), f.node.Name); err != nil || is != c.isHolder {
				t.Errorf("is the holder: %t (%v)", is, err)
			}
			held, err := own.HeldByOther(t.Context(), f.node.Name)
			if err != nil || (held != nil) != c.mustWait {
				t.Errorf("held by another: %v (%v)", held, err)
			}
			until := f.clock.Now().Add(nodelease.Duration - c.age)
			if held != nil && (held.Holder != c.holder || held.Until.Sub(until).Abs() > time.Second) {
				t.Errorf("held by %q until %s, want %q until %s", held.Holder, held.Until, c.holder, until)
			}
			if next, err := own.RenewIfHolder(t.Context(), f.node); err != nil || next.Round(time.Second) != c.next {
				t.Errorf("the next renewal is in %s, want %s (%v)", next, c.next, err)
			}
			if got := f.holder(); got != c.holder {
				t.Errorf("after the renewal the holder is %q, want %q", got, c.holder)
			}
			if err := own.ReleaseIfHolder(t.Context(), f.node.Name); err != nil {
				t.Error(err)
			}
			if got := f.holder(); got != c.released {
				t.Errorf("after the release the holder is %q, want %q", got, c.released)
			}
		})
	}
}

// TestRelease_KeepReleased: a released lease that is kept has no holder and no times, so that the next holder need not wait for it.
func TestRelease_KeepReleased(t *testing.T) {
	f := newLeaseTest(t, "kept")
	own, other := f.leases("own"), f.leases("other")
	own.KeepReleased = true
	f.acquire(own)
	if err := own.Release(t.Context(), f.node.Name); err != nil {
		t.Fatal(err)
	}
	released, err := f.get()
	spec := released.Spec
	if err != nil || spec.HolderIdentity != nil || spec.RenewTime != nil || spec.AcquireTime != nil || spec.LeaseDurationSeconds != nil {
		t.Errorf("the released lease is %+v (%v)", spec, err)
	}
	if err := own.Release(t.Context(), f.node.Name); err != nil {
		t.Error(err)
	}
	if again, err := f.get(); err != nil || again.ResourceVersion != released.ResourceVersion {
		t.Errorf("the second release writes %+v (%v)", again.Spec, err)
	}
	f.acquire(other)
	if lease, err := f.get(); err != nil || nodelease.HolderOf(lease) != "other" || *lease.Spec.LeaseTransitions != 1 {
		t.Errorf("acquired by another holder the lease is %+v (%v)", lease.Spec, err)
	}
	if err := own.Release(t.Context(), f.node.Name); err != nil || f.holder() != "other" {
		t.Errorf("the release by the former holder leaves %q (%v)", f.holder(), err)
	}
}

// TestLeases_NameOf: leases of another format have another name; they do not exclude leases of the medik8s format.
func TestLeases_NameOf(t *testing.T) {
	f := newLeaseTest(t, "named")
	own, other := f.leases("own"), f.leases("other")
	other.NameOf = func(node string) string { return node }
	f.acquire(own)
	f.acquire(other)
	lease := &coordinationv1.Lease{}
	if err := f.admin.Get(t.Context(), client.ObjectKey{Namespace: "medik8s-leases", Name: "named"}, lease); err != nil {
		t.Fatal(err)
	}
	if nodelease.HolderOf(lease) != "other" || f.holder() != "own" {
		t.Errorf("the holders are %q and %q", nodelease.HolderOf(lease), f.holder())
	}
	if err := other.Release(t.Context(), f.node.Name); err != nil || f.holder() != "own" {
		t.Errorf("the release of one leaves %q as the holder of the other (%v)", f.holder(), err)
	}
	if is, err := other.IsHolder(t.Context(), f.node.Name); err != nil || is {
		t.Errorf("released, the holder is still it: %t (%v)", is, err)
	}
}

// lagging is the cache of leases: it shows what it was last synced with.
type lagging struct {
	client.Reader

	shown  *coordinationv1.Lease
	refuse error
}

func (r *lagging) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	lease, isLease := object.(*coordinationv1.Lease)
	switch {
	case r.refuse != nil:
		return r.refuse
	case !isLease || r.shown == nil:
		return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
	}
	r.shown.DeepCopyInto(lease)
	return nil
}

// TestLeases_CacheLags: while the cache does not show the last write of a lease, nothing is decided about it: the lease would be acquired twice, or
// left behind.
func TestLeases_CacheLags(t *testing.T) {
	f := newLeaseTest(t, "lagging")
	cache := &lagging{}
	own := f.leases("own")
	own.Reader = cache
	own.Written = expectations.NewOwned(cache, func() client.Object { return &coordinationv1.Lease{} }, expectations.OwnedOptions{Clock: f.clock})
	sync := func() {
		t.Helper()
		lease, err := f.get()
		if cache.shown = lease; apierrors.IsNotFound(err) {
			cache.shown = nil
		} else if err != nil {
			t.Fatal(err)
		}
	}
	pending := func(after string) {
		t.Helper()
		_, acquired := own.Acquire(t.Context(), f.node)
		_, renewed := own.RenewIfHolder(t.Context(), f.node)
		_, asked := own.HeldByOther(t.Context(), f.node.Name)
		for _, err := range []error{acquired, renewed, asked, own.Release(t.Context(), f.node.Name), own.ReleaseIfHolder(t.Context(), f.node.Name)} {
			if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "the cache does not show the last write") {
				t.Errorf("after the %s the answer is %v, want a conflict", after, err)
			}
		}
	}
	f.acquire(own)
	pending("creation")
	sync()
	f.clock.SetTime(f.clock.Now().Add(30 * time.Minute))
	f.acquire(own)
	pending("renewal")
	sync()
	if err := own.Release(t.Context(), f.node.Name); err != nil {
		t.Fatal(err)
	}
	pending("release")
	sync()
	if is, err := own.IsHolder(t.Context(), f.node.Name); err != nil || is || f.holder() != "-" {
		t.Errorf("released, the holder is still it: %t (%v); the API server has %q", is, err, f.holder())
	}
	f.acquire(own)
	cache.refuse = errors.New("the cache has not started")
	if _, err := own.HeldSince(t.Context(), f.node.Name); err == nil || !strings.Contains(err.Error(), "reading the lease of node lagging: ") {
		t.Errorf("without a cache the answer is %v", err)
	}
}

// TestLeases_NoAnswer: an error of the API server is no answer about the holder, and names the Node.
func TestLeases_NoAnswer(t *testing.T) {
	f := newLeaseTest(t, "no-answer")
	f.write("own", 30*time.Minute)
	own := f.leases("own")
	answer := apierrors.NewServiceUnavailable("shutting down")
	own.Reader = &lagging{refuse: answer}
	_, acquired := own.Acquire(t.Context(), f.node)
	_, renewed := own.RenewIfHolder(t.Context(), f.node)
	held, asked := own.HeldByOther(t.Context(), f.node.Name)
	is, checked := own.IsHolder(t.Context(), f.node.Name)
	for what, err := range map[string]error{
		"acquiring": acquired, "renewing": renewed, "the other holder": asked, "the holder": checked,
		"releasing": own.Release(t.Context(), f.node.Name), "releasing if it is the holder": own.ReleaseIfHolder(t.Context(), f.node.Name),
	} {
		if !apierrors.IsServiceUnavailable(err) || !strings.HasPrefix(err.Error(), "reading the lease of node no-answer: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if held != nil || is || f.holder() != "own" {
		t.Errorf("held by another: %v, by this one: %t, the API server has %q", held, is, f.holder())
	}
}

// TestAcquire_NewNamespaceNotKnown: an API server that does not know the new namespace yet answers "not found", which must not be taken for a Node
// that is gone.
func TestAcquire_NewNamespaceNotKnown(t *testing.T) {
	var namespaces []string
	none := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			if _, isNamespace := object.(*corev1.Namespace); isNamespace {
				namespaces = append(namespaces, object.GetName())
				return nil
			}
			return apierrors.NewNotFound(corev1.Resource("namespaces"), object.GetNamespace())
		},
	}).Build()
	f := newLeaseTest(t, "new-namespace")
	own := f.leases("own")
	own.Client, own.Namespace = none, "elsewhere"
	_, err := own.Acquire(t.Context(), f.node)
	if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "namespace elsewhere has just been created") {
		t.Errorf("acquiring the lease gives %v", err)
	}
	if strings.Join(namespaces, " ") != "elsewhere" {
		t.Errorf("the namespaces %v are created", namespaces)
	}
}

// TestErrors_Text: a user has to know who has a lease for how long, and what to do about a missing namespace.
func TestErrors_Text(t *testing.T) {
	until := time.Date(2026, 11, 21, 13, 0, 0, 0, time.FixedZone("CET", 3600))
	for want, err := range map[string]error{
		`the lease of node n1 is held by "own" until 2026-11-21T12:00:00Z`: &nodelease.AlreadyHeldError{Node: "n1", Holder: "own", Until: until},
		"namespace leases, where the leases of nodes are, does not exist: create it, with Drover's Role in it (creating it: not allowed)": &nodelease.
			NamespaceError{Namespace: "leases", Err: errors.New("not allowed")},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestNamespace_FromEnvironment: the leases of the medik8s operators may be in another namespace.
func TestNamespace_FromEnvironment(t *testing.T) {
	for value, want := range map[string]string{"": "medik8s-leases", "leases": "leases"} {
		t.Setenv("LEASE_NAMESPACE", value)
		if got := nodelease.Namespace(); got != want {
			t.Errorf("LEASE_NAMESPACE=%q: %s, want %s", value, got, want)
		}
	}
}
