package healthcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/paused"
)

// Annotations that other programs know, those with drover.dev aside.
const (
	// AnnotationSkip and AnnotationSkipUpstream, with any value, on a Machine: it is not remediated, and counts as it is.
	AnnotationSkip         = "drover.dev/skip-remediation"
	AnnotationSkipUpstream = "cluster.x-k8s.io/skip-remediation"
	// AnnotationStrategy on a MachineHealthCheck with StrategyBareMetal hands Machines over by an annotation, instead of deleting them.
	AnnotationStrategy = "machine.openshift.io/remediation-strategy"
	StrategyBareMetal  = "external-baremetal"
	// AnnotationExternal, with any value, on a Machine: somebody outside remediates it, and takes the annotation away afterwards.
	AnnotationExternal = "host.metal3.io/external-remediation"
)

// means is how a Machine is remediated.
type means string

const (
	// byTemplate makes an object for somebody outside, from the template of the MachineHealthCheck.
	byTemplate means = "template"
	// byAnnotation marks the Machine for somebody outside.
	byAnnotation means = "annotation"
	// byDeletion deletes the Machine, so that its owner makes a new one.
	byDeletion means = "deletion"
)

// input is what a decision is made on. Nothing in it is changed.
type input struct {
	check   *machinev1beta1.MachineHealthCheck
	targets []target
	// rounds is what is remembered of the owners of Machines that failed while they started.
	rounds map[types.UID]round
	now    time.Time
}

// decision is what is to be done about the Machines of one MachineHealthCheck.
type decision struct {
	// verdicts has one for each target.
	verdicts []verdict
	// expected, healthy and unhealthy count Machines, limit is how many may be unhealthy.
	expected, healthy, unhealthy, limit int
	// limitError says why spec.maxUnhealthy cannot be read.
	limitError error
	// allowed tells whether remediations are.
	allowed bool
	// remedies are what can be begun now, in this order.
	remedies []remedy
	// obstacles are what keeps the other Machines from being remediated that should be.
	obstacles []obstacle
	// underway is how many Machines are in the hands of somebody outside.
	underway int
	// recovered are the owners whose Machines start again.
	recovered []types.UID
	// wake is when time alone may change the decision; zero for never.
	wake time.Time
}

// remedy is a remediation that can be begun.
type remedy struct {
	target  *target
	verdict verdict
	means   means
	// started tells that the Machine had come up before.
	started bool
	// known is what is known of its owner.
	known round
}

// obstacle is what keeps one Machine from being remediated.
type obstacle struct {
	machine         *machinev1beta1.Machine
	reason, message string
	// event is the reason of the event that tells of it; empty for the usual one.
	event string
	// retried tells that it is tried again, with back-off.
	retried bool
	// until is when it is over by itself; zero for not known.
	until time.Time
}

// decide judges all Machines, counts them, and picks those that can be remediated now.
func decide(in *input) decision {
	d := decision{verdicts: make([]verdict, len(in.targets)), expected: len(in.targets)}
	for i := range in.targets {
		v := in.judge(&in.targets[i])
		d.verdicts[i] = v
		d.wake = earliest(d.wake, v.recheck)
		if v.finding == foundHealthy {
			d.healthy++
		}
	}
	d.unhealthy = d.expected - d.healthy
	d.limit, d.limitError = maxUnhealthy(in.check.Spec.MaxUnhealthy, d.expected)
	d.allowed = d.limitError == nil && d.unhealthy <= d.limit
	var rounds map[types.UID]round
	rounds, d.recovered = in.history()
	if d.allowed {
		d.plan(in, rounds)
	}
	return d
}

// remediationsAllowed is how many more Machines may become unhealthy before nothing is done any more.
func (d *decision) remediationsAllowed() int { return max(0, d.limit-d.unhealthy) }

// plan sorts the Machines that are to be remediated into remedies, obstacles, and what is under way.
func (d *decision) plan(in *input, rounds map[types.UID]round) {
	for i := range in.targets {
		t, v := &in.targets[i], d.verdicts[i]
		if !v.finding.due() {
			continue
		}
		r := remedy{target: t, verdict: v, means: in.meansFor(t), started: in.started(t, v), known: rounds[ownerOf(t.machine)]}
		if r.underway() {
			d.underway++
			continue
		}
		o := r.obstacle(in.now)
		if o.reason == "" {
			d.remedies = append(d.remedies, r)
			continue
		}
		d.wake = earliest(d.wake, o.until)
		d.obstacles = append(d.obstacles, o)
	}
	slices.SortStableFunc(d.remedies, func(a, b remedy) int { return a.compare(&b) })
}

// meansFor says how a Machine is remediated. One that is Failed has no host that could be repaired.
func (in *input) meansFor(t *target) means {
	switch {
	case in.check.Spec.RemediationTemplate != nil:
		return byTemplate
	case in.check.Annotations[AnnotationStrategy] == StrategyBareMetal && phaseOf(t.machine) != machinev1beta1.PhaseFailed:
		return byAnnotation
	}
	return byDeletion
}

// underway tells whether the remediation has been begun, and is somebody else's to finish.
func (r *remedy) underway() bool {
	switch r.means {
	case byTemplate:
		return r.target.requested
	case byAnnotation:
		return r.target.behind || has(r.target.machine, AnnotationExternal)
	}
	return false
}

// obstacle says what keeps the Machine from being remediated; without a reason when nothing does.
func (r *remedy) obstacle(now time.Time) obstacle {
	machine := r.target.machine
	o := obstacle{machine: machine}
	authority := machine.Status.AuthoritativeAPI
	switch {
	case r.target.elder != "":
		o.reason, o.message = reasonElder, fmt.Sprintf("MachineHealthCheck %s is older and acts on it", r.target.elder)
	case authority == machinev1beta1.MachineAuthorityClusterAPI, authority == machinev1beta1.MachineAuthorityMigrating:
		o.reason, o.message = reasonAuthority, fmt.Sprintf("its AuthoritativeAPI status is '%s'", authority)
	case paused.By(machine) != "":
		o.reason, o.message = reasonMachinePaused, "it has the annotation "+paused.By(machine)
	case has(machine, AnnotationSkip):
		o.reason, o.message = reasonSkipped, "it has the annotation "+AnnotationSkip
	case has(machine, AnnotationSkipUpstream):
		o.reason, o.message = reasonSkipped, "it has the annotation "+AnnotationSkipUpstream
	case r.means != byDeletion:
	case ownerOf(machine) == "":
		o.reason, o.message = reasonNoController, "it has no controller that would replace it"
	default:
		if until := r.known.holds(r.started, machine.CreationTimestamp.Time); until.After(now) {
			o.reason, o.until = reasonBackoff, until
			o.message = fmt.Sprintf("replacements keep failing (%d times), waits until %s", r.known.failures, until.UTC().Format(time.RFC3339))
		}
	}
	return o
}

// compare puts those first that nothing can run on, then those that have waited for longest.
func (r *remedy) compare(other *remedy) int {
	rank := func(r *remedy) int {
		if r.target.node == nil {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(r), rank(other)), r.verdict.since.Compare(other.verdict.since),
		cmp.Compare(r.target.machine.Name, other.target.machine.Name))
}

// maxUnhealthy is how many of so many Machines may be unhealthy. Percentages are rounded down, less than none is none, and no value is
// all of them. A number may be written as a string.
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

// textOfLimit is spec.maxUnhealthy as it is written.
func textOfLimit(value *intstr.IntOrString) string {
	if value == nil {
		return "100%"
	}
	return value.String()
}
