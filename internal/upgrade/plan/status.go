package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/status"
)

// Bounds of the status: a run may have any number of nodes.
const (
	// MaxNodes is how many nodes the status lists, the same as maxItems in the schema.
	MaxNodes = 100
	// maxCurrent is how many nodes in progress the status names in one line.
	maxCurrent = 20
	// maxNodeMessage is the longest message about a node, in bytes.
	maxNodeMessage = 1024
	// maxWaiting is how many nodes that have to wait a condition names, with messages of at most so many bytes.
	maxWaiting, maxWaitingMessage = 5, 300
)

// Result is what a plan has achieved.
type Result struct {
	// Settled reports whether the stages are settled, and after a restore also that Jobs and finalizer are as planned.
	Settled bool
	// Nodes is the decision about the nodes as it was carried out; nil if it was not.
	Nodes *Decision
	// ReservedByOther says which other run has reserved a MachineConfigPool; empty if none has.
	ReservedByOther string
	// Failed reports whether a request failed, Denied why the API server denies it.
	Failed bool
	Denied string
	// Conditions are the conditions that were determined by requests.
	Conditions Conditions
}

// Report is what the status is to say about a run after a plan was carried out.
type Report struct {
	Phase      v1alpha1.Phase
	Message    string
	Conditions Conditions
	// Version is the desired version; empty for no change.
	Version string
	// Listed reports whether Nodes are all nodes of the run. If it is false, the nodes in the status stay as they are; with Inactive, which reports that
	// no node is in progress, only the finished nodes stay.
	Listed, Inactive bool
	Nodes            []v1alpha1.NodeStatus
	// Restored reports whether everything was restored now.
	Restored bool

	current []string
	counts  *counts
	settled *metav1.Time
}

// counts are numbers of nodes.
type counts struct{ total, done, failed int }

// NewReport returns what the status is to say.
func NewReport(r *Run, p *Plan, result *Result) *Report {
	before := &r.Config.Status
	out := &Report{Phase: cmp.Or(p.Phase, before.Phase), Message: p.Message, Conditions: maps.Clone(p.Conditions), Inactive: p.inactive}
	if p.checked {
		out.Version = r.Desired
	}
	maps.Copy(out.Conditions, result.Conditions)
	switch p.Action {
	case ActionNone:
		if p.Nodes != nil {
			out.addNodes(p.Nodes)
		}
	case ActionRestore:
		out.addRestore(r, p, result)
	case ActionGate, ActionCleanUp:
		out.addProgress(r, p, result)
	}
	if out.Inactive && p.Action == ActionRestore && r.Desired != "" && len(r.Problems) == 0 {
		unknown, _ := r.UnknownVersions()
		out.Version, out.counts = r.Desired, &counts{total: len(r.Nodes), done: len(r.Nodes) - r.outdated() - len(unknown)}
	}
	if result.Denied != "" {
		out.Message = result.Denied
		if r.Config.DeletionTimestamp != nil {
			out.Message = "the run is being deleted: " + result.Denied
		}
	}
	return out
}

// addRestore reports how far a restore is.
func (out *Report) addRestore(r *Run, p *Plan, result *Result) {
	before, needed := &r.Config.Status, r.NeedsRestore()
	if p.Nodes != nil && before.Phase != v1alpha1.PhaseRestoring {
		// Later, nodes that were returned to their targets look as if they had never been released.
		out.addRestoredNodes(p.Nodes, needed)
	}
	switch {
	case p.Phase == "":
	case result.Settled:
		if out.Restored = needed || before.Phase == v1alpha1.PhaseRestoring; out.Restored {
			out.addRestored(before)
		}
		if p.settles(r) {
			out.settled = r.newestJob()
		}
		return
	case needed || result.Denied != "" || !result.Failed:
		out.Phase = v1alpha1.PhaseRestoring
	default:
		out.Phase, out.Message = before.Phase, before.Message
	}
	out.Inactive = false
}

// addRestored reports the MachineConfigPools after a restore.
func (out *Report) addRestored(before *v1alpha1.MutexRunConfigStatus) {
	out.Conditions.Set(ConditionPaused, false, "the MachineConfigPools have been restored")
	if meta.IsStatusConditionFalse(before.Conditions, ConditionMCPs) {
		// They could be changed after all.
		out.Conditions.Set(ConditionMCPs, true, "")
	}
}

// addRestoredNodes reports the nodes at the beginning of a restore. Without anything to restore, no condition is about them.
func (out *Report) addRestoredNodes(d *Decision, needed bool) {
	if needed {
		out.addNodes(d)
		return
	}
	out.countNodes(d)
	out.listNodes(d.Steps)
}

