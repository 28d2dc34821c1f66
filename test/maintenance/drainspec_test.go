package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// TestDrainSpec_DeadlineWithForce: each pod that would outlast the deadline is evicted so early that it can end by then within its grace period.
func TestDrainSpec_DeadlineWithForce(t *testing.T) {
	s := site(t)
	s.Force = true
	node := s.AddNode()
	const deadline = 8 * time.Second
	s.Pod("short", harness.Pods{Node: node, Grace: 3, Ends: harness.AtGrace})   // evicted 3 s before
	s.Pod("long", harness.Pods{Node: node, Grace: 3600, Ends: harness.AtGrace}) // evicted at once
	s.Pod("ending", harness.Pods{Node: node, Grace: 3600, Ends: harness.AtGrace, Labels: map[string]string{"budget": "none"}})
	for _, app := range []string{"short", "long"} {
		s.Budget(app, app, harness.MinAvailable(1))
	}
	m := s.Maintain(node, &medik8s.DrainSpec{Deadline: duration(deadline), Force: true})
	m.Phase(medik8s.PhaseSucceeded)
	drained, begun := time.Now(), since(s, node)
	t.Logf("drained %s after the cordon, the deadline was %s", drained.Sub(begun).Round(time.Millisecond), deadline)
	first := map[string]*cluster.AuditEvent{}
	asked := requests(s)
	for i := range asked.Deletions {
		e := &asked.Deletions[i]
		if first[e.Name] == nil {
			first[e.Name] = e
		}
		if end := e.Received.Add(time.Duration(*e.Grace) * time.Second); *e.Grace < 1 || end.After(begun.Add(deadline+2*time.Second)) {
			t.Errorf("pod %s was given %d s, %s after the cordon", e.Name, *e.Grace, e.Received.Sub(begun))
		}
	}
	for name, grace := range map[string]int64{"short": 3, "long": 8, "ending": 8} {
		e := first[name]
		if e == nil {
			t.Errorf("pod %s was not deleted", name)
			continue
		}
		at := e.Received.Sub(begun)
		t.Logf("%s was deleted %s after the cordon with %d s of grace", name, at.Round(time.Millisecond), *e.Grace)
		// The cordon is recorded in whole seconds, and the machine may be busy.
		if earliest := deadline - time.Duration(grace)*time.Second; at < earliest-time.Second || *e.Grace > grace {
			t.Errorf("pod %s was deleted %s after the cordon with %d s of grace, want at %s with %d", name, at, *e.Grace, earliest, grace)
		}
	}
	if n := harness.Codes(asked.Evictions)[201]; n > 1 {
		t.Errorf("%d evictions were let pass, want that of the pod without a budget at most", n)
	}
}

// TestDrainSpec_DeadlineWithoutForce: without force, no pod is deleted after the deadline. If force is set after the deadline, the pods are deleted
// with a grace period of one second.
func TestDrainSpec_DeadlineWithoutForce(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	pod := s.Pod("blocked", harness.Pods{Node: node, Grace: 600, Ends: harness.AtGrace})
	s.Budget("blocked", "blocked", harness.MinAvailable(1))
	m := s.Maintain(node, &medik8s.DrainSpec{Deadline: duration(2 * time.Second)})
	status := m.Condition(plan.ConditionDrained, "DeadlineExceeded", s.Name+"/blocked")
	if status.Phase != medik8s.PhaseRunning || !strings.Contains(status.LastError, "deadline") {
		t.Errorf("the status is %s", harness.Render(status))
	}
	s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventBlocked, "deadline")
	if now := s.GetPod("blocked"); now.UID != pod.UID || now.DeletionTimestamp != nil {
		t.Error("the pod was deleted")
	}
	requests(s) // finds deletions
	s.Force = true
	if err := patch(s, m.Get(), `{"spec":{"drain":{"force":true}}}`); err != nil {
		t.Fatal(err)
	}
	status = m.Phase(medik8s.PhaseSucceeded)
	if status.LastError != "" {
		t.Errorf("after the success lastError is %q", status.LastError)
	}
	asked := requests(s)
	if len(asked.Deletions) == 0 || *asked.Deletions[0].Grace != 1 {
		t.Errorf("the deletions are %v, want one with a second", asked.Deletions)
	}
}

