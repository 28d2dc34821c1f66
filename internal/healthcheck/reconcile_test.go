package healthcheck

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/expectations"
)

const (
	statusC = "status MachineHealthCheck/c"
	rested  = "RemediationProgressing=True/NothingToRemediate"
)

func limit(text string) func(*machinev1beta1.MachineHealthCheck) {
	return func(c *machinev1beta1.MachineHealthCheck) { c.Spec.MaxUnhealthy = new(intstr.Parse(text)) }
}

// crew is the MachineHealthCheck c and Machines m0, m1, ... with their Nodes n-m0, n-m1, ..., as pool makes them.
func crew(kinds string, change ...func(*machinev1beta1.MachineHealthCheck)) []client.Object {
	objects := []client.Object{checkOf("c", change...)}
	for _, t := range pool(kinds) {
		objects = append(objects, t.machine)
		if t.node != nil {
			objects = append(objects, t.node)
		}
	}
	return objects
}

func TestOneMachineIsRemediated(t *testing.T) {
	s := newStage(t, Options{}, crew("uww")...)
	s.pass("c", "delete Machine/m0, "+statusC)
	s.expect("c", "3 2 2", "RemediationAllowed=True", rested, "SelectorExclusive=True/NoOverlap", "Paused=", "ExternalRemediationTemplateAvailable=")
	if got := s.deleted("m0", "m1", "m2"); got != "m0" {
		t.Errorf("deleted %s", got)
	}
	if got := s.told(); got != "Normal DetectedUnhealthy, Normal MachineDeleted" {
		t.Errorf("told %s", got)
	}
	if result := s.pass("c", ""); result.RequeueAfter != 0 {
		t.Errorf("at rest it looks again in %s", result.RequeueAfter)
	}
	// Its finalizer goes, and its owner makes a new one, which comes up.
	edit(s, machineOf("m0", ""), func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	for _, object := range []client.Object{machineOf("m3", "n-m3"), nodeOf("n-m3")} {
		if err := s.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	s.pass("c", statusC)
	s.expect("c", "3 3 3", "RemediationAllowed=True", rested)
	s.pass("c", "")
	if got := s.told(); got != "" {
		t.Errorf("told %s", got)
	}
	for name, got := range map[string]float64{
		"remediations": s.metric(remediatedDoc.Name, "c", namespace), "attempts": s.metric(attemptsDoc.Name, "deletion", "ok"),
		"delays": s.metric(delayDoc.Name),
	} {
		if got != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if s.metric(coveredDoc.Name, "c", namespace) != 3 || s.metric(shortCircuitDoc.Name, "c", namespace) != 0 {
		t.Error("three Machines are covered, and nothing is held back")
	}
}

// The conditions that brought 9.1's test of machine-health-check down to seconds: a condition of its own with a timeout of a second.
func TestATimeoutIsWaitedForAndNoLonger(t *testing.T) {
	custom := func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.UnhealthyConditions = []machinev1beta1.UnhealthyCondition{
			{Type: "MachineHealthCheckE2E", Status: corev1.ConditionTrue, Timeout: metav1.Duration{Duration: time.Second}},
		}
	}
	s := newStage(t, Options{}, crew("ww", custom, limit("1"))...)
	s.pass("c", statusC)
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: "MachineHealthCheckE2E", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now()),
		})
	})
	result := s.pass("c", statusC)
	s.expect("c", "2 1 0", rested)
	if result.RequeueAfter != 2*time.Second {
		t.Fatalf("looks again in %s", result.RequeueAfter)
	}
	if got := s.told(); got != "Normal DetectedUnhealthy" {
		t.Errorf("told %s", got)
	}
	s.later(result.RequeueAfter)
	s.pass("c", "delete Machine/m0")
	if got := s.told(); got != "Normal MachineDeleted" {
		t.Errorf("told %s", got)
	}
}

