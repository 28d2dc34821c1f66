package maintenance

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/controller"
)

// Metrics are the capability's, for both groups together.
type Metrics struct {
	phases      *prometheus.GaugeVec
	took        prometheus.Histogram
	leaseErrors prometheus.Counter

	mu sync.Mutex
	// phase has the phase of each NodeMaintenance, by group and name; counts has how many there are, by group and phase.
	phase  map[[2]string]medik8s.Phase
	counts map[[2]string]int
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		phases: c.GaugeVec("drover_maintenances",
			"NodeMaintenances by the API group they are of and by phase.",
			"group", "phase"),
		took: c.Histogram("drover_maintenance_drain_duration_seconds",
			"Time from the cordon of a node until it was drained for the first time, in seconds.",
			1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4*3600, 24*3600),
		leaseErrors: c.Counter("drover_maintenance_lease_failures_total",
			"Attempts to acquire or renew the lease of a node that failed, except those that found another holder before the maintenance began."),
		phase: map[[2]string]medik8s.Phase{}, counts: map[[2]string]int{},
	}
	return m, c.Err()
}

// observe sets the phase of a NodeMaintenance.
func (m *Metrics) observe(group *Group, name string, phase medik8s.Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{group.Resource.Group, name}
	if m.phase[key] == phase {
		return
	}
	m.count(group, m.phase[key], -1)
	m.count(group, phase, 1)
	m.phase[key] = phase
}

// forget removes a NodeMaintenance that is gone.
func (m *Metrics) forget(group *Group, name string) {
	m.observe(group, name, "")
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.phase, [2]string{group.Resource.Group, name})
}

// count changes how many NodeMaintenances have a phase. The series ends with the last one.
func (m *Metrics) count(group *Group, phase medik8s.Phase, change int) {
	if phase == "" {
		return
	}
	series := [2]string{group.Resource.Group, string(phase)}
	m.counts[series] += change
	m.phases.WithLabelValues(series[:]...).Set(float64(m.counts[series]))
	if m.counts[series] == 0 {
		m.phases.DeleteLabelValues(series[:]...)
	}
}
