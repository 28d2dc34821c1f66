package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// Decision is what the nodes of a run need next.
type Decision struct {
	// Phase and Message are the run's.
	Phase   v1alpha1.Phase
	Message string
	// Steps are the nodes', in the order of their turns.
	Steps []Step
	// Done and Failed count nodes. LeftOut counts the failed nodes that have another version and that the run does not wait for. Current names the nodes
	// in progress.
	Done, Failed, LeftOut int
	Current               []string
	// Wake is when to decide again without an event; zero is never.
	Wake time.Time

	turns *turns
}

// turns decides which nodes have their turn: the jobs that exist do not change, the counts do.
type turns struct {
	run *Run
	// wait is why no node may be started now.
	wait string
	// jobs are the run's, by what they are for: a rule's jobName and jobNamespace may have been edited since.
	jobs map[JobID]*batchv1.Job
	// started are the UIDs of the nodes that have a Job for the desired version. prepared are the versions that a node has Jobs for, by its UID.
	started  map[types.UID]bool
	prepared map[types.UID][]string
	// previous are running Jobs before the upgrade of a node to another version than the desired one.
	previous map[types.UID]*batchv1.Job
	// slots is how many more nodes may be started. For each target, busy counts the nodes that are unavailable or in progress, and absent the nodes that
	// are unavailable or released.
	slots        int
	busy, absent map[string]int
	// stopped is the failure that stops the run; empty if there is none.
	stopped string
}

// DecideNodes decides what each node of a valid run needs next, once its MachineConfigPools are reserved and its nodes labeled. Nodes in progress
// continue; others start as long as there are free slots.
func DecideNodes(run *Run) Decision {
	t := newTurns(run)
	nodes := t.sorted()
	steps := make([]Step, len(nodes))
	for i, node := range nodes {
		steps[i] = t.step(node, false)
		t.count(node, &steps[i])
	}
	for i, node := range nodes {
		step := &steps[i]
		t.checkRelease(node, step)
		t.start(node, step)
		if t.stopped != "" && step.Status.Phase != v1alpha1.NodeCleaningUp {
			// Nothing new starts; the upgrades of released nodes continue.
			if step.Release != nil {
				step.Status.Phase = v1alpha1.NodeRunningJobs
			}
			step.Job, step.Release = nil, nil
		}
	}
	out := Decision{Steps: steps, turns: t}
	out.summarize()
	return out
}

// Apply returns the decision as it was carried out. It calls apply for each step; if that passes a node over, the next node that may start has its
// slot.
func (d *Decision) Apply(apply func(*Step)) *Decision {
	t := *d.turns
	t.busy = maps.Clone(t.busy)
	out := &Decision{Steps: slices.Clone(d.Steps), turns: &t}
	for i := range out.Steps {
		step := &out.Steps[i]
		t.start(step.Node, step)
		current := inProgress(step.Status.Phase)
		apply(step)
		if current && step.Status.Phase == v1alpha1.NodePending {
			t.slots++
			if !step.Node.Unavailable {
				t.busy[step.Node.MCP]--
			}
		}
	}
	out.summarize()
	return out
}

func newTurns(run *Run) *turns {
	t := &turns{
		run: run, wait: run.Wait, jobs: map[JobID]*batchv1.Job{}, started: map[types.UID]bool{}, prepared: map[types.UID][]string{},
		previous: map[types.UID]*batchv1.Job{}, busy: map[string]int{}, absent: map[string]int{}, slots: max(int(run.Config.Spec.MaxConcurrentNodes), 1),
	}
	if run.Config.Spec.DryRun {
		t.wait = "spec.dryRun is set"
	}
	for _, job := range run.Jobs {
		id := JobIDOf(run.Config.UID, job)
		t.jobs[id] = job
		if id.Kind != BeforeUpgrade {
			continue
		}
		if id.Version == run.Desired {
			t.started[id.Node] = true
		} else if other := t.previous[id.Node]; !IsFinished(job) && (other == nil || job.Name < other.Name) {
			t.previous[id.Node] = job
		}
		if !slices.Contains(t.prepared[id.Node], id.Version) {
			t.prepared[id.Node] = append(t.prepared[id.Node], id.Version)
		}
	}
	for _, versions := range t.prepared {
		slices.Sort(versions)
	}
	return t
}

// sorted returns the nodes in the order of their turns.
func (t *turns) sorted() []*Node {
	zone := func(n *Node) string {
		if t.run.Config.Spec.NodeOrder == v1alpha1.OrderZone {
			return n.Labels[corev1.LabelTopologyZone]
		}
		return ""
	}
	return slices.SortedFunc(slices.Values(t.run.Nodes), func(a, b *Node) int {
		return cmp.Or(cmp.Compare(zone(a), zone(b)), cmp.Compare(a.Name, b.Name))
	})
}