func TestANodeRecoversInTime(t *testing.T) {
	s := newStage(t, Options{}, crew("sw")...)
	result := s.pass("c", statusC)
	s.expect("c", "2 1 1", rested)
	if result.RequeueAfter != 4*time.Minute+slack {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	if result := s.pass("c", statusC); result.RequeueAfter != 0 {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "2 2 2", rested)
	// It is news when it happens again.
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.pass("c", statusC)
	if got := s.told(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy" {
		t.Errorf("told %s", got)
	}
}

// The incumbent comes back every millisecond, with a write and an event each time (spec 11.1).
func TestOverTheLimitItSleeps(t *testing.T) {
	s := newStage(t, Options{}, crew("uuusw", limit("40%"))...)
	result := s.pass("c", statusC)
	s.expect("c", "5 1 0", "RemediationAllowed=False/TooManyUnhealthy", "RemediationProgressing=False/TooManyUnhealthy")
	if want := "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy " +
		"(total: 5, unhealthy: 4, maxUnhealthy: 40%)"; s.message("c", machinev1beta1.RemediationAllowedCondition) != want {
		t.Errorf("%s", s.message("c", machinev1beta1.RemediationAllowedCondition))
	}
	if got := s.told(); !strings.HasSuffix(got, "Warning RemediationRestricted") || strings.Count(got, "Restricted") != 1 {
		t.Errorf("told %s", got)
	}
	if s.metric(shortCircuitDoc.Name, "c", namespace) != 1 {
		t.Error("the gauge does not show it")
	}
	for range 5 {
		if result.RequeueAfter != 4*time.Minute+slack {
			t.Fatalf("looks again in %s", result.RequeueAfter)
		}
		result = s.pass("c", "")
	}
	s.later(result.RequeueAfter)
	if result = s.pass("c", ""); result.RequeueAfter != 0 {
		t.Errorf("time changes nothing any more, and it looks again in %s", result.RequeueAfter)
	}
	if got := s.told(); got != "" {
		t.Errorf("told %s", got)
	}
	// Once in a while a pass that takes place anyway reminds of it.
	s.later(time.Minute)
	s.pass("c", "")
	s.pass("c", "")
	if got := s.told(); got != "Warning RemediationRestricted" {
		t.Errorf("told %s", got)
	}
	for _, node := range []string{"n-m0", "n-m1", "n-m3"} {
		edit(s, nodeOf(node), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	}
	s.pass("c", "delete Machine/m2, "+statusC)
	s.expect("c", "5 4 1", "RemediationAllowed=True", rested)
	if s.metric(shortCircuitDoc.Name, "c", namespace) != 0 {
		t.Error("the gauge does not show that it is over")
	}
}

func TestALimitThatCannotBeRead(t *testing.T) {
	s := newStage(t, Options{}, crew("uw", limit("99999999999999999999"))...)
	if result := s.pass("c", statusC); result.RequeueAfter != 0 {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "2 1 0", "RemediationAllowed=False/InvalidMaxUnhealthy", "RemediationProgressing=False/InvalidMaxUnhealthy")
	s.pass("c", "")
}

func TestASelectorThatCannotBeRead(t *testing.T) {
	s := newStage(t, Options{}, crew("uw", func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like", Values: []string{"a"}}}
	})...)
	s.pass("c", statusC)
	s.expect("c", "0 0 0", "RemediationAllowed=False/InvalidSelector")
	s.pass("c", "")
}

func TestSelectors(t *testing.T) {
	elsewhere := machineOf("m9", "n-m0")
	elsewhere.Namespace = "other"
	for name, c := range map[string]struct {
		selector metav1.LabelSelector
		want     string
	}{
		"labels":             {metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}, "1"},
		"other labels":       {metav1.LabelSelector{MatchLabels: map[string]string{"pool": "c"}}, "0"},
		"empty: all of them": {metav1.LabelSelector{}, "2"},
		"an expression": {metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}},
		}}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := crew("w", func(check *machinev1beta1.MachineHealthCheck) { check.Spec.Selector = c.selector })
			other := machineOf("m1", "n-m0", func(m *machinev1beta1.Machine) { m.Labels["pool"] = "b" })
			s := newStage(t, Options{}, append(objects, other, elsewhere.DeepCopy())...)
			s.pass("c", statusC)
			s.expect("c", fmt.Sprintf("%[1]s %[1]s %[1]s", c.want))
		})
	}
}

