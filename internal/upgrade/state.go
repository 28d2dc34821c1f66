package upgrade

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// state is what the controller knows of a run between reconciliations.
type state struct {
	// firstSeen is when this process reconciled the run first, written when it wrote the status last.
	firstSeen, written time.Time
	// phases are the phases of nodes, by name. reportedJobs are the Jobs whose failure has been reported.
	phases       map[string]nodePhase
	reportedJobs map[types.UID]bool
	// drains are the drains of nodes by UID, delays are why released nodes are not upgraded yet, by name.
	drains map[types.UID]observedDrain
	delays map[string]delay
	// passedOver is why nodes were passed over when a node could last be started, by UID.
	passedOver map[types.UID]string
	// nodes are the nodes at the time of the last status, including the nodes that it does not list.
	nodes map[string]v1alpha1.NodeStatus
	// finalized reports whether the finalizer has been removed; the cache may still show the object.
	finalized bool
}

func newState(now time.Time) *state {
	return &state{firstSeen: now, phases: map[string]nodePhase{}, reportedJobs: map[types.UID]bool{}, nodes: map[string]v1alpha1.NodeStatus{}}
}

// nodePhase is the phase of a node, and since when it has been in it.
type nodePhase struct {
	phase v1alpha1.NodePhase
	since time.Time
}

// observedDrain is a drain, and when it was observed.
type observedDrain struct {
	at    time.Time
	drain plan.Drain
}

// delay is why a released node is not upgraded yet.
type delay struct {
	reason   plan.Delay
	since    time.Time
	reported bool
}

// knownNodes returns the nodes at the time of the last status. After a restart, they are the nodes that the status lists. If a node has finished
// since, it has the time: the status may be written later.
func (s *state) knownNodes(status *v1alpha1.MutexRunConfigStatus) map[string]v1alpha1.NodeStatus {
	known := maps.Clone(s.nodes)
	for _, node := range status.Nodes {
		known[node.Name] = node
	}
	for name, node := range known {
		if now := s.phases[name]; now.phase == v1alpha1.NodeDone && node.Phase != v1alpha1.NodeDone && node.Finished == nil {
			node.Finished = &metav1.Time{Time: now.since.UTC().Truncate(time.Second)}
			known[name] = node
		}
	}
	return known
}
