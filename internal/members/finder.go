// Package members decides which NodeGroup a Node belongs to. The decision is pure; Finder applies it to a cache.
package members

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/undecodable"
)

// Finder finds out from a cache which NodeGroup a Node belongs to. It is safe for concurrent use. The objects that it returns are the cache's own and
// must not be changed.
type Finder struct {
	cache client.Reader
	// machines reports whether the cache has Machines and MachineSets.
	machines func() bool
	// rollout is the spec.rollout of the groups that have none; nil means the schema's defaults.
	rollout *v1alpha1.Rollout
	// withoutTemplates reports that Nodes do not follow the templates of their MachineSets.
	withoutTemplates bool

	mu     sync.Mutex
	parsed map[types.UID]*Group
	// memberships decide which Machines without a controller belong to a MachineSet.
	memberships map[types.NamespacedName]membership
}

// NewFinder returns a Finder. machines reports whether the cache has Machines, with the index of machineapi/lookup, and MachineSets.
func NewFinder(cache client.Reader, machines func() bool) *Finder {
	return &Finder{cache: cache, machines: machines, parsed: map[types.UID]*Group{}, memberships: map[types.NamespacedName]membership{}}
}

// WithRollout sets the spec.rollout of the groups that have none; nil means the schema's defaults. It must be called before the Finder is used.
func (f *Finder) WithRollout(defaults *v1alpha1.Rollout) *Finder {
	f.rollout = defaults
	return f
}

// DefaultRollout returns the spec.rollout of the groups that have none; nil means the schema's defaults. It must not be changed.
func (f *Finder) DefaultRollout() *v1alpha1.Rollout { return f.rollout }

// WithoutTemplates makes groups set no taints of MachineSets: where the capability metadata is off, a template concerns new Machines only. It must be
// called before the Finder is used.
func (f *Finder) WithoutTemplates() *Finder {
	f.withoutTemplates = true
	return f
}

// Assignment is a Node and the group that it belongs to.
type Assignment struct {
	Node *corev1.Node
	// Group is the Node's group, nil for none; Others are the groups that select it as well.
	Group  *Group
	Others []*Group
	// Recorded is the group that the Node's record names: Group, or a group that the Node has left. It is nil if there is no such group, or if the group
	// is gone.
	Recorded *Group
	// Machine and MachineSet are the Node's; nil for none. Shared reports that several Machines could be the Node's.
	Machine    *machinev1beta1.Machine
	MachineSet *machinev1beta1.MachineSet
	Shared     bool
	// unread reports that Machines are not read, so that the Node's Machine is not known.
	unread bool
	// read reads what a MachineSet declares; guards reports whether the group may set its taints. template, unfit and declaration are of Template, Hold
	// and Declaration.
	read        func(set *machinev1beta1.MachineSet) *plan.Declaration
	guards      bool
	template    *plan.Declaration
	unfit       bool
	declaration *plan.Declaration
}

// Template returns what the MachineSet of the Node declares for it; nil for none. A MachineSet whose selector does not match the Machine declares
// nothing.
func (m *Assignment) Template() *plan.Declaration {
	if m.template != nil || m.MachineSet == nil || m.read == nil {
		return m.template
	}
	if membership, err := machineapi.MembershipOf(m.MachineSet); err == nil && membership.Has(m.Machine) {
		m.template = m.read(m.MachineSet)
	}
	return m.template
}

// GuardedTaints returns the taints of its MachineSet that the Node gets from its group; empty for none.
func (m *Assignment) GuardedTaints() ownership.Keys {
	if template := m.Template(); template != nil && m.Group != nil && m.guards {
		return m.Group.Declaration.GuardedOf(template)
	}
	return nil
}

// held returns why the taints of the MachineSet may not be set now; empty where they may.
func (m *Assignment) held() (why string, isPaused bool) {
	switch {
	case m.Template().Paused:
		return "the MachineSet is paused", true
	case paused.Is(m.Machine.Annotations):
		return "Machine " + m.Machine.Name + " is paused", true
	case m.unfit:
		return "the NodeGroup and its MachineSets declare more keys than its status has space for; split the group", false
	}
	return "", false
}

