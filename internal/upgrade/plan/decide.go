package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// Input is what is known when the nodes of a run are decided on. The run is valid, its pools are claimed, its nodes labelled.
type Input struct {
	// Run is the MutexRunConfig.
	Run *v1alpha1.MutexRunConfig
	// Rules are its rules, in their order.
	Rules []Rule
	// Nodes are those of its targets.
	Nodes []*Node
	// Jobs are those of the run, by namespace and name.
	Jobs map[types.NamespacedName]*batchv1.Job
	// Desired is the version that is aimed at.
	Desired string
	// Wait says why no node may be begun now; empty for nothing.
	Wait string
	// Unavailable is how many nodes of a target pool may be out of service at once, by the pool's name; absent or below one is 1.
	Unavailable map[string]int
	// Now is the time of the decision.
	Now time.Time
}

// Decision is what the nodes of a run need next.
type Decision struct {
	// Phase is where the run stands, Message what it waits for.
	Phase   v1alpha1.Phase
	Message string
	// Steps are the nodes', in the order of their turns.
	Steps []Step
	// Done and Failed count nodes, LeftOut those of the failed ones that do not have the version and that nobody waits for; Current names those
	// under way.
	Done, Failed, LeftOut int
	Current               []string
	// Wake is when to look again without an event; zero for no need.
	Wake time.Time
}

// scope holds what one decision gathers on its way.
type scope struct {
	in   Input
	keys []string
	// jobs are the run's, by what they are for: a rule's names and namespaces may have been edited since.
	jobs map[JobID]*batchv1.Job
	// begun are the UIDs of the nodes that have a Job for this version.
	begun map[types.UID]bool
	// prepared are the versions for which a node has Jobs, by its UID.
	prepared map[types.UID][]string
	// older are Jobs before the upgrade of a node that have not ended, and are for another version than the one that is aimed at by now.
	older map[types.UID]*batchv1.Job
	// room is how many nodes may be begun still; out is how many nodes of a pool are out of service or under way, gone how many of them are
	// out of service or were let go.
	room      int
	out, gone map[string]int
	// stopped is the failure that stops the run; empty for none.
	stopped string
}

// Decide says what each node needs next. Nodes under way go on; others are begun as long as there is room.
func Decide(in Input) Decision {
	s := newScope(in)
	nodes := s.sorted()
	steps := make([]Step, len(nodes))
	for i, node := range nodes {
		steps[i] = s.node(node, false)
		s.count(node, &steps[i])
	}
	out := Decision{Phase: v1alpha1.PhaseRunning}
	for i, node := range nodes {
		s.letGo(node, &steps[i])
		if steps[i].Status.Phase == v1alpha1.NodePending {
			steps[i] = s.turn(node, steps[i])
		}
		if s.stopped != "" && steps[i].Status.Phase != v1alpha1.NodeCleaningUp {
			// Nothing new is begun; what was let go already comes to its end.
			if steps[i].Release {
				steps[i].Status.Phase = v1alpha1.NodeRunningJobs
			}
			steps[i].Job, steps[i].Release = nil, false
		}
		out.add(steps[i])
		if s.leftOut(node, &steps[i]) {
			out.LeftOut++
		}
	}
	out.settle(s)
	return out
}

func newScope(in Input) *scope {
	s := &scope{
		in: in, jobs: map[JobID]*batchv1.Job{}, begun: map[types.UID]bool{}, prepared: map[types.UID][]string{},
		older: map[types.UID]*batchv1.Job{}, out: map[string]int{}, gone: map[string]int{}, room: max(int(in.Run.Spec.MaxConcurrentNodes), 1),
	}
	for i := range in.Rules {
		s.keys = append(s.keys, in.Rules[i].Key)
	}
	for _, job := range in.Jobs {
		id := IDOf(in.Run.UID, job)
		s.jobs[id] = job
		if id.Kind != BeforeUpgrade {
			continue
		}
		if id.Version == in.Desired {
			s.begun[id.Node] = true
		} else if old := s.older[id.Node]; !Over(job) && (old == nil || job.Name < old.Name) {
			s.older[id.Node] = job
		}
		if !slices.Contains(s.prepared[id.Node], id.Version) {
			s.prepared[id.Node] = append(s.prepared[id.Node], id.Version)
		}
	}
	for _, versions := range s.prepared {
		slices.Sort(versions)
	}
	return s
}

// count takes the room of a node that is under way, and notes one that is out of service, and the first failure that stops the run.
func (s *scope) count(node *Node, step *Step) {
	busy := underWay(step.Status.Phase)
	if busy {
		s.room--
	}
	if busy || node.Unavailable {
		s.out[node.Pool]++
	}
	if node.Unavailable || s.away(node, step) {
		s.gone[node.Pool]++
	}
	if step.Status.Phase == v1alpha1.NodeFailed && !s.skipped(step) && s.stopped == "" {
		s.stopped = fmt.Sprintf("node %s: %s", node.Name, step.Status.Message)
	}
}

