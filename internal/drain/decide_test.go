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

	"github.com/drover-io/drover/internal/apitest/builder"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// newPod returns a ready pod app=web of a ReplicaSet in the namespace shop, with a grace period of 30 s.
func newPod(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	return builder.Pod("shop", name, "n1", slices.Concat([]func(*corev1.Pod){builder.WithRunning, func(pod *corev1.Pod) {
		pod.Labels["app"] = "web"
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	}}, edit)...)
}

// ending makes a pod terminating, with a grace period of 30 s that ends at a time relative to now.
func ending(until time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(until)}, new(int64(30))
	}
}

// endingFor makes a pod that is deleted now with a grace period. The API server's timestamp may have overflowed.
func endingFor(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.Time{Time: now.Add(-time.Hour)}
		p.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Duration(seconds) * time.Second)}
		p.DeletionGracePeriodSeconds = &seconds
	}
}

func owned(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = "apps/v1", kind, name
	}
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

// inputs are what a decision depends on; DaemonSet "agent" exists.
type inputs struct {
	options Options
	pods    []*corev1.Pod
	budgets []*policyv1.PodDisruptionBudget
	answers map[types.UID]Answer
	ready   corev1.ConditionStatus
	// unknown is how long ago the node became unreachable.
	unknown time.Duration
	volumes []string
	// age is how long ago the node was cordoned, emptied how long ago its pods had gone; zero for not known.
	age, emptied time.Duration
}

func (s *inputs) decide() Decision {
	if s.ready == "" {
		s.ready = corev1.ConditionTrue
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: s.ready, LastTransitionTime: metav1.Time{Time: now.Add(-s.unknown)},
	}}
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
		LastAnswer:      func(uid types.UID) (Answer, bool) { a, ok := s.answers[uid]; return a, ok },
	})
}

// String writes a decision in one line: the tasks, the pods that are left with the reason, the exempt pods.
func (d Decision) String() string {
	var parts []string
	for _, task := range d.Tasks {
		if task.Grace != nil {
			parts = append(parts, fmt.Sprintf("delete %s %ds", task.Name, *task.Grace))
		} else {
			parts = append(parts, "evict "+task.Name)
		}
	}
	for _, left := range d.Report.Remaining {
		parts = append(parts, left.Name+"="+string(left.Reason))
	}
	for _, exempt := range exemptions {
		if n := d.Report.Exempted[exempt]; n > 0 {
			parts = append(parts, fmt.Sprintf("exempt %d %s", n, exempt))
		}
	}
	if d.Report.Done() {
		parts = append(parts, "done")
	}
	return strings.Join(parts, ", ")
}

// newRule returns a rule for the pods with a label.
func newRule(t *testing.T, behavior Behavior, order int32, label string) Rule {
	t.Helper()
	selector, err := labels.Parse(label)
	if err != nil {
		t.Fatal(err)
	}
	return Rule{Selector: selector, Behavior: behavior, Order: order}
}

