package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/view"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
)

// The bounds of the document of progress.
const (
	maxActivities = 1000
	maxBudgets    = 500
	// keptFor is how long the page shows a roll-out or an upgrade that has ended.
	keptFor = time.Hour
)

var activityStates = []ActivityState{ActivityStopped, ActivityWaiting, ActivityRunning, ActivitySuspended, ActivityDone}

// updateProgress computes the activities and budgets of changed objects.
func (t *Tracker) updateProgress(d *dirty, now time.Time) {
	changed := false
	set := func(ref Ref, activities []Activity) {
		changed = changed || len(activities)+len(t.activities[ref]) > 0
		if t.activities[ref] = activities; len(activities) == 0 {
			delete(t.activities, ref)
		}
	}
	for ref := range d.refs {
		set(ref, t.activitiesOf(t.objects[ref], now))
	}
	for key := range d.sets {
		set(rolloutRef(key), setActivities(t.setStatus(key)))
	}
	if changed {
		t.publishActivities()
	}
	t.updateBudgets(d, now)
	t.updateCalendar(d, now)
}

// publishActivities shows the activities. If there are more than the list has, it shows the worst.
func (t *Tracker) publishActivities() {
	all := slices.Concat(slices.Collect(maps.Values(t.activities))...)
	slices.SortFunc(all, compareActivities)
	omitted := max(0, len(all)-maxActivities)
	t.Activities.Replace(all[:len(all)-omitted], omitted)
}

// compareActivities puts the worst first, and then the oldest.
func compareActivities(a, b Activity) int {
	return cmp.Or(slices.Index(activityStates, a.State)-slices.Index(activityStates, b.State), strings.Compare(a.Since, b.Since),
		strings.Compare(a.ID, b.ID))
}

// Progress returns the document of what Drover does.
func (t *Tracker) Progress() Progress {
	out := Progress{
		TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "Progress"}, Items: t.Activities.All(), Omitted: t.Activities.Omitted(),
		Budgets: t.Budgets.All(), OmittedBudgets: t.Budgets.Omitted(), Calendar: *t.Calendar(),
	}
	slices.SortFunc(out.Items, compareActivities)
	return out
}

// activitiesOf returns what an object does.
func (t *Tracker) activitiesOf(object client.Object, now time.Time) []Activity {
	switch object := object.(type) {
	case *drover.NodeGroup:
		return slices.Concat(groupRollout(object, now), t.replacement(object, now))
	case *medik8s.NodeMaintenance:
		return []Activity{drainOf(object, now)}
	case *mutex.MutexRunConfig:
		return upgradeOf(object, now)
	}
	return nil
}

func newActivity(of ActivityType, kind, resource string, object metav1.Object) Activity {
	return Activity{
		ID: strings.Join([]string{string(of), resource, object.GetNamespace(), object.GetName()}, "/"), Type: of, Kind: kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), Resource: resource + "/" + object.GetName(),
	}
}

// groupStates are the states of the phases of a NodeGroup.
var groupStates = map[drover.Phase]ActivityState{
	drover.PhaseIdle: ActivityDone, drover.PhaseRolling: ActivityRunning, drover.PhaseWaiting: ActivityWaiting, drover.PhaseStopped: ActivityStopped,
	drover.PhaseSuspended: ActivitySuspended,
}

// groupState returns whether a NodeGroup goes on. A pause between waves is a part of the roll-out.
func groupState(group *drover.NodeGroup) ActivityState {
	progressing := meta.FindStatusCondition(group.Status.Conditions, drover.ConditionProgressing)
	switch {
	case progressing != nil && progressing.Reason == groupplan.ReasonPausing:
		return ActivityRunning
	case progressing != nil && progressing.Reason == groupplan.ReasonDryRun:
		return ActivitySuspended
	}
	return cmp.Or(groupStates[group.Status.Phase], ActivityWaiting)
}

// groupRollout returns the roll-out of a NodeGroup's metadata, by its status; nil if it ended a while ago.
func groupRollout(group *drover.NodeGroup, now time.Time) []Activity {
	status, rollout := &group.Status, group.Status.Rollout
	if rollout == nil {
		rollout = &drover.RolloutStatus{}
	}
	a := newActivity(RollOut, kindNodeGroup, ResourceGroups, group)
	a.State, a.Message, a.Unit = groupState(group), Text(view.RolloutOfGroup(group).Message, maxMessage), UnitNodes
	a.Total, a.Done, a.Waiting = int(status.Nodes), int(status.Synced), int(status.Pending+status.Held)
	a.Failed = int(status.Conflicts + status.Refused)
	a.Wave, a.Waves = wavesOf(rollout.Wave)
	if a.State == ActivityDone || rollout.EndTime != nil && a.Waiting == 0 {
		if a.Failed == 0 && (rollout.EndTime == nil || now.Sub(rollout.EndTime.Time) > keptFor) {
			return nil
		}
		if a.State != ActivityStopped {
			a.State = ActivityDone
		}
	}
	if rollout.StartTime != nil && rollout.EndTime == nil {
		a.setRolloutPace(rollout, now)
	}
	return []Activity{a}
}

