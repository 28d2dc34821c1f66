package plan

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Ready tells that the control plane has that version, Open that a maintenance window is open.
	Ready, Open bool
	// Released is when nodes were let go, by name, as far as it is known.
	Released map[string]metav1.Time
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
	// Done and Failed count nodes, Current names those under way.
	Done, Failed int
	Current      []string
	// Wake is when to look again without an event; zero for no need.
	Wake time.Time
}

// scope holds what one decision gathers on its way.
type scope struct {
	in   Input
	keys []string
}

// Decide says what each node needs next. Nodes under way go on; others are begun as long as there is room.
func Decide(in Input) Decision {
	s := &scope{in: in}
	for i := range in.Rules {
		s.keys = append(s.keys, in.Rules[i].Key)
	}
	nodes := s.sorted()
	out := Decision{Phase: v1alpha1.PhaseRunning}
	room, stopped := s.survey(nodes)
	for _, node := range nodes {
		step := s.node(node, in.Ready && in.Open && stopped == "" && room > 0)
		if step.Status.Phase == v1alpha1.NodeRunningJobs && !s.started(node) {
			room--
		}
		if stopped != "" && step.Status.Phase != v1alpha1.NodeCleaningUp {
			// Nothing new is begun; what was let go already comes to its end.
			step.Job, step.Release = nil, false
		}
		out.add(step)
	}
	out.settle(s, stopped)
	return out
}

// survey says how many nodes may be begun, and which failure stops the run; empty for none.
func (s *scope) survey(nodes []*Node) (room int, stopped string) {
	room = max(int(s.in.Run.Spec.MaxConcurrentNodes), 1)
	for _, node := range nodes {
		step := s.node(node, false)
		if underWay(step.Status.Phase) {
			room--
		}
		if step.Status.Phase == v1alpha1.NodeFailed && !s.skipped(&step) && stopped == "" {
			stopped = fmt.Sprintf("node %s: %s", node.Name, step.Status.Message)
		}
	}
	return room, stopped
}

// skipped tells that a node's failure does not stop the others.
func (s *scope) skipped(step *Step) bool {
	return s.in.Run.Spec.OnJobFailure.Action == v1alpha1.FailureSkipNode && step.Status.Job != ""
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
func (d *Decision) settle(s *scope, stopped string) {
	switch {
	case stopped != "":
		d.Phase, d.Message = v1alpha1.PhaseStopped, stopped
	case d.Done+d.Failed == len(d.Steps):
		d.Phase = v1alpha1.PhaseDone
	case len(d.Current) > 0:
		d.Message = strings.Join(d.Current, ", ")
	case !s.in.Ready:
		d.Phase, d.Message = v1alpha1.PhaseWaiting, "the control plane does not have version "+s.in.Desired+" yet"
	case !s.in.Open:
		d.Phase, d.Message = v1alpha1.PhaseWaiting, "no maintenance window is open"
	}
}