// declared returns what the Node's Machine and its MachineSet declare, which goes before what a group declares.
func (m *Assignment) declared() plan.Entries {
	if m.Machine == nil {
		return m.unreadTaints()
	}
	spec := &m.Machine.Spec
	entries := plan.Entries{
		ownership.Label: spec.Labels, ownership.Annotation: spec.Annotations, ownership.Taint: ownership.TaintEntries(spec.Taints),
	}
	template := m.Template()
	if template == nil {
		return entries
	}
	for kind, declared := range template.Desired {
		if len(declared) > 0 {
			merged := maps.Clone(declared)
			for key, value := range entries[kind] {
				if _, known := merged[key]; !known {
					merged[key] = value
				}
			}
			entries[kind] = merged
		}
	}
	if guarded := m.GuardedTaints(); guarded.Len() > 0 {
		// The group sets them, and not the Machine.
		taints := maps.Clone(entries[ownership.Taint])
		maps.DeleteFunc(taints, func(id, _ string) bool { return guarded.Has(id) })
		entries[ownership.Taint] = taints
	}
	return entries
}

// unreadTaints returns, where Machines are not read, the taints that the Node has got from its group for its MachineSet, as both records say: the
// MachineSet may still declare them.
func (m *Assignment) unreadTaints() plan.Entries {
	owned := m.record().Of(ownership.Taint)
	if !m.unread || owned.Len() == 0 {
		return nil
	}
	both, live := recordedKeys(m.Node).Of(ownership.Taint).And(owned), ownership.TaintEntries(m.Node.Spec.Taints)
	if m.Group != nil {
		both = both.Minus(m.Group.Declaration.Section().Of(ownership.Taint))
	}
	maps.DeleteFunc(live, func(id, _ string) bool { return !both.Has(id) })
	return plan.Entries{ownership.Taint: live}
}

// inherited returns the taints that the Node has from its Machine, set by the metadata of its MachineSet.
func (m *Assignment) inherited() ownership.Keys {
	owned := m.record().Of(ownership.Taint)
	if owned.Len() == 0 || m.GuardedTaints().Len() == 0 {
		return nil
	}
	live, inherited := ownership.TaintEntries(m.Node.Spec.Taints), ownership.Keys{}
	for id, value := range ownership.TaintEntries(m.Machine.Spec.Taints) {
		if current, present := live[id]; present && current == value && owned.Has(id) {
			inherited.Add(id)
		}
	}
	return inherited
}

// machineOwned returns the keys that the Node has from its Machine and its MachineSet.
func (m *Assignment) machineOwned() (owned ownership.Section) {
	record := m.record()
	for _, kind := range ownership.Kinds {
		owned = owned.With(kind, record.Owned(kind))
	}
	return owned
}

// record returns the record of the metadata of MachineSets; an unreadable one is none.
func (m *Assignment) record() ownership.Record {
	record, err := ownership.ParseRecord(m.Node.Annotations[ownership.AnnotationRecord])
	if err != nil {
		return ownership.Record{}
	}
	return record
}

// Decodable returns an undecodable.Error if one of the objects that decide about the Node could not be decoded. Its group is known in any case.
func (m *Assignment) Decodable() error {
	for _, group := range []*Group{m.Group, m.Recorded} {
		if group == nil {
			continue
		}
		if err := undecodable.Check(group.NodeGroup); err != nil {
			return err
		}
	}
	if m.Machine != nil {
		if err := undecodable.Check(m.Machine); err != nil {
			return err
		}
	}
	if m.MachineSet != nil {
		return undecodable.Check(m.MachineSet)
	}
	return nil
}