// settles reports whether nothing of a run that is done can be left to do. A node that was left out may need a clean-up once it has the version.
func (p *Plan) settles(r *Run) bool {
	return p.Phase == v1alpha1.PhaseDone && p.Nodes.Done == len(p.Nodes.Steps) && r.jobsFinished() && !r.Settled()
}

// addProgress reports how far a run is that prepares MachineConfigPools or works on nodes.
func (out *Report) addProgress(r *Run, p *Plan, result *Result) {
	before := &r.Config.Status
	switch {
	case result.Nodes != nil:
		out.Phase, out.Message = result.Nodes.Phase, result.Nodes.Message
		out.addNodes(result.Nodes)
	case result.ReservedByOther != "":
		out.Phase, out.Message = v1alpha1.PhaseClaimed, result.ReservedByOther
		out.countNodes(p.Nodes)
	case p.Action == ActionGate && (before.Phase == v1alpha1.PhaseRunning || before.Phase == v1alpha1.PhaseStopped):
		out.Phase, out.Message = before.Phase, before.Message
	case p.Action == ActionGate:
		out.countNodes(p.Nodes)
	}
}

func (out *Report) countNodes(d *Decision) { out.counts = &counts{len(d.Steps), d.Done, d.Failed} }

func (out *Report) listNodes(steps []Step) {
	out.Listed, out.Nodes = true, make([]v1alpha1.NodeStatus, len(steps))
	for i := range steps {
		out.Nodes[i] = steps[i].Status
		out.Nodes[i].Message = status.Shorten(out.Nodes[i].Message, maxNodeMessage)
	}
}

// addNodes reports the nodes and determines the conditions about them.
func (out *Report) addNodes(d *Decision) {
	steps := d.Steps
	out.countNodes(d)
	out.listNodes(steps)
	out.current = d.Current
	var jobs, nodes []string
	failedJob, failedNode := "", ""
	for i := range steps {
		s := &steps[i].Status
		place := fmt.Sprintf("Node is %d of %d: %s", i+1, len(steps), s.Name)
		switch {
		case s.Phase == v1alpha1.NodeFailed && s.Job != "":
			failedJob = cmp.Or(failedJob, place+": "+s.Message)
		case s.Phase == v1alpha1.NodeFailed:
			failedNode = cmp.Or(failedNode, place+": "+s.Message)
		case s.Phase == v1alpha1.NodeRunningJobs, s.Phase == v1alpha1.NodeCleaningUp:
			jobs = append(jobs, place+", "+s.Message)
		case s.Phase == v1alpha1.NodeReleased, s.Phase == v1alpha1.NodeUpgrading:
			nodes = append(nodes, place)
		}
	}
	out.addNodeCondition(ConditionJobs, failedJob, jobs)
	out.addNodeCondition(ConditionNodes, failedNode, nodes)
	out.addWaiting(steps)
}

// addWaiting names the first nodes that cannot be started, although the control plane is ready.
func (out *Report) addWaiting(steps []Step) {
	var names []string
	more := 0
	for i := range steps {
		s := &steps[i].Status
		switch {
		case s.Phase != v1alpha1.NodePending || s.Message == "":
		case len(names) < maxWaiting:
			names = append(names, fmt.Sprintf("%s (%s)", s.Name, status.Shorten(s.Message, maxWaitingMessage)))
		default:
			more++
		}
	}
	ready := out.Conditions[ConditionReady]
	if len(names) == 0 || !ready.met {
		return
	}
	out.Conditions.Set(ConditionReady, true, ready.message+"; nodes that have to wait: "+status.NamesOf(names, len(names)+more))
}

// addNodeCondition determines a condition about nodes, once one of them has started.
func (out *Report) addNodeCondition(kind, failure string, current []string) {
	if failure != "" || len(current) > 0 || out.counts.done > 0 {
		out.Conditions.Set(kind, failure == "", cmp.Or(failure, strings.Join(current, "; ")))
	}
}