// The next one is deleted when the cache shows the one before, and everything is counted anew for it.
func TestRemediationsArePaced(t *testing.T) {
	s := newStage(t, Options{}, crew("uuuww")...)
	s.stop()
	if result := s.pass("c", "delete Machine/m0, "+statusC); result.RequeueAfter != catchUp {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.goOn()
	s.expect("c", "5 2 2", "RemediationProgressing=True/Remediating")
	s.stop()
	s.pass("c", "delete Machine/m1")
	for range 3 {
		s.pass("c", "")
	}
	s.goOn()
	s.pass("c", "delete Machine/m2, "+statusC)
	s.expect("c", "5 2 2", rested)
	s.pass("c", "")
}

func TestSeveralInFlight(t *testing.T) {
	s := newStage(t, Options{MaxInFlight: 3}, crew("uuuuuww")...)
	s.stop()
	s.pass("c", "delete Machine/m0, delete Machine/m1, delete Machine/m2, "+statusC)
	s.goOn()
	s.pass("c", "delete Machine/m3, delete Machine/m4, "+statusC)
	s.pass("c", "")
}

// A deletion that the cache does not show for long holds the next one back as long as the API server says that it stands.
func TestReconcile_DeletionThatTheCacheDoesNotShowForLong(t *testing.T) {
	s := newStage(t, Options{}, crew("uuw")...)
	s.stop()
	s.pass("c", "delete Machine/m0, "+statusC)
	s.versions.Forget("uid-of-c")
	for range 4 {
		s.later(time.Minute)
		if _, writes, err := s.try("c"); err != nil || strings.Contains(writes, "delete") {
			t.Fatalf("error %v, wrote %q", err, writes)
		}
	}
	s.goOn()
	s.pass("c", "delete Machine/m1, "+statusC)
}

func TestTheBudgetIsLookedAtBeforeEachRemediation(t *testing.T) {
	s := newStage(t, Options{}, crew("uuwwww", limit("2"))...)
	s.pass("c", "delete Machine/m0, "+statusC)
	edit(s, nodeOf("n-m2"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.pass("c", statusC)
	s.expect("c", "6 3 0", "RemediationAllowed=False/TooManyUnhealthy")
	if got := s.deleted("m0", "m1", "m2"); got != "m0" {
		t.Errorf("deleted %s", got)
	}
}

// The Node's arrival in the cache comes after the link to it, because nothing orders the two.
func TestANodeThatIsNotInTheCacheIsNotGone(t *testing.T) {
	s := newStage(t, Options{}, checkOf("c"), machineOf("m0", "n-m0"))
	s.stop()
	if err := s.client.Create(t.Context(), nodeOf("n-m0")); err != nil {
		t.Fatal(err)
	}
	if result := s.pass("c", statusC); result.RequeueAfter != catchUp {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.goOn()
	s.pass("c", statusC)
	s.expect("c", "1 1 1", rested)
	if err := s.client.Delete(t.Context(), nodeOf("n-m0")); err != nil {
		t.Fatal(err)
	}
	s.pass("c", "delete Machine/m0, "+statusC)
}

// The first list after a restart may be of a Node that was ill, and is no more.
func TestANodeThatIsWellAgainIsNoReason(t *testing.T) {
	s := newStage(t, Options{}, crew("uw")...)
	s.stop()
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	if result := s.pass("c", statusC); result.RequeueAfter != catchUp {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.goOn()
	s.pass("c", statusC)
	s.expect("c", "2 2 2", rested)
}

func TestAMachineThatChangedIsNotDeleted(t *testing.T) {
	s := newStage(t, Options{}, crew("nw")...)
	s.stop()
	edit(s, machineOf("m0", ""), func(m *machinev1beta1.Machine) {
		m.Status.NodeRef = &corev1.ObjectReference{Name: "n-m1"}
	})
	if result := s.pass("c", "delete Machine/m0, "+statusC); result.RequeueAfter != retryStale {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.goOn()
	s.pass("c", statusC)
	s.expect("c", "2 2 2", rested)
	if got := s.deleted("m0"); got != "" {
		t.Errorf("deleted %s", got)
	}
	if got := s.metric(attemptsDoc.Name, "deletion", "conflict"); got != 1 {
		t.Errorf("%v conflicts", got)
	}
}

func TestAnswersToADeletion(t *testing.T) {
	machines := schema.GroupResource{Group: "machine.openshift.io", Resource: "machines"}
	for name, c := range map[string]struct {
		err      error
		fails    bool
		after    [2]time.Duration
		told     string
		progress string
	}{
		"forbidden": {
			apierrors.NewForbidden(machines, "m0", errors.New("no")), false, [2]time.Duration{retryDenied, retryDenied},
			", Warning MachineDeletionFailed", "False/RemediationFailed",
		},
		"an error": {
			apierrors.NewInternalError(errors.New("etcd")), true, [2]time.Duration{}, ", Warning MachineDeletionFailed", "False/RemediationFailed",
		},
		"gone": {apierrors.NewNotFound(machines, "m0"), false, [2]time.Duration{catchUp, catchUp}, "", "True/NothingToRemediate"},
		"conflict": {
			apierrors.NewConflict(machines, "m0", errors.New("changed")), false, [2]time.Duration{retryStale, 2 * retryStale}, "",
			"True/NothingToRemediate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{}, crew("uw")...)
			s.fail["delete Machine"] = c.err
			for i, want := range []string{"delete Machine/m0, " + statusC, "delete Machine/m0"} {
				result, writes, err := s.try("c")
				if writes != want || (err != nil) != c.fails || result.RequeueAfter != c.after[i] {
					t.Errorf("pass %d: wrote %s, error %v, looks again in %s", i, writes, err, result.RequeueAfter)
				}
			}
			s.expect("c", "2 1 1", "RemediationProgressing="+c.progress)
			if got := s.told(); got != "Normal DetectedUnhealthy"+c.told {
				t.Errorf("told %s", got)
			}
			delete(s.fail, "delete Machine")
			s.rest("c")
			s.expect("c", "2 1 1", rested)
		})
	}
}

// One Machine that cannot be deleted is no reason not to go on with the others.
func TestATroubleStopsNobodyElse(t *testing.T) {
	s := newStage(t, Options{}, crew("uuw")...)
	s.fail["delete Machine"] = apierrors.NewInternalError(errors.New("etcd"))
	if _, writes, err := s.try("c"); err == nil || writes != "delete Machine/m0, delete Machine/m1, "+statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
}

func TestItWaitsForTheCache(t *testing.T) {
	s := newStage(t, Options{}, crew("uw")...)
	s.versions.Expect("uid-of-c", expectations.Write{Version: "100000"})
	if result := s.pass("c", ""); result.RequeueAfter != catchUp {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
}

func TestAStatusThatSomebodyElseWrote(t *testing.T) {
	s := newStage(t, Options{}, crew("ww")...)
	s.stop()
	edit(s, checkOf("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Labels = map[string]string{"x": "y"} })
	if result := s.pass("c", statusC); result.RequeueAfter != retryStale {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.goOn()
	s.pass("c", statusC)
	s.pass("c", "")
}
