// Package plan decides what a MachineHealthCheck does: how healthy each Machine is, whether so many may be remediated, which are next and
// how, why the others are not, and what the status says.
//
// It is pure: objects and the time go in, a Decision or a status comes out.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/bounded"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/undecodable"
)

// Annotations that the controller reads; it writes ExternalAnnotation.
const (
	// SkipAnnotation and ClusterAPISkipAnnotation exclude a Machine from remediation, whatever their value is. It counts all the same.
	SkipAnnotation           = "drover.dev/skip-remediation"
	ClusterAPISkipAnnotation = "cluster.x-k8s.io/skip-remediation"
	// StrategyAnnotation with the value BareMetalStrategy on a MachineHealthCheck: Machines are annotated for the bare metal operator, not deleted.
	StrategyAnnotation = "machine.openshift.io/remediation-strategy"
	BareMetalStrategy  = "external-baremetal"
	// ExternalAnnotation requests external remediation of a Machine, whatever its value is. The bare metal operator removes it afterwards.
	ExternalAnnotation = machineapi.ExternalAnnotation
)

// Method is how a Machine is remediated.
type Method string

// The methods.
const (
	// ByTemplate creates a remediation request from the template of the MachineHealthCheck.
	ByTemplate Method = "template"
	// ByAnnotation sets ExternalAnnotation.
	ByAnnotation Method = "annotation"
	// ByDeletion deletes the Machine, so that its owner creates a new one.
	ByDeletion Method = "deletion"
)

// Input is everything that Decide depends on. Decide does not change the objects.
type Input struct {
	Check *machinev1beta1.MachineHealthCheck
	// Checks are the MachineHealthChecks of the namespace; Check may be one of them.
	Checks []machinev1beta1.MachineHealthCheck
	// Targets are the Machines that the selector of Check matches.
	Targets []Target
	// Failures are the failed starts that the controller remembers, by owner.
	Failures map[types.UID]StartFailures
	// Limits apply to a MachineHealthCheck without annotations for them.
	Limits Limits
	// Now is the time of the decision.
	Now time.Time
}

// Target is a Machine that a MachineHealthCheck selects.
type Target struct {
	Machine *machinev1beta1.Machine
	// Node is the Node that status.nodeRef names; nil when it does not exist.
	Node *corev1.Node
	// Deleted reports that Drover has deleted the Machine, and the cache does not show it yet.
	Deleted bool
	// Stale reports that the cache does not show Drover's own last write of the Machine yet.
	Stale bool
	// Unprovisioned is when the Machine was last seen before its provisioning began; zero for never.
	Unprovisioned time.Time
	// OwnerProblem is why the MachineSet that would replace the Machine does nothing; empty if it works.
	OwnerProblem string
	// Requested reports that there is a remediation request for the Machine.
	Requested bool
}

// Decision is what the controller does about the Machines of one MachineHealthCheck.
type Decision struct {
	// SelectorError is why the selector is invalid; there are no Targets then.
	SelectorError error
	// Assessments has one for each target.
	Assessments []Assessment
	// Expected, Healthy and Unhealthy count Machines; Limit is how many may be unhealthy.
	Expected, Healthy, Unhealthy, Limit int
	// LimitError is why spec.maxUnhealthy is invalid, and LimitsError why an annotation that limits remediations is.
	LimitError, LimitsError error
	// Limits are the MachineHealthCheck's limits.
	Limits Limits
	// Allowed reports whether Machines may be remediated.
	Allowed bool
	// Remediations are the Machines that can be remediated now, in this order, as far as Limits let them: see WithinLimits.
	Remediations []Remediation
	// Blocked are the other Machines that need remediation.
	Blocked []Blocked
	// External is how many Machines are being remediated externally.
	External int
	// Overlaps are the other MachineHealthChecks that select some of the Machines.
	Overlaps []Overlap
	// Recovered are the owners whose Machines start again.
	Recovered []types.UID
	// Wake is when the decision changes without an event; zero for never.
	Wake time.Time

	now time.Time
	// limited is what PrepareLimits has found; nil where nothing is limited.
	limited *disruptionplan.Input
}

