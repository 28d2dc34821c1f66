package drain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// created sets when a pod was created.
func created(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{Time: now.Add(-ago)} }
}

func withClaim(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
}

func tolerating(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
	}
}

// TestDecide_PodsReturn: a pod that its owner puts on the cordoned node again is not evicted in a loop.
func TestDecide_PodsReturn(t *testing.T) {
	cordon, guarded := tolerating(corev1.TaintNodeUnschedulable), Options{Taints: []corev1.Taint{{Key: "batch", Effect: corev1.TaintEffectNoExecute}}}
	unowned := func(p *corev1.Pod) { p.OwnerReferences = nil }
	const owner = "ReplicaSet shop/web"
	for _, c := range []struct {
		name      string
		pod       *corev1.Pod
		options   Options
		want      string
		returning string
		wake      time.Duration
	}{
		{"from before the cordon", newPod("a", cordon, created(time.Hour)), Options{}, "evict a, a=Evicting", "", resync},
		{"tolerates the cordon", newPod("a", cordon, created(time.Minute)), Options{}, "exempt 1 returned, done", owner, 0},
		{"tolerates everything", newPod("a", tolerating(""), created(time.Minute)), Options{}, "exempt 1 returned, done", owner, 0},
		{"tolerates the cordon, and is to stay away", newPod("a", cordon, created(time.Minute)), Options{Returning: LeaveNone}, "a=PodsReturn", owner,
			resync},
		{"tolerates something else", newPod("a", tolerating("x"), created(time.Minute)), Options{}, "a=PodsReturn", owner, resync},
		{"any may return", newPod("a", created(time.Minute)), Options{Returning: LeaveAll}, "exempt 1 returned, done", "", 0},
		{"is evicted after as long as it took to return", newPod("a", created(5*time.Minute)), Options{}, "evict a, a=Evicting", owner, resync},
		{"was on its way", newPod("a", created(10*time.Minute-5*time.Second)), Options{}, "evict a, a=Evicting", "", resync},
		{"has no owner", newPod("a", unowned, created(time.Minute)), Options{}, "evict a, a=Evicting", "", resync},
		{"has finished", newPod("a", cordon, phased(corev1.PodFailed), created(time.Minute)), Options{}, "evict a, a=Evicting", "", resync},
		{"is terminating", newPod("a", cordon, created(time.Minute), ending(time.Second)), Options{}, "a=Terminating", "", 2 * time.Second},
		{"a taint deletes it", newPod("a", cordon, created(time.Minute)), guarded, "a=PodsReturn", "", resync},
		{"has a volume, which would stay attached", newPod("a", cordon, withClaim, created(time.Minute)), Options{}, "a=PodsReturn", owner, resync},
		{"is to finish first", newPod("a", cordon, created(time.Minute)), Options{Rules: []Rule{{Behavior: WaitCompleted}}}, "a=Completion", "",
			resync},
		{"is protected", newPod("a", cordon, annotated(AnnotationKarpenter, "true"), created(time.Minute)), Options{Karpenter: true}, "a=DoNotDisrupt", "",
			resync},
		{"is skipped", newPod("a", created(time.Minute)), Options{Rules: []Rule{{Behavior: Skip}}}, "exempt 1 skipped, done", "", 0},
		{"is not deleted in a loop either", newPod("a", created(time.Minute)), Options{Force: true, Deadline: time.Minute}, "a=PodsReturn", owner, resync},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := inputs{pods: []*corev1.Pod{c.pod}, options: c.options, age: 10 * time.Minute}
			got := s.decide()
			wake := max(got.Report.Wake.Sub(now), 0)
			if got.String() != c.want || strings.Join(got.Report.Returning, " ") != c.returning || wake != c.wake {
				t.Errorf("%s, returning %s, wake %s; want %s, %s, %s", got, got.Report.Returning, wake, c.want, c.returning, c.wake)
			}
			if text := got.Report.Text(); strings.Contains(text, "pods of ReplicaSet shop/web come back to the cordoned node") != (c.returning != "") {
				t.Errorf("the text is %s", text)
			}
		})
	}
}

// TestDecide_PodsReturnBudget: a pod that has returned is not left to its fate when its budget does not allow its loss.
func TestDecide_PodsReturnBudget(t *testing.T) {
	s := inputs{
		pods: []*corev1.Pod{newPod("a", tolerating(""), created(time.Minute))}, budgets: []*policyv1.PodDisruptionBudget{newBudget()},
		age: 10 * time.Minute,
	}
	if got := s.decide().String(); got != "a=PodsReturn" {
		t.Errorf("in its delay: %s", got)
	}
	s.pods[0].CreationTimestamp = metav1.Time{Time: now.Add(-5 * time.Minute)}
	if got := s.decide().String(); got != "evict a, a=Budget" {
		t.Errorf("after its delay: %s", got)
	}
}

// TestDecide_PodsReturnOrder: a pod that is left in peace for a while does not hold up pods of higher groups.
func TestDecide_PodsReturnOrder(t *testing.T) {
	s := inputs{
		pods: []*corev1.Pod{newPod("a", priority(1), created(time.Minute)), newPod("b", priority(5), created(time.Hour))},
		age:  10 * time.Minute, options: Options{ByPriority: true},
	}
	if got := s.decide().String(); got != "evict b, a=PodsReturn, b=Evicting" {
		t.Error(got)
	}
}

// TestDecide_PodsReturnLessAndLess: an owner whose pods return at once has few of them evicted.
func TestDecide_PodsReturnLessAndLess(t *testing.T) {
	evictions, pod := 0, newPod("a", created(time.Minute))
	for second := range 3600 {
		at := now.Add(time.Duration(second) * time.Second)
		decision := Decide(Input{
			Node: &corev1.Node{}, Pods: []*corev1.Pod{pod}, Since: now, Now: at,
			Budgets: noBudgets, DaemonSetExists: noDaemonSets, LastAnswer: noAnswers,
		})
		if len(decision.Tasks) > 0 {
			evictions++
			pod.CreationTimestamp = metav1.Time{Time: at.Add(time.Second)}
		}
	}
	if evictions < 10 || evictions > 20 {
		t.Errorf("%d evictions in an hour", evictions)
	}
}

// TestDecide_MayReturn: before the cordon, the owners are named whose pods it will not keep away.
func TestDecide_MayReturn(t *testing.T) {
	decision := Decide(Input{
		Node: &corev1.Node{}, Now: now, Budgets: noBudgets, DaemonSetExists: func(key types.NamespacedName) bool { return key.Name == "agent" },
		Pods: []*corev1.Pod{
			newPod("a", tolerating("")), newPod("b", tolerating("x")), newPod("c", tolerating(""), owned("DaemonSet", "agent")),
			newPod("d", tolerating(corev1.TaintNodeUnschedulable), owned("Job", "x")),
		},
		LastAnswer: noAnswers,
	})
	if got := strings.Join(decision.Report.MayReturn, ", "); got != "Job shop/x, ReplicaSet shop/web" {
		t.Error(got)
	}
}

func noBudgets(*corev1.Pod) []*policyv1.PodDisruptionBudget { return nil }

func noDaemonSets(types.NamespacedName) bool { return false }

func noAnswers(types.UID) (Answer, bool) { return Answer{}, false }
