package members

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/watch"
)

// Index knows the group of each Node, and the Nodes of each group, without a look at all of them. It follows the events of the cache while Run runs.
// The zero value knows nothing yet, and says so.
type Index struct {
	mu    sync.Mutex
	ready bool
	// stale reports that the groups or the MachineSets have changed, and with them the group of any Node.
	stale  bool
	finder *Finder
	groups []*Group
	nodes  map[string]entry
	lists  map[string]*list
	// sets counts the Nodes of each MachineSet by the names of their groups. namespaces counts the Nodes of each group by the namespaces of their
	// Machines.
	sets       map[types.UID]map[string]int
	namespaces map[string]map[string]int
	// inventory has the Machines and the MachineSets, for disruptions.
	inventory *disruptionplan.Inventory
}

// entry is a Node, the name of its group, and its Machine and the MachineSet and the namespace of that; empty for none.
type entry struct {
	node         *corev1.Node
	group        string
	set, machine types.UID
	namespace    string
}

// list has the Nodes of a group, by name. It is copied before it changes once it has been handed out.
type list struct {
	nodes  []*corev1.Node
	shared bool
}

// errNotReady is why nothing is known about the groups of Nodes.
var errNotReady = errors.New("the NodeGroups are not read yet")

// Run keeps the index up to date until the context ends. The caches must be synced.
func (x *Index) Run(ctx context.Context, cache ctrlcache.Cache, finder *Finder) error {
	x.mu.Lock()
	x.finder, x.stale, x.nodes, x.lists, x.sets, x.namespaces = finder, true, map[string]entry{}, nil, nil, nil
	x.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer x.setReady(false)
	synced, err := x.handle(ctx, cache, finder)
	if err != nil {
		return err
	}
	if toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		x.setReady(true)
	}
	<-ctx.Done()
	return nil
}

func (x *Index) setReady(ready bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ready = ready
}

// handle registers the handlers of events.
func (x *Index) handle(ctx context.Context, cache ctrlcache.Cache, finder *Finder) (synced []toolscache.InformerSynced, err error) {
	groups, groupErr := watch.Handle(ctx, cache, &v1alpha1.NodeGroup{}, watch.Handler[*v1alpha1.NodeGroup]{
		Created: func(context.Context, watch.Queue, *v1alpha1.NodeGroup, bool) { x.setStale() },
		Updated: func(_ context.Context, _ watch.Queue, before, after *v1alpha1.NodeGroup) {
			if before.UID != after.UID || before.Generation != after.Generation || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() {
				x.setStale()
			}
		},
		Deleted: func(context.Context, watch.Queue, *v1alpha1.NodeGroup) { x.setStale() },
	})
	nodes, nodeErr := watch.Handle(ctx, cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
		Created: func(ctx context.Context, _ watch.Queue, node *corev1.Node, _ bool) { x.set(ctx, node) },
		Updated: func(ctx context.Context, _ watch.Queue, _, node *corev1.Node) { x.set(ctx, node) },
		Deleted: func(ctx context.Context, _ watch.Queue, node *corev1.Node) { x.remove(ctx, node.Name) },
	})
	synced = []toolscache.InformerSynced{groups, nodes}
	if err := errors.Join(groupErr, nodeErr); err != nil || !finder.machines() {
		return synced, err
	}
	machines, machineErr := watch.Handle(ctx, cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
		Created: func(ctx context.Context, _ watch.Queue, machine *machinev1beta1.Machine, _ bool) {
			x.setMachine(ctx, machine, true)
		},
		Updated: func(ctx context.Context, _ watch.Queue, before, after *machinev1beta1.Machine) {
			x.replaceMachine(ctx, before, after)
		},
		Deleted: func(ctx context.Context, _ watch.Queue, machine *machinev1beta1.Machine) {
			x.setMachine(ctx, machine, false)
		},
	})
	sets, setErr := watch.Handle(ctx, cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
		Created: func(context.Context, watch.Queue, *machinev1beta1.MachineSet, bool) { x.setStale() },
		Updated: func(_ context.Context, _ watch.Queue, before, after *machinev1beta1.MachineSet) {
			if before.UID != after.UID || !maps.Equal(before.Labels, after.Labels) ||
				!apiequality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector) {
				x.setStale()
			}
			x.setSet(after)
		},
		Deleted: func(_ context.Context, _ watch.Queue, set *machinev1beta1.MachineSet) {
			finder.forgetSet(set)
			x.setStale()
		},
	})
	return append(synced, machines, sets), errors.Join(machineErr, setErr)
}

