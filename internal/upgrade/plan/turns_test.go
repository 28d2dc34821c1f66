package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

var testTime = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// testRun is a run, with a simple simulation of the cluster.
type testRun struct {
	t   *testing.T
	run *Run
}

// newRun returns a run over the pending nodes n1, n2, ... with the rules a and b. Rule a has a clean-up Job.
func newRun(t *testing.T, nodes int) *testRun {
	t.Helper()
	const spec = `{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`
	g := &testRun{t: t, run: &Run{
		Config:  &v1alpha1.MutexRunConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "run", UID: "uid"}},
		Desired: "4.17.3", Now: testTime, Jobs: map[types.NamespacedName]*batchv1.Job{},
	}}
	for _, name := range []string{"a", "b"} {
		object := newRule(spec)
		object.Name, object.Spec.JobName = name, name
		declared, err := ParseJobSpec(&runtime.RawExtension{Raw: []byte(spec)})
		if err != nil {
			t.Fatal(err)
		}
		rule := Rule{Object: object, Key: LabelPrefix + name + ".numo", Before: declared}
		if name == "a" {
			rule.After = declared
		}
		g.run.Rules, g.run.Keys = append(g.run.Rules, rule), append(g.run.Keys, rule.Key)
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Annotations: map[string]string{}}}
		node.Labels = map[string]string{LabelRun: "uid", g.run.Keys[0]: "", g.run.Keys[1]: ""}
		g.run.Nodes = append(g.run.Nodes, &Node{Node: node, Version: "4.17.2"})
	}
	return g
}

// reconcile decides and does what was decided. It returns the decision in one line.
func (g *testRun) reconcile() string {
	g.t.Helper()
	decision := DecideNodes(g.run)
	var words []string
	for _, step := range decision.Steps {
		word := step.Status.Name + ":" + string(step.Status.Phase)
		if step.Job != nil {
			if g.run.Jobs[keyOf(step.Job)] != nil {
				g.t.Fatalf("Job %s is created twice", keyOf(step.Job))
			}
			step.Job.CreationTimestamp = metav1.NewTime(g.run.Now)
			g.run.Jobs[keyOf(step.Job)] = step.Job
			word += "+" + step.Job.Annotations[AnnotationRule][len("numo/"):] + "-" + step.Job.Labels[LabelKind]
		}
		if step.Release != nil {
			g.apply(*step.Release)
		}
		words = append(words, word)
	}
	return string(decision.Phase) + " " + strings.Join(words, " ")
}

// apply changes a node.
func (g *testRun) apply(change NodeChange) {
	node := change.Node
	for into, from := range map[*map[string]string]map[string]*string{&node.Labels: change.Labels, &node.Annotations: change.Annotations} {
		for key, value := range from {
			if value == nil {
				delete(*into, key)
			} else {
				(*into)[key] = *value
			}
		}
	}
}

func (g *testRun) node(name string) *Node {
	g.t.Helper()
	for _, node := range g.run.Nodes {
		if node.Name == name {
			return node
		}
	}
	g.t.Fatalf("no node %s", name)
	return nil
}

// finishJobs ends all Jobs that run.
func (g *testRun) finishJobs(how batchv1.JobConditionType) {
	for _, job := range g.run.Jobs {
		if len(job.Status.Conditions) == 0 {
			job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Message: "as the test says"}}
		}
	}
}

