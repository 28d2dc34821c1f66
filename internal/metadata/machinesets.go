package metadata

import (
	"context"
	"sync"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/metadata/plan"
)

// machineSet is a MachineSet that was parsed once for all of its Machines.
type machineSet struct {
	*machinev1beta1.MachineSet
	key         types.NamespacedName
	version     string
	declaration *plan.Declaration
	membership  machineapi.Membership
	// invalid is why the selector cannot be used; such a MachineSet has no Machines.
	invalid error
}

// declared returns what a MachineSet declares; nil for no MachineSet.
func (s *machineSet) declared() *plan.Declaration {
	if s == nil {
		return nil
	}
	return s.declaration
}

// isWritten reports whether the Machines of the MachineSet get what it declares: it is not paused, and has Machines.
func (s *machineSet) isWritten() bool { return !s.declaration.Paused && s.invalid == nil }

// has reports whether a Machine belongs to the MachineSet.
func (s *machineSet) has(machine *machinev1beta1.Machine) bool {
	return s.invalid == nil && s.membership.Has(machine)
}

// machineSets keeps every MachineSet parsed at its current resourceVersion: thousands of Machines ask for the same few.
type machineSets struct {
	cache  client.Reader
	mu     sync.Mutex
	parsed map[types.NamespacedName]*machineSet
	// ambiguous are the MachineSets with an ambiguous Machine that has been reported.
	ambiguous map[types.NamespacedName]bool
}

func newMachineSets(cache client.Reader) *machineSets {
	return &machineSets{cache: cache, parsed: map[types.NamespacedName]*machineSet{}, ambiguous: map[types.NamespacedName]bool{}}
}

// parse returns a MachineSet parsed, once for each resourceVersion.
func (s *machineSets) parse(set *machinev1beta1.MachineSet) *machineSet {
	key := client.ObjectKeyFromObject(set)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.parsed[key]; found != nil && found.version == set.ResourceVersion {
		return found
	}
	parsed := &machineSet{MachineSet: set, key: key, version: set.ResourceVersion, declaration: plan.DeclarationOf(set)}
	parsed.membership, parsed.invalid = machineapi.MembershipOf(set)
	s.parsed[key] = parsed
	return parsed
}

func (s *machineSets) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parsed, key)
	delete(s.ambiguous, key)
}

// of returns the MachineSet that a Machine belongs to. It returns several when the Machine has no controller and several selectors match it.
func (s *machineSets) of(ctx context.Context, machine *machinev1beta1.Machine) (found []*machineSet, err error) {
	sets, err := lookup.SetsOf(ctx, s.cache, machine, func(set *machinev1beta1.MachineSet) bool { return s.parse(set).has(machine) })
	for _, set := range sets {
		if parsed := s.parse(set); parsed.has(machine) {
			found = append(found, parsed)
		}
	}
	return found, err
}

// firstAmbiguity reports whether no ambiguous Machine of a MachineSet has been reported yet.
func (s *machineSets) firstAmbiguity(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ambiguous[key] {
		return false
	}
	s.ambiguous[key] = true
	return true
}
