package plan

import (
	"fmt"
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

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// gated is a run over some nodes, and stands in for the cluster.
type gated struct {
	t  *testing.T
	in Input
}

// newGated has nodes n1, n2, ... that wait, and the rules a and b, of which a cleans up.
func newGated(t *testing.T, nodes int) *gated {
	t.Helper()
	const spec = `{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`
	g := &gated{t: t, in: Input{
		Run:     &v1alpha1.MutexRunConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "run", UID: "uid"}},
		Desired: "4.17.3", Now: start, Jobs: map[types.NamespacedName]*batchv1.Job{},
	}}
	for _, name := range []string{"a", "b"} {
		object := rule(spec)
		object.Name, object.Spec.JobName = name, name
		declared, err := ReadJobSpec(&runtime.RawExtension{Raw: []byte(spec)})
		if err != nil {
			t.Fatal(err)
		}
		r := Rule{Object: object, Key: LabelPrefix + name + ".numo", Before: declared}
		if name == "a" {
			r.After = declared
		}
		g.in.Rules = append(g.in.Rules, r)
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Annotations: map[string]string{}}}
		node.Labels = map[string]string{LabelRun: "uid", g.in.Rules[0].Key: "", g.in.Rules[1].Key: ""}
		g.in.Nodes = append(g.in.Nodes, &Node{Node: node, Version: "4.17.2"})
	}
	return g
}

// pass decides and does what was decided. It returns the decision in short.
func (g *gated) pass() string {
	g.t.Helper()
	decision := Decide(g.in)
	var words []string
	for _, step := range decision.Steps {
		word := step.Status.Name + ":" + string(step.Status.Phase)
		if step.Job != nil {
			key := types.NamespacedName{Namespace: step.Job.Namespace, Name: step.Job.Name}
			if g.in.Jobs[key] != nil {
				g.t.Fatalf("Job %s is made twice", key)
			}
			step.Job.CreationTimestamp = metav1.NewTime(g.in.Now)
			g.in.Jobs[key] = step.Job
			word += "+" + step.Job.Annotations[AnnotationRule][len("numo/"):] + "-" + step.Job.Labels[LabelKind]
		}
		if step.Release {
			marks, err := LetGo(g.node(step.Status.Name).Node, Release{Version: g.in.Desired, At: metav1.NewTime(g.in.Now)})
			if err != nil {
				g.t.Fatal(err)
			}
			g.put(step.Status.Name, marks)
		}
		words = append(words, word)
	}
	return string(decision.Phase) + " " + strings.Join(words, " ")
}

// put makes marks on a node.
func (g *gated) put(name string, marks Marks) {
	node := g.node(name)
	for into, from := range map[*map[string]string]map[string]*string{&node.Labels: marks.Labels, &node.Annotations: marks.Annotations} {
		for key, value := range from {
			if value == nil {
				delete(*into, key)
			} else {
				(*into)[key] = *value
			}
		}
	}
}

func (g *gated) node(name string) *Node {
	g.t.Helper()
	for _, node := range g.in.Nodes {
		if node.Name == name {
			return node
		}
	}
	g.t.Fatalf("no node %s", name)
	return nil
}

// end ends all Jobs that run.
func (g *gated) end(how batchv1.JobConditionType) {
	for _, job := range g.in.Jobs {
		if len(job.Status.Conditions) == 0 {
			job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Message: "as told"}}
		}
	}
}

