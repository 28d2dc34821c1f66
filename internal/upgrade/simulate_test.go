package upgrade

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// reconcile reconciles the run once. After a crash another process starts.
func (f *fixture) reconcile() error {
	f.t.Helper()
	_, err := f.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "numo", Name: "run"}})
	if err != nil && errors.Is(err, errCrash) {
		f.restart()
		return nil
	}
	return err
}

// reconcileTimes reconciles the run several times, every two seconds.
func (f *fixture) reconcileTimes(times int) {
	f.t.Helper()
	for range times {
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
	}
}

// expectState checks that the cluster is as it was.
func (f *fixture) expectState(before string, when ...any) {
	f.t.Helper()
	if now := f.snapshot(); now != before {
		f.t.Errorf("%v there is\n%s\nbefore there was\n%s", when, now, before)
	}
}

// finishJobs ends the Jobs that run.
func (f *fixture) finishJobs() {
	f.t.Helper()
	jobs := &batchv1.JobList{}
	f.must(f.client.List(f.t.Context(), jobs))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !plan.IsFinished(job) && (f.hangs == nil || !f.hangs(job)) {
			how := batchv1.JobComplete
			if f.fails != nil && f.fails(job) {
				how = batchv1.JobFailed
			}
			job.Status.Conditions = []batchv1.JobCondition{{
				Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(f.clock.Now()), Message: "as the test says",
			}}
			f.must(f.client.Status().Update(f.t.Context(), job))
		}
	}
}

// simulate ends the Jobs, and upgrades the nodes that the canary selects.
func (f *fixture) simulate() {
	f.t.Helper()
	f.finishJobs()
	canary := &mcfgv1.MachineConfigPool{}
	f.must(f.client.Get(f.t.Context(), types.NamespacedName{Name: "canary"}, canary))
	selector, err := metav1.LabelSelectorAsSelector(canary.Spec.NodeSelector)
	f.must(err)
	nodes := &corev1.NodeList{}
	f.must(f.client.List(f.t.Context(), nodes))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if selector.Matches(labels.Set(n.Labels)) && n.Labels[plan.LabelVersion] != "4.17.3" {
			n.Labels[plan.LabelVersion] = "4.17.3"
			f.must(f.client.Update(f.t.Context(), n))
		}
	}
}

// reconcileToRest reconciles the run until it is in one of some phases and nothing is written.
func (f *fixture) reconcileToRest(phases ...v1alpha1.Phase) {
	f.t.Helper()
	for range 200 {
		before := f.writes
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
		if slices.Contains(phases, f.run().Status.Phase) && f.writes == before {
			return
		}
		f.simulate()
	}
	f.t.Fatalf("the run does not become %s: it is %s, %s", phases, f.run().Status.Phase, f.run().Status.Message)
}

func (f *fixture) run() *v1alpha1.MutexRunConfig {
	f.t.Helper()
	run := &v1alpha1.MutexRunConfig{}
	f.must(f.client.Get(f.t.Context(), types.NamespacedName{Namespace: "numo", Name: "run"}, run))
	return run
}

func update[T client.Object](f *fixture, object T, change func(T)) {
	f.t.Helper()
	f.must(f.client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object))
	change(object)
	f.must(f.client.Update(f.t.Context(), object))
}

// snapshot returns everything that a run has to restore.
func (f *fixture) snapshot() string {
	f.t.Helper()
	var lines []string
	mcps := &mcfgv1.MachineConfigPoolList{}
	f.must(f.client.List(f.t.Context(), mcps))
	for i := range mcps.Items {
		p := &mcps.Items[i]
		lines = append(lines, fmt.Sprint(p.Name, p.Spec.Paused, p.Annotations[plan.AnnotationReservation], metav1.FormatLabelSelector(p.Spec.NodeSelector)))
	}
	nodes := &corev1.NodeList{}
	f.must(f.client.List(f.t.Context(), nodes))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		kept := maps.Clone(n.Labels)
		delete(kept, plan.LabelVersion)
		lines = append(lines, fmt.Sprint(n.Name, slices.Sorted(maps.Keys(kept)), slices.Sorted(maps.Keys(n.Annotations))))
	}
	return strings.Join(lines, "\n")
}

