package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// CreateError is the errorReason of a MachineSet whose Machines are valid and cannot be created.
const CreateError machinev1beta1.MachineSetStatusError = ReasonCreateError

const (
	// maxSelector is how long status.labelSelector may be; the API server rejects a status with a longer one.
	maxSelector = 4096
	// maxNamed is how many Machines a message names, maxText how many bytes it has about each.
	maxNamed, maxText = 3, 200
)

// Counts are the numbers of a MachineSet's status.
type Counts struct {
	Replicas, FullyLabelled, Ready, Available int32
	// Unlinked counts the Machines without a Node. Failed are the names and errors of the Machines that have failed.
	Unlinked int32
	Failed   []string
}

// Count counts members. It leaves out the members that without returns true for.
func Count(members []Member, without func(*machinev1beta1.Machine) bool, now time.Time) Counts {
	var c Counts
	for i := range members {
		m := &members[i]
		if without(m.Machine) {
			continue
		}
		c.Replicas++
		c.FullyLabelled += count(m.Labelled)
		c.Ready += count(m.Ready)
		c.Available += count(m.Available(now))
		c.Unlinked += count(!m.Linked)
		if m.Failed {
			c.Failed = append(c.Failed, m.Machine.Name+fault(m.Machine))
		}
	}
	slices.Sort(c.Failed)
	return c
}

func count(counted bool) int32 {
	if counted {
		return 1
	}
	return 0
}

func fault(machine *machinev1beta1.Machine) string {
	var parts []string
	if reason := machine.Status.ErrorReason; reason != nil && *reason != "" {
		parts = append(parts, string(*reason))
	}
	if message := machine.Status.ErrorMessage; message != nil && *message != "" {
		parts = append(parts, bounded.Beginning(*message, maxText))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ": ") + ")"
}

// Failure is why something cannot be done now. Reason is one of the reasons of the conditions.
type Failure struct {
	Reason, Message string
}

// Observation is what a reconciliation has found out and done about a MachineSet over which the Machine API has the authority.
type Observation struct {
	Set *machinev1beta1.MachineSet
	// Problem, Selector and Surge are the Decision's.
	Problem, Selector string
	Surge             int
	// Counts are those after the reconciliation; without a Selector they are not used.
	Counts Counts
	// Create is why Machines cannot be created, Scale why they cannot be deleted, adopted or released; nil when they can.
	Create, Scale *Failure
	// Now is the time of the reconciliation.
	Now time.Time
}

// Status returns the status to write, and whether it has changed. The same observation has the same status, so that nothing is written at rest.
func (o *Observation) Status() (after machinev1beta1.MachineSetStatus, changed bool) {
	before := &o.Set.Status
	after = *before.DeepCopy()
	after.ObservedGeneration = o.Set.Generation
	if o.Selector != "" {
		after.Replicas, after.FullyLabeledReplicas = o.Counts.Replicas, o.Counts.FullyLabelled
		after.ReadyReplicas, after.AvailableReplicas = o.Counts.Ready, o.Counts.Available
		if len(o.Selector) <= maxSelector {
			after.LabelSelector = o.Selector
		}
	}
	o.fault(&after)
	for kind, condition := range o.conditions() {
		condition.Type = kind
		status.SetMachineCondition(&after.Conditions, condition, o.Now)
	}
	return after, !apiequality.Semantic.DeepEqual(before, &after)
}

func (o *Observation) fault(after *machinev1beta1.MachineSetStatus) {
	created := o.created()
	if created.Status == corev1.ConditionTrue {
		after.ErrorReason, after.ErrorMessage = nil, nil
		return
	}
	after.ErrorReason = new(machinev1beta1.MachineSetStatusError(created.Reason))
	after.ErrorMessage = new(status.Shorten(created.Message, status.MaxMessage))
}

func (o *Observation) conditions() map[machinev1beta1.ConditionType]machinev1beta1.Condition {
	conditions := map[machinev1beta1.ConditionType]machinev1beta1.Condition{
		ConditionPaused: o.paused(), ConditionCreated: o.created(), ConditionResized: o.resized(),
	}
	if o.Selector != "" {
		conditions[ConditionReady] = o.ready()
	}
	return conditions
}