func (g *gated) expect(want string) {
	g.t.Helper()
	if got := g.pass(); got != want {
		g.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A run of two nodes, from the first Job to the last.
func TestARunOfTwoNodes(t *testing.T) {
	g := newGated(t, 2)
	g.expect("Running n1:RunningJobs+a-before n2:Pending")
	g.expect("Running n1:RunningJobs n2:Pending")
	g.end(batchv1.JobComplete)
	g.expect("Running n1:RunningJobs+b-before n2:Pending")
	g.end(batchv1.JobComplete)
	g.expect("Running n1:Released n2:Pending")
	g.node("n1").Annotations["machineconfiguration.openshift.io/state"] = "Working"
	g.expect("Running n1:Upgrading n2:Pending")
	g.node("n1").Version = "4.17.3"
	// It has the version, and is not back yet.
	g.expect("Running n1:Upgrading n2:Pending")
	delete(g.node("n1").Annotations, annotationState)
	g.expect("Running n1:CleaningUp+a-after n2:Pending")
	g.expect("Running n1:CleaningUp n2:Pending")
	g.end(batchv1.JobComplete)
	g.expect("Running n1:Done n2:RunningJobs+a-before")
	for range 2 {
		g.end(batchv1.JobComplete)
		g.pass()
	}
	g.node("n2").Version = "4.17.3"
	g.expect("Running n1:Done n2:CleaningUp+a-after")
	g.end(batchv1.JobComplete)
	g.expect("Done n1:Done n2:Done")
	if len(g.in.Jobs) != 6 {
		t.Errorf("%d Jobs were made", len(g.in.Jobs))
	}
}

func TestNothingBeginsBeforeItsTime(t *testing.T) {
	g := newGated(t, 1)
	g.in.Wait = "no window is open"
	g.expect("Waiting n1:Pending")
	if message := Decide(g.in).Message; message != g.in.Wait {
		t.Errorf("it waits for %q", message)
	}
	g.in.Wait = ""
	g.expect("Running n1:RunningJobs+a-before")
	// What has begun goes on when the window closes.
	g.in.Wait = "no window is open"
	g.end(batchv1.JobComplete)
	g.expect("Running n1:RunningJobs+b-before")
}

func TestManyAtOnceInTheOrderOfZones(t *testing.T) {
	g := newGated(t, 4)
	g.in.Run.Spec.MaxConcurrentNodes, g.in.Run.Spec.NodeOrder = 2, v1alpha1.OrderZone
	for i, zone := range []string{"b", "a", "b", "a"} {
		g.in.Nodes[i].Labels[corev1.LabelTopologyZone] = zone
	}
	g.expect("Running n2:RunningJobs+a-before n4:RunningJobs+a-before n1:Pending n3:Pending")
	g.expect("Running n2:RunningJobs n4:RunningJobs n1:Pending n3:Pending")
}

func TestWhatAFailedJobMeans(t *testing.T) {
	for name, c := range map[string]struct {
		on   v1alpha1.JobFailure
		want []string
	}{
		"stop": {v1alpha1.JobFailure{}, []string{"Stopped n1:Failed n2:Pending", "Stopped n1:Failed n2:Pending"}},
		"skip": {
			v1alpha1.JobFailure{Action: v1alpha1.FailureSkipNode},
			[]string{"Running n1:Failed n2:RunningJobs+a-before", "Done n1:Failed n2:Failed"},
		},
		"retry": {
			v1alpha1.JobFailure{Action: v1alpha1.FailureRetry, Retries: 1},
			[]string{"Running n1:RunningJobs+a-before n2:Pending", "Stopped n1:Failed n2:Pending"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t, 2)
			g.in.Run.Spec.OnJobFailure = c.on
			g.pass()
			for _, want := range c.want {
				g.end(batchv1.JobFailed)
				g.expect(want)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	g := newGated(t, 1)
	g.in.Run.Spec.JobTimeout, g.in.Run.Spec.NodeTimeout = &metav1.Duration{Duration: time.Minute}, &metav1.Duration{Duration: time.Hour}
	g.pass()
	if wake := Decide(g.in).Wake; !wake.Equal(start.Add(time.Minute)) {
		t.Errorf("it looks again at %s", wake)
	}
	g.in.Now = start.Add(time.Minute)
	g.expect("Stopped n1:Failed")
	// A Job that ends all the same has ended.
	g.end(batchv1.JobComplete)
	g.expect("Running n1:RunningJobs+b-before")
	g.end(batchv1.JobComplete)
	g.expect("Running n1:Released")
	if wake := Decide(g.in).Wake; !wake.Equal(g.in.Now.Add(time.Hour)) {
		t.Errorf("it looks again at %s", wake)
	}
	g.in.Now = g.in.Now.Add(time.Hour)
	g.expect("Stopped n1:Failed")
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after")
}

func TestADegradedNodeStopsTheRun(t *testing.T) {
	g := newGated(t, 2)
	for range 3 {
		g.pass()
		g.end(batchv1.JobComplete)
	}
	g.node("n1").Annotations["machineconfiguration.openshift.io/state"] = "Degraded"
	g.expect("Stopped n1:Failed n2:Pending")
	delete(g.node("n1").Annotations, "machineconfiguration.openshift.io/state")
	g.expect("Running n1:Released n2:Pending")
}

// A node that has the version already is left alone.
func TestANodeThatHasTheVersion(t *testing.T) {
	g := newGated(t, 2)
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:Done n2:RunningJobs+a-before")
}

// A node that cannot be begun is passed over, and told why.
func TestNodesThatHaveToWait(t *testing.T) {
	g := newGated(t, 3)
	g.node("n1").Blocked = "its lease is somebody else's"
	g.node("n2").Version = ""
	g.expect("Running n1:Pending n2:Pending n3:RunningJobs+a-before")
	g.node("n3").Blocked = "too late"
	g.expect("Running n1:Pending n2:Pending n3:RunningJobs")
	g.in.Jobs = nil
	g.expect("Waiting n1:Pending n2:Pending n3:Pending")
	if message := Decide(g.in).Message; message != "node n1: its lease is somebody else's" {
		t.Errorf("it waits for %q", message)
	}
}

// The pool's budget counts whoever has a node out of service.
func TestTheBudgetOfAPool(t *testing.T) {
	g := newGated(t, 3)
	for _, node := range g.in.Nodes {
		node.Pool = "a"
	}
	g.node("n2").Unavailable = true
	// A node that is out of service already takes no more of the budget.
	g.expect("Running n1:Pending n2:RunningJobs+a-before n3:Pending")
	g.in.Jobs = map[types.NamespacedName]*batchv1.Job{}
	g.node("n2").Blocked = "its lease is somebody else's"
	g.expect("Waiting n1:Pending n2:Pending n3:Pending")
	g.in.Unavailable = map[string]int{"a": 2}
	g.expect("Running n1:RunningJobs+a-before n2:Pending n3:Pending")
}

// Another version is aimed at in the middle of a run.
func TestAnotherVersionInTheMiddle(t *testing.T) {
	g := newGated(t, 2)
	for range 3 {
		g.pass()
		g.end(batchv1.JobComplete)
	}
	g.expect("Running n1:Released n2:Pending")
	g.in.Desired = "4.17.4"
	keys := []string{g.in.Rules[0].Key, g.in.Rules[1].Key}
	// What is at work is left to its end, and takes the room.
	g.node("n1").Annotations[annotationState] = stateWorking
	if marks := Gate(g.node("n1").Node, "uid", keys, nil, g.in.Desired); !marks.Empty() {
		t.Errorf("marks %v", marks)
	}
	g.expect("Running n1:Upgrading n2:Pending")
	delete(g.node("n1").Annotations, annotationState)
	g.node("n1").Version = "4.17.3"
	g.put("n1", Gate(g.node("n1").Node, "uid", keys, nil, g.in.Desired))
	// What was done before the upgrade that it has had is undone, whatever it waits for, before the next one begins.
	g.in.Wait = "the control plane does not have it yet"
	g.expect("Running n1:CleaningUp+a-after n2:Pending")
	g.end(batchv1.JobComplete)
	g.expect("Waiting n1:Pending n2:Pending")
	g.in.Wait = ""
	g.expect("Running n1:RunningJobs+a-before n2:Pending")
	if len(g.in.Jobs) != 4 {
		t.Errorf("%d Jobs", len(g.in.Jobs))
	}
}

// A clean-up that has failed for a version that is not aimed at any more is not what the next one waits for.
func TestAFailedCleanUpOfBefore(t *testing.T) {
	g := newGated(t, 1)
	for range 3 {
		g.pass()
		g.end(batchv1.JobComplete)
	}
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after")
	g.end(batchv1.JobFailed)
	g.expect("Stopped n1:Failed")
	g.in.Desired = "4.17.4"
	g.put("n1", Gate(g.node("n1").Node, "uid", []string{g.in.Rules[0].Key, g.in.Rules[1].Key}, nil, g.in.Desired))
	g.expect("Running n1:RunningJobs+a-before")
}

// Who was upgraded while nobody looked is cleaned up after, once; what is settled is forgotten.
func TestACleanUpThatIsOwed(t *testing.T) {
	g := newGated(t, 1)
	g.pass()
	g.end(batchv1.JobComplete)
	g.node("n1").Version = "4.17.3"
	g.put("n1", Strip(g.node("n1").Node, "uid"))
	g.expect("Running n1:CleaningUp+a-after")
	g.end(batchv1.JobComplete)
	g.expect("Done n1:Done")
	for key, job := range g.in.Jobs {
		if job.Labels[LabelKind] == string(AfterUpgrade) {
			delete(g.in.Jobs, key)
		}
	}
	g.in.Run.Status.Settled = &metav1.Time{Time: start}
	g.expect("Done n1:Done")
	g.in.Run.Status.Settled = &metav1.Time{Time: start.Add(-time.Second)}
	g.expect("Running n1:CleaningUp+a-after")
}

// A node whose Job ended after others had taken its place waits for room before it is let go.
func TestALateJob(t *testing.T) {
	g := newGated(t, 2)
	g.in.Run.Spec.JobTimeout = &metav1.Duration{Duration: time.Minute}
	g.in.Run.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode
	g.in.Rules = g.in.Rules[1:]
	g.expect("Running n1:RunningJobs+b-before n2:Pending")
	g.in.Now = start.Add(time.Hour)
	g.expect("Running n1:Failed n2:RunningJobs+b-before")
	g.end(batchv1.JobComplete)
	g.expect("Running n1:RunningJobs n2:Released")
	g.expect("Running n1:RunningJobs n2:Released")
	g.node("n2").Version = "4.17.3"
	g.expect("Running n1:Released n2:Done")
}

// A rule that is edited in the middle runs nothing again, and cleans up only where its first Job has run.
func TestARuleIsEditedInTheMiddle(t *testing.T) {
	g := newGated(t, 2)
	for range 3 {
		g.pass()
		g.end(batchv1.JobComplete)
	}
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after n2:Pending")
	g.end(batchv1.JobComplete)
	for i := range g.in.Rules {
		g.in.Rules[i].Object = g.in.Rules[i].Object.DeepCopy()
		g.in.Rules[i].Object.Spec.JobName, g.in.Rules[i].Object.Spec.JobNamespace = "other", "elsewhere"
	}
	added := g.in.Rules[0]
	added.Object = added.Object.DeepCopy()
	added.Object.Name = "c"
	g.in.Rules = append(g.in.Rules, added)
	g.expect("Running n1:Done n2:RunningJobs+a-before")
	if len(g.in.Jobs) != 4 {
		t.Errorf("%d Jobs", len(g.in.Jobs))
	}
}