func TestDecide(t *testing.T) {
	web := []*policyv1.PodDisruptionBudget{newBudget()}
	rule := func(behavior Behavior, order int32, label string) Rule { return newRule(t, behavior, order, label) }
	ignore := Options{Unreachable: Ignore}
	for _, c := range []struct {
		name  string
		input inputs
		want  string
	}{
		{"no pods", inputs{}, "done"},
		{"two pods: in the order of their names", inputs{pods: []*corev1.Pod{newPod("b"), newPod("a")}}, "evict a, evict b, a=Evicting, b=Evicting"},
		{"without a controller", inputs{pods: []*corev1.Pod{newPod("a", func(p *corev1.Pod) { p.OwnerReferences = nil })}}, "evict a, a=Evicting"},
		{"finished", inputs{pods: []*corev1.Pod{newPod("a", phased(corev1.PodSucceeded))}}, "evict a, a=Evicting"},
		{"of a DaemonSet", inputs{pods: []*corev1.Pod{newPod("a", owned("DaemonSet", "agent"))}}, "exempt 1 DaemonSet, done"},
		{"of a DaemonSet that is gone", inputs{pods: []*corev1.Pod{newPod("a", owned("DaemonSet", "old"))}}, "evict a, a=Evicting"},
		{"of a DaemonSet, finished", inputs{pods: []*corev1.Pod{newPod("a", owned("DaemonSet", "agent"), phased(corev1.PodFailed))}},
			"evict a, a=Evicting"},
		{"static", inputs{pods: []*corev1.Pod{newPod("a", annotated(AnnotationMirror, "x"))}}, "exempt 1 static, done"},
		{"terminating", inputs{pods: []*corev1.Pod{newPod("a", ending(10*time.Second))}}, "a=Terminating"},
		{"terminating, past its grace period", inputs{pods: []*corev1.Pod{newPod("a", ending(-10*time.Second))}}, "a=Overdue"},
		{"terminating, past its grace period, with a finalizer", inputs{pods: []*corev1.Pod{newPod("a", ending(-10*time.Second),
			func(p *corev1.Pod) { p.Finalizers = []string{"x/y"} })}},
			"a=Finalizer"},
		{"terminating, within its grace period, with a finalizer", inputs{pods: []*corev1.Pod{newPod("a", ending(10*time.Second),
			func(p *corev1.Pod) { p.Finalizers = []string{"x/y"} })}},
			"a=Terminating"},
		{"spent budget", inputs{pods: []*corev1.Pod{newPod("a")}, budgets: web}, "evict a, a=Budget"},
		{"two budgets", inputs{pods: []*corev1.Pod{newPod("a")},
			budgets: append(web, newBudget(func(b *policyv1.PodDisruptionBudget) { b.Name = "x" }))}, "evict a, a=SeveralBudgets"},
		{"budget that cannot allow any", inputs{pods: []*corev1.Pod{newPod("a")},
			budgets: []*policyv1.PodDisruptionBudget{newBudget(func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = 2 })}},
			"evict a, a=BudgetNever"},
		{"webhook denies", inputs{pods: []*corev1.Pod{newPod("a")}, answers: map[types.UID]Answer{"uid-of-a": {Outcome: Refused}}}, "evict a, a=Webhook"},
		{"accepted, not in the cache yet", inputs{pods: []*corev1.Pod{newPod("a")}, answers: map[types.UID]Answer{"uid-of-a": {Outcome: Accepted}}},
			"evict a, a=Evicting"},

		{"accepted, which spent the budget", inputs{pods: []*corev1.Pod{newPod("a")}, budgets: web,
			answers: map[types.UID]Answer{"uid-of-a": {Outcome: Accepted}}},
			"evict a, a=Evicting"},

		{"rule: skip", inputs{pods: []*corev1.Pod{newPod("a"), newPod("b", labelled("keep", "1"))}, options: Options{Rules: []Rule{rule(Skip, 0,
			"keep")}}},
			"evict a, a=Evicting, exempt 1 skipped"},
		{"two rules: the first applies", inputs{pods: []*corev1.Pod{newPod("a")},
			options: Options{Rules: []Rule{rule(Evict, 0, "app"), rule(Skip, 0, "app")}}},
			"evict a, a=Evicting"},
		{"rule for another namespace", inputs{pods: []*corev1.Pod{newPod("a")}, options: Options{Rules: []Rule{{Namespaces: []string{"x"},
			Behavior: Skip}}}},
			"evict a, a=Evicting"},
		{"rule: completion", inputs{pods: []*corev1.Pod{newPod("a")}, options: Options{Rules: []Rule{rule(WaitCompleted, 0, "app")}}}, "a=Completion"},
		{"label of Cluster API, not enabled", inputs{pods: []*corev1.Pod{newPod("a", labelled(LabelClusterAPI, "skip"))}},
			"evict a, a=Evicting"},
		{"label of Cluster API: skip", inputs{pods: []*corev1.Pod{newPod("a", labelled(LabelClusterAPI, "skip"))}, options: Options{ClusterAPI: true}},
			"exempt 1 skipped, done"},
		{"label of Cluster API: skip, and a taint that it does not tolerate", inputs{pods: []*corev1.Pod{newPod("a", labelled(LabelClusterAPI, "skip"))},
			options: Options{ClusterAPI: true, Taints: []corev1.Taint{{Key: "batch", Effect: corev1.TaintEffectNoExecute}}}},
			"evict a, a=Evicting"},
		{"label of Cluster API: wait for completion", inputs{pods: []*corev1.Pod{newPod("a", labelled(LabelClusterAPI, "wait-completed"))},
			options: Options{ClusterAPI: true}},
			"a=Completion"},
		{"Karpenter's annotation", inputs{pods: []*corev1.Pod{newPod("a", annotated(AnnotationKarpenter, "true"))}, options: Options{Karpenter: true}},
			"a=DoNotDisrupt"},
		{"Karpenter's annotation, with a duration", inputs{pods: []*corev1.Pod{newPod("a", annotated(AnnotationKarpenter, "1h"), started(-time.Minute))},
			options: Options{Karpenter: true}}, "a=DoNotDisrupt"},
		{"Karpenter's annotation, with a duration that is over", inputs{pods: []*corev1.Pod{newPod("a", annotated(AnnotationKarpenter, "1h"),
			started(-2*time.Hour))},
			options: Options{Karpenter: true}}, "evict a, a=Evicting"},
		{"Karpenter's annotation, invalid", inputs{pods: []*corev1.Pod{newPod("a", annotated(AnnotationKarpenter, "soon"), started(0))},
			options: Options{Karpenter: true}}, "evict a, a=Evicting"},

		{"by priority", inputs{pods: []*corev1.Pod{newPod("a", priority(10)), newPod("b", priority(5)), newPod("c", priority(10))},
			options: Options{ByPriority: true}},
			"evict b, a=Turn, b=Evicting, c=Turn"},
		{"by priority, while a lower one is terminating", inputs{pods: []*corev1.Pod{newPod("a", priority(10)), newPod("b", ending(time.Second))},
			options: Options{ByPriority: true}}, "a=Turn, b=Terminating"},
		{"by the order of rules", inputs{pods: []*corev1.Pod{newPod("a", labelled("last", "1")), newPod("b")}, options: Options{Rules: []Rule{rule(Evict,
			7, "last")}}},
			"evict b, a=Turn, b=Evicting"},
		{"completion does not block the next group", inputs{pods: []*corev1.Pod{newPod("a", labelled("x", "1")), newPod("b", priority(9))},
			options: Options{ByPriority: true, Rules: []Rule{rule(WaitCompleted, 0, "x")}}}, "evict b, a=Completion, b=Evicting"},

		{"unreachable node: wait", inputs{pods: []*corev1.Pod{newPod("a", ending(-time.Minute))}, ready: corev1.ConditionUnknown}, "a=Overdue"},
		{"unreachable node: ignore", inputs{pods: []*corev1.Pod{newPod("a", ending(-time.Minute)), newPod("b")}, ready: corev1.ConditionUnknown,
			options: ignore},
			"evict b, b=Evicting, exempt 1 on an unreachable node"},
		{"unreachable node: ignore, within the grace", inputs{pods: []*corev1.Pod{newPod("a", ending(time.Minute))}, ready: corev1.ConditionUnknown,
			options: ignore},
			"a=Terminating"},
		{"node not ready: reachable", inputs{pods: []*corev1.Pod{newPod("a", ending(-time.Minute))}, ready: corev1.ConditionFalse,
			options: ignore}, "a=Overdue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.input.decide().String(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func started(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: now.Add(ago)} }
}

// With force, each pod is deleted so early that it can terminate before the deadline, and never with a grace period below a second.
func TestDecide_Force(t *testing.T) {
	force := Options{Deadline: 5 * time.Minute, Force: true}
	spent := []*policyv1.PodDisruptionBudget{newBudget()}
	for _, c := range []struct {
		name string
		age  time.Duration
		pod  *corev1.Pod
		want string
		wake time.Duration
	}{
		{"long before", time.Minute, newPod("a"), "evict a, a=Budget", 30 * time.Second},
		{"just before the last moment", 5*time.Minute - 31*time.Second, newPod("a"), "evict a, a=Budget", time.Second},
		{"at the last moment", 5*time.Minute - 30*time.Second, newPod("a"), "delete a 30s, a=Budget", 30 * time.Second},
		{"with half of the grace period left", 5*time.Minute - 15*time.Second, newPod("a"), "delete a 15s, a=Budget", 15 * time.Second},
		{"after it", 6 * time.Minute, newPod("a"), "delete a 1s, a=Budget", 30 * time.Second},
		{"a pod without grace", 5 * time.Minute, newPod("a", grace(0)), "delete a 1s, a=Budget", 30 * time.Second},
		{"a pod with a long grace", 10 * time.Second, newPod("a", grace(3600)), "delete a 290s, a=Budget", 30 * time.Second},
		{"terminating, in time", 4 * time.Minute, newPod("a", ending(20*time.Second)), "a=Terminating", 21 * time.Second},
		{"terminating, too late", 5*time.Minute - 10*time.Second, newPod("a", ending(20*time.Second)), "delete a 10s, a=Terminating",
			10 * time.Second},
		{"terminating in a second", 6 * time.Minute, newPod("a", ending(time.Second)), "a=Terminating", 2 * time.Second},
		{"terminating, past its grace period", 6 * time.Minute, newPod("a", ending(-time.Minute)), "a=Overdue", 30 * time.Second},
		{"a grace that overflows: at once", 10 * time.Second, newPod("a", grace(9999999999)), "delete a 290s, a=Budget", 30 * time.Second},
		{"a grace that overflows: after the deadline", 6 * time.Minute, newPod("a", grace(9999999999)), "delete a 1s, a=Budget", 30 * time.Second},
		{"the largest grace", 10 * time.Second, newPod("a", grace(math.MaxInt64)), "delete a 290s, a=Budget", 30 * time.Second},
		{"terminating, with a grace that overflows", 5*time.Minute - 30*time.Second, newPod("a", endingFor(9999999999)),
			"delete a 30s, a=Terminating", 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := inputs{options: force, pods: []*corev1.Pod{c.pod}, budgets: spent, age: c.age}
			got := s.decide()
			if got.String() != c.want || got.Report.Wake.Sub(now) != c.wake {
				t.Errorf("%s, wake in %s; want %s, %s", got, got.Report.Wake.Sub(now), c.want, c.wake)
			}
			if late := c.age >= 5*time.Minute; got.Report.DeadlineExceeded != late {
				t.Errorf("late: %v", got.Report.DeadlineExceeded)
			}
			s.options.Force = false
			if got := s.decide(); slices.ContainsFunc(got.Tasks, func(task Task) bool { return task.Grace != nil }) {
				t.Errorf("without force: %s", got)
			}
		})
	}
}

