package members

import (
	"context"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
)

// machineEntry is what is known of a Machine.
type machineEntry struct {
	uid    types.UID
	set    setKey
	active bool
	// node and nodeUID are those of the Node that status.nodeRef names; empty for none. isMember reports that this Node exists and is initialized.
	node     string
	nodeUID  types.UID
	isMember bool
	// grows reports that the Machine adds to what its MachineSet had, and has had no initialized Node.
	grows bool
	// made is what it was made for; nil for growth.
	made *disruptionplan.NewMachine
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
	// machines counts its Machines; active, nodes and growing those that are not being deleted, those with an initialized Node, and those that grow.
	machines, active, nodes, growing int
	// unusual are the Machines that show more than a Node does.
	unusual map[types.NamespacedName]bool
}

// isUnusual reports whether a Machine shows more than its Node does.
func (m *machineEntry) isUnusual() bool {
	return m.made != nil || !m.requested.IsZero() || !m.active && m.isMember
}

// countMachine adds a Machine to those of its MachineSet, or takes it from them.
func (x *Index) countMachine(key types.NamespacedName, m *machineEntry, change int) {
	of := x.setOf(m.set)
	for counted, isCounted := range map[*int]bool{&of.machines: true, &of.active: m.active, &of.nodes: m.isMember, &of.growing: m.active && m.grows} {
		if isCounted {
			*counted += change
		}
	}
	delete(of.unusual, key)
	if change > 0 && m.isUnusual() {
		of.unusual[key] = true
	}
	if of.machines == 0 && of.set == nil {
		delete(x.ofSets, m.set)
	}
}

func (x *Index) setOf(key setKey) *setEntry {
	if x.ofSets == nil {
		x.ofSets = map[setKey]*setEntry{}
	}
	if x.ofSets[key] == nil {
		x.ofSets[key] = &setEntry{unusual: map[types.NamespacedName]bool{}}
	}
	return x.ofSets[key]
}

// putMachine counts a Machine as the cache has it. The index is locked.
func (x *Index) putMachine(machine *machinev1beta1.Machine) {
	key := client.ObjectKeyFromObject(machine)
	x.dropMachine(key)
	m := &machineEntry{uid: machine.UID, set: setKey{machine.Namespace, controllerUID(machine)}, active: machine.DeletionTimestamp == nil}
	if ref := machine.Status.NodeRef; ref != nil {
		m.node, m.nodeUID = ref.Name, ref.UID
	}
	isNew := m.node == ""
	if known, found := x.nodes[m.node]; found && (m.nodeUID == "" || known.node.UID == m.nodeUID) {
		m.isMember, m.nodeUID = !disruptionplan.IsJoining(known.node), known.node.UID
		isNew = !m.isMember
	}
	m.requested = requestedAt(machine)
	m.setMade(key, machine, isNew)
	if x.machines == nil {
		x.machines, x.active = map[types.NamespacedName]*machineEntry{}, map[types.UID]setKey{}
	}
	x.machines[key] = m
	if m.active {
		x.active[m.uid] = m.set
	}
	x.countMachine(key, m, 1)
}

// setMade sets what a Machine was made for. isNew reports that it has, or may have, never had an initialized Node.
func (m *machineEntry) setMade(key types.NamespacedName, machine *machinev1beta1.Machine, isNew bool) {
	reason, replaced := machineapi.CreatedFor(machine)
	_, isDrovers := machine.Annotations[machineapi.TemplateHashAnnotation]
	switch {
	case reason == machineapi.CreatedForGrowth && replaced == "", reason == "" && !isDrovers:
		m.grows = isNew
	case m.active:
		// Drover has marked none before it had this annotation.
		m.made = &disruptionplan.NewMachine{
			Machine: key, UID: machine.UID, For: replaced, Capability: v1alpha1.CapabilityRemediation, Created: machine.CreationTimestamp.Time,
			Growth: reason == machineapi.CreatedForGrowth,
		}
		m.grows = m.made.Growth && isNew
		if reason == machineapi.CreatedForOutdated {
			m.made.Capability = v1alpha1.CapabilityReplacement
		}
	}
}

func (x *Index) dropMachine(key types.NamespacedName) {
	if before := x.machines[key]; before != nil {
		x.countMachine(key, before, -1)
		delete(x.machines, key)
		delete(x.active, before.uid)
	}
}

// requestedAt returns when remediation of a Machine by others was requested by the annotation of machine-api-operator; zero for never.
func requestedAt(machine *machinev1beta1.Machine) time.Time {
	if _, found := machine.Annotations[machineapi.ExternalAnnotation]; !found {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, machine.Annotations[machineapi.RequestedAnnotation])
	if err != nil || at.Before(machine.CreationTimestamp.Time) {
		return machine.CreationTimestamp.Time
	}
	return at
}

