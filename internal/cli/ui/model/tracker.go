package model

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// Ref identifies an object.
type Ref struct {
	// Resource is the kind, as resource.group.
	Resource string
	types.NamespacedName
}

// Event is an object that has been created or changed, or is gone: then Object is nil. A NodeMaintenance of either group is one of medik8s, whose
// TypeMeta names the group.
type Event struct {
	Ref    Ref
	Object client.Object
}

// Tracker keeps what the page shows up to date. An event has what concerns its object computed again, and nothing else. One goroutine calls Update;
// the other methods are safe for concurrent use.
type Tracker struct {
	protected ownership.Protected
	// Cells, Waits, Activities and Budgets are what the page shows.
	Cells      *Journal[Cell]
	Waits      *Journal[Wait]
	Activities *Journal[Activity]
	Budgets    *Journal[Budget]

	mu      sync.RWMutex
	objects map[Ref]client.Object
	// byResource has the objects of each kind but Nodes and Leases.
	byResource map[string]map[Ref]client.Object
	// nodesOf are the nodes that an object concerns, and byNode the objects of each node.
	nodesOf map[Ref][]string
	byNode  map[string]map[Ref]bool
	noSets  error

	// declarations are what MachineSets declare. counted is what the Machines of each count for, and sums what they are together.
	declarations map[types.NamespacedName]*plan.Declaration
	counted      map[Ref]counted
	sums         map[types.NamespacedName]*view.Summary
	// waits and activities have each object's.
	waits      map[Ref][]Wait
	activities map[Ref][]Activity
	rows       map[Ref]CalendarRow
	// waitCount is how many waits there are.
	waitCount int
	// budgets has each NodeGroup's budget, by name.
	budgets map[string]Budget
	// calendar is never changed.
	calendar atomic.Pointer[Calendar]
	// isComplete reports that all kinds have been read.
	isComplete bool
}

// counted is what a Machine counts for, and its MachineSet; empty for none.
type counted struct {
	set   types.NamespacedName
	count view.Summary
}

// NewTracker returns a tracker without objects.
func NewTracker(protected ownership.Protected) *Tracker {
	t := &Tracker{
		protected: protected, Cells: NewJournal[Cell](), Waits: NewJournal[Wait](), Activities: NewJournal[Activity](), Budgets: NewJournal[Budget](),
		objects: map[Ref]client.Object{}, byResource: map[string]map[Ref]client.Object{}, nodesOf: map[Ref][]string{}, byNode: map[string]map[Ref]bool{},
		declarations: map[types.NamespacedName]*plan.Declaration{}, counted: map[Ref]counted{}, sums: map[types.NamespacedName]*view.Summary{},
		waits: map[Ref][]Wait{}, activities: map[Ref][]Activity{}, rows: map[Ref]CalendarRow{}, budgets: map[string]Budget{},
	}
	t.calendar.Store(&Calendar{Rows: []CalendarRow{}})
	return t
}

// Protected returns the keys that belong to the system.
func (t *Tracker) Protected() ownership.Protected { return t.protected }

// dirty is what has to be computed again.
type dirty struct {
	// all is everything, groups are NodeGroups whose Nodes are concerned.
	all    bool
	nodes  map[string]bool
	groups map[string]bool
	// machines are Machines that may have no Node, refs the objects that have changed, and sets the MachineSets whose counts have.
	machines map[Ref]bool
	refs     map[Ref]bool
	sets     map[types.NamespacedName]bool
	// owners are the UIDs of changed MachineSets, by namespace.
	owners map[string]map[types.UID]bool
	// waits are new, and goneWaits has the IDs of all that the same objects had before.
	waits     []Wait
	goneWaits []string
}

func newDirty() *dirty {
	return &dirty{
		nodes: map[string]bool{}, groups: map[string]bool{}, machines: map[Ref]bool{}, refs: map[Ref]bool{}, sets: map[types.NamespacedName]bool{},
		owners: map[string]map[types.UID]bool{},
	}
}