func (g *testRun) expect(want string) {
	g.t.Helper()
	if got := g.reconcile(); got != want {
		g.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecideNodes_TwoNodes(t *testing.T) {
	g := newRun(t, 2)
	g.expect("Running n1:RunningJobs+a-before n2:Pending")
	g.expect("Running n1:RunningJobs n2:Pending")
	g.finishJobs(batchv1.JobComplete)
	g.expect("Running n1:RunningJobs+b-before n2:Pending")
	g.finishJobs(batchv1.JobComplete)
	g.expect("Running n1:Released n2:Pending")
	g.node("n1").Annotations["machineconfiguration.openshift.io/state"] = "Working"
	g.expect("Running n1:Upgrading n2:Pending")
	g.node("n1").Version = "4.17.3"
	// It has the version, and is not back yet.
	g.expect("Running n1:Upgrading n2:Pending")
	delete(g.node("n1").Annotations, annotationState)
	g.expect("Running n1:CleaningUp+a-after n2:Pending")
	g.expect("Running n1:CleaningUp n2:Pending")
	g.finishJobs(batchv1.JobComplete)
	g.expect("Running n1:Done n2:RunningJobs+a-before")
	for range 2 {
		g.finishJobs(batchv1.JobComplete)
		g.reconcile()
	}
	g.node("n2").Version = "4.17.3"
	g.expect("Running n1:Done n2:CleaningUp+a-after")
	g.finishJobs(batchv1.JobComplete)
	g.expect("Done n1:Done n2:Done")
	if len(g.run.Jobs) != 6 {
		t.Errorf("%d Jobs were created", len(g.run.Jobs))
	}
}

func TestDecideNodes_Wait(t *testing.T) {
	g := newRun(t, 1)
	g.run.Wait = "no window is open"
	g.expect("Waiting n1:Pending")
	if message := DecideNodes(g.run).Message; message != g.run.Wait {
		t.Errorf("the message is %q", message)
	}
	g.run.Wait = ""
	g.expect("Running n1:RunningJobs+a-before")
	// A node in progress continues when the window closes.
	g.run.Wait = "no window is open"
	g.finishJobs(batchv1.JobComplete)
	g.expect("Running n1:RunningJobs+b-before")
}

func TestDecideNodes_SeveralAtOnceByZone(t *testing.T) {
	g := newRun(t, 4)
	g.run.Config.Spec.MaxConcurrentNodes, g.run.Config.Spec.NodeOrder = 2, v1alpha1.OrderZone
	for i, zone := range []string{"b", "a", "b", "a"} {
		g.run.Nodes[i].Labels[corev1.LabelTopologyZone] = zone
	}
	g.expect("Running n2:RunningJobs+a-before n4:RunningJobs+a-before n1:Pending n3:Pending")
	g.expect("Running n2:RunningJobs n4:RunningJobs n1:Pending n3:Pending")
}

func TestDecideNodes_NodeHasVersion(t *testing.T) {
	g := newRun(t, 2)
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:Done n2:RunningJobs+a-before")
}

func TestDecideNodes_BlockedNodes(t *testing.T) {
	g := newRun(t, 3)
	g.node("n1").Blocked = "its lease is held by another holder"
	g.node("n2").Version = ""
	g.expect("Running n1:Pending n2:Pending n3:RunningJobs+a-before")
	g.node("n3").Blocked = "blocked"
	g.expect("Running n1:Pending n2:Pending n3:RunningJobs")
	g.run.Jobs = nil
	g.expect("Waiting n1:Pending n2:Pending n3:Pending")
	if message := DecideNodes(g.run).Message; message != "node n1: its lease is held by another holder" {
		t.Errorf("the message is %q", message)
	}
}

// TestDecideNodes_MaxUnavailable counts every node that is unavailable, for whatever reason.
func TestDecideNodes_MaxUnavailable(t *testing.T) {
	g := newRun(t, 3)
	for _, node := range g.run.Nodes {
		node.MCP = "a"
	}
	g.node("n2").Unavailable = true
	// A node that is already unavailable may be started.
	g.expect("Running n1:Pending n2:RunningJobs+a-before n3:Pending")
	g.run.Jobs = map[types.NamespacedName]*batchv1.Job{}
	g.node("n2").Blocked = "its lease is held by another holder"
	g.expect("Waiting n1:Pending n2:Pending n3:Pending")
	g.run.MaxUnavailable = map[string]int{"a": 2}
	g.expect("Running n1:RunningJobs+a-before n2:Pending n3:Pending")
}

// TestDecideNodes_MaxUnavailableAtRelease has another node become unavailable while the Jobs of the first one run.
func TestDecideNodes_MaxUnavailableAtRelease(t *testing.T) {
	g := newRun(t, 2)
	g.node("n1").MCP, g.node("n2").MCP = "a", "a"
	for range 2 {
		g.reconcile()
		g.finishJobs(batchv1.JobComplete)
	}
	g.node("n2").Unavailable = true
	g.expect("Running n1:RunningJobs n2:Pending")
	want := "1 of the 1 nodes of MachineConfigPool a that may be unavailable are"
	if message := DecideNodes(g.run).Steps[0].Status.Message; !strings.Contains(message, want) {
		t.Errorf("the message is %q", message)
	}
	// A node that is unavailable itself may be released.
	g.node("n1").Unavailable, g.node("n2").Unavailable = true, false
	g.expect("Running n1:Released n2:Pending")
}

// TestDecideNodes_SeveralReleasesAtOnce: nodes whose Jobs run are still available, so only as many are released as may be unavailable.
func TestDecideNodes_SeveralReleasesAtOnce(t *testing.T) {
	g := newRun(t, 3)
	g.run.Config.Spec.MaxConcurrentNodes = 2
	for range 2 {
		g.reconcile()
		g.finishJobs(batchv1.JobComplete)
	}
	g.node("n3").Unavailable = true
	g.expect("Running n1:Released n2:RunningJobs n3:Pending")
	g.expect("Running n1:Released n2:RunningJobs n3:Pending")
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after n2:Released n3:Pending")
}

// TestDecideNodes_CleanUpFails: a node that has the version is available, even if its clean-up has failed.
func TestDecideNodes_CleanUpFails(t *testing.T) {
	g := newRun(t, 2)
	g.run.Config.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode
	for range 3 {
		g.reconcile()
		g.finishJobs(batchv1.JobComplete)
	}
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after n2:Pending")
	g.finishJobs(batchv1.JobFailed)
	for range 2 {
		g.reconcile()
		g.finishJobs(batchv1.JobComplete)
	}
	g.expect("Running n1:Failed n2:Released")
}

// TestDecideNodes_JobEndsAfterTimeout: another node has taken the slot, and the first one waits for it to be released.
func TestDecideNodes_JobEndsAfterTimeout(t *testing.T) {
	g := newRun(t, 2)
	g.run.Config.Spec.JobTimeout = &metav1.Duration{Duration: time.Minute}
	g.run.Config.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode
	g.run.Rules = g.run.Rules[1:]
	g.expect("Running n1:RunningJobs+b-before n2:Pending")
	g.run.Now = testTime.Add(time.Hour)
	g.expect("Running n1:Failed n2:RunningJobs+b-before")
	g.finishJobs(batchv1.JobComplete)
	g.expect("Running n1:RunningJobs n2:Released")
	g.expect("Running n1:RunningJobs n2:Released")
	g.node("n2").Version = "4.17.3"
	g.expect("Running n1:Released n2:Done")
}

func TestDecideNodes_LeftOut(t *testing.T) {
	g := newRun(t, 2)
	g.run.Config.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode
	for range 3 {
		g.reconcile()
		g.finishJobs(batchv1.JobFailed)
	}
	if d := DecideNodes(g.run); d.Failed != 2 || d.LeftOut != 2 || d.Phase != v1alpha1.PhaseDone {
		t.Errorf("%s, %d failed, %d left out", d.Phase, d.Failed, d.LeftOut)
	}
	g.node("n1").Version = "4.17.3"
	if d := DecideNodes(g.run); d.Failed != 1 || d.LeftOut != 1 || d.Done != 1 {
		t.Errorf("%d failed, %d left out, %d done", d.Failed, d.LeftOut, d.Done)
	}
	g.run.Config.Spec.OnJobFailure.Action = v1alpha1.FailureStop
	if d := DecideNodes(g.run); d.LeftOut != 0 || d.Phase != v1alpha1.PhaseStopped {
		t.Errorf("%s, %d left out", d.Phase, d.LeftOut)
	}
}

// carryOut carries a decision out as if some nodes had to wait. It returns the result in one line.
func (g *testRun) carryOut(wait ...string) string {
	g.t.Helper()
	planned := DecideNodes(g.run)
	return line(planned.Apply(func(step *Step) {
		if step.InProgress() && !step.HasBegun() && slices.Contains(wait, step.Status.Name) {
			step.PassOver("it waits")
		}
	}))
}

func line(d *Decision) string {
	words := []string{string(d.Phase)}
	for _, step := range d.Steps {
		word := step.Status.Name + ":" + string(step.Status.Phase)
		if step.Status.Message == "it waits" {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestDecision_Apply: a node that has to wait takes no slot and no place of its MachineConfigPool.
func TestDecision_Apply(t *testing.T) {
	for name, test := range map[string]struct {
		change func(g *testRun)
		wait   []string
		want   string
	}{
		"none waits":               {func(*testRun) {}, nil, "Running n1:RunningJobs n2:Pending n3:Pending"},
		"the first waits":          {func(*testRun) {}, []string{"n1"}, "Running n1:Pending! n2:RunningJobs n3:Pending"},
		"the first and the second": {func(*testRun) {}, []string{"n1", "n2"}, "Running n1:Pending! n2:Pending! n3:RunningJobs"},
		"all wait":                 {func(*testRun) {}, []string{"n1", "n2", "n3"}, "Waiting n1:Pending! n2:Pending! n3:Pending!"},
		"two slots": {
			func(g *testRun) { g.run.Config.Spec.MaxConcurrentNodes = 2 }, []string{"n1"}, "Running n1:Pending! n2:RunningJobs n3:RunningJobs",
		},
		"the next is blocked": {func(g *testRun) { g.node("n2").Blocked = "x" }, []string{"n1"}, "Running n1:Pending! n2:Pending n3:RunningJobs"},
		"one has begun": {
			func(g *testRun) { g.reconcile() }, []string{"n1", "n2"}, "Running n1:RunningJobs n2:Pending n3:Pending",
		},
		"it was passed over, and no slot is free": {
			func(g *testRun) {
				g.node("n1").Blocked = "x"
				g.reconcile()
				g.node("n1").Blocked, g.node("n1").PassedOver = "", "it waits"
			}, nil, "Running n1:Pending! n2:RunningJobs n3:Pending",
		},
		"it has begun, and a rule was added": {
			func(g *testRun) {
				all := g.run.Rules
				g.run.Rules = all[1:]
				g.reconcile()
				g.run.Rules = all
			}, []string{"n1"}, "Running n1:RunningJobs n2:Pending n3:Pending",
		},
		"the clean-up of one that was upgraded meanwhile": {
			func(g *testRun) {
				for range 2 {
					g.reconcile()
					g.finishJobs(batchv1.JobComplete)
				}
				g.node("n1").Version = "4.17.3"
			}, []string{"n1"}, "Running n1:Pending! n2:RunningJobs n3:Pending",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRun(t, 3)
			for _, node := range g.run.Nodes {
				node.MCP = "a"
			}
			test.change(g)
			planned := DecideNodes(g.run)
			before := line(&planned)
			if got := g.carryOut(test.wait...); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			planned.Apply(func(step *Step) { step.PassOver("") })
			if after := line(&planned); after != before {
				t.Errorf("the plan was %s, and is %s", before, after)
			}
		})
	}
}