// GroupOf returns the name of the NodeGroup that a Node belongs to; empty for none. A Node that is gone belongs to the group of a Machine that still
// names it, and a disruption's MachineName stands for the Node that the Machine is to have.
func (x *Index) GroupOf(ctx context.Context, node string) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(ctx); err != nil {
		return "", err
	}
	if known, found := x.nodes[node]; found {
		return known.group, nil
	}
	machines, err := x.finder.machinesOfMissing(ctx, node)
	if err != nil {
		return "", err
	}
	for i := range machines {
		if group, err := x.groupOfMachine(ctx, &machines[i]); err != nil || group != "" {
			return group, err
		}
	}
	return "", nil
}

// groupOfMachine returns the name of the group of a Machine's future Node; empty for none. It tries, in this order: 1. the group of most other Nodes
// of the Machine's MachineSet. 2. the group that selects a Node with what the Machine declares for it.
func (x *Index) groupOfMachine(ctx context.Context, machine *machinev1beta1.Machine) (name string, err error) {
	set, err := x.finder.machineSet(ctx, machine)
	if err != nil {
		return "", err
	}
	if name = x.groupOfNodes(SetUID(set)); name != "" {
		return name, nil
	}
	declared := metav1.ObjectMeta{Labels: machine.Spec.Labels, Annotations: machine.Spec.Annotations}
	return x.groupDeclared(machine.Namespace, set, declared), nil
}

// SetUID returns the UID of a MachineSet; empty for none.
func SetUID(set *machinev1beta1.MachineSet) types.UID {
	if set == nil {
		return ""
	}
	return set.UID
}

func notReady() error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodegroups").GroupResource(), "", errNotReady)
}

// Members returns the Nodes of a NodeGroup as the cache has them, by name. They must not be changed. The error is a conflict while the index is not
// ready.
func (x *Index) Members(ctx context.Context, group string) ([]*corev1.Node, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(ctx); err != nil || x.lists[group] == nil {
		return nil, err
	}
	x.lists[group].shared = true
	return x.lists[group].nodes, nil
}

// refresh finds the group of every Node if it may have changed.
func (x *Index) refresh(ctx context.Context) (err error) {
	switch {
	case !x.ready:
		return notReady()
	case !x.stale:
		return nil
	}
	if x.groups, err = x.finder.Groups(ctx); err != nil {
		return err
	}
	x.lists, x.sets, x.namespaces = map[string]*list{}, map[types.UID]map[string]int{}, map[string]map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(x.nodes)) {
		found, err := x.find(ctx, x.nodes[name].node)
		if err != nil {
			return err
		}
		x.nodes[name] = found
		x.count(found, 1)
		if found.group != "" {
			x.list(found.group).nodes = append(x.list(found.group).nodes, found.node)
		}
	}
	if err := x.putMachines(ctx); err != nil {
		return err
	}
	x.stale = false
	return nil
}

func (x *Index) find(ctx context.Context, node *corev1.Node) (entry, error) {
	assignment, err := x.finder.Assign(ctx, x.groups, node)
	found := entry{node: node, set: SetUID(assignment.MachineSet)}
	if err == nil && assignment.Group != nil {
		found.group = assignment.Group.Name
	}
	if assignment.Machine != nil {
		found.machine, found.namespace = assignment.Machine.UID, assignment.Machine.Namespace
	}
	return found, err
}

// count adds a Node to the counts of its group, for its MachineSet and for the namespace of its Machine, or takes it from them.
func (x *Index) count(of entry, change int) {
	if of.group == "" || x.sets == nil {
		return
	}
	if of.set != "" {
		add(x.sets, of.set, of.group, change)
	}
	if of.namespace != "" {
		add(x.namespaces, of.group, of.namespace, change)
	}
}

