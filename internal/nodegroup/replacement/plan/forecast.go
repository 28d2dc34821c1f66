package plan

import "github.com/drover-io/drover/api/drover/v1alpha1"

// Forecast is what the replacement of a group comes to.
type Forecast struct {
	// Machines are the Machines to replace, in their order, without Machines of paused MachineSets.
	Machines []Machine
	// MaxSurge is how many new Machines there may be beyond replicas, MaxInFlight how many are replaced at once.
	MaxSurge, MaxInFlight int
	// Deleting is how many outdated Machines are being deleted, Excluded how many others are paused or Skipped.
	Deleting, Excluded int
	// Report says what keeps the Machines waiting now.
	Report Report
}

// NewForecast returns what the replacement of a group comes to; it is empty for a group that replaces no Machines.
func NewForecast(in *Input) Forecast {
	if !Replaces(in.Group) || in.Group.DeletionTimestamp != nil {
		return Forecast{}
	}
	d := newDecider(in)
	var f Forecast
	for _, set := range d.sets {
		f.Deleting += set.deleting
		for i := range set.Machines {
			m := &set.Machines[i]
			f.Excluded += one(m.Outdated && !m.Deleting && (m.Skipped || set.Paused))
		}
	}
	for _, c := range d.candidates() {
		if !c.set.Paused {
			f.Machines = append(f.Machines, *c.machine)
		}
	}
	d.decide()
	f.MaxSurge, f.MaxInFlight, f.Report = d.maxSurge, d.maxInFlight, d.decision.Report
	return f
}

// Replaces reports whether a group replaces Machines.
func Replaces(group *v1alpha1.NodeGroup) bool {
	return group.Spec.Replacement != nil && group.Spec.Replacement.Type == v1alpha1.ReplacementRollingUpdate
}
