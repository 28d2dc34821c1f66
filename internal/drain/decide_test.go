package drain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// podOf is a ready pod app=web of a ReplicaSet in the namespace shop, with a grace period of 30 s.
func podOf(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30))},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range edit {
		change(pod)
	}
	return pod
}

// ending makes a pod one that is to be gone at a time relative to now, after 30 s of grace.
func ending(until time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(until)}, new(int64(30))
	}
}

// endingFor makes a pod one that was deleted now with a grace period, as the API server does, which overflows.
func endingFor(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.Time{Time: now.Add(-time.Hour)}
		p.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Duration(seconds) * time.Second)}
		p.DeletionGracePeriodSeconds = &seconds
	}
}

func owned(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = kind, name }
}

func phased(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", key: value} }
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func priority(value int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &value } }

func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// scene is a node with its pods; DaemonSet "agent" exists.
type scene struct {
	options Options
	pods    []*corev1.Pod
	budgets []*policyv1.PodDisruptionBudget
	answers map[types.UID]Answer
	ready   corev1.ConditionStatus
	volumes []string
	// age is how long ago the node was cordoned, emptied how long ago its pods had gone; zero for not known.
	age, emptied time.Duration
}

func (s *scene) decide() Decision {
	if s.ready == "" {
		s.ready = corev1.ConditionTrue
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s.ready}}
	emptied := time.Time{}
	if s.emptied > 0 {
		emptied = now.Add(-s.emptied)
	}
	return Decide(Input{
		Emptied: emptied,
		Node:    node, Pods: s.pods, Options: s.options, Since: now.Add(-s.age), Now: now, Attached: s.volumes,
		Budgets: func(pod *corev1.Pod) (found []*policyv1.PodDisruptionBudget) {
			for _, budget := range s.budgets {
				if Selects(budget, pod) {
					found = append(found, budget)
				}
			}
			return found
		},
		DaemonSetExists: func(key types.NamespacedName) bool { return key.Name == "agent" },
		Answered:        func(uid types.UID) (Answer, bool) { a, ok := s.answers[uid]; return a, ok },
	})
}

// String writes a decision in one line: what is asked for, what is left and why, what is left alone.
func (d Decision) String() string {
	var parts []string
	for _, task := range d.Tasks {
		if task.Grace != nil {
			parts = append(parts, fmt.Sprintf("delete %s %ds", task.Name, *task.Grace))
		} else {
			parts = append(parts, "evict "+task.Name)
		}
	}
	for _, left := range d.Report.Left {
		parts = append(parts, left.Name+"="+string(left.Reason))
	}
	for _, exempt := range exemptions {
		if n := d.Report.Alone[exempt]; n > 0 {
			parts = append(parts, fmt.Sprintf("alone %d %s", n, exempt))
		}
	}
	if d.Report.Done() {
		parts = append(parts, "done")
	}
	return strings.Join(parts, ", ")
}