// add changes a count, and leaves none that is zero.
func add[K comparable](all map[K]map[string]int, key K, name string, change int) {
	counts := all[key]
	if counts == nil {
		counts = map[string]int{}
		all[key] = counts
	}
	if counts[name] += change; counts[name] <= 0 {
		delete(counts, name)
	}
	if len(counts) == 0 {
		delete(all, key)
	}
}

func (x *Index) list(group string) *list {
	if x.lists[group] == nil {
		x.lists[group] = &list{}
	}
	return x.lists[group]
}

func (x *Index) setStale() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stale = true
}

// set adds or replaces a Node.
func (x *Index) set(ctx context.Context, node *corev1.Node) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.assign(ctx, node)
}

// setMachine finds the group of a Machine's Node again, and counts the Machine if it exists.
func (x *Index) setMachine(ctx context.Context, machine *machinev1beta1.Machine, exists bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.putMachine(ctx, machine, exists)
}

// replaceMachine is setMachine for a Machine that has changed: no decision finds that there is none.
func (x *Index) replaceMachine(ctx context.Context, before, after *machinev1beta1.Machine) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.putMachine(ctx, before, false)
	x.putMachine(ctx, after, true)
}

func (x *Index) putMachine(ctx context.Context, machine *machinev1beta1.Machine, exists bool) {
	if known, found := x.nodes[machineapi.NodeName(machine)]; found {
		x.assign(ctx, known.node)
	}
	switch {
	case !x.ready || x.stale:
		x.stale = true
	case exists:
		x.inventory.Put(machine)
	default:
		x.inventory.Drop(client.ObjectKeyFromObject(machine))
	}
}

// setSet replaces a MachineSet.
func (x *Index) setSet(set *machinev1beta1.MachineSet) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ready && !x.stale {
		x.inventory.PutSet(set)
	}
}

func (x *Index) assign(ctx context.Context, node *corev1.Node) {
	before, found := x.nodes[node.Name]
	if !x.ready || x.stale {
		before.node = node
		x.nodes[node.Name], x.stale = before, true
		return
	}
	now, err := x.find(ctx, node)
	if err != nil {
		now, x.stale = before, true // the next question finds it, or says why not
		now.node = node
	}
	x.nodes[node.Name] = now
	x.count(before, -1)
	x.count(now, 1)
	if found && before.group != "" && before.group != now.group {
		x.list(before.group).remove(node.Name)
	}
	if now.group != "" {
		x.list(now.group).put(node)
	}
	x.putMachinesOf(ctx, node.Name)
}

// putMachinesOf counts the Machines again that name a Node.
func (x *Index) putMachinesOf(ctx context.Context, node string) {
	if !x.ready || x.stale || !x.finder.machines() {
		return
	}
	machines, err := lookup.MachinesOfNode(ctx, x.finder.cache, node)
	if err != nil {
		x.stale = true // the next question finds them, or says why not
	}
	for i := range machines {
		x.inventory.Put(&machines[i])
	}
}

func (x *Index) remove(ctx context.Context, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if group := x.nodes[name].group; group != "" && x.lists[group] != nil {
		x.lists[group].remove(name)
	}
	x.count(x.nodes[name], -1)
	delete(x.nodes, name)
	x.putMachinesOf(ctx, name)
}

func (l *list) search(name string) (int, bool) {
	return slices.BinarySearchFunc(l.nodes, name, func(node *corev1.Node, name string) int { return strings.Compare(node.Name, name) })
}

func (l *list) put(node *corev1.Node) {
	l.own()
	at, found := l.search(node.Name)
	if found {
		l.nodes[at] = node
		return
	}
	l.nodes = slices.Insert(l.nodes, at, node)
}

func (l *list) remove(name string) {
	if at, found := l.search(name); found {
		l.own()
		l.nodes = slices.Delete(l.nodes, at, at+1)
	}
}

func (l *list) own() {
	if l.shared {
		l.nodes, l.shared = slices.Clone(l.nodes), false
	}
}
