package nodegroup

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/rollout/history"
	"github.com/drover-io/drover/test/harness"
)

// crashNodes is how many Nodes each workload has: more than one, so that a kill leaves some written and some not.
const crashNodes = 3

// crashWorkload is what happens to a group while the operator is killed.
type crashWorkload struct {
	name string
	// before is the group that an operator has applied already; nil for none.
	before func(*v1alpha1.NodeGroupSpec)
	// change is what the operator that is killed begins to apply.
	change func(f *fixture)
	// meanwhile is what a user does while operators apply it, until there is nothing left to do; nil for nothing.
	meanwhile func(f *fixture)
	// applied waits until it is applied.
	applied func(f *fixture)
}

// groupName is the same in every run, so that what is left can be compared as text.
const groupName = "crash"

func synced(f *fixture) {
	f.Helper()
	f.eventuallyCondition(groupName, v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
}

func crashWorkloads() []crashWorkload {
	blue := func(spec *v1alpha1.NodeGroupSpec) {
		withLabel("example.com/team", "blue")(spec)
		withTaint("example.com/dedicated", "", corev1.TaintEffectNoSchedule)(spec)
		withRelease(v1alpha1.ReleaseRemove)(spec)
	}
	remove := func(f *fixture) {
		f.Helper()
		if err := f.Client.Delete(f.Context(), f.group(groupName)); err != nil {
			f.Fatal(err)
		}
	}
	return []crashWorkload{
		{"create", nil, func(f *fixture) { f.create(f.newGroup(groupName, blue, withWaves(1, 1, 0))) }, nil, synced},
		{"change", blue, func(f *fixture) {
			f.update(groupName, func(spec *v1alpha1.NodeGroupSpec) {
				withLabel("example.com/team", "red")(spec)
				spec.Metadata.Taints = nil
				withWaves(1, 1, 0)(spec)
			})
		}, nil, synced},
		{"delete", blue, remove, nil, func(f *fixture) { f.eventuallyGone(groupName) }},
		{"hand over", blue, func(f *fixture) {
			f.create(f.newGroup(groupName+"-next", withLabel("example.com/team", "green")))
			remove(f)
		}, nil, func(f *fixture) {
			f.eventuallyGone(groupName)
			f.eventuallyCondition(groupName+"-next", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
		}},
		{"budget", nil, func(f *fixture) {
			f.create(f.newGroup(groupName, withBudget(1, queued)))
			for i := range 2 {
				f.Maintain(fmt.Sprintf("crash-%02d", i), nil)
			}
		}, maintainBoth, unreserved},
		{"guard", nil, (*fixture).dedicate, (*fixture).replaceEvicted, settled},
		{"guard of a MachineSet", nil, (*fixture).dedicateSet, (*fixture).replaceEvicted, settled},
	}
}

// settled waits until a group is synced and takes no place in its budget.
func settled(f *fixture) {
	f.Helper()
	synced(f)
	unreserved(f)
}

// unreserved waits until no place in the budget is taken.
func unreserved(f *fixture) {
	f.Helper()
	f.EventuallyFree("no place is taken", func() error {
		if s := f.group(groupName).Status; s.Unavailable != 0 || len(s.Reservations) > 0 {
			return fmt.Errorf("status is %s", harness.JSON(s))
		}
		return nil
	})
}

// maintainBoth waits until two NodeMaintenances have succeeded one after the other, since the budget admits one at a time, and ends each.
func maintainBoth(f *fixture) {
	f.Helper()
	waiting := map[string]*harness.Maintenance{}
	for i := range 2 {
		name := fmt.Sprintf("crash-%02d", i)
		waiting[name] = &harness.Maintenance{World: f.World, Name: name, Node: name}
	}
	for len(waiting) > 0 {
		first := ""
		f.EventuallyFree("one of the Nodes is in maintenance", func() error {
			var reserved []string
			for _, r := range f.group(groupName).Status.Reservations {
				reserved = append(reserved, r.Node)
			}
			if len(reserved) > 1 {
				f.Fatalf("reserved are %v, where one may be", reserved)
			}
			for name, m := range waiting {
				if status := m.Find(); status != nil && status.Phase == medik8s.PhaseSucceeded {
					first = name
					return nil
				}
			}
			return fmt.Errorf("reserved are %v", reserved)
		})
		waiting[first].End()
		delete(waiting, first)
	}
}

// TestCrash kills the operator before and after writes of each workload. The next one must come to the end that an undisturbed one comes to.
func TestCrash(t *testing.T) {
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the points to try
	for _, load := range harness.SmokeOf(t, crashWorkloads()) {
		t.Run(load.name, func(t *testing.T) {
			var want string
			var writes int
			t.Run("undisturbed", func(t *testing.T) { want, writes = load.run(t, harness.CrashPoint{}) })
			if writes < crashNodes {
				t.Fatalf("the undisturbed run made %d writes: the workload is none", writes)
			}
			points := harness.CrashPoints(t, random, writes)
			t.Logf("%d writes undisturbed, %d points tried", writes, len(points))
			for _, point := range points {
				t.Run(point.String(), func(t *testing.T) {
					if got, _ := load.run(t, point); got != want {
						t.Errorf("after the kill there is\n%s\nwithout it there was\n%s", got, want)
					}
				})
			}
		})
	}
}

// run runs a workload with an operator that is killed at a point, and another one after it. It returns what is left and how many writes there were.
func (load crashWorkload) run(t *testing.T, point harness.CrashPoint) (left string, writes int) {
	t.Helper()
	f := newFixture(t, "crash", crashNodes, harness.WithKwok)
	f.label("crash-00", "example.com/theirs", "kept")
	if load.before != nil {
		f.create(f.newGroup(groupName, load.before))
		operator := f.Operator(harness.Options{})
		synced(f)
		if err := operator.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	load.change(f)
	mark := f.AuditMark()
	first := harness.Start(t, env, harness.Options{Faults: point.Faults(), Args: []string{"--metadata-workers=1"}})
	var second <-chan *harness.Operator
	if point.Kills() {
		second = f.startAfter(first)
	}
	if load.meanwhile != nil {
		load.meanwhile(f)
	}
	load.applied(f)
	if point.Kills() {
		f.awaitKill(point, second)
		load.applied(f)
	}
	if f.app != nil {
		f.app.places.Finish()
	}
	f.eventuallyKept()
	left, writes = f.remains(), len(f.AllWrites(mark))
	if !point.Kills() {
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	return left, writes
}

// startAfter starts another operator when one has ended, and stops it when the test ends.
func (f *fixture) startAfter(first *harness.Operator) <-chan *harness.Operator {
	f.Helper()
	ctx, dir, second := f.Context(), f.TempDir(), make(chan *harness.Operator, 1)
	var done sync.WaitGroup
	var started *harness.Operator
	done.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-first.Ended():
		}
		operator, err := harness.Launch(context.WithoutCancel(ctx), env, dir, harness.Options{})
		if err != nil {
			f.Errorf("starting the next operator: %v", err)
			return
		}
		started = operator
		second <- operator
	})
	f.Cleanup(func() {
		done.Wait()
		if started == nil {
			return
		}
		if err := started.Stop(); err != nil {
			f.Errorf("stopping the next operator: %v", err)
		}
		if f.Failed() {
			f.Logf("the log of the next operator:\n%s", started.Log())
		}
	})
	return second
}

// afterwards is how long a kill is waited for when everything is applied.
const afterwards = 3 * time.Second

// awaitKill waits until the operator has been killed and the next one is ready, unless the workload has fewer writes than there are before the kill.
func (f *fixture) awaitKill(point harness.CrashPoint, second <-chan *harness.Operator) {
	f.Helper()
	select {
	case operator := <-second:
		if err := operator.Ready(f.Context()); err != nil {
			f.Fatal(err)
		}
	case <-time.After(afterwards):
		f.Logf("the workload was over before %s: how often the status is written depends on the time", point)
	}
}

// eventuallyKept waits until the history of the group, if there is one, has what it declares: it is written after the status.
func (f *fixture) eventuallyKept() {
	f.Helper()
	f.Eventually("the history has what the group declares", func() error {
		group := &v1alpha1.NodeGroup{}
		if err := f.Client.Get(f.Context(), types.NamespacedName{Name: groupName}, group); err != nil {
			return client.IgnoreNotFound(err)
		}
		declared, err := history.GroupData(group)
		if err != nil {
			return err
		}
		kept := f.revisions(group)
		if len(kept) == 0 || !bytes.Equal(kept[len(kept)-1].Data.Raw, declared) {
			return fmt.Errorf("it is %s", harness.JSON(kept))
		}
		return nil
	})
}

// remains renders what the Nodes carry and the history of the group, without what differs between any two runs.
func (f *fixture) remains() string {
	f.Helper()
	var text strings.Builder
	for i := range crashNodes {
		node := f.Node(fmt.Sprintf("crash-%02d", i))
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
			labels = append(labels, key+"="+node.Labels[key])
		}
		fmt.Fprintf(&text, "%s: labels %v taints %v record %t lease %q\n", node.Name, labels, harness.Taints(node),
			node.Annotations["drover.dev/group-owned-metadata"] != "", f.Holder(node.Name))
	}
	group := &v1alpha1.NodeGroup{}
	switch err := f.Client.Get(f.Context(), types.NamespacedName{Name: groupName}, group); {
	case err == nil:
		for _, revision := range f.revisions(group) {
			fmt.Fprintf(&text, "revision %d: %s\n", revision.Revision, revision.Data.Raw)
		}
	case !apierrors.IsNotFound(err):
		f.Fatal(err)
	}
	return text.String()
}
