package healthcheck

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machineapi"
)

// observeGroups reads what the limits of remediations apply to: all Machines of the owners of the targets, with their MachineSets. It reads nothing
// where there is no limit, or nothing to remediate.
func (rc *reconciliation) observeGroups(ctx context.Context, current *snapshot) ([]plan.Group, error) {
	in, limits := &current.input, current.decision.Limits
	if !limits.Any() || len(current.decision.Remediations) == 0 {
		return nil, nil
	}
	owners := ownersOf(rc.check.UID, in.Targets)
	group := plan.Group{
		Limits: limits, Selected: len(in.Targets), Machines: slices.Clone(in.Targets), LastStart: rc.starts.last(owners), ControllerStart: rc.startTime,
	}
	var err error
	if group.Replicas, err = rc.observeReplicas(ctx, owners); err != nil {
		return nil, err
	}
	var machines machinev1beta1.MachineList
	if err := rc.cache.List(ctx, &machines, client.InNamespace(rc.key.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Machines of namespace %s: %w", rc.key.Namespace, err)
	}
	targets := make(map[types.UID]bool, len(in.Targets))
	for i := range in.Targets {
		targets[in.Targets[i].Machine.UID] = true
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		if targets[machine.UID] || !owners[machineapi.ControllerUID(machine)] {
			continue
		}
		target, err := rc.readTarget(ctx, machine, &external{})
		if err != nil {
			return nil, err
		}
		group.Machines = append(group.Machines, target)
	}
	return []plan.Group{group}, rc.addRequests(ctx, in.Checks, group.Machines)
}

// ownersOf returns the owners of some Machines. The MachineHealthCheck stands for that of Machines without an owner.
func ownersOf(check types.UID, targets []plan.Target) map[types.UID]bool {
	owners := map[types.UID]bool{}
	for i := range targets {
		owners[startOf(check, targets[i].Machine)] = true
	}
	return owners
}

// startOf returns by which UID the start of a remediation is recorded.
func startOf(check types.UID, machine *machinev1beta1.Machine) types.UID {
	if owner := machineapi.ControllerUID(machine); owner != "" {
		return owner
	}
	return check
}

// observeReplicas reads how many Machines the MachineSets among some owners want.
func (rc *reconciliation) observeReplicas(ctx context.Context, owners map[types.UID]bool) (map[types.UID]int, error) {
	var sets machinev1beta1.MachineSetList
	if err := rc.cache.List(ctx, &sets, client.InNamespace(rc.key.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the MachineSets of namespace %s: %w", rc.key.Namespace, err)
	}
	replicas := map[types.UID]int{}
	for i := range sets.Items {
		if set := &sets.Items[i]; owners[set.UID] && set.DeletionTimestamp == nil && set.Spec.Replicas != nil {
			replicas[set.UID] = int(*set.Spec.Replicas)
		}
	}
	return replicas, nil
}

// addRequests sets which Machines other MachineHealthChecks have handed over for external remediation. Each may have a template of its own kind.
func (rc *reconciliation) addRequests(ctx context.Context, checks []machinev1beta1.MachineHealthCheck, machines []plan.Target) error {
	for i := range checks {
		check := &checks[i]
		if check.UID == rc.check.UID || check.Spec.RemediationTemplate == nil {
			continue
		}
		selector, err := plan.Selector(check)
		if err != nil || !slices.ContainsFunc(machines, func(t plan.Target) bool { return selector.Matches(labels.Set(t.Machine.Labels)) }) {
			continue
		}
		// Without its kind, or the permission to list it, the other one cannot create requests either.
		requests, _ := rc.observeRequests(ctx, check.Spec.RemediationTemplate)
		if requests.err != nil {
			return requests.err
		}
		for j := range machines {
			if t := &machines[j]; !t.Requested && requests.has(t.Machine) {
				t.Requested, t.RequestedAt = true, requests.createdAt(t.Machine, rc.now)
			}
		}
	}
	return nil
}

// starts are when remediations were last started, by the owner of the Machine, for all MachineHealthChecks together.
type starts struct {
	mu     sync.Mutex
	owners map[types.UID]time.Time
}

func newStarts() *starts { return &starts{owners: map[types.UID]time.Time{}} }

// maxInterval is longer than any interval between remediations that makes sense. Starts that are longer ago are forgotten.
const maxInterval = 24 * time.Hour

// record sets when a remediation was started.
func (s *starts) record(owner types.UID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, last := range s.owners {
		if at.Sub(last) > maxInterval {
			delete(s.owners, other)
		}
	}
	s.owners[owner] = at
}

// last returns when the last remediation of some owners was started; zero for never.
func (s *starts) last(owners map[types.UID]bool) (last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner := range owners {
		if at := s.owners[owner]; at.After(last) {
			last = at
		}
	}
	return last
}