// Update takes events, and computes what they concern. noSets is why Machines or MachineSets cannot be read; nil where they can.
func (t *Tracker) Update(ctx context.Context, events []Event, noSets error, now time.Time) {
	d := newDirty()
	t.mu.Lock()
	d.all = !t.isComplete || (noSets == nil) != (t.noSets == nil)
	t.noSets, t.isComplete = noSets, true
	for _, event := range events {
		t.take(event, d)
	}
	t.mu.Unlock()
	t.updateWaits(d)
	t.compute(ctx, d, now)
}

// Refresh computes what may have changed with the time alone: leases expire, and delays end.
func (t *Tracker) Refresh(ctx context.Context, now time.Time) {
	d := newDirty()
	for _, cell := range t.Cells.All() {
		if cell.State != InSync && cell.State != Unmanaged {
			d.nodes[cell.Name] = true
		}
	}
	for _, resource := range []string{ResourceGroups, ResourceRuns, ResourceMaintenances, ResourceOlderMaintenances} {
		for ref := range t.byResource[resource] {
			d.refs[ref] = true
		}
	}
	t.compute(ctx, d, now)
}

func (t *Tracker) compute(ctx context.Context, d *dirty, now time.Time) {
	t.widen(d)
	t.updateNodes(ctx, d, now)
	t.updateRollouts(d)
	t.publishWaits(d)
	t.updateProgress(d, now)
}

// ShowEarly shows Nodes before the first Update, which computes their states.
func (t *Tracker) ShowEarly(nodes []corev1.Node) {
	cells := make([]Cell, len(nodes))
	for i := range nodes {
		cells[i] = cellOf(&nodes[i])
		cells[i].State = Loading
	}
	t.Cells.Update(cells, nil)
}

// take keeps an object, and notes what it concerns.
func (t *Tracker) take(event Event, d *dirty) {
	ref, before := event.Ref, t.objects[event.Ref]
	for _, node := range t.nodesOf[ref] {
		d.nodes[node] = true
		delete(t.byNode[node], ref)
		if len(t.byNode[node]) == 0 {
			delete(t.byNode, node)
		}
	}
	delete(t.nodesOf, ref)
	if event.Object == nil {
		delete(t.objects, ref)
		delete(t.byResource[ref.Resource], ref)
	} else {
		t.objects[ref] = event.Object
		t.keepByResource(ref, event.Object)
		t.nodesOf[ref] = nodesOf(event.Object)
	}
	for _, node := range t.nodesOf[ref] {
		d.nodes[node] = true
		if t.byNode[node] == nil {
			t.byNode[node] = map[Ref]bool{}
		}
		t.byNode[node][ref] = true
	}
	d.refs[ref] = true
	t.concern(ref, before, event.Object, d)
}

// keepByResource keeps an object of a kind that is read as a whole.
func (t *Tracker) keepByResource(ref Ref, object client.Object) {
	switch object.(type) {
	case *corev1.Node, *coordinationv1.Lease:
		return
	}
	if t.byResource[ref.Resource] == nil {
		t.byResource[ref.Resource] = map[Ref]client.Object{}
	}
	t.byResource[ref.Resource][ref] = object
}

// nodesOf returns the names of the nodes that an object concerns.
func nodesOf(object client.Object) (names []string) {
	switch object := object.(type) {
	case *corev1.Node:
		return []string{object.Name}
	case *machinev1beta1.Machine:
		if node := machineapi.NodeName(object); node != "" {
			return []string{node}
		}
	case *medik8s.NodeMaintenance:
		return []string{object.Spec.NodeName}
	case *coordinationv1.Lease:
		if node, found := strings.CutPrefix(object.Name, leasePrefix); found {
			return []string{node}
		}
	case *mutex.MutexRunConfig:
		for _, node := range object.Status.Nodes {
			if node.Phase != mutex.NodePending && node.Phase != mutex.NodeDone {
				names = append(names, node.Name)
			}
		}
	}
	return names
}