// Status returns the status that the report describes, and all nodes; the status lists only some of them. known are the nodes at the time of the last
// status. The same report returns the same status, so that nothing is written at rest.
func (out *Report) Status(r *Run, known map[string]v1alpha1.NodeStatus) (v1alpha1.MutexRunConfigStatus, []v1alpha1.NodeStatus) {
	after := *r.Config.Status.DeepCopy()
	now := metav1.NewTime(r.Now.UTC().Truncate(time.Second))
	after.ObservedGeneration = r.Config.Generation
	if out.Version != "" && out.Version != after.Version {
		after.Version, after.Started, after.Finished, after.Nodes = out.Version, nil, nil, nil
		known = nil
	}
	after.Phase, after.Message = out.Phase, status.Shorten(out.Message, status.MaxMessage)
	if c := out.counts; c != nil {
		after.Total, after.Done, after.Failed = bounded.Int32(c.total), bounded.Int32(c.done), bounded.Int32(c.failed)
	}
	nodes := after.Nodes
	switch {
	case out.Listed:
		nodes = withTimes(out.Nodes, known, now)
		after.Nodes, after.Current = selectNodes(nodes), currentText(out.current)
	case out.Inactive:
		after.Failed = 0
		nodes = slices.DeleteFunc(nodes, func(n v1alpha1.NodeStatus) bool { return n.Phase != v1alpha1.NodeDone })
		after.Nodes = nodes
	}
	switch out.Phase {
	case v1alpha1.PhaseRunning:
		after.Finished = nil
		after.Started = cmp.Or(after.Started, &now)
	case v1alpha1.PhaseStopped, v1alpha1.PhaseWaiting:
	case v1alpha1.PhaseDone:
		after.Current, after.Finished = "", cmp.Or(after.Finished, &now)
	default:
		after.Current = ""
	}
	after.Settled = cmp.Or(out.settled, after.Settled)
	out.Conditions.ApplyTo(&after.Conditions, r.Config.Generation, now)
	return after, nodes
}

// withTimes returns nodes with the times that were known of them before and cannot be observed any more.
func withTimes(nodes []v1alpha1.NodeStatus, known map[string]v1alpha1.NodeStatus, now metav1.Time) []v1alpha1.NodeStatus {
	out := slices.Clone(nodes)
	for i := range out {
		n := &out[i]
		if n.Started != nil {
			n.Started = &metav1.Time{Time: n.Started.UTC().Truncate(time.Second)}
		}
		before, found := known[n.Name]
		if !found {
			continue
		}
		if n.Phase != v1alpha1.NodePending {
			n.Started = cmp.Or(before.Started, n.Started)
		}
		if n.Phase != v1alpha1.NodeDone {
			continue
		}
		n.Released = cmp.Or(n.Released, before.Released)
		if n.Finished = before.Finished; n.Finished == nil && before.Phase != v1alpha1.NodeDone {
			n.Finished = &now
		}
	}
	return out
}

// currentText names the nodes in progress in one line.
func currentText(names []string) string {
	if more := len(names) - maxCurrent; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxCurrent], ","), more)
	}
	return strings.Join(names, ",")
}

// selectNodes returns as many nodes as the status lists: first the nodes in progress and failed, then the nodes that wait, then the nodes that have
// finished, the latest first.
func selectNodes(nodes []v1alpha1.NodeStatus) []v1alpha1.NodeStatus {
	if len(nodes) <= MaxNodes {
		return nodes
	}
	rank := func(n *v1alpha1.NodeStatus) (rank int, finished int64) {
		switch {
		case n.Phase == v1alpha1.NodePending:
			return 1, 0
		case n.Phase == v1alpha1.NodeDone && n.Finished != nil:
			return 2, n.Finished.Unix()
		case n.Phase == v1alpha1.NodeDone:
			return 2, 0
		}
		return 0, 0
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		rankA, finishedA := rank(&nodes[a])
		rankB, finishedB := rank(&nodes[b])
		return cmp.Or(cmp.Compare(rankA, rankB), cmp.Compare(finishedB, finishedA))
	})
	order = order[:MaxNodes]
	slices.Sort(order)
	selected := make([]v1alpha1.NodeStatus, len(order))
	for i, index := range order {
		selected[i] = nodes[index]
	}
	return selected
}

// FailureIsNew reports whether no earlier process can have reported a Job that failed before this one was started: its node is where the failure has
// just left it, and the status does not show that yet.
func (out *Report) FailureIsNew(r *Run, job *batchv1.Job) bool {
	id, name := JobIDOf(r.Config.UID, job), keyOf(job).String()
	node := findNode(out.Nodes, job.Annotations[AnnotationNode])
	if node == nil || id.Version != r.Desired {
		return false
	}
	if before := findNode(r.Config.Status.Nodes, node.Name); before != nil && before.Phase == v1alpha1.NodeFailed && before.Job == name {
		return false
	}
	next := id
	next.Attempt++
	retried := r.hasJob(next)
	switch node.Phase {
	case v1alpha1.NodeFailed:
		return node.Job == name
	case v1alpha1.NodeRunningJobs:
		return id.Kind == BeforeUpgrade && !retried
	case v1alpha1.NodeCleaningUp:
		return id.Kind == AfterUpgrade && !retried
	}
	return false
}

func (r *Run) hasJob(id JobID) bool {
	for _, job := range r.Jobs {
		if JobIDOf(r.Config.UID, job) == id {
			return true
		}
	}
	return false
}

func findNode(nodes []v1alpha1.NodeStatus, name string) *v1alpha1.NodeStatus {
	if i := slices.IndexFunc(nodes, func(n v1alpha1.NodeStatus) bool { return n.Name == name }); i >= 0 {
		return &nodes[i]
	}
	return nil
}
