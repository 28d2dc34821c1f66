package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/view"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/ownership"
)

// Fleet is the document of all nodes.
type Fleet struct {
	view.TypeMeta
	Items []Cell `json:"items"`
}

// NodeState says in one word how a node is.
type NodeState string

// The states, the worst first.
const (
	// Blocked: what Drover does to the node does not continue unless a person acts.
	Blocked NodeState = "Blocked"
	// Unhealthy: the Node is not Ready, or its Machine has failed.
	Unhealthy NodeState = "Unhealthy"
	// InMaintenance: a NodeMaintenance names the node.
	InMaintenance NodeState = "InMaintenance"
	// Upgrading: a gated upgrade or the machine-config-operator works on the node.
	Upgrading NodeState = "Upgrading"
	// Disrupted: another program or a user has cordoned, tainted or leased the node.
	Disrupted NodeState = "Disrupted"
	// RollingOut: the node is still to get what is declared for it, or its Machine is being replaced.
	RollingOut NodeState = "RollingOut"
	// Paused: a user has paused what is declared for the node.
	Paused NodeState = "Paused"
	// InSync: the node has what is declared for it.
	InSync NodeState = "InSync"
	// Unmanaged: neither a NodeGroup nor a MachineSet has the node.
	Unmanaged NodeState = "Unmanaged"
	// Loading: what decides about the state has not been read yet.
	Loading NodeState = "Loading"
)

// Cell is one node of the fleet.
type Cell struct {
	Name  string    `json:"name"`
	State NodeState `json:"state"`
	// Reason and Message say why the node has the state; Since is from when, if that is known.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
	// NodeGroup, MachineSet and Machine are names. They are empty for none.
	NodeGroup  string `json:"nodeGroup,omitempty"`
	MachineSet string `json:"machineSet,omitempty"`
	Machine    string `json:"machine,omitempty"`
	Zone       string `json:"zone,omitempty"`
	Version    string `json:"version,omitempty"`
	// NotReady reports that the Node is not Ready, whatever its state is.
	NotReady bool `json:"notReady,omitempty"`
	// ControlPlane reports whether the node is one of the control plane.
	ControlPlane bool `json:"controlPlane,omitempty"`
}

// Key returns the node's name.
func (c Cell) Key() string { return c.Name }

// computation is what the state of a node depends on, by the node's name.
type computation struct {
	assigned     *assignments
	items        map[string]*plan.Item
	machines     map[string]*machinev1beta1.Machine
	maintenances map[string]*medik8s.NodeMaintenance
	upgrades     map[string]mutex.NodeStatus
	leases       map[string]*coordinationv1.Lease
	// stopped are waits that need a person, of nodes and of NodeGroups.
	stopped       map[string]*Wait
	stoppedGroups map[string]*Wait
	protected     ownership.Protected
	now           time.Time
}

func newComputation(
	objects *Objects, survey *plan.Survey, assigned *assignments, waits []Wait, protected ownership.Protected, now time.Time,
) *computation {
	c := &computation{
		assigned: assigned, protected: protected, now: now,
		items: map[string]*plan.Item{}, machines: map[string]*machinev1beta1.Machine{}, maintenances: map[string]*medik8s.NodeMaintenance{},
		upgrades: map[string]mutex.NodeStatus{}, leases: map[string]*coordinationv1.Lease{},
		stopped: map[string]*Wait{}, stoppedGroups: map[string]*Wait{},
	}
	for i := range survey.Items {
		if node := survey.Items[i].Node; node != nil {
			c.items[node.Name] = &survey.Items[i]
		}
	}
	c.addMachines(objects)
	c.addWork(objects)
	c.addStopped(waits)
	return c
}

// addMachines adds the Machine of each Node. If several Machines name the Node, the Node's annotation decides: no tenant's Machine takes its place.
func (c *computation) addMachines(objects *Objects) {
	named := map[string]string{}
	for _, node := range objects.Nodes {
		named[node.Name] = node.Annotations[plan.AnnotationMachine]
	}
	for _, machine := range objects.Machines {
		node := machineapi.NodeName(machine)
		if node != "" && (c.machines[node] == nil || named[node] == machine.Namespace+"/"+machine.Name) {
			c.machines[node] = machine
		}
	}
}

// hasMachine reports whether a node has a Machine.
func (c *computation) hasMachine(node, namespace, name string) bool {
	machine := c.machines[node]
	return machine != nil && machine.Namespace == namespace && machine.Name == name
}

