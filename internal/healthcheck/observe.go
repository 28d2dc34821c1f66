package healthcheck

import (
	"context"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/undecodable"
)

// snapshot is what a reconciliation has observed at one moment, and the decision that follows from it.
type snapshot struct {
	input    plan.Input
	external *external
	decision plan.Decision
	// unlimited is why the limits of the MachineHealthCheck cannot be applied; nil if they are.
	unlimited error
}

// observe reads the Machines that the MachineHealthCheck selects and their Nodes, and has package plan decide. It is repeated after each remediation:
// what was true for the first one need not be for the next.
func (rc *reconciliation) observe(ctx context.Context, requests *external) (*snapshot, error) {
	current := &snapshot{input: plan.Input{Check: rc.check, Limits: rc.options.Limits, Now: rc.now}, external: requests}
	in := &current.input
	// Without a valid selector there are no Machines; the decision says why.
	if selector, err := plan.Selector(rc.check); err == nil {
		var machines machinev1beta1.MachineList
		if err := rc.cache.List(ctx, &machines, client.InNamespace(rc.key.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return nil, fmt.Errorf("listing the Machines of MachineHealthCheck %s: %w", rc.key, err)
		}
		var checks machinev1beta1.MachineHealthCheckList
		if err := rc.cache.List(ctx, &checks, client.InNamespace(rc.key.Namespace)); err != nil {
			return nil, fmt.Errorf("listing the MachineHealthChecks of namespace %s: %w", rc.key.Namespace, err)
		}
		in.Checks, in.Targets = checks.Items, make([]plan.Target, len(machines.Items))
		for i := range machines.Items {
			if in.Targets[i], err = rc.observeMachine(ctx, &machines.Items[i], requests); err != nil {
				return nil, err
			}
		}
	}
	rc.state.prune(in.Targets)
	rc.failures.remove(func(_ types.UID, known plan.StartFailures) bool { return known.Expired(rc.now, maxStartupTimeout) })
	in.Failures = rc.failures.of(ownersOf(rc.check.UID, in.Targets))
	current.decision = plan.Decide(in)
	rc.failures.remove(func(owner types.UID, _ plan.StartFailures) bool {
		return slices.Contains(current.decision.Recovered, owner)
	})
	return current, rc.limit(ctx, current)
}

// limit has the limits of the MachineHealthCheck apply to its remediations. It reads all Machines of the owners of the targets, and nothing where
// there is no limit, or nothing to remediate.
func (rc *reconciliation) limit(ctx context.Context, current *snapshot) error {
	targets := current.input.Targets
	if !current.decision.Limits.Any() || len(current.decision.Remediations) == 0 {
		return nil
	}
	selected, owners := map[types.UID]bool{}, ownersOf(rc.check.UID, targets)
	group := plan.Group{
		Machines: slices.Clone(targets), Selected: len(targets), Starts: rc.starts.of(owners), ControllerStart: rc.startTime,
	}
	for i := range targets {
		selected[targets[i].Machine.UID] = true
	}
	var sets machinev1beta1.MachineSetList
	if err := rc.cache.List(ctx, &sets, client.InNamespace(rc.key.Namespace)); err != nil {
		return fmt.Errorf("listing the MachineSets of namespace %s: %w", rc.key.Namespace, err)
	}
	var machines machinev1beta1.MachineList
	if err := rc.cache.List(ctx, &machines, client.InNamespace(rc.key.Namespace)); err != nil {
		return fmt.Errorf("listing the Machines of namespace %s: %w", rc.key.Namespace, err)
	}
	for i := range machines.Items {
		if machine := &machines.Items[i]; !selected[machine.UID] && owners[machineapi.ControllerUID(machine)] {
			target, err := rc.readTarget(ctx, machine, &external{})
			if err != nil {
				return err
			}
			group.Machines = append(group.Machines, target)
		}
	}
	group.Sets = sets.Items
	var err error
	if group.Requested, err = rc.requests.List(ctx, rc.key.Namespace); err != nil {
		// Another MachineHealthCheck's kind may be broken: the status says why no remediation starts.
		current.unlimited = fmt.Errorf("counting the remediations of namespace %s: %w", rc.key.Namespace, err)
		current.decision.Fail(current.unlimited)
		return nil
	}
	current.decision.PrepareLimits(&group)
	return nil
}

// observeMachine reads what is known of one Machine that the MachineHealthCheck selects.
func (rc *reconciliation) observeMachine(ctx context.Context, machine *machinev1beta1.Machine, requests *external) (plan.Target, error) {
	target, err := rc.readTarget(ctx, machine, requests)
	if err != nil {
		return target, err
	}
	if plan.PhaseOf(machine) == "" && machineapi.NodeName(machine) == "" {
		rc.state.machine(machine.UID).unprovisioned = rc.now
	}
	if known := rc.state.machines[machine.UID]; known != nil {
		target.Unprovisioned = known.unprovisioned
	}
	return target, nil
}

// readTarget reads a Machine's Node, and what has been requested for it.
func (rc *reconciliation) readTarget(ctx context.Context, machine *machinev1beta1.Machine, requests *external) (plan.Target, error) {
	deleted, err := rc.deletions.Pending(ctx, string(machine.UID))
	if err != nil {
		return plan.Target{}, err
	}
	target := plan.Target{
		Machine: machine, Deleted: deleted, Stale: rc.versions.Pending(ctx, machine), Requested: requests.has(machine),
	}
	if target.OwnerProblem, err = rc.ownerProblem(ctx, machine); err != nil {
		return target, err
	}
	target.Node, err = readNode(ctx, rc.cache, machine)
	return target, err
}

// ownerProblem returns why the MachineSet of a Machine does not replace it: it cannot be decoded.
func (rc *reconciliation) ownerProblem(ctx context.Context, machine *machinev1beta1.Machine) (string, error) {
	owner := metav1.GetControllerOfNoCopy(machine)
	if owner == nil || owner.Kind != "MachineSet" {
		return "", nil
	}
	err := rc.cache.Get(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: owner.Name}, &machinev1beta1.MachineSet{})
	switch {
	case undecodable.Is(err):
		return err.Error(), nil
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("reading MachineSet %s/%s: %w", machine.Namespace, owner.Name, err)
	}
	return "", nil
}

// readNode returns a Machine's Node; nil when it names none, or when that does not exist.
func readNode(ctx context.Context, from client.Reader, machine *machinev1beta1.Machine) (*corev1.Node, error) {
	name := machineapi.NodeName(machine)
	if name == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	switch err := from.Get(ctx, types.NamespacedName{Name: name}, node); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Node %s: %w", name, err)
	}
	return node, nil
}