// putMachines counts all Machines and MachineSets again. The index is locked.
func (x *Index) putMachines(ctx context.Context) error {
	x.machines, x.active, x.ofSets = nil, nil, nil
	if !x.finder.machines() {
		return nil
	}
	var sets machinev1beta1.MachineSetList
	var machines machinev1beta1.MachineList
	if err := x.finder.cache.List(ctx, &sets); err != nil {
		return fmt.Errorf("listing MachineSets: %w", err)
	}
	if err := x.finder.cache.List(ctx, &machines); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	for i := range sets.Items {
		x.setOf(setKey{sets.Items[i].Namespace, sets.Items[i].UID}).set = &sets.Items[i]
	}
	for i := range machines.Items {
		x.putMachine(&machines.Items[i])
	}
	return nil
}

// Machines returns what the Machines of a NodeGroup show beside its Nodes, those aside whose Node became Ready before a time. The error is a
// conflict while the index is not ready.
func (x *Index) Machines(ctx context.Context, group string, settled time.Time) (out disruptionplan.Machines, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(ctx); err != nil {
		return out, err
	}
	for key, of := range x.ofSets {
		isOfGroup := of.set != nil && of.set.DeletionTimestamp == nil && x.groupOfSet(key.uid, of.set) == group
		x.addUnusual(of, group, isOfGroup, &out)
		if isOfGroup {
			out.Sets = append(out.Sets, x.describe(of, settled))
		}
	}
	out.IsActive = func(machine types.NamespacedName, uid types.UID) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		m := x.machines[machine]
		return m != nil && m.active && (uid == "" || m.uid == uid)
	}
	return out, nil
}

// groupOfSet returns the group of the Nodes of a MachineSet: the one that has most of them, or else the one that selects a Node with what its
// template declares.
func (x *Index) groupOfSet(uid types.UID, set *machinev1beta1.MachineSet) (name string) {
	most := 0
	for _, group := range x.groups {
		if count := x.sets[uid][group.Name]; count > most {
			name, most = group.Name, count
		}
	}
	if most > 0 {
		return name
	}
	template := &set.Spec.Template.Spec
	return x.groupDeclared(set.Namespace, set, metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations})
}

// groupDeclared returns the group that selects a MachineSet, nil for none, or a Node with the labels and annotations that are declared for it; empty
// for none. Tenants declare what they like in their namespaces: a group that has Nodes is that only where a MachineSet of the namespace has some of
// them.
func (x *Index) groupDeclared(namespace string, set *machinev1beta1.MachineSet, declared metav1.ObjectMeta) string {
	group, _ := Select(x.groups, &corev1.Node{ObjectMeta: declared}, set)
	switch {
	case group == nil:
		return ""
	case set != nil && group.SelectsSet(set), x.lists[group.Name] == nil, len(x.lists[group.Name].nodes) == 0:
		return group.Name
	}
	for key := range x.ofSets {
		if key.namespace == namespace && x.sets[key.uid][group.Name] > 0 {
			return group.Name
		}
	}
	return ""
}

// addUnusual adds the Machines that are being deleted or were handed over: to the group of their Node, whatever their MachineSet, and those without a
// Node to the group of the MachineSet. A Machine of another MachineSet, or of none, counts only if it is the Node's: others may name the Node, too.
func (x *Index) addUnusual(of *setEntry, group string, isOfGroup bool, machines *disruptionplan.Machines) {
	for key := range of.unusual {
		m := x.machines[key]
		known, counts := x.nodes[m.node], isOfGroup
		if m.isMember {
			counts = known.group == group && (isOfGroup || known.machine == m.uid)
		}
		if !counts {
			continue
		}
		if m.isMember && !m.active {
			machines.Deleted = append(machines.Deleted, m.node)
		}
		if !m.requested.IsZero() {
			machines.Requested = append(machines.Requested, x.requestOf(key, m))
		}
	}
}

// describe returns a MachineSet as decisions need it.
func (x *Index) describe(of *setEntry, settled time.Time) (out disruptionplan.MachineSet) {
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
		m := x.machines[key]
		if m.made != nil {
			made := *m.made
			replaced, isActive := x.active[made.For]
			made.Surge = isActive && replaced == m.set
			if m.isMember {
				made.Node, made.ReadySince = m.node, readySince(x.nodes[m.node].node)
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

func (x *Index) requestOf(key types.NamespacedName, m *machineEntry) disruptionplan.Requested {
	requested := disruptionplan.Requested{Machine: key, UID: m.uid, Since: m.requested}
	if m.isMember {
		requested.Node, requested.NodeUID = m.node, m.nodeUID
	}
	return requested
}

// readySince returns since when a Node is Ready; zero for not.
func readySince(node *corev1.Node) time.Time {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