// setRolloutPace sets the speed of a roll-out. Finished waves are known; Nodes that were synced before the roll-out are not.
func (a *Activity) setRolloutPace(rollout *drover.RolloutStatus, now time.Time) {
	start := rollout.StartTime.Time
	if again := rollout.MachineSetTime; again != nil && again.After(start) {
		start = again.Time
	}
	a.Since = Stamp(start)
	if finished := a.Wave - 1; finished > 0 && rollout.WaveEndTime != nil {
		a.setPace(float64(finished)*float64(a.Total)/float64(a.Waves), rollout.WaveEndTime.Sub(start), now)
	} else if a.Waves <= 1 {
		a.setPace(float64(a.Done), now.Sub(start), now)
	}
}

// wavesOf parses a wave such as 2/5.
func wavesOf(text string) (wave, waves int) {
	if _, err := fmt.Sscanf(text, "%d/%d", &wave, &waves); err != nil || wave < 0 || waves < wave {
		return 0, 0
	}
	return wave, waves
}

// setPace sets the speed of an activity that has done so much in a time, and when the rest is done at this speed. Both are rounded, so that they
// seldom change.
func (a *Activity) setPace(done float64, in time.Duration, now time.Time) {
	if done <= 0 || in < time.Second {
		return
	}
	perHour := done / in.Hours()
	digits := math.Pow(10, math.Floor(math.Log10(perHour))-1)
	a.PerHour = math.Round(perHour/digits) * digits
	rest := float64(a.Total - a.Done - a.Failed)
	hours := rest / perHour
	if a.State != ActivityRunning || rest <= 0 || hours > 24*365 {
		return
	}
	a.ExpectedEnd = Stamp(now.Add(time.Duration(hours * float64(time.Hour))).Truncate(time.Minute).Add(time.Minute))
}

// replacement returns the replacement of a NodeGroup's outdated Machines, by its status; nil for none.
func (t *Tracker) replacement(group *drover.NodeGroup, now time.Time) []Activity {
	outdated := int(group.Status.Outdated)
	if outdated == 0 {
		return nil
	}
	a := newActivity(Replacement, kindNodeGroup, ResourceGroups, group)
	a.State, a.Message, a.Unit = groupState(group), Text(view.RolloutOfGroup(group).Message, maxMessage), UnitMachines
	a.Waiting, a.Total = outdated, max(outdated, int(group.Status.Nodes))
	a.Done = a.Total - outdated
	progressing := meta.FindStatusCondition(group.Status.Conditions, drover.ConditionProgressing)
	if progressing == nil || progressing.Status != metav1.ConditionTrue {
		return []Activity{a}
	}
	since := progressing.LastTransitionTime.Time
	a.Since = Stamp(since)
	a.setPace(float64(t.createdSince(group.Name, since)), now.Sub(since), now)
	return []Activity{a}
}

// createdSince counts the Machines of a NodeGroup's nodes that were created after a time.
func (t *Tracker) createdSince(group string, since time.Time) (count int) {
	for _, cell := range t.Cells.All() {
		namespace, name, found := strings.Cut(cell.Machine, "/")
		if cell.NodeGroup != group || !found {
			continue
		}
		machine, ok := t.objects[Ref{ResourceMachines, types.NamespacedName{Namespace: namespace, Name: name}}].(*machinev1beta1.Machine)
		if ok && machine.CreationTimestamp.After(since) {
			count++
		}
	}
	return count
}

