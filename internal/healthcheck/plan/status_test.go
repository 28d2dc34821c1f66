package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/paused"
)

// conditionsText returns the conditions of a status in short, with a minus for each that is False.
func conditionsText(status machinev1beta1.MachineHealthCheckStatus) string {
	var texts []string
	for _, c := range status.Conditions {
		sign := ""
		if c.Status == corev1.ConditionFalse {
			sign = "-"
		}
		texts = append(texts, sign+strings.TrimSuffix(string(c.Type)+"/"+c.Reason, "/"))
	}
	return strings.Join(texts, " ")
}

func TestStatus(t *testing.T) {
	const exclusive, allowed = "SelectorExclusive/NoOverlap", "RemediationAllowed"
	const tooMany = "-RemediationAllowed/TooManyUnhealthy"
	template := func(c *machinev1beta1.MachineHealthCheck) { c.Spec.RemediationTemplate = &corev1.ObjectReference{} }
	limit := func(text string) func(*machinev1beta1.MachineHealthCheck) {
		return func(c *machinev1beta1.MachineHealthCheck) { c.Spec.MaxUnhealthy = new(intstr.FromString(text)) }
	}
	blocked := Progress{Blocked: []Blocked{{Machine: newMachine("m0", ""), Reason: ReasonLease, Message: "m"}}}
	for name, c := range map[string]struct {
		machines string
		change   func(*machinev1beta1.MachineHealthCheck)
		progress Progress
		counts   string
		want     string
	}{
		"healthy":                {"ww", limit("1"), Progress{}, "2 2 1", allowed + " RemediationProgressing/NothingToRemediate " + exclusive},
		"started the last one":   {"uw", limit("1"), Progress{}, "2 1 0", allowed + " RemediationProgressing/NothingToRemediate " + exclusive},
		"some remain":            {"uw", limit("1"), Progress{Remaining: true}, "2 1 0", allowed + " RemediationProgressing/Remediating " + exclusive},
		"blocked when applied":   {"uw", limit("1"), blocked, "2 1 0", allowed + " -RemediationProgressing/LeaseHeldByOther " + exclusive},
		"not allowed":            {"uw", limit("0"), Progress{}, "2 1 0", tooMany + " -RemediationProgressing/TooManyUnhealthy " + exclusive},
		"not allowed, none need": {"yw", limit("0"), Progress{}, "2 1 0", tooMany + " RemediationProgressing/NothingToRemediate " + exclusive},
		"template not read": {"uw", template, Progress{RequestsListed: true}, "2 1 1",
			allowed + " RemediationProgressing/NothingToRemediate " + exclusive},
		"template read, requested": {"uw", template, Progress{TemplateRead: true, RequestsListed: true, Requested: true}, "2 1 1",
			"ExternalRemediationRequestAvailable ExternalRemediationTemplateAvailable " + allowed + " RemediationProgressing/Remediating " + exclusive},
		"template and requests fail": {"ww", template, Progress{TemplateFailure: TemplateFailure{ReasonNoTemplate, "a"}, RequestFailure: "b"}, "2 2 2",
			"-ExternalRemediationRequestAvailable/ExternalRemediationRequestCreationFailed " +
				"-ExternalRemediationTemplateAvailable/ExternalRemediationTemplateNotFound " +
				allowed + " RemediationProgressing/NothingToRemediate " + exclusive},
	} {
		t.Run(name, func(t *testing.T) {
			in := &Input{Check: newCheck("c", c.change), Targets: newTargets(c.machines), Now: start}
			d := Decide(in)
			after := Status(in, &d, &c.progress)
			if got := fmt.Sprint(*after.ExpectedMachines, *after.CurrentHealthy, after.RemediationsAllowed); got != c.counts {
				t.Errorf("counts %s, want %s", got, c.counts)
			}
			if got := conditionsText(after); got != c.want {
				t.Errorf("conditions\n%s, want\n%s", got, c.want)
			}
			in.Check.Status, in.Now = after, start.Add(time.Second)
			if again := Status(in, &d, &c.progress); conditionsText(again) != c.want || len(again.Conditions) > 0 &&
				!again.Conditions[0].LastTransitionTime.Equal(&metav1.Time{Time: start}) {
				t.Errorf("the second status is another one: %+v", again)
			}
		})
	}
}

func TestPausedStatus_KeepsTheRest(t *testing.T) {
	in := &Input{Check: newCheck("c"), Targets: newTargets("ww"), Now: start}
	d := Decide(in)
	in.Check.Status = Status(in, &d, &Progress{})
	in.Check.Annotations = map[string]string{paused.Annotation: ""}
	after := PausedStatus(in.Check, start)
	if want := "Paused/PausedByAnnotation " + conditionsText(in.Check.Status); conditionsText(after) != want || *after.ExpectedMachines != 2 {
		t.Errorf("%s, want %s", conditionsText(after), want)
	}
}