// Remediation is a remediation that can start.
type Remediation struct {
	*Target
	Assessment Assessment
	Method     Method
	// Started reports that the Machine had started before it became unhealthy.
	Started bool
	// Failures are the failed starts of its owner.
	Failures StartFailures
}

// Blocked is a Machine that needs remediation, and why it is not remediated.
type Blocked struct {
	Machine         *machinev1beta1.Machine
	Reason, Message string
	// Event is the reason of the event, if it differs from the default event of the Reason.
	Event string
	// Retried reports that the request may have been carried out, and is tried again with a backoff.
	Retried bool
	// Until is when it ends without an event; zero for unknown.
	Until time.Time
}

// Selector returns the selector of a MachineHealthCheck, or why it is invalid. An empty one matches all Machines of the namespace.
func Selector(check *machinev1beta1.MachineHealthCheck) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(&check.Spec.Selector)
}

// Decide assesses all Machines, counts them, and chooses the Machines that can be remediated now.
func Decide(in *Input) Decision {
	d := Decision{Assessments: make([]Assessment, len(in.Targets)), Expected: len(in.Targets), now: in.Now}
	for i := range in.Targets {
		a := in.assess(&in.Targets[i])
		d.Assessments[i] = a
		d.Wake = bounded.Earliest(d.Wake, a.Recheck)
		if a.Health == Healthy {
			d.Healthy++
		}
	}
	d.Unhealthy = d.Expected - d.Healthy
	d.Limit, d.LimitError = maxUnhealthy(in.Check.Spec.MaxUnhealthy, d.Expected)
	_, d.SelectorError = Selector(in.Check)
	d.Limits, d.LimitsError = limitsOf(in.Check, in.Limits)
	d.Allowed = d.SelectorError == nil && d.LimitError == nil && d.LimitsError == nil && d.Unhealthy <= d.Limit
	var older []string
	d.Overlaps, older = in.overlaps()
	var failures map[types.UID]StartFailures
	failures, d.Recovered = in.failures(d.Assessments)
	if d.Allowed {
		d.remediate(in, older, failures)
	}
	return d
}

// RemediationsAllowed returns how many more Machines may become unhealthy before none is remediated.
func (d *Decision) RemediationsAllowed() int { return max(0, d.Limit-d.Unhealthy) }

// NeedsRemediation reports whether any Machine does.
func (d *Decision) NeedsRemediation() bool {
	return slices.ContainsFunc(d.Assessments, func(a Assessment) bool { return a.Health.NeedsRemediation() })
}

// remediate sorts the Machines that need it: remediation can start, is under way, or is blocked. older has for each target the older
// MachineHealthCheck that selects it.
func (d *Decision) remediate(in *Input, older []string, failures map[types.UID]StartFailures) {
	for i := range in.Targets {
		t, a := &in.Targets[i], d.Assessments[i]
		if !a.Health.NeedsRemediation() {
			continue
		}
		r := Remediation{Target: t, Assessment: a, Method: in.method(t), Started: in.started(t, a), Failures: failures[machineapi.ControllerUID(t.Machine)]}
		if r.external() {
			d.External++
			continue
		}
		b := r.blocked(older[i], in.Now)
		if b.Reason == "" {
			d.Remediations = append(d.Remediations, r)
			continue
		}
		d.Wake = bounded.Earliest(d.Wake, b.Until)
		d.Blocked = append(d.Blocked, b)
	}
	slices.SortStableFunc(d.Remediations, compareUrgency)
}

// Fail has no remediation start because of an error.
func (d *Decision) Fail(err error) {
	for i := range d.Remediations {
		d.Blocked = append(d.Blocked, Blocked{Machine: d.Remediations[i].Machine, Reason: ReasonFailed, Message: err.Error(), Retried: true})
	}
	d.Remediations = nil
}

