package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// CreateError is the errorReason of a MachineSet whose Machines are valid and cannot be created.
const CreateError machinev1beta1.MachineSetStatusError = ReasonCreateError

const (
	// maxSelector is how long status.labelSelector may be; the API server rejects a status with a longer one.
	maxSelector = 4096
	// maxNamed is how many Machines a message names, maxText how much it says about each.
	maxNamed, maxText = 3, 200
)

// Counts are the numbers of a MachineSet's status.
type Counts struct {
	Replicas, FullyLabelled, Ready, Available int32
	// Unlinked have no Node; Failed are the names and errors of those that have failed.
	Unlinked int32
	Failed   []string
}

// Count counts members, except those that a function excludes.
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
		parts = append(parts, shorten(*message))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ": ") + ")"
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > maxText {
		return string(runes[:maxText]) + "..."
	}
	return text
}

// Failure is why something cannot be done now. Reason is one of the reasons of the conditions.
type Failure struct {
	Reason, Message string
}

// Observation is what a reconciliation has found out and done about a MachineSet over which the Machine API has the authority.
type Observation struct {
	Set *machinev1beta1.MachineSet
	// Problem and Selector are the Decision's.
	Problem, Selector string
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
	different := set(&after.Conditions, o.steps(), o.Now)
	return after, different || !sameBarConditions(before, &after)
}

func (o *Observation) fault(after *machinev1beta1.MachineSetStatus) {
	created := o.created()
	if created.met {
		after.ErrorReason, after.ErrorMessage = nil, nil
		return
	}
	after.ErrorReason = new(machinev1beta1.MachineSetStatusError(created.reason))
	after.ErrorMessage = new(status.Shorten(created.message, status.MaxMessage))
}

func sameBarConditions(a, b *machinev1beta1.MachineSetStatus) bool {
	same := func(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	return a.Replicas == b.Replicas && a.FullyLabeledReplicas == b.FullyLabeledReplicas && a.ReadyReplicas == b.ReadyReplicas &&
		a.AvailableReplicas == b.AvailableReplicas && a.ObservedGeneration == b.ObservedGeneration && a.LabelSelector == b.LabelSelector &&
		same((*string)(a.ErrorReason), (*string)(b.ErrorReason)) && same(a.ErrorMessage, b.ErrorMessage)
}

func (o *Observation) steps() map[machinev1beta1.ConditionType]step {
	steps := map[machinev1beta1.ConditionType]step{
		ConditionPaused: o.paused(), ConditionCreated: o.created(), ConditionResized: o.resized(),
	}
	if o.Selector != "" {
		steps[ConditionReady] = o.ready()
	}
	return steps
}

func (o *Observation) paused() step {
	switch {
	case Paused(o.Set):
		return step{met: true, reason: ReasonAnnotation, message: "The annotation " + paused.By(o.Set) + " is set"}
	case o.Set.Status.AuthoritativeAPI != "":
		return step{reason: ReasonMachineAPI, message: authorityText(o.Set.Status.AuthoritativeAPI), severity: machinev1beta1.ConditionSeverityInfo}
	}
	return step{reason: ReasonNotPaused, severity: machinev1beta1.ConditionSeverityInfo}
}

func (o *Observation) created() step {
	switch {
	case o.Problem != "":
		return step{reason: ReasonInvalid, message: o.Problem, severity: machinev1beta1.ConditionSeverityError}
	case o.Create != nil && o.Create.Reason == ReasonInvalid:
		return step{reason: ReasonInvalid, message: o.Create.Message, severity: machinev1beta1.ConditionSeverityError}
	case o.Create != nil:
		return step{reason: o.Create.Reason, message: o.Create.Message, severity: machinev1beta1.ConditionSeverityWarning}
	}
	return step{met: true, reason: ReasonCreated}
}

func (o *Observation) resized() step {
	if o.Problem != "" {
		return step{reason: ReasonInvalid, message: o.Problem, severity: machinev1beta1.ConditionSeverityError}
	}
	if o.Scale != nil {
		return step{reason: o.Scale.Reason, message: o.Scale.Message, severity: machinev1beta1.ConditionSeverityWarning}
	}
	wanted, s := *o.Set.Spec.Replicas, step{severity: machinev1beta1.ConditionSeverityInfo}
	switch {
	case o.Counts.Replicas == wanted:
		return step{met: true, reason: ReasonResized}
	case Paused(o.Set):
		s.reason = ReasonAnnotation
	case o.Counts.Replicas < wanted:
		s.reason = ReasonUp
	default:
		s.reason = ReasonDown
	}
	s.message = fmt.Sprintf("There are %d Machines; spec.replicas is %d", o.Counts.Replicas, wanted)
	return s
}

func (o *Observation) ready() step {
	c := &o.Counts
	s := step{message: fmt.Sprintf("%d of %d Machines have a ready Node", c.Ready, c.Replicas), severity: machinev1beta1.ConditionSeverityInfo}
	switch {
	case len(c.Failed) > 0:
		s.reason, s.severity = ReasonFailed, machinev1beta1.ConditionSeverityWarning
		s.message += fmt.Sprintf("; %d failed: %s", len(c.Failed), Names(c.Failed, maxNamed))
	case c.Ready == c.Replicas:
		return step{met: true, reason: ReasonReady}
	case c.Unlinked > 0:
		s.reason = ReasonWithoutNode
		s.message += fmt.Sprintf("; %d have no Node yet", c.Unlinked)
	default:
		s.reason, s.severity = ReasonNodesNotReady, machinev1beta1.ConditionSeverityWarning
	}
	return s
}

// Names joins names; of many only the first ones.
func Names(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// StatusOtherAPI returns the status of a MachineSet over which another API has the authority, and whether it has changed. The condition Paused lets
// that API know that Drover does not change the Machines; Drover writes nothing else.
func StatusOtherAPI(before *machinev1beta1.MachineSetStatus, now time.Time) (after machinev1beta1.MachineSetStatus, changed bool) {
	after = *before.DeepCopy()
	changed = set(&after.Conditions, map[machinev1beta1.ConditionType]step{
		ConditionPaused: {met: true, reason: ReasonOtherAPI, message: authorityText(before.AuthoritativeAPI)},
	}, now)
	return after, changed
}
