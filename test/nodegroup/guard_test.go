package nodegroup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	f.create(f.newGroup(groupName, withLabel("example.com/team", "blue"), withTaint("example.com/dedicated", "", corev1.TaintEffectNoExecute),
		withWaves(1, 1, 0), withBudget(1)))
	app.places = f.WatchBudget(groupName, 1, "crash-")
	f.app = app
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
