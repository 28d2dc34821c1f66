package nodegroup

import (
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// guardedPods is how many Pods a guardedApp has: one on each Node of the group, and one elsewhere. Its budget lets one go at a time.
const guardedPods = crashNodes + 1

// guardedApp is a workload on the Nodes of a test whose Pods have to leave.
type guardedApp struct {
	*harness.Site

	// elsewhere is a Node of no group, and created how many Pods there have been.
	elsewhere string
	created   int
	// places watches the budget of the group.
	places *harness.BudgetWatch
}

// labelApp is on the Pods of a guardedApp.
var labelApp = map[string]string{"budget": "app"}

// dedicate creates a guardedApp on the Nodes of the test, and then a group with a taint that its Pods do not tolerate.
func (f *fixture) dedicate() {
	f.Helper()
	f.runApp()
	f.create(f.newGroup(groupName, withLabel("example.com/team", "blue"), withTaint("example.com/dedicated", "", corev1.TaintEffectNoExecute),
		withWaves(1, 1, 0), withBudget(1)))
	f.app.places = f.WatchBudget(groupName, 1, "crash-")
}

// runApp runs a guardedApp on the Nodes of the test.
func (f *fixture) runApp() {
	f.Helper()
	beginChecker.Do(func() {
		var err error
		if checker, err = harness.StartChecker(env); err != nil {
			f.Fatalf("the checker of budgets does not start: %v", err)
		}
	})
	app := &guardedApp{Site: f.Site()}
	f.Cleanup(func() { checker.Verify(app.Site) })
	app.elsewhere = app.AddNode()
	app.run(app.elsewhere)
	for i := range crashNodes {
		app.run(fmt.Sprintf("crash-%02d", i))
	}
	app.CountedBudget("app", labelApp, guardedPods-1, guardedPods)
	f.app = app
}

// dedicateSet creates a guardedApp on the Nodes of the test, then a MachineSet for the Nodes, and a group that guards its taints. When the Nodes are
// not new any more, the MachineSet declares a taint that the Pods do not tolerate.
func (f *fixture) dedicateSet() {
	f.Helper()
	f.runApp()
	f.ownNodes()
	f.create(f.newGroup(groupName, withLabel("example.com/team", "blue"), withWaves(1, 1, 0), withBudget(1), func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes = v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: cluster.MachineNamespace, Names: []string{groupName}}}
	}))
	f.app.places = f.WatchBudget(groupName, 1, "crash-")
	operator := f.Operator(harness.Options{})
	for i := range crashNodes {
		name := fmt.Sprintf("crash-%02d", i)
		f.eventuallyNode(name, "has the label of the MachineSet", hasLabel("example.com/tier", "gold"))
		f.eventuallyNode(name, "has the label of the group", hasLabel("example.com/team", "blue"))
	}
	synced(f)
	if err := operator.Stop(); err != nil {
		f.Fatal(err)
	}
	harness.Update(f.World, f.Set, groupName, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "", corev1.TaintEffectNoExecute)}
	})
}

// ownNodes creates a MachineSet with a Machine for each Node of the test.
func (f *fixture) ownNodes() {
	f.Helper()
	labels := map[string]string{"example.com/set": groupName}
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: groupName}}
	set.Spec.Selector.MatchLabels = labels
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Labels = map[string]string{"example.com/tier": "gold"}
	f.CreateWithCleanup(set)
	for i := range crashNodes {
		name := fmt.Sprintf("crash-%02d", i)
		machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.MachineNamespace, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, machinev1beta1.GroupVersion.WithKind("MachineSet"))},
		}}
		f.CreateWithCleanup(machine)
		machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name}
		if err := f.Client.Status().Update(f.Context(), machine); err != nil {
			f.Fatal(err)
		}
	}
}

// run runs one more Pod on a Node.
func (a *guardedApp) run(node string) {
	a.Helper()
	a.Pod(fmt.Sprintf("app-%d", a.created), harness.Pods{Node: node, Labels: labelApp, Ends: "200ms", Grace: 1})
	a.created++
}

// replaceEvicted runs another Pod elsewhere for each that leaves, as a ReplicaSet does, until all Nodes of the group have the taint.
func (f *fixture) replaceEvicted() {
	f.Helper()
	f.EventuallyFree("all Nodes have the taint", func() error {
		var pods corev1.PodList
		if err := f.Client.List(f.Context(), &pods, client.InNamespace(f.app.Name), client.MatchingLabels(labelApp)); err != nil {
			return err
		}
		staying := 0
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil {
				staying++
			}
		}
		for ; staying < guardedPods; staying++ {
			f.app.run(f.app.elsewhere)
		}
		for i := range crashNodes {
			if err := harness.Has(f.Node(fmt.Sprintf("crash-%02d", i)), nil, nil, "example.com/dedicated=:NoExecute"); err != nil {
				return err
			}
		}
		return nil
	})
}