// concern notes what a changed object concerns that it does not name.
func (t *Tracker) concern(ref Ref, before, after client.Object, d *dirty) {
	known := after
	if known == nil {
		known = before
	}
	switch known.(type) {
	case *machinev1beta1.Machine:
		d.machines[ref] = true
	case *drover.NodeGroup:
		if isMembershipChanged(before, after) {
			d.all = true
		}
	case *machinev1beta1.MachineSet:
		if isTemplateChanged(before, after) {
			t.concernSet(ref, before, after, d)
		}
	}
}

// concernSet notes a MachineSet whose Machines have to be decided about.
func (t *Tracker) concernSet(ref Ref, before, after client.Object, d *dirty) {
	uids := d.owners[ref.Namespace]
	if uids == nil {
		uids = map[types.UID]bool{"": true}
		d.owners[ref.Namespace] = uids
	}
	for _, set := range []client.Object{before, after} {
		if set != nil {
			uids[set.GetUID()] = true
		}
	}
	d.sets[ref.NamespacedName] = true
	delete(t.declarations, ref.NamespacedName)
	if set, ok := after.(*machinev1beta1.MachineSet); ok {
		t.declarations[ref.NamespacedName] = plan.DeclarationOf(set)
	}
}

// widen adds to what is dirty the Machines of its nodes, and the nodes of its Machines: they are decided together.
func (t *Tracker) widen(d *dirty) {
	if len(d.groups) > 0 {
		for _, cell := range t.Cells.All() {
			if d.groups[cell.NodeGroup] {
				d.nodes[cell.Name] = true
			}
		}
	}
	if d.all {
		t.widenToAll(d)
		return
	}
	t.widenToOwned(d)
	for machine := range d.machines {
		for _, node := range t.nodesOf[machine] {
			d.nodes[node] = true
		}
	}
	for node := range d.nodes {
		for ref := range t.byNode[node] {
			if ref.Resource == ResourceMachines {
				d.machines[ref] = true
			}
		}
	}
}

// widenToOwned makes the Machines dirty that belong or may belong to changed MachineSets. One pass serves all of them: a tenant can create thousands.
func (t *Tracker) widenToOwned(d *dirty) {
	if len(d.owners) == 0 {
		return
	}
	for machine, object := range t.byResource[ResourceMachines] {
		if uids := d.owners[machine.Namespace]; uids != nil && uids[machineapi.ControllerUID(object)] {
			d.machines[machine] = true
		}
	}
}

// widenToAll makes all nodes and Machines dirty.
func (t *Tracker) widenToAll(d *dirty) {
	for _, nodes := range t.nodesOf {
		for _, node := range nodes {
			d.nodes[node] = true
		}
	}
	for machine := range t.byResource[ResourceMachines] {
		d.machines[machine] = true
	}
}

// updateNodes decides about the dirty nodes and Machines.
func (t *Tracker) updateNodes(ctx context.Context, d *dirty, now time.Time) {
	if len(d.nodes)+len(d.machines) == 0 {
		return
	}
	objects := t.subset(d)
	snapshot := objects.snapshot()
	assigned := assign(ctx, snapshot)
	survey := plan.SurveyOf(assigned.planObjects(snapshot), t.protected, now)
	t.count(d, survey.Items)
	c := newComputation(objects, &survey, assigned, t.stoppedWaits(d), t.protected, now)
	cells := c.cells(objects.Nodes)
	if d.all {
		t.Cells.Replace(cells, 0)
		return
	}
	var gone []string
	for node := range d.nodes {
		if t.objects[nodeRef(node)] == nil {
			gone = append(gone, node)
		}
	}
	t.Cells.Update(cells, gone)
}

// count counts the dirty Machines again.
func (t *Tracker) count(d *dirty, items []plan.Item) {
	add := func(of counted, times int) {
		if t.sums[of.set] == nil {
			t.sums[of.set] = &view.Summary{}
		}
		t.sums[of.set].Add(&of.count, times)
		if *t.sums[of.set] == (view.Summary{}) {
			delete(t.sums, of.set)
		}
		d.sets[of.set] = true
	}
	for machine := range d.machines {
		if before, found := t.counted[machine]; found {
			add(before, -1)
			delete(t.counted, machine)
		}
	}
	for i := range items {
		of := counted{count: view.SummaryOf(&items[i])}
		if declaration := items[i].Declaration; declaration != nil {
			of.set = declaration.Key
		}
		t.counted[Ref{ResourceMachines, client.ObjectKeyFromObject(items[i].Machine)}] = of
		add(of, 1)
	}
}

