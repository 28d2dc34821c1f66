package metadata

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// declared is a MachineSet read once for all of its Machines.
type declared struct {
	version    string
	set        *machinev1beta1.MachineSet
	pool       *plan.Declaration
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
	// ambiguous are the MachineSets that have been told of a Machine that another one selects as well.
	ambiguous map[types.NamespacedName]bool
}

func newPools(reader client.Reader) *pools {
	return &pools{reader: reader, known: map[types.NamespacedName]*declared{}, ambiguous: map[types.NamespacedName]bool{}}
}

// read reads a MachineSet, or finds it read already.
func (p *pools) read(set *machinev1beta1.MachineSet) *declared {
	key := client.ObjectKeyFromObject(set)
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.known[key]; found != nil && found.version == set.ResourceVersion {
		return found
	}
	read := &declared{version: set.ResourceVersion, set: set, pool: plan.DeclarationOf(set)}
	read.membership, read.invalid = plan.MembershipOf(set)
	p.known[key] = read
	return read
}

func (p *pools) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, key)
	delete(p.ambiguous, key)
}

// of finds the MachineSet that a Machine belongs to; none where there is none, and all of them where several take it and nothing tells
// whose it is.
func (p *pools) of(ctx context.Context, machine *machinev1beta1.Machine) ([]*declared, error) {
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil {
		return p.owner(ctx, machine, owner)
	}
	var sets machinev1beta1.MachineSetList
	if err := p.reader.List(ctx, &sets, client.InNamespace(machine.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the MachineSets of %s: %w", machine.Namespace, err)
	}
	var found []*declared
	for i := range sets.Items {
		if candidate := p.read(&sets.Items[i]); candidate.has(machine) {
			found = append(found, candidate)
		}
	}
	return found, nil
}

func (p *pools) owner(ctx context.Context, machine *machinev1beta1.Machine, owner *metav1.OwnerReference) ([]*declared, error) {
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
	if read := p.read(set); read.has(machine) {
		return []*declared{read}, nil
	}
	return nil, nil
}

// unique tells whose a Machine is of those that take it; nil for nobody's. Where several do, each hears of it, once.
func (r *Reconciler) unique(ctx context.Context, machine *machinev1beta1.Machine, found []*declared) *declared {
	if len(found) == 1 {
		return found[0]
	}
	names := make([]string, 0, len(found))
	for _, one := range found {
		names = append(names, one.pool.Key.Name)
	}
	slices.Sort(names)
	all := strings.Join(names, ", ")
	for _, one := range found {
		if r.pools.first(one.pool.Key) {
			r.notices.warning(one.set, EventAmbiguous,
				"the selectors of several MachineSets (%s) match Machine %s, which has no controller: such Machines have no pool", all, machine.Name)
			log.FromContext(ctx).Info("several MachineSets select a Machine without a controller: it has no pool",
				"machineset", one.pool.Key.String(), "machinesets", all)
		}
	}
	return nil
}

// first tells whether this is the first Machine that a MachineSet and another one both select.
func (p *pools) first(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ambiguous[key] {
		return false
	}
	p.ambiguous[key] = true
	return true
}

// checkSelector tells of a MachineSet whose selector cannot be read, for it takes no Machines and looks as if all were well.
func (r *Reconciler) checkSelector(ctx context.Context, set *machinev1beta1.MachineSet) {
	if invalid := r.pools.read(set).invalid; invalid != nil {
		r.notices.warning(set, EventInvalid, "%v; the MachineSet has no Machines until this is corrected", invalid)
		log.FromContext(ctx).Error(invalid, "a MachineSet has no Machines", "machineset", client.ObjectKeyFromObject(set).String())
	}
}
