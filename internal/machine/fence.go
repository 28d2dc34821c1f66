package machine

import (
	"context"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelink"
)

// settled is when a cache shows everything from before this process at the latest: the API server tells each watch once a minute how far it is.
const settled = 5 * time.Minute

// askAgain is how soon the API server is asked again that has not answered.
const askAgain = 2 * time.Second

// fence is the moment at which this process began to work. What the process before it has written may not be in the caches yet: their first
// lists may come from a server that lags behind, and a replica in waiting hears of the last writes of the one that led a moment later.
type fence struct {
	begun           time.Time
	machines, nodes mark
}

// mark is how new the cache of one kind has to be. Each kind has its own: an API server may keep them in stores of their own, whose versions
// say nothing of each other. The zero value is met by every cache.
type mark struct {
	version string
	// seen tells how new the cache is; empty for not known.
	seen func() string
}

// newFence asks the API server for its present versions.
func newFence(ctx context.Context, cache ctrlcache.Cache, live client.Reader, namespace string, clock clock.PassiveClock) (f fence, err error) {
	f.begun = clock.Now()
	var machines machinev1beta1.MachineList
	if f.machines, err = newMark(ctx, cache, live, &machinev1beta1.Machine{}, &machines, client.InNamespace(namespace)); err != nil {
		return f, err
	}
	f.nodes, err = newMark(ctx, cache, live, &corev1.Node{}, &corev1.NodeList{})
	return f, err
}

func newMark(
	ctx context.Context, cache ctrlcache.Cache, live client.Reader, kind client.Object, list client.ObjectList, where ...client.ListOption,
) (m mark, err error) {
	err = wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		if err := live.List(ctx, list, append(where, client.Limit(1))...); err != nil {
			log.FromContext(ctx).Error(err, "cannot ask how new the cache has to be; trying again", "kind", fmt.Sprintf("%T", kind))
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return m, err
	}
	m.version = list.GetResourceVersion()
	m.seen, err = expectations.StoreVersion(ctx, cache, kind)
	return m, err
}

// passed tells whether a cache shows everything from before this process.
func (f *fence) passed(m *mark, now time.Time) bool {
	return m.version == "" || m.after(m.seen()) || !now.Before(f.begun.Add(settled))
}

// after tells whether a version is not older than the mark; of what cannot be compared it is not.
func (m *mark) after(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, m.version)
	return err == nil && order >= 0
}

// unborn makes sure that a Machine has no instance and is to have one. What the cache shows from before this process may be old: another
// instance would be made, or one for a Machine that is gone.
func (p *pass) unborn(ctx context.Context) error {
	mark := &p.fence.machines
	if p.fence.passed(mark, p.now) || mark.after(p.machine.ResourceVersion) {
		return nil
	}
	live := &machinev1beta1.Machine{}
	if err := p.Live.Get(ctx, p.key, live); err != nil {
		return fmt.Errorf("reading Machine %s: %w", p.key, err)
	}
	if live.UID != p.machine.UID || live.DeletionTimestamp != nil || nodelink.ProviderID(live) != nodelink.ProviderID(p.machine) {
		return apierrors.NewConflict(machinev1beta1.Resource("machines"), p.key.Name, errOld)
	}
	return nil
}

var errOld = fmt.Errorf("the cache has yet to show what was written before this process began")

// unregistered makes sure that a Machine that goes has no Node, where the cache shows none. It tells whether that is certain.
func (p *pass) unregistered(ctx context.Context) (certain bool, err error) {
	if p.fence.passed(&p.fence.nodes, p.now) {
		return true, nil
	}
	ref := p.machine.Status.NodeRef
	if ref == nil {
		// It may have come just before; nobody knows its name.
		return p.found.instance == nil && nodelink.ProviderID(p.machine) == "" && len(p.machine.Status.Addresses) == 0, nil
	}
	node := &corev1.Node{}
	err = p.Live.Get(ctx, types.NamespacedName{Name: ref.Name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading Node %s: %w", ref.Name, err)
	}
	return node.UID != ref.UID && node.Spec.ProviderID != nodelink.ProviderID(p.machine), nil
}