func TestDecide(t *testing.T) {
	web := []*policyv1.PodDisruptionBudget{budgetOf()}
	rule := func(behavior Behavior, order int32, label string) Rule {
		selector, err := labels.Parse(label)
		if err != nil {
			t.Fatal(err)
		}
		return Rule{Selector: selector, Behavior: behavior, Order: order}
	}
	lost := Options{Unreachable: Ignore}
	for _, c := range []struct {
		name  string
		scene scene
		want  string
	}{
		{"no pods", scene{}, "done"},
		{"two pods, in the order of their names", scene{pods: []*corev1.Pod{podOf("b"), podOf("a")}}, "evict a, evict b, a=Evicting, b=Evicting"},
		{"one without a controller", scene{pods: []*corev1.Pod{podOf("a", func(p *corev1.Pod) { p.OwnerReferences = nil })}}, "evict a, a=Evicting"},
		{"a finished one", scene{pods: []*corev1.Pod{podOf("a", phased(corev1.PodSucceeded))}}, "evict a, a=Evicting"},
		{"a DaemonSet's", scene{pods: []*corev1.Pod{podOf("a", owned("DaemonSet", "agent"))}}, "alone 1 DaemonSet, done"},
		{"one of a DaemonSet that is gone", scene{pods: []*corev1.Pod{podOf("a", owned("DaemonSet", "old"))}}, "evict a, a=Evicting"},
		{"a DaemonSet's that has finished", scene{pods: []*corev1.Pod{podOf("a", owned("DaemonSet", "agent"), phased(corev1.PodFailed))}},
			"evict a, a=Evicting"},
		{"a static one", scene{pods: []*corev1.Pod{podOf("a", annotated(AnnotationMirror, "x"))}}, "alone 1 static, done"},
		{"one that is ending", scene{pods: []*corev1.Pod{podOf("a", ending(10*time.Second))}}, "a=Terminating"},
		{"one that should have ended", scene{pods: []*corev1.Pod{podOf("a", ending(-10*time.Second))}}, "a=Overdue"},
		{"one that a finalizer keeps", scene{pods: []*corev1.Pod{podOf("a", ending(-10*time.Second),
			func(p *corev1.Pod) { p.Finalizers = []string{"x/y"} })}},
			"a=Finalizer"},
		{"a finalizer does not matter before", scene{pods: []*corev1.Pod{podOf("a", ending(10*time.Second),
			func(p *corev1.Pod) { p.Finalizers = []string{"x/y"} })}},
			"a=Terminating"},
		{"a spent budget", scene{pods: []*corev1.Pod{podOf("a")}, budgets: web}, "evict a, a=Budget"},
		{"two budgets", scene{pods: []*corev1.Pod{podOf("a")},
			budgets: append(web, budgetOf(func(b *policyv1.PodDisruptionBudget) { b.Name = "x" }))}, "evict a, a=SeveralBudgets"},
		{"a budget for good", scene{pods: []*corev1.Pod{podOf("a")},
			budgets: []*policyv1.PodDisruptionBudget{budgetOf(func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = 2 })}},
			"evict a, a=BudgetNever"},
		{"a webhook's no", scene{pods: []*corev1.Pod{podOf("a")}, answers: map[types.UID]Answer{"uid-a": {Outcome: Refused}}}, "evict a, a=Webhook"},
		{"accepted, and not seen yet", scene{pods: []*corev1.Pod{podOf("a")}, answers: map[types.UID]Answer{"uid-a": {Outcome: Accepted}}},
			"evict a, a=Evicting"},

		{"accepted, which spent the budget", scene{pods: []*corev1.Pod{podOf("a")}, budgets: web,
			answers: map[types.UID]Answer{"uid-a": {Outcome: Accepted}}},
			"evict a, a=Evicting"},

		{"a rule that skips", scene{pods: []*corev1.Pod{podOf("a"), podOf("b", labelled("keep", "1"))}, options: Options{Rules: []Rule{rule(Skip, 0,
			"keep")}}},
			"evict a, a=Evicting, alone 1 skipped"},
		{"the first rule counts", scene{pods: []*corev1.Pod{podOf("a")}, options: Options{Rules: []Rule{rule(Evict, 0, "app"), rule(Skip, 0, "app")}}},
			"evict a, a=Evicting"},
		{"a rule for another namespace", scene{pods: []*corev1.Pod{podOf("a")}, options: Options{Rules: []Rule{{Namespaces: []string{"x"},
			Behavior: Skip}}}},
			"evict a, a=Evicting"},
		{"one that is waited for", scene{pods: []*corev1.Pod{podOf("a")}, options: Options{Rules: []Rule{rule(WaitCompleted, 0, "app")}}}, "a=Completion"},
		{"one that was waited for", scene{pods: []*corev1.Pod{podOf("a", phased(corev1.PodSucceeded))},
			options: Options{Rules: []Rule{rule(WaitCompleted, 0, "app")}}},
			"alone 1 finished, done"},
		{"the Cluster API's label is not honoured unasked", scene{pods: []*corev1.Pod{podOf("a", labelled(LabelClusterAPI, "skip"))}},
			"evict a, a=Evicting"},
		{"the Cluster API's skip", scene{pods: []*corev1.Pod{podOf("a", labelled(LabelClusterAPI, "skip"))}, options: Options{ClusterAPI: true}},
			"alone 1 skipped, done"},
		{"the Cluster API's wait", scene{pods: []*corev1.Pod{podOf("a", labelled(LabelClusterAPI, "wait-completed"))}, options: Options{ClusterAPI: true}},
			"a=Completion"},
		{"Karpenter's annotation", scene{pods: []*corev1.Pod{podOf("a", annotated(AnnotationKarpenter, "true"))}, options: Options{Karpenter: true}},
			"a=DoNotDisrupt"},
		{"Karpenter's annotation, for a time", scene{pods: []*corev1.Pod{podOf("a", annotated(AnnotationKarpenter, "1h"), started(-time.Minute))},
			options: Options{Karpenter: true}}, "a=DoNotDisrupt"},
		{"Karpenter's annotation, for a time that is over", scene{pods: []*corev1.Pod{podOf("a", annotated(AnnotationKarpenter, "1h"),
			started(-2*time.Hour))},
			options: Options{Karpenter: true}}, "evict a, a=Evicting"},
		{"Karpenter's annotation, garbled", scene{pods: []*corev1.Pod{podOf("a", annotated(AnnotationKarpenter, "soon"), started(0))},
			options: Options{Karpenter: true}}, "evict a, a=Evicting"},

		{"by priority", scene{pods: []*corev1.Pod{podOf("a", priority(10)), podOf("b", priority(5)), podOf("c", priority(10))},
			options: Options{ByPriority: true}},
			"evict b, a=Turn, b=Evicting, c=Turn"},
		{"by priority, while a lower one is ending", scene{pods: []*corev1.Pod{podOf("a", priority(10)), podOf("b", ending(time.Second))},
			options: Options{ByPriority: true}}, "a=Turn, b=Terminating"},
		{"by the order of rules", scene{pods: []*corev1.Pod{podOf("a", labelled("last", "1")), podOf("b")}, options: Options{Rules: []Rule{rule(Evict,
			7, "last")}}},
			"evict b, a=Turn, b=Evicting"},
		{"one that is waited for holds nobody back", scene{pods: []*corev1.Pod{podOf("a", labelled("x", "1")), podOf("b", priority(9))},
			options: Options{ByPriority: true, Rules: []Rule{rule(WaitCompleted, 0, "x")}}}, "evict b, a=Completion, b=Evicting"},

		{"an unreachable node, by default", scene{pods: []*corev1.Pod{podOf("a", ending(-time.Minute))}, ready: corev1.ConditionUnknown}, "a=Overdue"},
		{"an unreachable node, ignored", scene{pods: []*corev1.Pod{podOf("a", ending(-time.Minute)), podOf("b")}, ready: corev1.ConditionUnknown,
			options: lost},
			"evict b, b=Evicting, alone 1 on an unreachable node"},
		{"an unreachable node, within the grace period", scene{pods: []*corev1.Pod{podOf("a", ending(time.Minute))}, ready: corev1.ConditionUnknown,
			options: lost},
			"a=Terminating"},
		{"a node that is not ready is reachable", scene{pods: []*corev1.Pod{podOf("a", ending(-time.Minute))}, ready: corev1.ConditionFalse,
			options: lost}, "a=Overdue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.scene.decide().String(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func started(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: now.Add(ago)} }
}

// A deadline with force deletes each pod so early that it can end by then, and never with less than a second.
func TestForce(t *testing.T) {
	force := Options{Deadline: 5 * time.Minute, Force: true}
	spent := []*policyv1.PodDisruptionBudget{budgetOf()}
	for _, c := range []struct {
		name string
		age  time.Duration
		pod  *corev1.Pod
		want string
		wake time.Duration
	}{
		{"long before", time.Minute, podOf("a"), "evict a, a=Budget", 30 * time.Second},
		{"just before the last moment", 5*time.Minute - 31*time.Second, podOf("a"), "evict a, a=Budget", time.Second},
		{"at the last moment", 5*time.Minute - 30*time.Second, podOf("a"), "delete a 30s, a=Budget", 30 * time.Second},
		{"with half of the grace period left", 5*time.Minute - 15*time.Second, podOf("a"), "delete a 15s, a=Budget", 15 * time.Second},
		{"after it", 6 * time.Minute, podOf("a"), "delete a 1s, a=Budget", 30 * time.Second},
		{"a pod without grace", 5 * time.Minute, podOf("a", grace(0)), "delete a 1s, a=Budget", 30 * time.Second},
		{"a pod with a long grace", 10 * time.Second, podOf("a", grace(3600)), "delete a 290s, a=Budget", 30 * time.Second},
		{"one that ends in time by itself", 4 * time.Minute, podOf("a", ending(20*time.Second)), "a=Terminating", 21 * time.Second},
		{"one that would end too late", 5*time.Minute - 10*time.Second, podOf("a", ending(20*time.Second)), "delete a 10s, a=Terminating",
			10 * time.Second},
		{"one that ends in a second anyway", 6 * time.Minute, podOf("a", ending(time.Second)), "a=Terminating", 2 * time.Second},
		{"one that cannot end", 6 * time.Minute, podOf("a", ending(-time.Minute)), "a=Overdue", 30 * time.Second},
		{"a grace that overflows: at once", 10 * time.Second, podOf("a", grace(9999999999)), "delete a 290s, a=Budget", 30 * time.Second},
		{"a grace that overflows: after the deadline", 6 * time.Minute, podOf("a", grace(9999999999)), "delete a 1s, a=Budget", 30 * time.Second},
		{"the largest grace", 10 * time.Second, podOf("a", grace(math.MaxInt64)), "delete a 290s, a=Budget", 30 * time.Second},
		{"one that ends with a grace that overflows", 5*time.Minute - 30*time.Second, podOf("a", endingFor(9999999999)),
			"delete a 30s, a=Terminating", 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{options: force, pods: []*corev1.Pod{c.pod}, budgets: spent, age: c.age}
			got := s.decide()
			if got.String() != c.want || got.Report.Wake.Sub(now) != c.wake {
				t.Errorf("%s, wake in %s; want %s, %s", got, got.Report.Wake.Sub(now), c.want, c.wake)
			}
			if late := c.age >= 5*time.Minute; got.Report.Late != late {
				t.Errorf("late: %v", got.Report.Late)
			}
			s.options.Force = false
			if got := s.decide(); slices.ContainsFunc(got.Tasks, func(task Task) bool { return task.Grace != nil }) {
				t.Errorf("without force: %s", got)
			}
		})
	}
}

