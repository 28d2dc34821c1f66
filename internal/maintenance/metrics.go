package maintenance

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/controller"
)

// maxNamed is how many nodes are named for each API group and phase. A user who may create NodeMaintenances chooses how many there are.
const maxNamed = 50

// maxNodeName is the longest name of a Node, in bytes. A NodeMaintenance may name anything.
const maxNodeName = 253

// Metrics are the capability's, for both groups together.
type Metrics struct {
	phases      *prometheus.GaugeVec
	nodes       *prometheus.GaugeVec
	took        prometheus.Histogram
	leaseErrors prometheus.Counter

	mu sync.Mutex
	// known has each NodeMaintenance, by group and name; series has the nodes of those in a phase, by group and phase.
	known  map[[2]string]known
	series map[[2]string]*series
}

// known is what the metrics count of a NodeMaintenance.
type known struct {
	phase medik8s.Phase
	node  string
}

// series is what the metrics have of an API group and a phase: how many NodeMaintenances name each node, and which nodes have a series.
type series struct {
	count map[string]int
	sum   int
	named []string
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		phases: c.GaugeVec("drover_maintenances",
			"NodeMaintenances by the API group they are of and by phase.",
			"group", "phase"),
		nodes: c.GaugeVec("drover_maintenance_nodes",
			"1 for each node of a NodeMaintenance that has not succeeded, by API group and phase; of each group and phase the first 50 nodes by name.",
			"group", "phase", "node"),
		took: c.Histogram("drover_maintenance_drain_duration_seconds",
			"Time from the cordon of a node until it was drained for the first time, in seconds.",
			1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4*3600, 24*3600),
		leaseErrors: c.Counter("drover_maintenance_lease_failures_total",
			"Attempts to acquire or renew the lease of a node that failed, except those that found another holder before the maintenance began."),
		known: map[[2]string]known{}, series: map[[2]string]*series{},
	}
	return m, c.Err()
}

// observe sets the phase of a NodeMaintenance, and its node.
func (m *Metrics) observe(group *Group, name, node string, phase medik8s.Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, now := [2]string{group.Resource.Group, name}, known{phase, bounded.Text(node, maxNodeName)}
	before := m.known[key]
	if before == now {
		return
	}
	m.count(group, before, -1)
	m.count(group, now, 1)
	m.known[key] = now
}

// forget removes a NodeMaintenance that is gone.
func (m *Metrics) forget(group *Group, name string) {
	m.observe(group, name, "", "")
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, [2]string{group.Resource.Group, name})
}

// count changes how many NodeMaintenances have a phase. Series end with the last one.
func (m *Metrics) count(group *Group, of known, change int) {
	if of.phase == "" {
		return
	}
	labels := [2]string{group.Resource.Group, string(of.phase)}
	s := m.series[labels]
	if s == nil {
		s = &series{count: map[string]int{}}
		m.series[labels] = s
	}
	s.sum += change
	if s.count[of.node] += change; s.count[of.node] == 0 {
		delete(s.count, of.node)
	}
	m.phases.WithLabelValues(labels[:]...).Set(float64(s.sum))
	if of.phase != medik8s.PhaseSucceeded {
		m.name(labels, s, of.node)
	}
	if s.sum == 0 {
		m.phases.DeleteLabelValues(labels[:]...)
		delete(m.series, labels)
	}
}

// name sets the series of the first nodes of a group and phase after a change of one node, and removes the series of the others.
func (m *Metrics) name(labels [2]string, s *series, changed string) {
	if len(s.named) == maxNamed && changed > s.named[maxNamed-1] {
		return // thousands of NodeMaintenances are not sorted at each change of one
	}
	names := slices.Sorted(maps.Keys(s.count))
	names = names[:min(len(names), maxNamed)]
	for _, node := range s.named {
		if !slices.Contains(names, node) {
			m.nodes.DeleteLabelValues(labels[0], labels[1], node)
		}
	}
	for _, node := range names {
		m.nodes.WithLabelValues(labels[0], labels[1], node).Set(1)
	}
	s.named = names
}
