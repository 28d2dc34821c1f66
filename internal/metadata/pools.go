package metadata

import (
	"context"
	"fmt"
	"sync"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// declared is a MachineSet read once for all of its Machines.
type declared struct {
	version    string
	set        *machinev1beta1.MachineSet
	pool       *plan.Pool
	membership plan.Membership
	// invalid says why the membership cannot be told; such a set has no Machines.
	invalid error
}

// has tells whether a Machine is one of the set's.
func (d *declared) has(machine *machinev1beta1.Machine) bool {
	return d.invalid == nil && d.membership.Has(machine)
}

// pools keeps every MachineSet as read at its present resourceVersion: thousands of Machines ask for the same few.
type pools struct {
	reader client.Reader
	mu     sync.Mutex
	known  map[types.NamespacedName]*declared
}

func newPools(reader client.Reader) *pools {
	return &pools{reader: reader, known: map[types.NamespacedName]*declared{}}
}

// read reads a MachineSet, or finds it read already.
func (p *pools) read(set *machinev1beta1.MachineSet) *declared {
	key := client.ObjectKeyFromObject(set)
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.known[key]; found != nil && found.version == set.ResourceVersion {
		return found
	}
	read := &declared{version: set.ResourceVersion, set: set, pool: plan.PoolOf(set)}
	read.membership, read.invalid = plan.MembershipOf(set)
	p.known[key] = read
	return read
}

func (p *pools) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, key)
}

// of finds the MachineSet that a Machine belongs to; nil when there is none, or more than one and nothing tells whose it is.
func (p *pools) of(ctx context.Context, machine *machinev1beta1.Machine) (*declared, error) {
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil {
		return p.owner(ctx, machine, owner)
	}
	var sets machinev1beta1.MachineSetList
	if err := p.reader.List(ctx, &sets, client.InNamespace(machine.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the MachineSets of %s: %w", machine.Namespace, err)
	}
	var found *declared
	for i := range sets.Items {
		candidate := p.read(&sets.Items[i])
		if !candidate.has(machine) {
			continue
		}
		if found != nil {
			return nil, nil
		}
		found = candidate
	}
	return found, nil
}

func (p *pools) owner(ctx context.Context, machine *machinev1beta1.Machine, owner *metav1.OwnerReference) (*declared, error) {
	if owner.Kind != "MachineSet" {
		return nil, nil
	}
	set := &machinev1beta1.MachineSet{}
	err := p.reader.Get(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: owner.Name}, set)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading MachineSet %s/%s: %w", machine.Namespace, owner.Name, err)
	}
	read := p.read(set)
	if !read.has(machine) {
		return nil, nil
	}
	return read, nil
}