// addWork adds what works on nodes.
func (c *computation) addWork(objects *Objects) {
	for _, maintenance := range objects.Maintenances {
		c.maintenances[maintenance.Spec.NodeName] = maintenance
	}
	for _, run := range objects.Runs {
		for _, node := range run.Status.Nodes {
			if node.Phase != mutex.NodePending && node.Phase != mutex.NodeDone {
				c.upgrades[node.Name] = node
			}
		}
	}
	for _, lease := range objects.Leases {
		if node, found := strings.CutPrefix(lease.Name, leasePrefix); found && isLeased(lease, c.now) {
			c.leases[node] = lease
		}
	}
}

// addStopped adds the waits that need a person.
func (c *computation) addStopped(waits []Wait) {
	for i := range waits {
		switch wait := &waits[i]; {
		case wait.Urgency != Stopped, wait.Kind == kindMachine && !c.hasMachine(wait.Node, wait.Namespace, wait.Name):
		case wait.Node != "":
			c.stopped[wait.Node] = wait
		case wait.Kind == kindNodeGroup:
			c.stoppedGroups[wait.Name] = wait
		}
	}
}

// cells returns the cells of Nodes, by name.
func (c *computation) cells(nodes []*corev1.Node) []Cell {
	out := make([]Cell, 0, len(nodes))
	for _, node := range nodes {
		out = append(out, c.cell(node))
	}
	slices.SortFunc(out, func(a, b Cell) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// cellOf returns what the Node itself says.
func cellOf(node *corev1.Node) Cell {
	return Cell{
		Name: node.Name, Zone: zoneOf(node), Version: Text(node.Status.NodeInfo.KubeletVersion, maxReason), NotReady: !nodestate.IsReady(node),
		ControlPlane: nodestate.IsControlPlane(node.Labels),
	}
}

func (c *computation) cell(node *corev1.Node) Cell {
	cell := cellOf(node)
	if assignment := c.assigned.byNode[node.Name]; assignment.Group != nil {
		cell.NodeGroup = assignment.Group.Name
	}
	if machine := c.machines[node.Name]; machine != nil {
		cell.Machine, cell.MachineSet = machine.Namespace+"/"+machine.Name, setOf(machine)
	}
	if item := c.items[node.Name]; item != nil && item.Declaration != nil {
		cell.MachineSet = item.Declaration.Key.Name
	}
	why := c.disruption(node)
	if why.state == "" {
		why = c.metadata(node)
	}
	cell.State, cell.Reason, cell.Message, cell.Since = why.state, Text(why.reason, maxReason), Text(why.message, maxMessage), Stamp(why.since)
	return cell
}

// zoneOf returns the zone of a Node.
func zoneOf(node *corev1.Node) string {
	return Text(cmp.Or(node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelFailureDomainBetaZone]), maxName)
}

// setOf returns the name of the MachineSet that controls a Machine; empty for none. The API server accepts any text in an owner reference.
func setOf(machine *machinev1beta1.Machine) string {
	for _, owner := range machine.OwnerReferences {
		if owner.Kind == kindMachineSet && owner.Controller != nil && *owner.Controller {
			return Text(owner.Name, maxName)
		}
	}
	return ""
}

// why is a state of a node and what explains it.
type why struct {
	state           NodeState
	reason, message string
	since           time.Time
}

// blockedBy returns the state of a node that waits for a person.
func blockedBy(wait *Wait) why {
	// A time that the model has written can be read.
	since, _ := time.Parse(time.RFC3339, wait.Since)
	return why{Blocked, wait.Reason, wait.Message, since}
}

// disruption returns the state of a node that something works on, or that is not healthy; a zero value for other nodes.
func (c *computation) disruption(node *corev1.Node) why {
	machine, upgrade := c.machines[node.Name], c.upgrades[node.Name]
	failed := machine != nil && machine.Status.Phase != nil && *machine.Status.Phase == machinev1beta1.PhaseFailed
	switch stopped := c.stopped[node.Name]; {
	case failed:
		return why{Unhealthy, "MachineFailed", errorOf(machine), time.Time{}}
	case stopped != nil:
		return blockedBy(stopped)
	case c.maintenances[node.Name] != nil:
		return inMaintenance(c.maintenances[node.Name])
	case upgrade.Phase != "":
		state := why{state: Upgrading, reason: string(upgrade.Phase), message: upgrade.Message}
		if upgrade.Started != nil {
			state.since = upgrade.Started.Time
		}
		return state
	case machine != nil && machine.DeletionTimestamp != nil:
		return why{RollingOut, "MachineDeleting", "Machine " + machine.Name + " is being deleted", machine.DeletionTimestamp.Time}
	}
	return c.signs(node)
}

// inMaintenance returns the state of a node that a NodeMaintenance names.
func inMaintenance(m *medik8s.NodeMaintenance) why {
	state := why{state: InMaintenance, reason: string(m.Status.Phase), message: view.WaitsFor(m), since: m.CreationTimestamp.Time}
	if ready := meta.FindStatusCondition(m.Status.Conditions, "Ready"); ready != nil {
		state.reason, state.since = ready.Reason, ready.LastTransitionTime.Time
	}
	return state
}

// signs returns the state of a node that another program works on, or that is not healthy.
func (c *computation) signs(node *corev1.Node) why {
	lease := c.leases[node.Name]
	signs := disruptionplan.Signs(node, nil)
	others := slices.DeleteFunc(slices.Clone(signs), func(sign disruptionplan.Sign) bool { return sign == disruptionplan.SignNotReady })
	switch {
	case slices.Contains(signs, disruptionplan.SignMachineConfig):
		return why{state: Upgrading, reason: string(disruptionplan.SignMachineConfig), message: "the machine-config-operator updates the node"}
	case lease != nil:
		return leased(lease)
	case len(others) > 0:
		return why{state: Disrupted, reason: string(others[0]), message: signTexts[others[0]]}
	case len(signs) > 0:
		return why{Unhealthy, "NotReady", "the Node is not Ready", nodestate.ReadyChange(node)}
	}
	return why{}
}

// signTexts say what a sign of a disruption means.
var signTexts = map[disruptionplan.Sign]string{
	disruptionplan.SignDeleted:     "the Node is being deleted",
	disruptionplan.SignCordoned:    "the Node is cordoned, and no NodeMaintenance names it",
	disruptionplan.SignTainted:     "a taint says that another program takes the node out of service",
	disruptionplan.SignReboot:      "kured reboots the node",
	disruptionplan.SignDrained:     "the condition Drained of the Node is True",
	disruptionplan.SignMaintenance: "the condition MaintenanceInProgress of the Node is True",
	disruptionplan.SignDrain:       "the condition DrainInProgress of the Node is True",
}

// metadataStates are states of metadata, the worst first, and the state of the node that they mean.
var metadataStates = []struct {
	metadata plan.State
	state    NodeState
}{
	{plan.Conflicted, Blocked}, {plan.RefusedState, Blocked}, {plan.Held, Paused}, {plan.Pending, RollingOut}, {plan.Synced, InSync},
}

// metadata returns the state of a node by what is declared for it. The worse of what its NodeGroup and its MachineSet declare counts.
func (c *computation) metadata(node *corev1.Node) why {
	states := map[plan.State]string{}
	assignment := c.assigned.byNode[node.Name]
	if assignment.Group != nil {
		in := assignment.Input(c.protected, c.now)
		in.Guard = plan.GuardClear
		decision := plan.DecideGroup(in)
		states[decision.State] = decision.Reason
	}
	if item := c.items[node.Name]; item != nil {
		states[item.Decision.State] = cmp.Or(item.PausedReason, item.Decision.Reason)
	}
	for _, each := range metadataStates {
		text, found := states[each.metadata]
		if !found {
			continue
		}
		if assignment.Group != nil && each.state == RollingOut {
			if wait := c.stoppedGroups[assignment.Group.Name]; wait != nil {
				return blockedBy(wait)
			}
			if assignment.Group.Spec.DryRun {
				return why{state: Paused, reason: "DryRun", message: "NodeGroup " + assignment.Group.Name + " is a dry run"}
			}
		}
		return why{state: each.state, reason: metadataReasons[each.metadata], message: text}
	}
	return why{state: Unmanaged}
}

// metadataReasons name the states of metadata as conditions do; a node in sync needs no reason.
var metadataReasons = map[plan.State]string{
	plan.Conflicted: "Conflict", plan.RefusedState: "Refused", plan.Held: "Held", plan.Pending: "Pending",
}