// A deadline that nobody lives to see is one all the same.
func TestForce_DeadlineOutOfRange(t *testing.T) {
	s := scene{options: Options{Deadline: math.MaxInt64, Force: true}, pods: []*corev1.Pod{podOf("a", grace(math.MaxInt64))}, age: time.Minute}
	if got := s.decide(); got.Report.Late || len(got.Tasks) != 1 || *got.Tasks[0].Grace < int64(99*365*24*time.Hour/time.Second) {
		t.Errorf("%s, late: %v", got, got.Report.Late)
	}
}

func TestAfterThePods(t *testing.T) {
	for _, c := range []struct {
		name  string
		scene scene
		done  bool
		text  string
		wake  time.Duration
	}{
		{"nothing to wait for", scene{}, true, "all pods have left", 0},
		{"the minimum time", scene{options: Options{MinimumTime: time.Minute}, age: 20 * time.Second}, false, "awaited until 12:00:40Z", 40 * time.Second},
		{"the minimum time is over", scene{options: Options{MinimumTime: time.Minute}, age: time.Minute}, true, "all pods have left", 0},
		{"volumes that nobody asked about", scene{volumes: []string{"b"}}, true, "all pods have left", 0},
		{"volumes", scene{options: Options{Volumes: true}, volumes: []string{"b", "a"}}, false, "2 volumes are still attached: a, b", 0},
		{"volumes, for a time", scene{options: Options{Volumes: true, VolumesTimeout: time.Minute}, volumes: []string{"a"}, age: time.Second}, false,
			"a", 59 * time.Second},
		{"volumes, the time is over", scene{options: Options{Volumes: true, VolumesTimeout: time.Minute}, volumes: []string{"a"}, age: time.Minute},
			true, "all", 0},
		{"volumes, when the drain took long", scene{options: Options{Volumes: true, VolumesTimeout: time.Minute}, volumes: []string{"a"},
			age: time.Hour, emptied: 59 * time.Second}, false, "1 volumes are still attached: a", time.Second},
		{"volumes of a node that is lost", scene{options: Options{Volumes: true, Unreachable: Ignore}, volumes: []string{"a"},
			ready: corev1.ConditionUnknown}, true, "all", 0},
		{"all gone in time", scene{options: Options{Deadline: time.Minute}, age: time.Hour}, true, "all pods have left", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := c.scene.decide().Report
			wake := time.Duration(0)
			if !report.Wake.IsZero() {
				wake = report.Wake.Sub(now)
			}
			if report.Done() != c.done || !strings.Contains(report.Text(), c.text) || wake != c.wake || report.Late {
				t.Errorf("done %v, %q, wake %s, late %v", report.Done(), report.Text(), wake, report.Late)
			}
		})
	}
}

func TestOutOfService(t *testing.T) {
	s := scene{options: Options{Unreachable: OutOfService}, ready: corev1.ConditionUnknown, pods: []*corev1.Pod{podOf("a", ending(time.Minute))}}
	if s.decide().Report.OutOfService {
		t.Error("asked for although the pod may still end by itself")
	}
	s.pods = []*corev1.Pod{podOf("a", ending(-time.Minute))}
	if !s.decide().Report.OutOfService {
		t.Error("not asked for")
	}
	s.ready = corev1.ConditionTrue
	if s.decide().Report.OutOfService {
		t.Error("asked for although the node is there")
	}
}