// count counts a node that is in progress or unavailable, and records the first failure that stops the run.
func (t *turns) count(node *Node, step *Step) {
	current := inProgress(step.Status.Phase)
	if current {
		t.slots--
	}
	if current || node.Unavailable {
		t.busy[node.MCP]++
	}
	if node.Unavailable || t.isAbsent(node, step) {
		t.absent[node.MCP]++
	}
	if step.Status.Phase == v1alpha1.NodeFailed && !t.isSkipped(step) && t.stopped == "" {
		t.stopped = fmt.Sprintf("node %s: %s", node.Name, step.Status.Message)
	}
}

// isAbsent reports whether a node was released and is not back with the desired version yet.
func (t *turns) isAbsent(node *Node, step *Step) bool {
	if step.Status.Released == nil {
		return false
	}
	switch step.Status.Phase {
	case v1alpha1.NodeReleased, v1alpha1.NodeUpgrading:
		return true
	case v1alpha1.NodeFailed:
		return !SameVersion(node.Version, t.run.Desired)
	}
	return false
}

// exceedsLimit returns why a node of a target may not become unavailable in addition to the counted ones; empty if it may.
func (t *turns) exceedsLimit(node *Node, counted map[string]int) string {
	others := counted[node.MCP]
	if node.Unavailable {
		others--
	}
	limit := max(t.run.MaxUnavailable[node.MCP], int(t.run.Config.Spec.MaxConcurrentNodes), 1)
	if others < limit {
		return ""
	}
	return fmt.Sprintf("%d of the %d nodes of MachineConfigPool %s that may be unavailable are", others, limit, node.MCP)
}

// checkRelease delays the release of a node until there is a free slot: its Jobs may have taken hours, and other nodes may have become unavailable
// meanwhile.
func (t *turns) checkRelease(node *Node, step *Step) {
	if step.Release == nil {
		return
	}
	reason := t.exceedsLimit(node, t.absent)
	switch {
	case t.slots < 0:
		// A Job has ended after its timeout, or maxConcurrentNodes was decreased.
		t.slots++
		reason = "it is released when fewer nodes are in progress"
	case reason == "":
		if !node.Unavailable {
			t.absent[node.MCP]++
		}
		return
	}
	step.Release, step.Status.Phase, step.Status.Message = nil, v1alpha1.NodeRunningJobs, "its Jobs have succeeded; "+reason
}

// start starts a pending node, or says why it has to wait.
func (t *turns) start(node *Node, step *Step) {
	if step.Status.Phase != v1alpha1.NodePending {
		return
	}
	limit := t.exceedsLimit(node, t.busy)
	switch {
	case t.stopped != "", t.wait != "":
	case t.slots <= 0:
		step.Status.Message = cmp.Or(node.Blocked, node.PassedOver)
	case node.Blocked != "":
		step.Status.Message = node.Blocked
	case node.Version == "":
		step.Status.Message = "its version is not known"
	case limit != "":
		step.Status.Message = limit
	default:
		t.slots--
		if !node.Unavailable {
			t.busy[node.MCP]++
		}
		*step = t.step(node, true)
	}
}

// isSkipped reports whether the failure of a node does not stop the run.
func (t *turns) isSkipped(step *Step) bool {
	return t.run.Config.Spec.OnJobFailure.Action == v1alpha1.FailureSkipNode && step.Status.Job != ""
}

func inProgress(phase v1alpha1.NodePhase) bool {
	switch phase {
	case v1alpha1.NodeRunningJobs, v1alpha1.NodeReleased, v1alpha1.NodeUpgrading, v1alpha1.NodeCleaningUp:
		return true
	}
	return false
}

// summarize counts the nodes, and sets the phase and the message of the run.
func (d *Decision) summarize() {
	for i := range d.Steps {
		d.add(&d.Steps[i])
	}
	t := d.turns
	switch d.Phase = v1alpha1.PhaseRunning; {
	case t.stopped != "":
		d.Phase, d.Message = v1alpha1.PhaseStopped, t.stopped
	case d.Done+d.Failed == len(d.Steps):
		d.Phase = v1alpha1.PhaseDone
	case len(d.Current) > 0:
		d.Message = strings.Join(d.Current, ", ")
	case t.wait != "":
		d.Phase, d.Message = v1alpha1.PhaseWaiting, t.wait
	default:
		d.Phase = v1alpha1.PhaseWaiting
		for i := range d.Steps {
			if s := &d.Steps[i].Status; d.Message == "" && s.Phase == v1alpha1.NodePending && s.Message != "" {
				d.Message = "node " + s.Name + ": " + s.Message
			}
		}
	}
}

func (d *Decision) add(step *Step) {
	switch phase := step.Status.Phase; {
	case phase == v1alpha1.NodeDone:
		d.Done++
	case phase == v1alpha1.NodeFailed:
		d.Failed++
		if d.turns.isSkipped(step) && d.turns.run.isOutdated(step.Node) {
			d.LeftOut++
		}
	case inProgress(phase):
		d.Current = append(d.Current, step.Status.Name)
	}
	d.Wake = bounded.Earliest(d.Wake, step.Wake)
}