// crashPoints picks some writes; DROVER_CRASH_PLANS=all picks every one.
func crashPoints(t *testing.T, writes int) []int {
	t.Helper()
	all := make([]int, writes)
	for i := range all {
		all[i] = i + 1
	}
	if os.Getenv("DROVER_CRASH_PLANS") == "all" {
		return all
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("DROVER_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatalf("DROVER_TEST_SEED: %v", err)
		}
	}
	t.Logf("DROVER_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- picks the points to try
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if testing.Short() {
		return all[:1]
	}
	return all[:3]
}

// reconcileUntil reconciles the run, and simulates OpenShift, until a condition is met.
func (f *fixture) reconcileUntil(until func() bool) {
	f.t.Helper()
	for range 100 {
		if until() {
			return
		}
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
		if !until() {
			f.simulate()
		}
	}
	f.t.Fatalf("the condition is never met: the run is %s, %s", f.run().Status.Phase, f.run().Status.Message)
}

// advance advances the clock in steps, with a reconciliation after each.
func (f *fixture) advance(by, step time.Duration) {
	f.t.Helper()
	for end := f.clock.Now().Add(by); f.clock.Now().Before(end); {
		f.clock.SetTime(f.clock.Now().Add(step))
		f.must(f.reconcile())
	}
}

func (f *fixture) getNode(name string) *corev1.Node {
	f.t.Helper()
	n := &corev1.Node{}
	f.must(f.client.Get(f.t.Context(), types.NamespacedName{Name: name}, n))
	return n
}

// expectOneMCP checks that a number of nodes is in a custom MachineConfigPool, and none in several.
func (f *fixture) expectOneMCP(want int) {
	f.t.Helper()
	mcps := &mcfgv1.MachineConfigPoolList{}
	f.must(f.client.List(f.t.Context(), mcps))
	nodes := &corev1.NodeList{}
	f.must(f.client.List(f.t.Context(), nodes))
	members := map[string][]string{}
	for i := range nodes.Items {
		for j := range mcps.Items {
			mcp, name := &mcps.Items[j], nodes.Items[i].Name
			selector, err := metav1.LabelSelectorAsSelector(mcp.Spec.NodeSelector)
			if f.must(err); mcp.Name != "worker" && selector.Matches(labels.Set(nodes.Items[i].Labels)) {
				if members[name] = append(members[name], mcp.Name); len(members[name]) > 1 {
					f.t.Errorf("node %s is in the MachineConfigPools %v", name, members[name])
				}
			}
		}
	}
	if len(members) != want {
		f.t.Errorf("the nodes %v are in a custom MachineConfigPool", members)
	}
}

func (f *fixture) listJobs() []batchv1.Job {
	f.t.Helper()
	list := &batchv1.JobList{}
	f.must(f.client.List(f.t.Context(), list))
	return list.Items
}

// upgrade gives a node the desired version without a release.
func (f *fixture) upgrade(name string) {
	f.t.Helper()
	update(f, f.getNode(name), func(n *corev1.Node) { n.Labels[plan.LabelVersion] = "4.17.3" })
}

// countTimesToLive counts the Jobs that have a time to live.
func (f *fixture) countTimesToLive() int {
	count := 0
	for _, job := range f.listJobs() {
		if job.Spec.TTLSecondsAfterFinished != nil {
			count++
		}
	}
	return count
}

// newHalfDone returns a run that has finished n1, and that runs a Job for n2.
func newHalfDone(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, newObjects()...)
	f.reconcileUntil(func() bool { return f.nodeStatus("n2").Phase == v1alpha1.NodeRunningJobs })
	if f.nodeStatus("n1").Phase != v1alpha1.NodeDone || plan.ReleaseOf(f.getNode("n1")) == nil {
		t.Fatalf("node n1 is %s, %v", f.nodeStatus("n1").Phase, f.getNode("n1").Annotations)
	}
	return f
}

// newResumed returns a run that was suspended after n1 was released, and is resumed after both nodes were upgraded.
func newResumed(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, newObjects()...)
	f.reconcileUntil(func() bool { return plan.ReleaseOf(f.getNode("n1")) != nil })
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	f.reconcileUntil(func() bool { return f.run().Status.Phase == v1alpha1.PhaseSuspended })
	f.upgrade("n1")
	f.upgrade("n2")
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	return f
}

func minute() *metav1.Duration { return &metav1.Duration{Duration: time.Minute} }

// lease returns the lease of a node; nil if there is none.
func (f *fixture) lease(node string) *coordinationv1.Lease {
	f.t.Helper()
	lease := &coordinationv1.Lease{}
	err := f.client.Get(f.t.Context(), types.NamespacedName{Namespace: nodelease.DefaultNamespace, Name: nodelease.Name(node)}, lease)
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.must(err)
	return lease
}

// renewed reports whether the run has just renewed the lease of a node.
func (f *fixture) renewed(node string) bool {
	lease := f.lease(node)
	return lease != nil && nodelease.HolderOf(lease) == Holder && lease.Spec.RenewTime.Time.Equal(f.clock.Now())
}

// nodeStatus returns the status of a node; the zero value if the run does not list it.
func (f *fixture) nodeStatus(name string) *v1alpha1.NodeStatus {
	f.t.Helper()
	run := f.run()
	for i := range run.Status.Nodes {
		if run.Status.Nodes[i].Name == name {
			return &run.Status.Nodes[i]
		}
	}
	return &v1alpha1.NodeStatus{}
}

// countEvents takes the events that were emitted, and counts those with a reason and a text.
func (f *fixture) countEvents(reason, text string) int {
	count := 0
	for {
		select {
		case event := <-f.events.Events:
			if strings.Contains(event, " "+reason+" ") && strings.Contains(event, text) {
				count++
			}
		default:
			return count
		}
	}
}

// countSeries counts the series of a metric.
func (f *fixture) countSeries(name string) int {
	f.t.Helper()
	families, err := f.registry.Gather()
	f.must(err)
	for _, family := range families {
		if family.GetName() == name {
			return len(family.GetMetric())
		}
	}
	return 0
}
