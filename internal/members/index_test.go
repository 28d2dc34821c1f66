package members

import (
	"errors"
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/machineapi"
)

// guardedSet returns a MachineSet that declares a taint with the effect NoExecute, and selects Machines by a label.
func guardedSet(name string, selects map[string]string) *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: name, UID: types.UID(name)}}
	set.Spec.Selector.MatchLabels = selects
	set.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoExecute}}
	return set
}

// guardedMachine returns a Machine of the Node "n" that a MachineSet controls; an empty name is none.
func guardedMachine(set string, labels map[string]string) *machinev1beta1.Machine {
	machine := newMachine("ours", "m", 0, "uid")
	machine.Labels, machine.OwnerReferences = labels, nil
	if set != "" {
		machine.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: set, UID: types.UID(set), Controller: new(true)}}
	}
	return machine
}

// newIndex returns an Index that is ready, in a cluster with a Node and other objects.
func newIndex(t *testing.T, node *corev1.Node, objects ...client.Object) *Index {
	t.Helper()
	finder := newFinderOf(t, append(objects, node)...)
	return &Index{finder: finder, ready: true, stale: true, nodes: map[string]entry{node.Name: {node: node}}}
}

// TestIndex_Orphan: a Machine without a controller is of the MachineSet that the metadata of MachineSets takes it for, whose taints the group guards.
func TestIndex_Orphan(t *testing.T) {
	web, both := map[string]string{"set": "web"}, map[string]string{"set": "web", "also": "db"}
	db := func() *machinev1beta1.MachineSet { return guardedSet("db", map[string]string{"also": "db"}) }
	invalid := func() *machinev1beta1.MachineSet {
		set := guardedSet("db", nil)
		set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "set", Operator: "Resembles"}}
		return set
	}
	for name, c := range map[string]struct {
		machine *machinev1beta1.Machine
		another *machinev1beta1.MachineSet
		guarded bool
	}{
		"controlled":                              {guardedMachine("web", web), db(), true},
		"controlled, and two select it":           {guardedMachine("web", both), db(), true},
		"no controller, selected":                 {guardedMachine("", web), db(), true},
		"no controller, one selector invalid":     {guardedMachine("", web), invalid(), true},
		"no controller, two select it":            {guardedMachine("", both), db(), false},
		"no controller, not selected":             {guardedMachine("", nil), db(), false},
		"no controller, selected, being deleted":  {deleting(guardedMachine("", web)), db(), false},
		"controlled by one that is gone":          {guardedMachine("gone", web), db(), false},
		"no controller, of another namespace":     {inNamespace("theirs", guardedMachine("", web)), db(), false},
		"controlled, but the selector leaves out": {guardedMachine("web", nil), db(), false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid"}}
			group := newGuardingGroup().NodeGroup
			group.Spec.Nodes.MachineSets.Namespace = "ours"
			index := newIndex(t, node, group, c.machine, c.another, guardedSet("web", web))
			layer, err := index.finder.GroupLayer(t.Context(), node, "web")
			by, taints := layer.Name, layer.Guarded
			if err != nil || taints.Has("dedicated:NoExecute") != c.guarded || c.guarded && by != group.Name {
				t.Errorf("group %q guards %v, error %v", by, taints, err)
			}
			if in, err := index.GroupOf(t.Context(), "n"); err != nil || c.guarded && in != group.Name {
				t.Errorf("the Node is in the group %q, error %v", in, err)
			}
		})
	}
}

// TestIndex_InvalidSelector: a group whose selector is invalid selects nothing, and still guards the MachineSets that it may have selected before: a
// mistake has no taint set at once.
func TestIndex_InvalidSelector(t *testing.T) {
	invalid := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "gpu", Operator: metav1.LabelSelectorOpIn}}}
	bySets := func(namespace string) v1alpha1.NodeSelection {
		return v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: namespace, Selector: invalid}}
	}
	none := func(*v1alpha1.NodeGroup) {}
	for name, c := range map[string]struct {
		nodes  v1alpha1.NodeSelection
		change func(*v1alpha1.NodeGroup)
		// other is where another group selects all MachineSets.
		other, want string
	}{
		"of the namespace of the MachineSet":   {bySets("ours"), none, "theirs", "g"},
		"of another namespace":                 {bySets("theirs"), none, "theirs", ""},
		"of Nodes by their labels":             {v1alpha1.NodeSelection{Selector: invalid}, none, "theirs", ""},
		"it guards nothing":                    {bySets("ours"), allowNoExecute, "theirs", ""},
		"it is being deleted":                  {bySets("ours"), beingDeleted, "theirs", ""},
		"another group selects the MachineSet": {bySets("ours"), none, "ours", "other"},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid"}}
			group := newGroup("g", c.nodes).NodeGroup
			c.change(group)
			other := newGroup("other", v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: c.other}}).NodeGroup
			web := map[string]string{"set": "web"}
			// Another one with an invalid selector comes first, and guards nothing.
			first := newGroup("a", bySets("ours")).NodeGroup
			allowNoExecute(first)
			index := newIndex(t, node, first, group, other, guardedMachine("web", web), guardedSet("web", web))
			layer, err := index.finder.GroupLayer(t.Context(), node, "web")
			by, taints := layer.Name, layer.Guarded
			if err != nil || taints.Has("dedicated:NoExecute") != (c.want != "") || by != c.want {
				t.Errorf("group %q guards %v, error %v", by, taints, err)
			}
			if in, err := index.GroupOf(t.Context(), "n"); err != nil || in == "g" {
				t.Errorf("the Node is in the group %q, error %v", in, err)
			}
		})
	}
}