// method returns how a Machine is remediated. One in the phase Failed has no host that could be repaired.
func (in *Input) method(t *Target) Method {
	switch {
	case in.Check.Spec.RemediationTemplate != nil:
		return ByTemplate
	case in.Check.Annotations[StrategyAnnotation] == BareMetalStrategy && PhaseOf(t.Machine) != machinev1beta1.PhaseFailed:
		return ByAnnotation
	}
	return ByDeletion
}

// external reports whether external remediation has been requested already.
func (r *Remediation) external() bool {
	switch r.Method {
	case ByTemplate:
		return r.Requested
	case ByAnnotation:
		return r.Stale || has(r.Machine, ExternalAnnotation)
	}
	return false
}

// blocked returns why the Machine is not remediated now; without a reason when it is.
func (r *Remediation) blocked(older string, now time.Time) Blocked {
	b := Blocked{Machine: r.Machine}
	authority := r.Machine.Status.AuthoritativeAPI
	switch {
	case older != "":
		b.Reason, b.Message = ReasonOlderCheck, fmt.Sprintf("MachineHealthCheck %s is older and remediates it", older)
	case undecodable.ProblemOf(r.Machine) != "":
		b.Reason, b.Message = ReasonUndecodable, "it cannot be decoded: "+undecodable.ProblemOf(r.Machine)
	case authority == machinev1beta1.MachineAuthorityClusterAPI, authority == machinev1beta1.MachineAuthorityMigrating:
		b.Reason, b.Message = ReasonAuthority, fmt.Sprintf("its AuthoritativeAPI status is '%s'", authority)
	case paused.By(r.Machine) != "":
		b.Reason, b.Message = ReasonMachinePaused, "it has the annotation "+paused.By(r.Machine)
	case has(r.Machine, SkipAnnotation):
		b.Reason, b.Message = ReasonSkipped, "it has the annotation "+SkipAnnotation
	case has(r.Machine, ClusterAPISkipAnnotation):
		b.Reason, b.Message = ReasonSkipped, "it has the annotation "+ClusterAPISkipAnnotation
	case r.Method != ByDeletion:
	case r.OwnerProblem != "":
		b.Reason, b.Message = ReasonUndecodable, r.OwnerProblem
	case machineapi.ControllerUID(r.Machine) == "":
		b.Reason, b.Message = ReasonNoController, "it has no controller that would replace it"
	default:
		if until := r.Failures.until(r.Started, r.Machine.CreationTimestamp.Time); until.After(now) {
			b.Reason, b.Until = ReasonBackoff, until
			b.Message = fmt.Sprintf("replacements have failed %d times in a row; the next remediation is delayed until %s",
				r.Failures.Rounds, until.UTC().Format(time.RFC3339))
		}
	}
	return b
}

// compareUrgency puts Machines without a Node first, since no Pod can run on them, then the Machines that have been unhealthy for longest.
func compareUrgency(a, b Remediation) int {
	rank := func(r *Remediation) int {
		if r.Node == nil {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), a.Assessment.Since.Compare(b.Assessment.Since), cmp.Compare(a.Machine.Name, b.Machine.Name))
}

// maxUnhealthy returns how many of the expected Machines may be unhealthy. Percentages are rounded down, a negative number is zero, and no value
// is all of them. A number may be written as a string.
func maxUnhealthy(value *intstr.IntOrString, expected int) (int, error) {
	switch {
	case value == nil:
		return expected, nil
	case value.Type == intstr.Int:
		return max(0, int(value.IntVal)), nil
	}
	text, percent := strings.CutSuffix(value.StrVal, "%")
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("maxUnhealthy %q is neither a number nor a percentage", value.StrVal)
	}
	if percent {
		number = max(0, min(number, 100)) * expected / 100
	}
	return max(0, number), nil
}

// limitText returns spec.maxUnhealthy as it is written.
func limitText(value *intstr.IntOrString) string {
	if value == nil {
		return "100%"
	}
	return value.String()
}
