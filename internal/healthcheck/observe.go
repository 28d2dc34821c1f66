package healthcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gather reads the Machines that the MachineHealthCheck selects, and their Nodes, from the caches. It is done anew before each
// remediation of a pass.
func (p *pass) gather(ctx context.Context) error {
	in := input{check: p.check, now: p.now}
	selector, err := metav1.LabelSelectorAsSelector(&p.check.Spec.Selector)
	if p.selectorError = err; err != nil {
		p.in = in
		return nil //nolint:nilerr // a condition tells it, and trying again would not help
	}
	machines := &machinev1beta1.MachineList{}
	err = p.reader.List(ctx, machines, client.InNamespace(p.check.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return fmt.Errorf("listing the Machines of MachineHealthCheck %s: %w", p.key, err)
	}
	others, err := p.findRivals(ctx)
	if err != nil {
		return err
	}
	in.targets = make([]target, len(machines.Items))
	for i := range machines.Items {
		if in.targets[i], err = p.targetOf(ctx, &machines.Items[i], others); err != nil {
			return err
		}
	}
	p.in, p.rivals = in, others
	p.memory.keep(p.in.targets)
	return nil
}

// targetOf gathers what is known of one Machine.
func (p *pass) targetOf(ctx context.Context, machine *machinev1beta1.Machine, others rivals) (target, error) {
	leaving, err := p.deletions.Pending(ctx, string(machine.UID))
	if err != nil {
		return target{}, err
	}
	t := target{
		machine: machine, leaving: leaving, elder: others.meet(machine),
		behind: p.versions.Pending(ctx, machine), requested: p.outside.requested(machine),
	}
	if phaseOf(machine) == "" && nodeName(machine) == "" {
		p.memory.of(machine.UID).idle = p.now
	}
	if seen := p.memory.machines[machine.UID]; seen != nil {
		t.idle = seen.idle
	}
	node, err := p.nodeOf(ctx, p.reader, machine)
	t.node = node
	return t, err
}

// nodeOf returns a Machine's Node, nil when it names none, or there is none of that name.
func (p *pass) nodeOf(ctx context.Context, from client.Reader, machine *machinev1beta1.Machine) (*corev1.Node, error) {
	name := nodeName(machine)
	if name == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	err := from.Get(ctx, types.NamespacedName{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return node, nil
}

// terminationHandler is the MachineHealthCheck that OpenShift has for spot instances. It answers to notices of their end and to nothing
// else, and overlaps with whatever else selects such Machines on purpose.
const terminationHandler = "machine-api-termination-handler"

// rival is another MachineHealthCheck of the namespace.
type rival struct {
	name     string
	selector labels.Selector
	// older rivals act, younger ones leave alone what both select.
	older bool
	// met tells that there is a Machine that both select.
	met bool
}

// rivals are sorted from the oldest on.
type rivals []*rival

// findRivals lists the other MachineHealthChecks of the namespace. A paused one keeps its Machines: pausing it is no wish that another
// one acts.
func (p *pass) findRivals(ctx context.Context) (rivals, error) {
	checks := &machinev1beta1.MachineHealthCheckList{}
	if err := p.reader.List(ctx, checks, client.InNamespace(p.check.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the MachineHealthChecks of namespace %s: %w", p.check.Namespace, err)
	}
	slices.SortFunc(checks.Items, func(a, b machinev1beta1.MachineHealthCheck) int { return compareAge(&a, &b) })
	var found rivals
	for i := range checks.Items {
		other := &checks.Items[i]
		if other.UID == p.check.UID || other.DeletionTimestamp != nil || other.Name == terminationHandler || p.check.Name == terminationHandler {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&other.Spec.Selector)
		if err != nil {
			continue
		}
		found = append(found, &rival{name: other.Name, selector: selector, older: compareAge(other, p.check) < 0})
	}
	return found, nil
}

func compareAge(a, b *machinev1beta1.MachineHealthCheck) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// meet notes the rivals that select a Machine, and returns the oldest of those that are older; empty for none.
func (r rivals) meet(machine *machinev1beta1.Machine) (elder string) {
	for _, other := range r {
		if !other.selector.Matches(labels.Set(machine.Labels)) {
			continue
		}
		other.met = true
		if elder == "" && other.older {
			elder = other.name
		}
	}
	return elder
}

// state is what the condition SelectorExclusive says. It names no Machines: they change too often.
func (r rivals) state() state {
	var texts []string
	for _, other := range r {
		switch {
		case other.met && other.older:
			texts = append(texts, other.name+", which is older and acts on them")
		case other.met:
			texts = append(texts, other.name+", which is younger and leaves them alone")
		}
	}
	if len(texts) == 0 {
		return met(reasonExclusive, "")
	}
	return unmet(machinev1beta1.ConditionSeverityWarning, reasonOverlap,
		"some of these Machines are selected by other MachineHealthChecks, too: "+strings.Join(texts, "; "))
}
