package plan

import (
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
)

const (
	// defaultStartupTimeout is the default of the CRD for spec.nodeStartupTimeout; objects that are older than it have no value.
	defaultStartupTimeout = 10 * time.Minute
	// Slack is added to the time of every recheck: the times of the API are whole seconds.
	Slack = time.Second
)

// Health is how healthy a Machine is.
type Health string

// Only Healthy counts as healthy. The last four need remediation.
const (
	Healthy Health = "Healthy"
	// UnderRepair: the Node is healthy, but the bare metal operator has not removed ExternalAnnotation yet.
	UnderRepair Health = "UnderRepair"
	Deleting    Health = "Deleting"
	// Starting: there is no Node yet, and the startup timeout has not passed.
	Starting Health = "Starting"
	// StartingUntimed: there is no Node, and the startup timeout is disabled.
	StartingUntimed Health = "StartingUntimed"
	// Degraded: a condition of the Node is unhealthy, but has not been for the timeout.
	Degraded Health = "Degraded"

	// NodeStartupTimedOut: there has been no Node for the startup timeout.
	NodeStartupTimedOut Health = "NoNode"
	// Failed: the Machine is in the phase Failed.
	Failed Health = "Failed"
	// NodeNotFound: the Node of the Machine does not exist any more.
	NodeNotFound Health = "NodeGone"
	// Unhealthy: a condition of the Node has been unhealthy for its timeout.
	Unhealthy Health = "Unhealthy"
)

// NeedsRemediation reports whether a Machine of that health has to be remediated.
func (h Health) NeedsRemediation() bool {
	switch h {
	case NodeStartupTimedOut, Failed, NodeNotFound, Unhealthy:
		return true
	}
	return false
}

// Assessment is the health of one Machine.
type Assessment struct {
	Health Health
	// Message says why; empty for a healthy one.
	Message string
	// Since is when it became unhealthy, and Due is when it first needed remediation; zero where the cluster does not show it.
	Since, Due time.Time
	// Recheck is when the assessment changes without an event; zero for never.
	Recheck time.Time
}

// assess returns the health of one Machine. The first rule that matches counts.
func (in *Input) assess(t *Target) Assessment {
	switch {
	case t.Machine.DeletionTimestamp != nil || t.Deleted:
		return Assessment{Health: Deleting}
	case PhaseOf(t.Machine) == machinev1beta1.PhaseFailed:
		return Assessment{Health: Failed, Message: failureMessage(t.Machine)}
	case machineapi.NodeName(t.Machine) == "":
		return in.assessStart(t)
	case t.Node == nil:
		return Assessment{Health: NodeNotFound, Message: fmt.Sprintf("Node %s does not exist", machineapi.NodeName(t.Machine))}
	}
	a := in.assessNode(t.Node)
	if a.Health == Healthy && has(t.Machine, ExternalAnnotation) {
		a.Health = UnderRepair
	}
	return a
}

// NeedsRemediation reports whether a Machine of the input needs remediation if its Node is another one than the cache shows.
func (in *Input) NeedsRemediation(t *Target, node *corev1.Node) bool {
	changed := *t
	changed.Node = node
	return in.assess(&changed).Health.NeedsRemediation()
}

// assessStart returns the health of a Machine that has no Node. The timeout runs from the Machine's creation; in machine-api-operator, it runs from
// status.lastUpdated, which every write of the status changes. The timeout does not start before the Machine is provisioned: a replacement would have
// to wait for that, too.
func (in *Input) assessStart(t *Target) Assessment {
	timeout := startupTimeout(in.Check)
	if timeout <= 0 {
		return Assessment{Health: StartingUntimed}
	}
	if PhaseOf(t.Machine) == "" {
		return Assessment{Health: Starting}
	}
	since := t.Machine.CreationTimestamp.Time
	for _, later := range []time.Time{t.Unprovisioned, firstTransition(t.Machine)} {
		if later.After(since) {
			since = later
		}
	}
	end := since.Add(timeout)
	if end.Before(in.Now) {
		return Assessment{Health: NodeStartupTimedOut, Message: fmt.Sprintf("it has had no Node for %s", timeout), Since: since, Due: end}
	}
	return Assessment{Health: Starting, Recheck: end.Add(Slack)}
}

// firstTransition returns the oldest time in the Machine's conditions; zero for none. Some of them are written when provisioning begins and do not
// change after that, which a restart of the controller does not change either.
func firstTransition(machine *machinev1beta1.Machine) time.Time {
	first := time.Time{}
	for i := range machine.Status.Conditions {
		first = bounded.Earliest(first, machine.Status.Conditions[i].LastTransitionTime.Time)
	}
	return first
}

// assessNode looks for the conditions that make a Node unhealthy. A condition that the Node does not have matches nothing.
func (in *Input) assessNode(node *corev1.Node) Assessment {
	a := Assessment{Health: Healthy}
	for _, rule := range in.Check.Spec.UnhealthyConditions {
		for i := range node.Status.Conditions {
			condition := &node.Status.Conditions[i]
			if condition.Type != rule.Type || condition.Status != rule.Status {
				continue
			}
			since := condition.LastTransitionTime.Time
			end := since.Add(rule.Timeout.Duration)
			message := fmt.Sprintf("condition %s of Node %s has been %s since %s", rule.Type, node.Name, rule.Status, since.UTC().Format(time.RFC3339))
			if end.Before(in.Now) {
				return Assessment{Health: Unhealthy, Message: message, Since: since, Due: end}
			}
			if a.Health == Healthy {
				a.Health, a.Message, a.Since = Degraded, message, since
			}
			a.Recheck = bounded.Earliest(a.Recheck, end.Add(Slack))
		}
	}
	return a
}

// failureMessage returns why a Machine is in the phase Failed.
func failureMessage(machine *machinev1beta1.Machine) string {
	message := "its phase is " + machinev1beta1.PhaseFailed
	if machine.Status.ErrorMessage != nil && *machine.Status.ErrorMessage != "" {
		message += ": " + *machine.Status.ErrorMessage
	}
	return message
}

func startupTimeout(check *machinev1beta1.MachineHealthCheck) time.Duration {
	if check.Spec.NodeStartupTimeout == nil {
		return defaultStartupTimeout
	}
	return bounded.Duration(check.Spec.NodeStartupTimeout.Duration)
}

// PhaseOf returns the phase of a Machine; empty for none.
func PhaseOf(machine *machinev1beta1.Machine) string {
	if machine.Status.Phase == nil {
		return ""
	}
	return *machine.Status.Phase
}

// has reports whether an object has an annotation, whatever its value is.
func has(object metav1.Object, annotation string) bool {
	_, ok := object.GetAnnotations()[annotation]
	return ok
}
