package plan

import (
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/nodestate"
)

// Inventory has the Machines and MachineSets of a cluster, or of a part of it, counted when they come and go.
type Inventory struct {
	node     func(name string) *corev1.Node
	machines map[types.NamespacedName]*machineEntry
	// active has the controllers of the Machines that are not being deleted, by UID.
	active map[types.UID]setKey
	sets   map[setKey]*setEntry
}

// machineEntry is what is known of a Machine.
type machineEntry struct {
	uid    types.UID
	set    setKey
	active bool
	// node and nodeUID identify the Node that status.nodeRef names; empty for none. isMember reports that this Node exists and is initialized.
	node     string
	nodeUID  types.UID
	isMember bool
	// grows reports that the Machine adds to what its MachineSet had, and has had no initialized Node.
	grows bool
	// made is what it was made for; nil for growth.
	made *NewMachine
	// requested is when remediation by others was requested; zero for never.
	requested time.Time
}

// setKey identifies the controller of Machines: a Machine of another namespace that names its UID is not one of them.
type setKey struct {
	namespace string
	uid       types.UID
}

// setEntry is what is known of a MachineSet and its Machines, or of the Machines of another controller, or of none.
type setEntry struct {
	set *machinev1beta1.MachineSet
	// machines counts its Machines; active, nodes and growing count the Machines that are not being deleted, that have an initialized Node, and that
	// grow.
	machines, active, nodes, growing int
	// unusual are the Machines that show more than a Node does.
	unusual map[types.NamespacedName]bool
}

// NewInventory returns an Inventory without Machines. node returns the Node of a name, nil for none.
func NewInventory(node func(name string) *corev1.Node) *Inventory {
	return &Inventory{
		node: node, machines: map[types.NamespacedName]*machineEntry{}, active: map[types.UID]setKey{}, sets: map[setKey]*setEntry{},
	}
}

// isUnusual reports whether a Machine shows more than its Node does.
func (m *machineEntry) isUnusual() bool {
	return m.made != nil || !m.requested.IsZero() || !m.active && m.isMember
}

// count adds a Machine to the counts of its MachineSet, or takes it from them.
func (v *Inventory) count(key types.NamespacedName, m *machineEntry, change int) {
	of := v.setOf(m.set)
	of.machines += change
	if m.active {
		of.active += change
	}
	if m.isMember {
		of.nodes += change
	}
	if m.active && m.grows {
		of.growing += change
	}
	delete(of.unusual, key)
	if change > 0 && m.isUnusual() {
		of.unusual[key] = true
	}
	if of.machines == 0 && of.set == nil {
		delete(v.sets, m.set)
	}
}

func (v *Inventory) setOf(key setKey) *setEntry {
	if v.sets[key] == nil {
		v.sets[key] = &setEntry{unusual: map[types.NamespacedName]bool{}}
	}
	return v.sets[key]
}

// PutSet adds or replaces a MachineSet.
func (v *Inventory) PutSet(set *machinev1beta1.MachineSet) {
	v.setOf(setKey{set.Namespace, set.UID}).set = set
}

// HasSet reports whether a namespace has a controller of a UID, or Machines of it.
func (v *Inventory) HasSet(namespace string, uid types.UID) bool {
	return v.sets[setKey{namespace, uid}] != nil
}

// Put adds or replaces a Machine. When its Node comes, changes or goes, it has to be put again.
func (v *Inventory) Put(machine *machinev1beta1.Machine) {
	key := keyOf(machine)
	v.Drop(key)
	m := &machineEntry{
		uid: machine.UID, set: setKey{machine.Namespace, machineapi.ControllerUID(machine)}, active: machine.DeletionTimestamp == nil,
		requested: requestedAt(machine),
	}
	if ref := machine.Status.NodeRef; ref != nil {
		m.node, m.nodeUID = ref.Name, ref.UID
	}
	isNew := m.node == ""
	if node := v.node(m.node); node != nil && (m.nodeUID == "" || node.UID == m.nodeUID) {
		m.isMember, m.nodeUID = !IsJoining(node), node.UID
		isNew = !m.isMember
	}
	m.setMade(machine, isNew)
	v.machines[key] = m
	if m.active {
		v.active[m.uid] = m.set
	}
	v.count(key, m, 1)
}

func keyOf(machine *machinev1beta1.Machine) types.NamespacedName {
	return types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}
}