// TestIndex_WhoDecides: a group that kubelets can have their Nodes join decides nothing about taints of MachineSets, not even that they may be set.
func TestIndex_WhoDecides(t *testing.T) {
	byLabel := v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "web"}}}
	bySets := v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "ours"}}
	for name, c := range map[string]struct {
		nodes  v1alpha1.NodeSelection
		change func(*v1alpha1.NodeGroup)
		want   string
	}{
		"MachineSets, guarded": {bySets, func(*v1alpha1.NodeGroup) {}, "g"},
		"MachineSets, allowed": {bySets, allowNoExecute, "g"},
		"labels, allowed":      {byLabel, allowNoExecute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", Labels: map[string]string{"pool": "web"}}}
			group := newGroup("g", c.nodes).NodeGroup
			c.change(group)
			web := map[string]string{"set": "web"}
			index := newIndex(t, node, group, guardedMachine("web", web), guardedSet("web", web))
			if layer, err := index.finder.GroupLayer(t.Context(), node, "web"); err != nil || layer.Name != c.want {
				t.Errorf("%q decides, want %q, error %v", layer.Name, c.want, err)
			}
		})
	}
}

func allowNoExecute(group *v1alpha1.NodeGroup) {
	group.Spec.Rollout = &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{Policy: v1alpha1.NoExecuteAllow}}
}

func beingDeleted(group *v1alpha1.NodeGroup) {
	group.DeletionTimestamp, group.Finalizers = new(metav1.Unix(1, 0)), []string{v1alpha1.Finalizer}
}

// TestIndex_Follows: the group of an orphan changes with the selector of a MachineSet.
func TestIndex_Follows(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid"}}
	group := newGroup("g", v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "ours"}}).NodeGroup
	set := guardedSet("web", map[string]string{"set": "db"})
	finder := newFinderOf(t, node, group, set, guardedMachine("", map[string]string{"set": "web"}))
	server, ok := finder.cache.(client.Client)
	if !ok {
		t.Fatalf("%T does not write", finder.cache)
	}
	cache := &informertest.FakeInformers{Scheme: server.Scheme()}
	index := &Index{finder: finder, ready: true, stale: true, nodes: map[string]entry{}, lists: map[string]*list{}}
	if _, err := index.handle(t.Context(), cache, finder); err != nil {
		t.Fatal(err)
	}
	nodes, nodeErr := cache.FakeInformerFor(t.Context(), node)
	sets, setErr := cache.FakeInformerFor(t.Context(), set)
	if err := errors.Join(nodeErr, setErr); err != nil {
		t.Fatal(err)
	}
	nodes.Add(node)
	expect := func(want string) {
		t.Helper()
		if got, err := index.GroupOf(t.Context(), "n"); err != nil || got != want {
			t.Errorf("the Node is in the group %q, error %v, want %q", got, err, want)
		}
	}
	expect("")
	before := set.DeepCopy()
	apitest.Edit(t, server, set, func(set *machinev1beta1.MachineSet) { set.Spec.Selector.MatchLabels["set"] = "web" })
	sets.Update(before, set)
	expect("g")
	if err := server.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	sets.Delete(set)
	if expect(""); len(finder.memberships) != 0 {
		t.Errorf("%d rules are kept", len(finder.memberships))
	}
}

func inNamespace(namespace string, machine *machinev1beta1.Machine) *machinev1beta1.Machine {
	machine.Namespace = namespace
	return machine
}

