package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// evacuation is a whole maintenance, from its beginning to the node's return.
type evacuation struct {
	name string
	// node is what the node is like before.
	node func(*corev1.Node)
	// older makes it one of the older group.
	older bool
	drain *medik8s.DrainSpec
	// least is how many healthy pods the budget of three asks for; 0 is no budget. One of them is on another node.
	least int
	// blocked has its user give up when the drain is blocked, instead of waiting for its end.
	blocked bool
}

var evacuations = []evacuation{
	{name: "worker", least: 1},
	{
		name: "marked", older: true,
		node: func(node *corev1.Node) {
			node.Spec.Unschedulable = true
			node.Labels[maintenance.ExcludeLabel] = "false"
			node.Spec.Taints = []corev1.Taint{
				harness.Taint("example.com/mine", "1", corev1.TaintEffectNoSchedule),
				// kube-controller-manager gives it to a cordoned node.
				harness.Taint(corev1.TaintNodeUnschedulable, "", corev1.TaintEffectNoSchedule),
			}
		},
	},
	{
		name: "labelled", node: func(node *corev1.Node) { node.Labels[maintenance.ExcludeLabel] = "false" },
		drain: &medik8s.DrainSpec{PodRules: []medik8s.PodRule{{
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{harness.AppLabel: "bare"}}, Order: new(int32(1)),
		}}},
	},
	{name: "forced", least: 3, drain: &medik8s.DrainSpec{Deadline: &metav1.Duration{Duration: 3 * time.Second}, Force: true}},
	{name: "given up", least: 3, blocked: true},
}

// TestCrash_Drain kills the operator before and after writes of whole maintenances. The next operator must reach the same result, and must evict only
// pods that existed before the maintenance.
func TestCrash_Drain(t *testing.T) {
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the points to try
	for _, e := range harness.SmokeOf(t, evacuations) {
		t.Run(e.name, func(t *testing.T) {
			var want string
			var writes int
			t.Run("undisturbed", func(t *testing.T) { want, writes = evacuate(t, e, harness.CrashPoint{}) })
			t.Logf("%d writes undisturbed, and finally\n%s", writes, want)
			if writes < 6 {
				t.Fatal("that is no maintenance")
			}
			for _, p := range harness.CrashPoints(t, random, writes) {
				t.Run(p.String(), func(t *testing.T) {
					if got, _ := evacuate(t, e, p); got != want {
						t.Errorf("after the crash there is\n%s\nwithout it there was\n%s", got, want)
					}
				})
			}
		})
	}
}

// drainTest is where one maintenance takes place.
type drainTest struct {
	*harness.Site

	evacuation  evacuation
	node        string
	before      string
	uids        map[types.UID]string
	disturbance harness.Disturbance
	operator    *harness.Operator
	crashed     bool
	m           *harness.Maintenance
}

// evacuate carries out one maintenance under a disturbance. It returns what is left, and how many writes were made.
func evacuate(t *testing.T, e evacuation, d harness.Disturbance) (left string, writes int) {
	t.Helper()
	g := prepare(t, e)
	g.disturbance = d
	mark := g.AuditMark()
	options := harness.Options{Args: []string{"--maintenance-workers=1", "--drain-workers=1"}}
	g.operator = harness.Start(t, env, d.Operator(1, options))
	drained := g.until("the drain is over", func() bool { return g.over() || d.Interrupted() })
	// A user works on the node; then it is to come back.
	g.m.Delete()
	g.until("the end", func() bool { return g.m.Find() == nil })
	d.Wait()
	if d.Kills() && !g.crashed {
		t.Logf("the maintenance was over before %s: counts of progress depend on the time", d)
	}
	made := g.writes(mark)
	g.judge(made)
	if err := g.operator.Stop(); err != nil {
		t.Fatal(err)
	}
	left = drained + g.remains() + g.returned()
	if d.Interrupted() {
		left = g.returned()
	}
	return strings.ReplaceAll(left, g.Name, "site"), len(made)
}

// prepare makes the nodes, the pods and the NodeMaintenance, while no operator runs.
func prepare(t *testing.T, e evacuation) *drainTest {
	t.Helper()
	g := &drainTest{Site: harness.NewWorld(t, env).Site(), evacuation: e, uids: map[types.UID]string{}}
	g.Force = e.drain != nil && e.drain.Force
	change := e.node
	if change == nil {
		change = func(*corev1.Node) {}
	}
	g.node = g.AddNode(change)
	g.before = looks(g.Node(g.node))
	other := g.AddNode()
	for name, pods := range map[string]harness.Pods{
		"app-0": {Node: g.node, Ends: "300ms"}, "app-1": {Node: g.node, Ends: "300ms"}, "app-2": {Node: other},
		"bare": {Node: g.node}, "slow": {Node: g.node, Ends: "1s"},
	} {
		pods.Tolerant, pods.Grace = true, 1
		if strings.HasPrefix(name, "app-") {
			pods.Labels = map[string]string{"budget": "app"}
		}
		pod := g.Pod(name, pods)
		g.uids[pod.UID] = name
	}
	g.StaticPod("static", g.node)
	if e.least > 0 {
		g.CountedBudget("app", map[string]string{"budget": "app"}, int32(e.least), 3) //nolint:gosec // it is three at most
	}
	if e.older {
		g.m = g.MaintainKubevirt(g.node)
	} else {
		g.m = g.Maintain(g.node, e.drain)
	}
	return g
}

