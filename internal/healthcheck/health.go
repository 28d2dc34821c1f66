package healthcheck

import (
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bounded"
)

const (
	// defaultStartup is the start-up timeout that the CRD fills in; objects from before that have none.
	defaultStartup = 10 * time.Minute
	// slack is added to every moment of a next look: the times of the API are whole seconds.
	slack = time.Second
)

// finding is what a MachineHealthCheck makes of one Machine.
type finding string

const (
	foundHealthy finding = "Healthy"
	// foundRepairing: the Node is well, but somebody outside has not yet said that its repair is over.
	foundRepairing finding = "Repairing"
	foundDeleting  finding = "Deleting"
	// foundStarting: there is no Node yet, and time is left.
	foundStarting finding = "Starting"
	// foundUntimed: there is no Node, and the start-up timeout is off.
	foundUntimed finding = "Untimed"
	// foundSuspect: a condition of the Node is as it should not be, not yet for long enough.
	foundSuspect finding = "Suspect"

	// The rest are to be remediated.
	foundLate      finding = "NoNode"
	foundFailed    finding = "Failed"
	foundNodeGone  finding = "NodeGone"
	foundUnhealthy finding = "Unhealthy"
)

// due tells whether a Machine is to be remediated.
func (f finding) due() bool {
	switch f {
	case foundLate, foundFailed, foundNodeGone, foundUnhealthy:
		return true
	}
	return false
}

// target is a Machine that a MachineHealthCheck selects.
type target struct {
	machine *machinev1beta1.Machine
	// node is the one that status.nodeRef names, nil when there is none of that name.
	node *corev1.Node
	// leaving tells that Drover has deleted the Machine, and the cache does not show it yet.
	leaving bool
	// behind tells that the cache has not reached Drover's own last write of the Machine.
	behind bool
	// idle is when the Machine was last seen before anybody had begun to make it; zero for never.
	idle time.Time
	// elder is the MachineHealthCheck that acts on the Machine because it is older; empty for none.
	elder string
	// requested tells that there is an external remediation of the Machine.
	requested bool
}

// verdict is what one look at one Machine came to.
type verdict struct {
	finding finding
	// text says why, for people; empty for a healthy one.
	text string
	// since is when what is wrong began, as far as the cluster tells.
	since time.Time
	// dueAt is when the Machine came to be remediated, as far as the cluster tells.
	dueAt time.Time
	// recheck is when time alone may change the verdict; zero for never.
	recheck time.Time
}

// judge says how one Machine is. The first rule that fires counts.
func (in *input) judge(t *target) verdict {
	switch {
	case t.machine.DeletionTimestamp != nil || t.leaving:
		return verdict{finding: foundDeleting}
	case phaseOf(t.machine) == machinev1beta1.PhaseFailed:
		return verdict{finding: foundFailed, text: failure(t.machine)}
	case nodeName(t.machine) == "":
		return in.judgeStart(t)
	case t.node == nil:
		return verdict{finding: foundNodeGone, text: fmt.Sprintf("node %s is gone", nodeName(t.machine))}
	}
	v := in.judgeNode(t.node)
	if v.finding == foundHealthy && has(t.machine, AnnotationExternal) {
		v.finding = foundRepairing
	}
	return v
}

// judgeStart looks at a Machine that has no Node. The clock runs from its creation: the incumbent's runs from status.lastUpdated, which
// every writer of the status moves. It does not run while nobody has begun to make the Machine: a new one would not fare better.
func (in *input) judgeStart(t *target) verdict {
	timeout := startupTimeout(in.check)
	if timeout <= 0 {
		return verdict{finding: foundUntimed}
	}
	if phaseOf(t.machine) == "" {
		return verdict{finding: foundStarting}
	}
	begun := t.machine.CreationTimestamp.Time
	for _, later := range []time.Time{t.idle, firstSaid(t.machine)} {
		if later.After(begun) {
			begun = later
		}
	}
	end := begun.Add(timeout)
	if end.Before(in.now) {
		return verdict{
			finding: foundLate, text: fmt.Sprintf("it has had no node for %s", timeout), since: begun, dueAt: end,
		}
	}
	return verdict{finding: foundStarting, recheck: end.Add(slack)}
}

// firstSaid is the oldest time in the Machine's conditions: some of them are written when somebody begins to make it, and change no more. That
// holds over a restart, too. Zero for none.
func firstSaid(machine *machinev1beta1.Machine) time.Time {
	first := time.Time{}
	for i := range machine.Status.Conditions {
		first = earliest(first, machine.Status.Conditions[i].LastTransitionTime.Time)
	}
	return first
}

// judgeNode looks for the conditions that make a Node unhealthy. One that the Node does not have matches nothing.
func (in *input) judgeNode(node *corev1.Node) verdict {
	v := verdict{finding: foundHealthy}
	for _, rule := range in.check.Spec.UnhealthyConditions {
		for i := range node.Status.Conditions {
			condition := &node.Status.Conditions[i]
			if condition.Type != rule.Type || condition.Status != rule.Status {
				continue
			}
			since := condition.LastTransitionTime.Time
			end := since.Add(rule.Timeout.Duration)
			text := fmt.Sprintf("condition %s of node %s is %s since %s", rule.Type, node.Name, rule.Status, since.UTC().Format(time.RFC3339))
			if end.Before(in.now) {
				return verdict{finding: foundUnhealthy, text: text, since: since, dueAt: end}
			}
			if v.finding == foundHealthy {
				v.finding, v.text, v.since = foundSuspect, text, since
			}
			v.recheck = earliest(v.recheck, end.Add(slack))
		}
	}
	return v
}

// failure is the cause that a Failed Machine gives.
func failure(machine *machinev1beta1.Machine) string {
	text := "its phase is " + machinev1beta1.PhaseFailed
	if machine.Status.ErrorMessage != nil && *machine.Status.ErrorMessage != "" {
		text += ": " + *machine.Status.ErrorMessage
	}
	return text
}

func startupTimeout(check *machinev1beta1.MachineHealthCheck) time.Duration {
	if check.Spec.NodeStartupTimeout == nil {
		return defaultStartup
	}
	return bounded.Duration(check.Spec.NodeStartupTimeout.Duration)
}

func phaseOf(machine *machinev1beta1.Machine) string {
	if machine.Status.Phase == nil {
		return ""
	}
	return *machine.Status.Phase
}

func nodeName(machine *machinev1beta1.Machine) string {
	if machine.Status.NodeRef == nil {
		return ""
	}
	return machine.Status.NodeRef.Name
}

// ownerOf is the UID of the controller, empty when nobody replaces the Machine.
func ownerOf(machine *machinev1beta1.Machine) types.UID {
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil {
		return owner.UID
	}
	return ""
}

// has tells whether an object has an annotation, with whatever value.
func has(object metav1.Object, annotation string) bool {
	_, ok := object.GetAnnotations()[annotation]
	return ok
}

// earliest is the first of two moments; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
