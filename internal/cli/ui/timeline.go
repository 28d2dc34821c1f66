package ui

import (
	"cmp"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/compact"
)

// Moment is an entry of the time line of a node.
type Moment struct {
	// At is when it happened, or began. Until is when it ended; empty for what has no length, and for what goes on.
	At    string `json:"at"`
	Until string `json:"until,omitempty"`
	// Continues reports that it goes on.
	Continues bool       `json:"continues,omitempty"`
	Type      MomentType `json:"type"`
	Warning   bool       `json:"warning,omitempty"`
	// Object is what it is about, as Kind/name.
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Source  string `json:"source,omitempty"`
	// Count is how often an event occurred until Until; zero for others.
	Count int32 `json:"count,omitempty"`
}

// MomentType says what a moment is from.
type MomentType string

// The types of moments.
const (
	// MomentEvent is an event of the Node, its Machine or its NodeMaintenance.
	MomentEvent MomentType = "Event"
	// MomentCondition is when a condition of one of them changed last.
	MomentCondition MomentType = "Condition"
	// MomentDisruption is a disruption: a maintenance, an upgrade, a lease, a reservation of a budget, a Machine that is being deleted.
	MomentDisruption MomentType = "Disruption"
	// MomentCreation is when the Node or its Machine was created.
	MomentCreation MomentType = "Creation"
)

// maxMoments is how many entries a time line has, the latest.
const maxMoments = 500

// timeline returns what happened on a node, the latest first.
func (u *cluster) timeline(read *nodeReads, around *model.Objects) []Moment {
	node := "Node/" + read.node.Name
	line := []Moment{moment(MomentCreation, node, "Created", read.node.CreationTimestamp.Time)}
	for _, c := range compact.BoundedConditions(read.node.Status.Conditions) {
		isWarning := (c.Type == corev1.NodeReady) != (c.Status == corev1.ConditionTrue)
		line = append(line, conditionMoment(node, string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime, isWarning))
	}
	for _, machine := range around.Machines[:min(len(around.Machines), maxSubjects)] {
		line = append(line, machineMoments(machine)...)
	}
	for _, m := range around.Maintenances[:min(len(around.Maintenances), maxSubjects)] {
		line = append(line, maintenanceMoments(m)...)
	}
	line = append(line, upgradeMoments(read.node.Name, u.tracker.Runs())...)
	line = append(line, reservationMoments(read.node.Name, around)...)
	if read.lease != nil {
		if lease := model.NewLease(read.lease, u.now()); lease.Valid && lease.Acquired != "" {
			line = append(line, Moment{
				At: lease.Acquired, Continues: true, Type: MomentDisruption, Object: node, Reason: "Leased", Message: lease.Object, Source: lease.Holder,
			})
		}
	}
	for _, events := range read.events {
		for i := range events {
			line = append(line, eventMoment(&events[i]))
		}
	}
	line = slices.DeleteFunc(line, func(m Moment) bool { return m.At == "" })
	slices.SortStableFunc(line, func(a, b Moment) int { return cmp.Compare(cmp.Or(b.Until, b.At), cmp.Or(a.Until, a.At)) })
	return line[:min(len(line), maxMoments)]
}

func moment(of MomentType, object, reason string, at time.Time) Moment {
	return Moment{At: model.Stamp(at), Type: of, Object: model.Text(object, maxText), Reason: model.Text(reason, maxWord)}
}

func conditionMoment(object, kind, status, reason, message string, at metav1.Time, isWarning bool) Moment {
	m := moment(MomentCondition, object, kind+"="+status, at.Time)
	m.Message, m.Warning = model.Text(cmp.Or(message, reason), maxText), isWarning
	return m
}

func machineMoments(machine *machinev1beta1.Machine) []Moment {
	object := "Machine/" + machine.Name
	line := []Moment{moment(MomentCreation, object, "Created", machine.CreationTimestamp.Time)}
	for _, c := range machine.Status.Conditions[:min(len(machine.Status.Conditions), maxConditions)] {
		line = append(line, conditionMoment(object, string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime,
			c.Status != corev1.ConditionTrue && c.Severity == machinev1beta1.ConditionSeverityError))
	}
	if machine.DeletionTimestamp != nil {
		deleting := moment(MomentDisruption, object, "Deleting", machine.DeletionTimestamp.Time)
		deleting.Continues = true
		line = append(line, deleting)
	}
	return line
}

// maxConditions is how many conditions of an object are shown.
const maxConditions = 32

func maintenanceMoments(m *medik8s.NodeMaintenance) []Moment {
	object := "NodeMaintenance/" + m.Name
	began := moment(MomentDisruption, object, "Maintenance", m.CreationTimestamp.Time)
	began.Continues, began.Message = true, model.Text(cmp.Or(m.Spec.Reason, view.WaitsFor(m)), maxText)
	line := []Moment{began}
	for _, c := range m.Status.Conditions[:min(len(m.Status.Conditions), maxConditions)] {
		line = append(line, conditionMoment(object, c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime, c.Reason == "Blocked"))
	}
	return line
}

func upgradeMoments(node string, runs []*mutex.MutexRunConfig) (line []Moment) {
	for _, run := range runs {
		for _, status := range run.Status.Nodes {
			if status.Name != node || status.Started == nil {
				continue
			}
			m := moment(MomentDisruption, "MutexRunConfig/"+run.Name, "Upgrade"+string(status.Phase), status.Started.Time)
			m.Message, m.Continues = model.Text(status.Message, maxText), status.Finished == nil
			if status.Finished != nil {
				m.Until = model.Stamp(status.Finished.Time)
			}
			line = append(line, m)
		}
	}
	return line
}

func reservationMoments(node string, around *model.Objects) (line []Moment) {
	for _, group := range around.Groups {
		for i := range group.Status.Reservations {
			r := &group.Status.Reservations[i]
			if r.Node != node {
				continue
			}
			m := moment(MomentDisruption, "NodeGroup/"+group.Name, string(r.Capability), r.Time.Time)
			m.Message, m.Continues = model.Text(r.Object, maxText), true
			line = append(line, m)
		}
	}
	return line
}

// eventMoment returns an event from when it occurred first until it occurred last.
func eventMoment(e *corev1.Event) Moment {
	last, count := lastOf(e)
	first := cmp.Or(e.FirstTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time, last)
	m := moment(MomentEvent, e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name, e.Reason, first)
	m.Warning, m.Message, m.Count = e.Type == corev1.EventTypeWarning, model.Text(e.Message, maxText), count
	m.Source = model.Text(cmp.Or(e.ReportingController, e.Source.Component), maxWord)
	if last.After(first) {
		m.Until = model.Stamp(last)
	}
	return m
}