// over reports whether the drain is over, for its user.
func (g *drainTest) over() bool {
	status := g.m.Status()
	if g.evacuation.blocked {
		drained := meta.FindStatusCondition(status.Conditions, plan.ConditionDrained)
		// The pods that may go have gone.
		return drained != nil && drained.Reason == "Blocked" && len(status.PendingPods) == 2
	}
	return status.Phase == medik8s.PhaseSucceeded
}

// until waits for something, and starts another operator when the first one has died. It returns the status then, where there is one.
func (g *drainTest) until(what string, done func() bool) string {
	g.Helper()
	g.Eventually(what, func() error {
		select {
		case <-g.operator.Ended():
			if g.crashed {
				g.Fatalf("the second operator ended; its log:\n%s", g.operator.Log())
			}
			g.crashed = true
			g.operator = harness.Start(g.TB, env, g.disturbance.Operator(2, harness.Options{}))
		default:
		}
		if !done() {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	var left medik8s.NodeMaintenanceStatus
	if found := g.m.Find(); found != nil {
		left = *found
	}
	var reasons []string
	for _, condition := range left.Conditions {
		reasons = append(reasons, condition.Type+"="+condition.Reason)
	}
	slices.Sort(reasons)
	return fmt.Sprintf("drained: phase %s lastError %q pending %v %v\n", left.Phase, left.LastError, left.PendingPods, reasons)
}

// writes lists what the operator has written since a mark, but for events.
func (g *drainTest) writes(mark cluster.AuditMark) []cluster.AuditEvent {
	g.Helper()
	if _, err := g.Cluster.Audit().Sync(g.Context()); err != nil {
		g.Fatal(err)
	}
	all, err := g.Cluster.Audit().Since(mark)
	if err != nil {
		g.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e cluster.AuditEvent) bool {
		// When the process ended, others of its requests were being sent.
		cut := e.Resource == "pods" && e.Unread()
		return e.User != harness.User || !e.Write() || cut || e.Resource == "events" || strings.HasSuffix(e.Resource, "reviews")
	})
}

// judge fails the test when a request was for a pod that is none of the node's, or for one more than a crash explains.
func (g *drainTest) judge(writes []cluster.AuditEvent) {
	g.Helper()
	evictions, given := map[string]int{}, 0
	for i := range writes {
		e := &writes[i]
		switch {
		case e.Resource == "pods" && (e.UID == "" || g.uids[types.UID(e.UID)] != e.Name || e.Name == "app-2"):
			g.Errorf("a %s of pod %s/%s is for the UID %q", e.Verb, e.Namespace, e.Name, e.UID)
		case e.Resource == "pods" && e.Subresource == "eviction" && e.Code == 201:
			evictions[e.Name]++
		case e.Resource == "pods" && e.Verb == "delete" && !g.Force:
			g.Errorf("pod %s was deleted", e.Name)
		case e.Resource == "nodes" && e.Code == 200:
			given++
		}
	}
	for name, times := range evictions {
		if times > 2 || times > 1 && !g.crashed {
			g.Errorf("the eviction of pod %s was let pass %d times", name, times)
		}
	}
	g.judgeNode(given)
}

// judgeNode fails the test when the node was not written once to take it and once to give it back: a crash between the write and its record
// would make more. A maintenance that its user takes back may never have taken the node.
func (g *drainTest) judgeNode(writes int) {
	g.Helper()
	if writes != 2 && (writes != 0 || !g.disturbance.Interrupted()) {
		g.Errorf("the node was written %d times", writes)
	}
}

// returned renders what the node and its leases are when the object is gone, however far the drain came.
func (g *drainTest) returned() string {
	g.Helper()
	after := "as it was"
	if now := looks(g.Node(g.node)); now != g.before {
		after = fmt.Sprintf("%s, and was %s", now, g.before)
	}
	own := g.GetLease(harness.SystemNamespace, g.node)
	return fmt.Sprintf("finally: node %s; lease held by %q; second lease held %t\n", after, g.Holder(g.node),
		own != nil && own.Spec.HolderIdentity != nil)
}

// remains renders what is left of the pods when the object is gone.
func (g *drainTest) remains() string {
	g.Helper()
	var pods corev1.PodList
	g.Eventually("the evicted pods have ended", func() error {
		if err := g.Client.List(g.Context(), &pods, client.InNamespace(g.Name)); err != nil {
			return err
		}
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp != nil {
				return fmt.Errorf("%s has not", pods.Items[i].Name)
			}
		}
		return nil
	})
	names := make([]string, len(pods.Items))
	for i := range pods.Items {
		names[i] = pods.Items[i].Name
	}
	slices.Sort(names)
	return fmt.Sprintf("pods %v; second lease %t\n", names, g.GetLease(harness.SystemNamespace, g.node) != nil)
}

// looks renders what a maintenance may change on a node.
func looks(node *corev1.Node) string {
	taints := harness.Taints(node)
	slices.Sort(taints)
	return fmt.Sprintf("cordoned %t taints %v record %q labels %s", node.Spec.Unschedulable, taints, node.Annotations[drain.AnnotationCordon],
		sorted(node.Labels))
}