func TestDecide_ForceDeadlineOutOfRange(t *testing.T) {
	s := inputs{options: Options{Deadline: math.MaxInt64, Force: true}, pods: []*corev1.Pod{newPod("a", grace(math.MaxInt64))}, age: time.Minute}
	if got := s.decide(); got.Report.DeadlineExceeded || len(got.Tasks) != 1 || *got.Tasks[0].Grace < int64(99*365*24*time.Hour/time.Second) {
		t.Errorf("%s, late: %v", got, got.Report.DeadlineExceeded)
	}
}

// TestDecide_Owners: finished pods are protected by nothing, and what only has the name of a DaemonSet is none.
func TestDecide_Owners(t *testing.T) {
	rule := func(behavior Behavior, order int32, label string) Rule { return newRule(t, behavior, order, label) }
	for _, c := range []struct {
		name  string
		input inputs
		want  string
	}{
		{"rule: completion, finished", inputs{pods: []*corev1.Pod{newPod("a", phased(corev1.PodSucceeded))},
			options: Options{Rules: []Rule{rule(WaitCompleted, 0, "app")}}},
			"evict a, a=Evicting"},
		{"finished: neither protected nor in an order", inputs{pods: []*corev1.Pod{newPod("a"),
			newPod("b", phased(corev1.PodFailed), annotated(AnnotationKarpenter, "true"), labelled("last", "1"))},
			options: Options{Karpenter: true, Rules: []Rule{rule(Evict, 7, "last")}}}, "evict b, evict a, b=Evicting, a=Evicting"},
		{"finished: a rule to skip it", inputs{pods: []*corev1.Pod{newPod("a", phased(corev1.PodFailed))}, options: Options{Rules: []Rule{rule(Skip, 0,
			"app")}}}, "evict a, a=Evicting"},
		{"of what is called a DaemonSet in another group", inputs{pods: []*corev1.Pod{newPod("a", owned("DaemonSet", "agent"),
			func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1" })}}, "evict a, a=Evicting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.input.decide().String(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func TestDecide_NoPodsLeft(t *testing.T) {
	for _, c := range []struct {
		name  string
		input inputs
		done  bool
		text  string
		wake  time.Duration
	}{
		{"nothing to wait for", inputs{}, true, "all pods have left", 0},
		{"the minimum time", inputs{options: Options{MinimumTime: time.Minute}, age: 20 * time.Second}, false, "awaited until 12:00:40Z", 40 * time.Second},
		{"the minimum time is over", inputs{options: Options{MinimumTime: time.Minute}, age: time.Minute}, true, "all pods have left", 0},
		{"volumes, not waited for", inputs{volumes: []string{"b"}}, true, "all pods have left", 0},
		{"volumes", inputs{options: Options{Volumes: true}, volumes: []string{"b", "a"}}, false, "2 volumes are still attached: a, b", 0},
		{"volumes, for a time", inputs{options: Options{Volumes: true, VolumesTimeout: time.Minute}, volumes: []string{"a"}, age: time.Second}, false,
			"a", 59 * time.Second},
		{"volumes, the time is over", inputs{options: Options{Volumes: true, VolumesTimeout: time.Minute}, volumes: []string{"a"}, age: time.Minute},
			true, "all", 0},
		{"volumes, when the drain took long", inputs{options: Options{Volumes: true, VolumesTimeout: time.Minute}, volumes: []string{"a"},
			age: time.Hour, emptied: 59 * time.Second}, false, "1 volumes are still attached: a", time.Second},
		{"volumes of an unreachable node", inputs{options: Options{Volumes: true, Unreachable: Ignore}, volumes: []string{"a"},
			ready: corev1.ConditionUnknown}, true, "all", 0},
		{"no pods left before the deadline", inputs{options: Options{Deadline: time.Minute}, age: time.Hour}, true, "all pods have left", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := c.input.decide().Report
			wake := time.Duration(0)
			if !report.Wake.IsZero() {
				wake = report.Wake.Sub(now)
			}
			if report.Done() != c.done || !strings.Contains(report.Text(), c.text) || wake != c.wake || report.DeadlineExceeded {
				t.Errorf("done %v, %q, wake %s, late %v", report.Done(), report.Text(), wake, report.DeadlineExceeded)
			}
		})
	}
}

// TestDecide_OutOfService: the taint is asked for when the user says that an unreachable node is off, whatever blocks its drain.
func TestDecide_OutOfService(t *testing.T) {
	blocked, ending := []*corev1.Pod{newPod("a")}, []*corev1.Pod{newPod("a", ending(-time.Minute))}
	everything := newPod("a", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })
	for _, c := range []struct {
		name  string
		input inputs
		asked bool
		text  string
		wake  time.Duration
	}{
		{"blocked by a budget", inputs{pods: blocked, unknown: time.Minute, age: time.Second}, true, "1 pod left", resync},
		{"not unreachable for long", inputs{pods: blocked, unknown: 20 * time.Second, age: time.Second}, false, "1 pod left", resync},
		{"not for long, nearly", inputs{pods: blocked, unknown: 50 * time.Second, age: time.Second}, false, "1 pod left", 10 * time.Second},
		{"a pod past its grace period", inputs{pods: ending, age: time.Second}, true, "1 on an unreachable node", time.Minute},
		{"a pod that tolerates the taint", inputs{pods: []*corev1.Pod{everything}, unknown: time.Hour, age: time.Second}, true,
			"1 on an unreachable node", 0},
		{"reachable", inputs{pods: blocked, unknown: time.Hour, ready: corev1.ConditionTrue, age: time.Second}, false, "1 pod left", resync},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.input.options.Unreachable, c.input.budgets = OutOfService, []*policyv1.PodDisruptionBudget{newBudget()}
			if c.input.ready == "" {
				c.input.ready = corev1.ConditionUnknown
			}
			decision := c.input.decide()
			report := decision.Report
			if c.name == "a pod that tolerates the taint" && len(decision.Tasks) != 1 {
				t.Error("it is not evicted, so that its owner does not replace it")
			}
			if wake := max(report.Wake.Sub(now), 0); report.OutOfService != c.asked || !strings.Contains(report.Text(), c.text) || wake != c.wake {
				t.Errorf("asked for: %t, %s, wake %s", report.OutOfService, report.Text(), wake)
			}
		})
	}
}

// TestDecide_RuleWithoutBehavior: the pods of a rule that only has an order are evicted in that order, not skipped.
func TestDecide_RuleWithoutBehavior(t *testing.T) {
	s := inputs{
		pods: []*corev1.Pod{newPod("a", labelled("last", "1")), newPod("b")}, options: Options{Rules: []Rule{newRule(t, "", 7, "last")}},
	}
	if got := s.decide().String(); got != "evict b, a=Turn, b=Evicting" {
		t.Errorf("with pods of both groups: %s", got)
	}
	s.pods = s.pods[:1]
	if got := s.decide().String(); got != "evict a, a=Evicting" {
		t.Errorf("with pods of the last group: %s", got)
	}
}

// TestDecide_Taints: a drain for taints concerns the pods that Kubernetes would delete for them. It does not evict pods of DaemonSets, but names
// them.
func TestDecide_Taints(t *testing.T) {
	batch := corev1.Taint{Key: "batch", Value: "1", Effect: corev1.TaintEffectNoExecute}
	gpu := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoExecute}
	tolerating := func(tolerations ...corev1.Toleration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
	}
	all := corev1.Toleration{Operator: corev1.TolerationOpExists}
	toBatch := corev1.Toleration{Key: "batch", Value: "1", Effect: corev1.TaintEffectNoExecute}
	forAMinute := corev1.Toleration{Key: "batch", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(60))}
	for _, c := range []struct {
		name       string
		pod        *corev1.Pod
		taints     []corev1.Taint
		want, lost string
	}{
		{"tolerates none", newPod("a"), []corev1.Taint{batch}, "evict a, a=Evicting", ""},
		{"tolerates it", newPod("a", tolerating(toBatch)), []corev1.Taint{batch}, "exempt 1 tolerating, done", ""},
		{"tolerates one of two", newPod("a", tolerating(toBatch)), []corev1.Taint{batch, gpu}, "evict a, a=Evicting", ""},
		{"tolerates all", newPod("a", tolerating(all)), []corev1.Taint{batch, gpu}, "exempt 1 tolerating, done", ""},
		{"tolerates it for a time", newPod("a", tolerating(forAMinute)), []corev1.Taint{batch}, "evict a, a=Evicting", ""},
		{"finished", newPod("a", phased(corev1.PodSucceeded)), []corev1.Taint{batch}, "exempt 1 tolerating, done", ""},
		{"of a DaemonSet", newPod("a", owned("DaemonSet", "agent")), []corev1.Taint{batch}, "exempt 1 DaemonSet, done", "shop/a"},
		{"of a DaemonSet, and tolerates it", newPod("a", owned("DaemonSet", "agent"), tolerating(toBatch)), []corev1.Taint{batch},
			"exempt 1 tolerating, done", ""},
		{"of a DaemonSet, in a drain of all pods", newPod("a", owned("DaemonSet", "agent")), nil, "exempt 1 DaemonSet, done", ""},
		{"static", newPod("a", annotated(AnnotationMirror, "x")), []corev1.Taint{batch}, "exempt 1 static, done", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := inputs{pods: []*corev1.Pod{c.pod}, options: Options{Taints: c.taints}}
			got := s.decide()
			if lost := strings.Join(got.Report.Lost, " "); got.String() != c.want || lost != c.lost {
				t.Errorf("%s, lost %q; want %s, %q", got, lost, c.want, c.lost)
			}
		})
	}
}