func (o *Observation) paused() machinev1beta1.Condition {
	switch {
	case Paused(o.Set):
		return status.MachineConditionTrue(ReasonAnnotation, "The annotation "+paused.By(o.Set)+" is set")
	case o.Set.Status.AuthoritativeAPI != "":
		return status.MachineConditionFalse(machinev1beta1.ConditionSeverityInfo, ReasonMachineAPI, authorityText(o.Set.Status.AuthoritativeAPI))
	}
	return status.MachineConditionFalse(machinev1beta1.ConditionSeverityInfo, ReasonNotPaused, "")
}

func (o *Observation) created() machinev1beta1.Condition {
	switch {
	case o.Problem != "":
		return status.MachineConditionFalse(machinev1beta1.ConditionSeverityError, ReasonInvalid, o.Problem)
	case o.Create != nil && o.Create.Reason == ReasonInvalid:
		return status.MachineConditionFalse(machinev1beta1.ConditionSeverityError, ReasonInvalid, o.Create.Message)
	case o.Create != nil:
		return status.MachineConditionFalse(machinev1beta1.ConditionSeverityWarning, o.Create.Reason, o.Create.Message)
	}
	return status.MachineConditionTrue(ReasonCreated, "")
}

func (o *Observation) resized() machinev1beta1.Condition {
	if o.Problem != "" {
		return status.MachineConditionFalse(machinev1beta1.ConditionSeverityError, ReasonInvalid, o.Problem)
	}
	if o.Scale != nil {
		return status.MachineConditionFalse(machinev1beta1.ConditionSeverityWarning, o.Scale.Reason, o.Scale.Message)
	}
	wanted, reason := *o.Set.Spec.Replicas+bounded.Int32(o.Surge), ""
	switch {
	case o.Counts.Replicas == wanted:
		return status.MachineConditionTrue(ReasonResized, "")
	case Paused(o.Set):
		reason = ReasonAnnotation
	case o.Counts.Replicas < wanted:
		reason = ReasonUp
	default:
		reason = ReasonDown
	}
	message := fmt.Sprintf("There are %d Machines; spec.replicas is %d", o.Counts.Replicas, *o.Set.Spec.Replicas)
	if o.Surge > 0 {
		message += fmt.Sprintf(", and %d are being replaced", o.Surge)
	}
	return status.MachineConditionFalse(machinev1beta1.ConditionSeverityInfo, reason, message)
}

func (o *Observation) ready() machinev1beta1.Condition {
	c := &o.Counts
	condition := status.MachineConditionFalse(machinev1beta1.ConditionSeverityInfo, "",
		fmt.Sprintf("%d of %d Machines have a ready Node", c.Ready, c.Replicas))
	switch {
	case len(c.Failed) > 0:
		condition.Reason, condition.Severity = ReasonFailed, machinev1beta1.ConditionSeverityWarning
		condition.Message += fmt.Sprintf("; %d failed: %s", len(c.Failed), status.Names(c.Failed, maxNamed))
	case c.Ready == c.Replicas:
		return status.MachineConditionTrue(ReasonReady, "")
	case c.Unlinked > 0:
		condition.Reason = ReasonWithoutNode
		condition.Message += fmt.Sprintf("; %d have no Node yet", c.Unlinked)
	default:
		condition.Reason, condition.Severity = ReasonNodesNotReady, machinev1beta1.ConditionSeverityWarning
	}
	return condition
}

// StatusOtherAPI returns the status of a MachineSet over which another API has the authority, and whether it has changed. The condition Paused lets
// that API know that Drover does not change the Machines; Drover writes nothing else.
func StatusOtherAPI(before *machinev1beta1.MachineSetStatus, now time.Time) (after machinev1beta1.MachineSetStatus, changed bool) {
	after = *before.DeepCopy()
	condition := status.MachineConditionTrue(ReasonOtherAPI, authorityText(before.AuthoritativeAPI))
	condition.Type = ConditionPaused
	status.SetMachineCondition(&after.Conditions, condition, now)
	return after, !apiequality.Semantic.DeepEqual(before, &after)
}