// evicted lists the apps of the pods that were evicted, each once, in their order.
func evicted(s *harness.Site) []string {
	s.Helper()
	asked := requests(s)
	var order []string
	for i := range asked.Evictions {
		app, _, _ := strings.Cut(asked.Evictions[i].Name, "-")
		if asked.Evictions[i].Code == 201 && !slices.Contains(order, app) {
			order = append(order, app)
		}
	}
	return order
}

// oneAfterAnother fails the test if a pod was evicted before all pods of the previous group were gone.
func oneAfterAnother(s *harness.Site, mark cluster.AuditMark, groups ...string) {
	s.Helper()
	if _, err := s.Cluster.Audit().Sync(s.Context()); err != nil {
		s.Fatal(err)
	}
	left, begun := map[string]time.Time{}, map[string]time.Time{}
	err := s.Cluster.Audit().Each(mark, func(e *cluster.AuditEvent) error {
		app, _, _ := strings.Cut(e.Name, "-")
		switch {
		case e.Namespace != s.Name || e.Resource != "pods" || e.Code >= 300:
		case e.Subresource == "eviction" && begun[app].IsZero():
			begun[app] = e.Received
		case e.Verb == "delete" && e.User != harness.User:
			left[app] = e.Received
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	for i := 1; i < len(groups); i++ {
		if before, after := left[groups[i-1]], begun[groups[i]]; before.IsZero() || after.Before(before) {
			s.Errorf("%s was evicted at %s, and %s was gone at %s", groups[i], after, groups[i-1], before)
		}
	}
}

func TestDrainSpec_OrderByPriority(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	for app, priority := range map[string]int32{"middle": 100, "low": 0, "high": 1000} {
		for i := range 2 {
			s.Pod(fmt.Sprintf("%s-%d", app, i), harness.Pods{Node: node, Priority: priority, Ends: "500ms"})
		}
	}
	mark := s.AuditMark()
	m := s.Maintain(node, &medik8s.DrainSpec{Order: medik8s.OrderPriority})
	m.Condition(plan.ConditionDrained, "Draining", "waiting for their turn")
	m.Phase(medik8s.PhaseSucceeded)
	if order := evicted(s); fmt.Sprint(order) != "[low middle high]" {
		t.Errorf("the order was %v", order)
	}
	oneAfterAnother(s, mark, "low", "middle", "high")
}

func TestDrainSpec_PodRules(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	selects := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{harness.AppLabel: app}}
	}
	staying := s.Pod("skipped", harness.Pods{Node: node})
	s.Job("batch", harness.Pods{})
	for app, ends := range map[string]string{"first": "500ms", "second": "500ms", "third": ""} {
		s.Pod(app, harness.Pods{Node: node, Ends: ends})
	}
	mark := s.AuditMark()
	m := s.Maintain(node, &medik8s.DrainSpec{PodRules: []medik8s.PodRule{
		{PodSelector: selects("skipped"), Behavior: medik8s.BehaviorSkip},
		{PodSelector: selects("skipped"), Behavior: medik8s.BehaviorDrain}, // the first one counts
		{PodSelector: selects("batch"), Behavior: medik8s.BehaviorWaitCompleted, Namespaces: []string{s.Name}},
		{PodSelector: selects("first"), Order: new(int32(-5))},
		{PodSelector: selects("third"), Order: new(int32(7))},
		{Namespaces: []string{s.Name + "-other"}, Behavior: medik8s.BehaviorSkip},
	}})
	m.Condition(plan.ConditionDrained, "Draining", "1 to finish by themselves")
	for _, pod := range s.Pods("batch") {
		if err := patch(s, &pod, `{"metadata":{"annotations":{"`+harness.CompletionDelay+`":"10ms"}}}`); err != nil {
			t.Fatal(err)
		}
	}
	m.Phase(medik8s.PhaseSucceeded)
	isJob := func(app string) bool { return app == "batch" } // it goes when it has finished
	if order := slices.DeleteFunc(evicted(s), isJob); fmt.Sprint(order) != "[first second third]" {
		t.Errorf("the order was %v", order)
	}
	oneAfterAnother(s, mark, "first", "second", "third")
	if pod := s.GetPod("skipped"); pod.UID != staying.UID || pod.DeletionTimestamp != nil {
		t.Error("the skipped pod has gone")
	}
	for _, pod := range s.Pods("batch") {
		if pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("the job's pod is %s", pod.Status.Phase)
		}
	}
}

