package plan

import (
	"fmt"
	"strings"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/status"
)

// Reasons why Machines wait to be replaced, in addition to the reasons of windows and budgets.
const (
	// ReasonPaused (Progressing=False): Machines are outdated, and an annotation of the group pauses their replacement.
	//
	// ReasonPaused (Blocked=True): an annotation of the group pauses the replacement of its Machines.
	ReasonPaused = "ReplacementPaused"
	// ReasonNewMachineFailed (Blocked=True): a Machine that was created from the current template of its MachineSet has failed, or is not available
	// within spec.replacement.progressDeadline; no further Machine is replaced until the template changes or a user resumes it.
	ReasonNewMachineFailed = "NewMachineFailed"
	// ReasonSurgeUnavailable (Blocked=True): machine-api-operator creates the Machines, so that old ones go before new ones are created; or the
	// capability machines is off, and none is replaced.
	ReasonSurgeUnavailable = "SurgeUnavailable"
)

// Report is what the status of a group says about replacement.
type Report struct {
	// Outdated is how many Machines are outdated.
	Outdated int32
	// Replacing reports that some of them are to be replaced.
	Replacing bool
	// Reason and Message say what keeps them waiting; empty for nothing.
	Reason, Message string
	// Progress says what is being done, and which Machines that waits for.
	Progress string
}

// Unavailable returns the Report of a group whose MachineSets another program serves; it is empty for a group that replaces no Machines.
func Unavailable(group *v1alpha1.NodeGroup) (report Report) {
	if Replaces(group) {
		report.block(ReasonSurgeUnavailable, unavailable)
	}
	return report
}

// Unknown returns the Report of a group whose Machines cannot be read since the process began, because of an error or for a moment.
func Unknown(group *v1alpha1.NodeGroup, err error) Report {
	report := Report{Outdated: group.Status.Outdated, Replacing: Replaces(group) && !group.Spec.Suspend && group.Status.Outdated > 0}
	if report.Replacing {
		report.Progress = "it is not known which Machines are outdated"
	}
	if report.Replacing && err != nil {
		report.Progress += ": " + err.Error()
	}
	return report
}

// LeaveOut has the Report say that MachineSets are left alone, because they or Machines of them cannot be decoded.
func (r *Report) LeaveOut(group *v1alpha1.NodeGroup, sets []string) {
	if len(sets) == 0 || !Replaces(group) || group.Spec.Suspend {
		return
	}
	r.Replacing = true
	text := "MachineSets left out, because they or Machines of them cannot be decoded: " + status.FirstNames(sets)
	r.Progress = strings.TrimPrefix(r.Progress+"; "+text, "; ")
}

// unavailable is the message for ReasonSurgeUnavailable.
const unavailable = "Drover replaces only Machines that it creates, and the capability machines is off, or has not started yet"

// Stopped reports whether the replacement goes on only when a user does something.
func (r *Report) Stopped() bool { return r.Reason == ReasonNewMachineFailed }

func (r *Report) block(reason, message string) { r.Reason, r.Message = reason, message }

// report fills in the counts and the text.
func (d *decider) report() {
	var deleting, pending []string
	outdated, missing := 0, 0
	for _, set := range d.sets {
		missing += one(!set.Paused) * set.missing()
		for i := range set.Machines {
			m := &set.Machines[i]
			isOutdated := m.Outdated && !m.retried
			outdated += one(isOutdated)
			if isOutdated && m.Deleting {
				deleting = append(deleting, m.Name)
			} else if d.isPending(m) {
				pending = append(pending, m.Name)
			}
		}
	}
	r := &d.decision.Report
	r.Outdated = bounded.Int32(outdated)
	if r.Replacing {
		r.Progress = progress(outdated, deleting, pending, missing)
	}
}

// isPending reports whether a new Machine is not available yet.
func (d *decider) isPending(m *Machine) bool { return !m.Outdated && !m.Deleting && !d.isAvailable(m) }

// progress says what is being done.
func progress(outdated int, deleting, pending []string, missing int) string {
	parts := []string{fmt.Sprintf("%d Machines are outdated", outdated)}
	if len(deleting) > 0 {
		parts = append(parts, "being deleted: "+status.FirstNames(deleting))
	}
	if len(pending) > 0 {
		parts = append(parts, "not available yet: "+status.FirstNames(pending))
	}
	if missing > 0 {
		parts = append(parts, fmt.Sprintf("to be created: %d", missing))
	}
	return strings.Join(parts, "; ")
}