// setMade sets what a Machine was made for. isNew reports that it has, or may have, never had an initialized Node.
func (m *machineEntry) setMade(machine *machinev1beta1.Machine, isNew bool) {
	reason, replaced := machineapi.CreatedFor(machine)
	_, isDrovers := machine.Annotations[machineapi.TemplateHashAnnotation]
	switch {
	case reason == machineapi.CreatedForGrowth && replaced == "", reason == "" && !isDrovers:
		m.grows = isNew
	case m.active:
		// Drover has marked none before it had this annotation.
		m.made = &NewMachine{
			Machine: keyOf(machine), UID: machine.UID, For: replaced, Capability: v1alpha1.CapabilityRemediation,
			Created: machine.CreationTimestamp.Time, Growth: reason == machineapi.CreatedForGrowth,
		}
		m.grows = m.made.Growth && isNew
		if reason == machineapi.CreatedForOutdated {
			m.made.Capability = v1alpha1.CapabilityReplacement
		}
	}
}

// Drop removes a Machine.
func (v *Inventory) Drop(machine types.NamespacedName) {
	if before := v.machines[machine]; before != nil {
		v.count(machine, before, -1)
		delete(v.machines, machine)
		delete(v.active, before.uid)
	}
}

// requestedAt returns when remediation of a Machine by others was requested by the annotation of machine-api-operator; zero for never. If it says a
// time that cannot be right, or that the status of the group cannot hold, it is when the Machine was created.
func requestedAt(machine *machinev1beta1.Machine) time.Time {
	if _, found := machine.Annotations[machineapi.ExternalAnnotation]; !found {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, machine.Annotations[machineapi.RequestedAnnotation])
	if err != nil || at.Before(machine.CreationTimestamp.Time) || !bounded.IsEncodable(at) {
		return machine.CreationTimestamp.Time
	}
	return at
}

// IsActive reports whether a Machine exists and is not being deleted; without a UID it is the one of that name.
func (v *Inventory) IsActive(machine types.NamespacedName, uid types.UID) bool {
	m := v.machines[machine]
	return m != nil && m.active && (uid == "" || m.uid == uid)
}

// Machines returns what the Machines of a group show beside its Nodes, except Machines whose Node became Ready before settled. hasSet reports whether
// a MachineSet belongs to the group; it is nil for the Machines without one. hasNode reports whether the Node of a Machine does.
func (v *Inventory) Machines(
	settled time.Time, hasSet func(*machinev1beta1.MachineSet) bool, hasNode func(node string, machine types.UID, ofSet bool) bool,
) (out Machines) {
	for _, of := range v.sets {
		isOfGroup := hasSet(of.set)
		for key := range of.unusual {
			m := v.machines[key]
			if m.isMember && !hasNode(m.node, m.uid, isOfGroup) || !m.isMember && !isOfGroup {
				continue
			}
			if m.isMember && !m.active {
				out.Deleted = append(out.Deleted, m.node)
			}
			if !m.requested.IsZero() {
				out.Requested = append(out.Requested, m.request(key))
			}
		}
		if isOfGroup && of.set != nil {
			out.Sets = append(out.Sets, v.describe(of, settled))
		}
	}
	return out
}

// describe returns a MachineSet as decisions need it.
func (v *Inventory) describe(of *setEntry, settled time.Time) (out MachineSet) {
	if of.set.Spec.Replicas != nil {
		replicas := int(*of.set.Spec.Replicas)
		reached := max(int(of.set.Status.Replicas), machineapi.ReachedReplicas(of.set))
		missing := max(0, replicas-of.active)
		growth := min(missing, max(0, replicas-reached))
		out.NotCreated = missing - growth
		out.Wanted = replicas - growth - of.growing
	}
	out.Nodes = of.nodes
	for key := range of.unusual {
		m := v.machines[key]
		if m.made != nil {
			made := *m.made
			replaced, isActive := v.active[made.For]
			made.Surge = isActive && replaced == m.set
			if m.isMember {
				made.Node, made.ReadySince = m.node, readySince(v.node(m.node))
			}
			if made.ReadySince.IsZero() || made.ReadySince.After(settled) {
				out.New = append(out.New, made)
				continue
			}
			// Until the next event of the Machine, or of its Node.
			if m.made = nil; !m.isUnusual() {
				delete(of.unusual, key)
			}
		}
	}
	return out
}

func (m *machineEntry) request(key types.NamespacedName) Requested {
	requested := Requested{Machine: key, UID: m.uid, Since: m.requested}
	if m.isMember {
		requested.Node, requested.NodeUID = m.node, m.nodeUID
	}
	return requested
}

// readySince returns since when a Node is Ready. It is zero if the Node is not Ready or is gone; the Machine of a deleted Node is put again in a
// moment.
func readySince(node *corev1.Node) time.Time {
	if !nodestate.IsReady(node) {
		return time.Time{}
	}
	return nodestate.ReadyChange(node)
}