func TestDrainSpec_AnnotationsOfOtherProjects(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	label, note := "cluster.x-k8s.io/drain", "karpenter.sh/do-not-disrupt"
	s.Pod("skip", harness.Pods{Node: node, Labels: map[string]string{label: "skip"}})
	s.Pod("wait", harness.Pods{Node: node, Labels: map[string]string{label: "wait-completed"}, Completes: "3s"})
	s.Pod("protected", harness.Pods{Node: node, Annotations: map[string]string{note: "true"}})
	s.Pod("later", harness.Pods{Node: node, Annotations: map[string]string{note: "6s"}})
	m := s.Maintain(node, &medik8s.DrainSpec{Honor: []medik8s.Convention{medik8s.ConventionClusterAPI, medik8s.ConventionKarpenter}})
	m.Condition(plan.ConditionDrained, "Blocked", "protected by "+note)
	m.Await("only the protected pod is left", func(status medik8s.NodeMaintenanceStatus) error {
		if fmt.Sprint(status.PendingPods) != "[protected]" {
			return fmt.Errorf("pending are %v", status.PendingPods)
		}
		return nil
	})
	gone := evicted(s)
	slices.Sort(gone)
	if fmt.Sprint(gone) != "[later wait]" {
		t.Errorf("the evictions are those of %v", gone)
	}
	protected := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "protected"}}
	if err := patch(s, protected, `{"metadata":{"annotations":{"`+note+`":null}}}`); err != nil {
		t.Fatal(err)
	}
	m.Phase(medik8s.PhaseSucceeded)
	if s.GetPod("skip").DeletionTimestamp != nil {
		t.Error("the pod that is to be skipped was evicted")
	}
}

func TestDrainSpec_MinimumTime(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	const minimum = 15 * time.Second // the condition below must be seen on a busy machine, too
	m := s.Maintain(node, &medik8s.DrainSpec{MinimumTime: duration(minimum)})
	m.Condition(plan.ConditionDrained, "AwaitingLatePods", "")
	m.Phase(medik8s.PhaseSucceeded)
	if took := time.Since(since(s, node)); took < minimum {
		t.Errorf("it was called drained %s after the cordon", took)
	}
}

// TestDrainSpec_DryRun to the node and its pods, and says what it would do.
func TestDrainSpec_DryRun(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	pods := uids(s.Deployment("app", harness.Pods{Replicas: 2}))
	s.Budget("app", "app", harness.MaxUnavailable(0))
	s.Pod("free", harness.Pods{Node: node})
	mark := s.AuditMark()
	m := s.Maintain(node, &medik8s.DrainSpec{DryRun: true})
	status := m.Condition(plan.ConditionDrained, "DryRun", "3 pods of 3 would have to leave")
	m.Condition(plan.ConditionDrained, "DryRun", s.Name+"/app needs 2 healthy pods and has 2")
	if status.Phase != medik8s.PhaseRunning || status.EvictionPods != 3 {
		t.Errorf("the status is %s", harness.Render(status))
	}
	drainedMeanwhile(s)
	for _, write := range s.Writes(mark) {
		if write.Name == node {
			t.Errorf("a dry run has made a %s of the node", write.Verb)
		}
	}
	if now := looks(s.Node(node)); now != before || s.LeaseOf(node) != nil || fmt.Sprint(uids(s.Pods("app"))) != fmt.Sprint(pods) {
		t.Errorf("the node is %s, its lease %v", now, s.LeaseOf(node))
	}
	s.AddNode()
	s.ChangeBudget("app", harness.MaxUnavailable(1))
	if err := patch(s, m.Get(), `{"spec":{"drain":{"dryRun":false}}}`); err != nil {
		t.Fatal(err)
	}
	m.Phase(medik8s.PhaseSucceeded)
	s.Settled("app", 2, node)
}