// Groups returns all NodeGroups, the oldest first.
func (f *Finder) Groups(ctx context.Context) ([]*Group, error) {
	var list v1alpha1.NodeGroupList
	if err := f.cache.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NodeGroups: %w", err)
	}
	groups := make([]*Group, len(list.Items))
	f.mu.Lock()
	defer f.mu.Unlock()
	parsed := make(map[types.UID]*Group, len(groups))
	for i := range list.Items {
		item := &list.Items[i]
		groups[i] = f.parsed[item.UID]
		// The status changes often, and changes neither the generation nor what is parsed.
		switch {
		case groups[i] == nil || groups[i].Generation != item.Generation || groups[i].DeletionTimestamp.IsZero() != item.DeletionTimestamp.IsZero():
			groups[i] = f.parse(item)
		case groups[i].ResourceVersion != item.ResourceVersion:
			current := *groups[i]
			current.setNodeGroup(withRollout(item, f.rollout))
			groups[i] = &current
		}
		parsed[item.UID] = groups[i]
	}
	f.parsed = parsed
	Sort(groups)
	return groups, nil
}

// errNoMachines is why a group that selects Nodes by MachineSets has none where the cache has no Machines. Its Nodes have not left it: they keep what
// they have.
var errNoMachines = errors.New("spec.nodes.machineSets: Drover does not read Machines; install their CRDs, and turn on the capability " +
	"metadata or machines")

func (f *Finder) parse(group *v1alpha1.NodeGroup) *Group {
	parsed := Parse(withRollout(group, f.rollout))
	if parsed.Err == nil && group.Spec.Nodes.MachineSets != nil && !f.machines() {
		parsed.Err = errNoMachines
	}
	return parsed
}

// Assign returns a Node and its group. The groups must be sorted.
func (f *Finder) Assign(ctx context.Context, groups []*Group, node *corev1.Node) (Assignment, error) {
	return f.assign(ctx, groups, node, lookups{
		machines: func(node string) ([]machinev1beta1.Machine, error) { return lookup.MachinesOfNode(ctx, f.cache, node) },
		recorded: recorded,
		template: plan.DeclarationOf,
	})
}

// AssignStates returns the group of a Node in each of several states of the Node.
func (f *Finder) AssignStates(ctx context.Context, states ...*corev1.Node) ([]Assignment, error) {
	groups, err := f.Groups(ctx)
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	machines := sync.OnceValues(func() ([]machinev1beta1.Machine, error) { return lookup.MachinesOfNode(ctx, f.cache, states[0].Name) })
	assignments := make([]Assignment, len(states))
	for i, state := range states {
		assignments[i], err = f.assign(ctx, groups, state, lookups{
			machines: func(string) ([]machinev1beta1.Machine, error) { return machines() }, recorded: recorded, template: plan.DeclarationOf,
		})
		if err != nil {
			return nil, err
		}
	}
	return assignments, nil
}

// lookups are how Assign finds the Machines of a Node, the name of the group that a Node's record names, and what a MachineSet declares.
type lookups struct {
	machines func(node string) ([]machinev1beta1.Machine, error)
	recorded func(node *corev1.Node) string
	template func(set *machinev1beta1.MachineSet) *plan.Declaration
}

func recorded(node *corev1.Node) string {
	name, _ := plan.GroupOf(node)
	return name
}

func (f *Finder) assign(ctx context.Context, groups []*Group, node *corev1.Node, of lookups) (Assignment, error) {
	member := Assignment{Node: node}
	if name := of.recorded(node); name != "" {
		for _, group := range groups {
			if group.Name == name {
				member.Recorded = group
			}
		}
	}
	member.unread = !f.machines()
	if !member.unread && len(groups) > 0 {
		machines, err := of.machines(node.Name)
		if err != nil {
			return member, err
		}
		if err := f.findMachine(ctx, groups, &member, machines); err != nil {
			return member, err
		}
	}
	member.Group, member.Others = Select(groups, node, member.MachineSet)
	member.read, member.guards = of.template, !f.withoutTemplates
	return member, nil
}