// TestFinder_MembershipOf: the selector of a MachineSet is parsed once for each version, and forgotten with it.
func TestFinder_MembershipOf(t *testing.T) {
	finder := newFinderOf(t)
	set, machine := guardedSet("web", map[string]string{"set": "web"}), guardedMachine("", map[string]string{"set": "web"})
	set.ResourceVersion = "1"
	if !finder.membershipOf(set).Has(machine) {
		t.Error("the selector does not match")
	}
	changed := set.DeepCopy()
	changed.Spec.Selector.MatchLabels = map[string]string{"set": "db"}
	if !finder.membershipOf(changed).Has(machine) {
		t.Error("the same version is parsed again")
	}
	if changed.ResourceVersion = "2"; finder.membershipOf(changed).Has(machine) {
		t.Error("another version is not parsed")
	}
	recreated := set.DeepCopy()
	recreated.ResourceVersion, recreated.UID = "2", "another"
	if !finder.membershipOf(recreated).Has(machine) {
		t.Error("another MachineSet of the same name is not parsed")
	}
	if finder.forgetSet(recreated); len(finder.memberships) != 0 {
		t.Errorf("%d rules are kept", len(finder.memberships))
	}
}

// TestFinder_WithRollout: the configuration's roll-out applies to the groups that have none, also after a change of their status.
func TestFinder_WithRollout(t *testing.T) {
	own, none := newGroup("own", bySelector(nil)).NodeGroup, newGroup("none", bySelector(nil)).NodeGroup
	own.UID, none.UID, own.Spec.Rollout = "1", "2", &v1alpha1.Rollout{FirstWave: new(int32(7))}
	finder := newFinderOf(t, own, none).WithRollout(&v1alpha1.Rollout{FirstWave: new(int32(3))})
	for range 2 {
		groups, err := finder.Groups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int32{}
		for _, group := range groups {
			got[group.Name] = *group.Spec.Rollout.FirstWave
		}
		if got["own"] != 7 || got["none"] != 3 {
			t.Errorf("the first waves are %v", got)
		}
		for _, parsed := range finder.parsed {
			parsed.ResourceVersion = "another"
		}
	}
}

// ofSet returns a Machine of a MachineSet that has a Node, or none, and declares labels for it.
func ofSet(name, set, node string, labels map[string]string) *machinev1beta1.Machine {
	machine := newMachine("ours", name, 0, "uid-"+types.UID(node))
	machine.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: set, UID: types.UID(set), Controller: new(true)}}
	if machine.Status.NodeRef.Name = node; node == "" {
		machine.Status.NodeRef = nil
	}
	machine.Spec.Labels = labels
	return machine
}

// TestIndex_MissingNode: the Node that a Machine has lost, or never had, belongs to the group of the other Nodes of its MachineSet. If there is none,
// it belongs to the group that selects what the Machine declares.
func TestIndex_MissingNode(t *testing.T) {
	const never = "Machine/ours/m"
	gpu, cpu := map[string]string{"pool": "gpu"}, map[string]string{"pool": "cpu"}
	for name, c := range map[string]struct {
		machine *machinev1beta1.Machine
		// siblings are the labels of other Nodes of the MachineSet.
		siblings []map[string]string
		node     string
		want     string
	}{
		"never had one, by its MachineSet":       {ofSet("m", "selected", "", nil), nil, never, "sets"},
		"had one, by its MachineSet":             {ofSet("m", "selected", "n", nil), nil, "n", "sets"},
		"never had one, by the other Nodes":      {ofSet("m", "web", "", nil), []map[string]string{gpu}, never, "gpu"},
		"had one, by the other Nodes":            {ofSet("m", "web", "n", nil), []map[string]string{gpu}, "n", "gpu"},
		"by most of the other Nodes":             {ofSet("m", "web", "", nil), []map[string]string{cpu, gpu, gpu, nil, nil, nil}, never, "gpu"},
		"by as many, the older group":            {ofSet("m", "web", "", nil), []map[string]string{cpu, gpu}, never, "cpu"},
		"by the other Nodes, which say another":  {ofSet("m", "web", "", cpu), []map[string]string{gpu}, never, "gpu"},
		"the other Nodes are in none":            {ofSet("m", "web", "", cpu), []map[string]string{nil}, never, "cpu"},
		"by what it declares":                    {ofSet("m", "web", "", gpu), nil, never, "gpu"},
		"by what it declares, also of no set":    {ofSet("m", "gone", "n", gpu), nil, "n", "gpu"},
		"nothing says it":                        {ofSet("m", "web", "", nil), nil, never, ""},
		"another Machine":                        {ofSet("m", "web", "n", gpu), nil, "Machine/ours/other", ""},
		"the Machine of another Node":            {ofSet("m", "web", "n", gpu), nil, "o", ""},
		"by its own Node, which is there by now": {ofSet("m", "web", "s0", nil), []map[string]string{gpu}, "s0", "gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			bySets := newGroup("sets", v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "ours", Names: []string{"selected"}}})
			objects := []client.Object{
				c.machine, guardedSet("web", nil), guardedSet("selected", nil), bySets.NodeGroup,
				newGroup("gpu", v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: gpu}}).NodeGroup,
				newGroup("cpu", v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: cpu}}).NodeGroup,
			}
			for i := range c.siblings {
				if name := fmt.Sprintf("s%d", i); machineapi.NodeName(c.machine) != name {
					objects = append(objects, ofSet("m-"+name, "web", name, nil))
				}
			}
			index := newIndex(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}, objects...)
			for i, labels := range c.siblings {
				name := fmt.Sprintf("s%d", i)
				index.set(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-" + types.UID(name), Labels: labels}})
			}
			if got, err := index.GroupOf(t.Context(), c.node); err != nil || got != c.want {
				t.Errorf("the group is %q, want %q, error %v", got, c.want, err)
			}
		})
	}
}