// setActivities returns the roll-out of a MachineSet's metadata; nil if it is complete. No status says when it began, or has its waves.
func setActivities(status *view.MachineSetStatus) []Activity {
	if status == nil {
		return nil
	}
	rollout, counts := view.RolloutOfMachineSet(status, nil), status.Summary
	if rollout.Done || counts.Machines == 0 {
		return nil
	}
	a := newActivity(RollOut, kindMachineSet, ResourceSets, &metav1.ObjectMeta{Namespace: status.Namespace, Name: status.Name})
	a.Message, a.Unit, a.Total, a.Done = Text(rollout.Message, maxMessage), UnitMachines, counts.Machines, counts.Synced
	a.Waiting, a.Failed = counts.Pending+counts.Held, counts.Conflict+counts.Refused
	switch {
	case rollout.Failed:
		a.State = ActivityStopped
	case status.Paused:
		a.State = ActivitySuspended
	default:
		a.State = ActivityRunning
	}
	return []Activity{a}
}

// drainStates are the states of drains by the urgency of what they wait for.
var drainStates = map[Urgency]ActivityState{Stopped: ActivityStopped, Waiting: ActivityWaiting, Suspended: ActivitySuspended}

// drainOf returns the drain of a NodeMaintenance.
func drainOf(m *medik8s.NodeMaintenance, now time.Time) Activity {
	item := view.NewMaintenanceList([]*medik8s.NodeMaintenance{m}).Items[0]
	item.Node, item.Reason, item.WaitsFor = Text(item.Node, maxName), Text(item.Reason, maxMessage), Text(item.WaitsFor, maxMessage)
	item.Status, item.Phase = Text(item.Status, maxReason), Text(item.Phase, maxReason)
	a := newActivity(Drain, kindMaintenance, "nodemaintenances."+m.GetObjectKind().GroupVersionKind().Group, m)
	a.Node, a.Message, a.Unit, a.Maintenance, a.Since = item.Node, item.WaitsFor, UnitPercent, &item, Stamp(item.Created)
	a.Total, a.Done = 100, min(max(item.Progress, 0), 100)
	a.Waiting = a.Total - a.Done
	switch {
	case item.Drained:
		a.State, a.Done, a.Waiting = ActivityDone, a.Total, 0
		return a
	case item.Ending, item.Status == "Draining":
		a.State = ActivityRunning
	default:
		a.State = drainStates[adviceOf(kindMaintenance, cmp.Or(item.Status, item.Phase, "NotObserved")).urgency]
	}
	a.setPace(float64(a.Done), now.Sub(item.Created), now)
	return a
}

// runStates are the states of the phases of a MutexRunConfig.
var runStates = map[mutex.Phase]ActivityState{
	mutex.PhaseInvalid: ActivityStopped, mutex.PhaseStopped: ActivityStopped, mutex.PhaseClaimed: ActivityWaiting, mutex.PhaseWaiting: ActivityWaiting,
	mutex.PhaseRunning: ActivityRunning, mutex.PhaseRestoring: ActivityRunning, mutex.PhaseSuspended: ActivitySuspended,
	mutex.PhaseAborted: ActivitySuspended, mutex.PhaseDryRun: ActivitySuspended, mutex.PhaseIdle: ActivityDone, mutex.PhaseDone: ActivityDone,
}

// upgradeOf returns the upgrade of a MutexRunConfig; nil if it ended a while ago.
func upgradeOf(run *mutex.MutexRunConfig, now time.Time) []Activity {
	item := view.NewUpgradeStatusList([]*mutex.MutexRunConfig{run}).Items[0]
	a := newActivity(Upgrade, kindRun, ResourceRuns, run)
	a.State = cmp.Or(runStates[run.Status.Phase], ActivityWaiting)
	if a.State == ActivityDone && (run.Status.Finished == nil || now.Sub(run.Status.Finished.Time) > keptFor) {
		return nil
	}
	item.Phase, item.Version, item.Message = Text(item.Phase, maxReason), Text(item.Version, maxReason), Text(item.Message, maxMessage)
	item.Nodes = slices.Clone(item.Nodes)
	underWay := 0
	for i := range item.Nodes {
		node := &item.Nodes[i]
		node.Name, node.Job, node.Message = Text(node.Name, maxName), Text(node.Job, maxName), Text(node.Message, maxMessage)
		switch node.Phase {
		case mutex.NodeRunningJobs, mutex.NodeReleased, mutex.NodeUpgrading, mutex.NodeCleaningUp:
			underWay++
		}
	}
	a.Message, a.Unit, a.Total, a.Done, a.Failed, a.Upgrade = item.Message, UnitNodes, item.Total, item.Done, item.Failed, &item
	a.Waiting = max(0, a.Total-a.Done-a.Failed-underWay)
	if item.Started != nil {
		a.Since = Stamp(item.Started.Time)
		a.setPace(float64(a.Done), now.Sub(item.Started.Time), now)
	}
	return []Activity{a}
}