// Nodes returns all Nodes that a group selects, those included that belong to another one, and those whose record names it.
func (f *Finder) Nodes(ctx context.Context, groups []*Group, of types.UID) ([]Assignment, error) {
	var nodes corev1.NodeList
	if err := f.cache.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	lookups, err := f.lookupsOfAll(ctx)
	if err != nil {
		return nil, err
	}
	var found []Assignment
	for i := range nodes.Items {
		member, err := f.assign(ctx, groups, &nodes.Items[i], lookups)
		if err != nil {
			return nil, err
		}
		if member.concerns(of) {
			found = append(found, member)
		}
	}
	return found, nil
}

// lookupsOfAll returns lookups for all Nodes: a list of Machines for each of thousands of Nodes costs more than one of all, and most Nodes of a group
// have the same record.
func (f *Finder) lookupsOfAll(ctx context.Context) (lookups, error) {
	machines, names := map[string][]machinev1beta1.Machine{}, map[string]string{}
	templates := map[types.UID]*plan.Declaration{}
	if f.machines() {
		var list machinev1beta1.MachineList
		if err := f.cache.List(ctx, &list); err != nil {
			return lookups{}, fmt.Errorf("listing Machines: %w", err)
		}
		for i := range list.Items {
			if node := machineapi.NodeName(&list.Items[i]); node != "" {
				machines[node] = append(machines[node], list.Items[i])
			}
		}
	}
	return lookups{
		machines: func(node string) ([]machinev1beta1.Machine, error) { return machines[node], nil },
		recorded: func(node *corev1.Node) string {
			text := node.Annotations[ownership.AnnotationGroupRecord]
			name, known := names[text]
			if !known {
				name = recorded(node)
				names[text] = name
			}
			return name
		},
		template: func(set *machinev1beta1.MachineSet) *plan.Declaration {
			declaration := templates[set.UID]
			if declaration == nil {
				declaration = plan.DeclarationOf(set)
				templates[set.UID] = declaration
			}
			return declaration
		},
	}, nil
}

// Groups yields the groups that select the Node, and the group that its record names. It may yield a group twice.
func (m *Assignment) Groups() iter.Seq[*Group] {
	return func(yield func(*Group) bool) {
		for _, group := range m.Others {
			if !yield(group) {
				return
			}
		}
		for _, group := range [...]*Group{m.Group, m.Recorded} {
			if group != nil && !yield(group) {
				return
			}
		}
	}
}

// concerns reports whether a group selects the Node, or the Node's record names it.
func (m *Assignment) concerns(group types.UID) bool {
	for g := range m.Groups() {
		if g.UID == group {
			return true
		}
	}
	return false
}

// Declaration returns what the Node is to carry for its group: what that declares, and the taints of the Node's MachineSet that the group guards. It
// is nil for a Node in no group.
func (m *Assignment) Declaration() *plan.Declaration {
	if m.declaration != nil || m.Group == nil {
		return m.declaration
	}
	m.declaration = m.Group.Declaration
	if !m.Shared && m.GuardedTaints().Len() > 0 {
		template := plan.Template{Declaration: m.Template()}
		template.Held, template.Frozen = m.held()
		m.declaration = m.declaration.WithTaintsOf(template)
	}
	return m.declaration
}

// Hold has the taints of the MachineSet wait: the status of the group has no space for them.
func (m *Assignment) Hold() { m.unfit, m.declaration = true, nil }

// Input returns what is decided about the Node's metadata.
func (m *Assignment) Input(protected ownership.Protected, now time.Time) plan.GroupInput {
	in := plan.GroupInput{Node: m.Node, Machine: m.declared(), NodeShared: m.Shared, Protected: protected, Now: now, Declaration: m.Declaration()}
	in.Inherited, in.MachineOwned = m.inherited(), m.machineOwned()
	if m.Recorded != nil {
		in.Confirmed = m.Recorded.Confirmed
		in.Remove = m.Recorded.removes(m.Recorded == m.Group)
		in.Announcements = plan.Announcements(m.Node, m.Recorded.NodeGroup)
	}
	return in
}