// away tells that a node was let go, and is not back with the version yet.
func (s *scope) away(node *Node, step *Step) bool {
	if step.Status.Released == nil {
		return false
	}
	switch step.Status.Phase {
	case v1alpha1.NodeReleased, v1alpha1.NodeUpgrading:
		return true
	case v1alpha1.NodeFailed:
		return !Same(node.Version, s.in.Desired)
	}
	return false
}

// budget says why a node may not be taken out of service besides so many nodes of its pool that are; empty for nothing.
func (s *scope) budget(node *Node, out map[string]int) string {
	others := out[node.Pool]
	if node.Unavailable {
		others--
	}
	limit := max(s.in.Unavailable[node.Pool], int(s.in.Run.Spec.MaxConcurrentNodes), 1)
	if others < limit {
		return ""
	}
	return fmt.Sprintf("%d of %d nodes that pool %s may have out of service are", others, limit, node.Pool)
}

// letGo keeps a node whose Jobs have run until there is room for it: they may have taken hours, in which others went out of service.
func (s *scope) letGo(node *Node, step *Step) {
	if !step.Release {
		return
	}
	why := s.budget(node, s.gone)
	switch {
	case s.room < 0:
		// A late Job has ended, or fewer nodes may be under way by now.
		s.room++
		why = "it is let go when fewer nodes are under way"
	case why == "":
		if !node.Unavailable {
			s.gone[node.Pool]++
		}
		return
	}
	step.Release, step.Status.Phase, step.Status.Message = false, v1alpha1.NodeRunningJobs, "its Jobs have run; "+why
}

// turn begins a node, or says why it is not its turn.
func (s *scope) turn(node *Node, step Step) Step {
	full := s.budget(node, s.out)
	switch {
	case s.stopped != "", s.room <= 0, s.in.Wait != "":
		return step
	case node.Blocked != "":
		step.Status.Message = node.Blocked
		return step
	case node.Version == "":
		step.Status.Message = "its version is not known"
		return step
	case full != "":
		step.Status.Message = full
		return step
	}
	s.room--
	if !node.Unavailable {
		s.out[node.Pool]++
	}
	return s.node(node, true)
}

// skipped tells that a node's failure does not stop the others.
func (s *scope) skipped(step *Step) bool {
	return s.in.Run.Spec.OnJobFailure.Action == v1alpha1.FailureSkipNode && step.Status.Job != ""
}

// leftOut tells that a node does not have the version, and that the run does not wait for it: a Job of it has failed.
func (s *scope) leftOut(node *Node, step *Step) bool {
	return step.Status.Phase == v1alpha1.NodeFailed && s.skipped(step) && node.Version != "" && !Same(node.Version, s.in.Desired)
}

func underWay(phase v1alpha1.NodePhase) bool {
	switch phase {
	case v1alpha1.NodeRunningJobs, v1alpha1.NodeReleased, v1alpha1.NodeUpgrading, v1alpha1.NodeCleaningUp:
		return true
	}
	return false
}

func (d *Decision) add(step Step) {
	d.Steps = append(d.Steps, step)
	switch phase := step.Status.Phase; {
	case phase == v1alpha1.NodeDone:
		d.Done++
	case phase == v1alpha1.NodeFailed:
		d.Failed++
	case underWay(phase):
		d.Current = append(d.Current, step.Status.Name)
	}
	if !step.Wake.IsZero() && (d.Wake.IsZero() || step.Wake.Before(d.Wake)) {
		d.Wake = step.Wake
	}
}

// settle says where the whole run stands.
func (d *Decision) settle(s *scope) {
	switch {
	case s.stopped != "":
		d.Phase, d.Message = v1alpha1.PhaseStopped, s.stopped
	case d.Done+d.Failed == len(d.Steps):
		d.Phase = v1alpha1.PhaseDone
	case len(d.Current) > 0:
		d.Message = strings.Join(d.Current, ", ")
	case s.in.Wait != "":
		d.Phase, d.Message = v1alpha1.PhaseWaiting, s.in.Wait
	default:
		d.Phase, d.Message = v1alpha1.PhaseWaiting, d.obstacle()
	}
}

// obstacle is what the first node waits for that has not had its turn.
func (d *Decision) obstacle() string {
	for i := range d.Steps {
		if status := &d.Steps[i].Status; status.Phase == v1alpha1.NodePending && status.Message != "" {
			return "node " + status.Name + ": " + status.Message
		}
	}
	return ""
}