// TestIndex_CountsSiblings: the Nodes of a MachineSet are counted as they come, move to another group, and go.
func TestIndex_CountsSiblings(t *testing.T) {
	gpu := map[string]string{"pool": "gpu"}
	index := newIndex(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}},
		ofSet("m", "web", "", nil), ofSet("o", "web", "n", nil), guardedSet("web", nil),
		newGroup("gpu", v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: gpu}}).NodeGroup)
	expect := func(when, want string) {
		t.Helper()
		if got, err := index.GroupOf(t.Context(), "Machine/ours/m"); err != nil || got != want {
			t.Errorf("%s: the group is %q, want %q, error %v", when, got, want, err)
		}
	}
	node := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-n", Labels: labels}}
	}
	expect("at first", "")
	index.set(t.Context(), node(gpu))
	expect("it has come", "gpu")
	index.set(t.Context(), node(gpu))
	expect("it has changed", "gpu")
	index.setStale()
	expect("all were found again", "gpu")
	index.set(t.Context(), node(nil))
	expect("it has left the group", "")
	index.set(t.Context(), node(gpu))
	expect("it is back", "gpu")
	index.remove(t.Context(), "n")
	expect("it is gone", "")
	if len(index.sets) > 0 {
		t.Errorf("MachineSets without Nodes: %v", index.sets)
	}
}

// TestIndex_MissingNode_Oldest: of several Machines that name a Node that is gone, the oldest says its group: a tenant may make a later one.
func TestIndex_MissingNode_Oldest(t *testing.T) {
	named := func(name, pool string, age time.Duration) *machinev1beta1.Machine {
		machine := ofSet(name, "gone", "n", map[string]string{"pool": pool})
		machine.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(-age))
		return machine
	}
	group := func(name string) client.Object {
		return newGroup(name, bySelector(map[string]string{"pool": name})).NodeGroup
	}
	index := newIndex(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}},
		named("a", "evil", 0), named("b", "ours", time.Hour), named("c", "evil", time.Minute), group("evil"), group("ours"))
	if got, err := index.GroupOf(t.Context(), "n"); err != nil || got != "ours" {
		t.Errorf("the group is %q, error %v", got, err)
	}
}

// TestIndex_MachineChanges: while a Machine changes, no decision finds that its MachineSet lacks it.
func TestIndex_MachineChanges(t *testing.T) {
	gpu := map[string]string{"pool": "gpu"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: "uid-n0", Labels: gpu}}
	web, machine := guardedSet("web", nil), owedMachine("web", "n0")
	web.Spec.Replicas, web.Status.Replicas = new(int32(1)), 1
	index := newIndex(t, node, web, machine, newGroup("gpu", bySelector(gpu)).NodeGroup)
	server, ok := index.finder.cache.(client.Client)
	if !ok {
		t.Fatalf("%T does not write", index.finder.cache)
	}
	cache := &informertest.FakeInformers{Scheme: server.Scheme()}
	if _, err := index.handle(t.Context(), cache, index.finder); err != nil {
		t.Fatal(err)
	}
	machines, err := cache.FakeInformerFor(t.Context(), machine)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			machines.Update(machine, machine)
		}
	}()
	for {
		got, err := index.Machines(t.Context(), "gpu", time.Now())
		if err != nil || len(got.Sets) != 1 || got.Sets[0].NotCreated != 0 {
			t.Fatalf("%+v, error %v", got.Sets, err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