// TestDecide_NodeWithoutReadyCondition: a node whose kubelet has never reported is not known to be unreachable, and its pods are waited for.
func TestDecide_NodeWithoutReadyCondition(t *testing.T) {
	in := Input{
		Node: &corev1.Node{}, Pods: []*corev1.Pod{newPod("a", ending(-time.Minute))}, Options: Options{Unreachable: Ignore}, Since: now, Now: now,
		DaemonSetExists: func(types.NamespacedName) bool { return false },
	}
	if got := Decide(in).String(); got != "a=Overdue" {
		t.Errorf("%s, want a=Overdue", got)
	}
}

// TestDecide_Preview: for a node that is not cordoned yet, no time counts: neither a deadline nor the wait for volumes has begun.
func TestDecide_Preview(t *testing.T) {
	in := Input{
		Node: &corev1.Node{}, Attached: []string{"v"}, Now: now,
		Options: Options{Deadline: time.Minute, Force: true, MinimumTime: time.Minute, Volumes: true},
	}
	if got := Decide(in); !got.Report.Done() || !got.Report.Wake.IsZero() || got.Report.DeadlineExceeded {
		t.Errorf("without pods: %s, %+v", got, got.Report)
	}
	in.Pods = []*corev1.Pod{newPod("a")}
	in.Budgets = func(*corev1.Pod) []*policyv1.PodDisruptionBudget { return nil }
	in.LastAnswer = func(types.UID) (Answer, bool) { return Answer{}, false }
	in.DaemonSetExists = func(types.NamespacedName) bool { return false }
	if got := Decide(in); got.String() != "evict a, a=Evicting" || !got.Report.Wake.IsZero() || got.Report.DeadlineExceeded {
		t.Errorf("with a pod: %s, %+v", got, got.Report)
	}
}