// subset returns the objects that decide about the dirty nodes and Machines.
func (t *Tracker) subset(d *dirty) *Objects {
	out := &Objects{Groups: listOf[*drover.NodeGroup](t.byResource[ResourceGroups]), NoSets: t.noSets}
	refs := map[Ref]bool{}
	for name := range d.nodes {
		if node, ok := t.objects[nodeRef(name)].(*corev1.Node); ok {
			out.Nodes = append(out.Nodes, node)
		}
		for ref := range t.byNode[name] {
			refs[ref] = true
		}
	}
	for machine := range d.machines {
		refs[machine] = true
	}
	for _, ref := range slices.SortedFunc(maps.Keys(refs), compareRefs) {
		switch object := t.objects[ref].(type) {
		case *machinev1beta1.Machine:
			out.Machines = append(out.Machines, object)
		case *medik8s.NodeMaintenance:
			out.Maintenances = append(out.Maintenances, object)
		case *mutex.MutexRunConfig:
			out.Runs = append(out.Runs, object)
		case *coordinationv1.Lease:
			out.Leases = append(out.Leases, object)
		}
	}
	out.Sets = t.setsOf(out.Machines, d.all)
	return out
}

// setsOf returns the MachineSets that Machines belong or may belong to.
func (t *Tracker) setsOf(machines []*machinev1beta1.Machine, all bool) (sets []*machinev1beta1.MachineSet) {
	uids, namespaces := map[types.UID]bool{}, map[string]bool{}
	for _, machine := range machines {
		uid := machineapi.ControllerUID(machine)
		uids[uid] = true
		if uid == "" {
			namespaces[machine.Namespace] = true
		}
	}
	for _, set := range listOf[*machinev1beta1.MachineSet](t.byResource[ResourceSets]) {
		if all || uids[set.UID] || namespaces[set.Namespace] {
			sets = append(sets, set)
		}
	}
	return sets
}

// Around returns the objects that decide about one node.
func (t *Tracker) Around(node string) *Objects {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.subset(&dirty{nodes: map[string]bool{node: true}})
}

// Runs returns all MutexRunConfigs, by namespace and name.
func (t *Tracker) Runs() []*mutex.MutexRunConfig {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return listOf[*mutex.MutexRunConfig](t.byResource[ResourceRuns])
}

// Maintenances returns the NodeMaintenances of both groups, by node and name.
func (t *Tracker) Maintenances() []*medik8s.NodeMaintenance {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := slices.Concat(listOf[*medik8s.NodeMaintenance](t.byResource[ResourceMaintenances]),
		listOf[*medik8s.NodeMaintenance](t.byResource[ResourceOlderMaintenances]))
	slices.SortStableFunc(all, func(a, b *medik8s.NodeMaintenance) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	return all
}

// Status returns the document of `kubectl drover status -o json`.
func (t *Tracker) Status(ctx context.Context, now time.Time) *view.StatusList {
	t.mu.RLock()
	defer t.mu.RUnlock()
	everything := newDirty()
	everything.all = true
	t.widen(everything)
	objects := t.subset(everything)
	snapshot := objects.snapshot()
	survey := plan.SurveyOf(assign(ctx, snapshot).planObjects(snapshot), t.protected, now)
	list := view.NewStatusList(objects.Sets, survey)
	for _, group := range objects.Groups {
		list.NodeGroups = append(list.NodeGroups, view.NewNodeGroupStatus(group))
	}
	return list
}

// listOf returns objects by namespace and name.
func listOf[T client.Object](objects map[Ref]client.Object) []T {
	out := make([]T, 0, len(objects))
	for _, ref := range slices.SortedFunc(maps.Keys(objects), compareRefs) {
		if object, ok := objects[ref].(T); ok {
			out = append(out, object)
		}
	}
	return out
}
