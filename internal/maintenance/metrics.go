package maintenance

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/status"
)

var (
	phasesDoc = status.MetricDoc{
		Name: "drover_maintenances", Type: "gauge", Labels: []string{"group", "phase"},
		Help: "NodeMaintenances by the API group they are of and by phase.",
	}
	tookDoc = status.MetricDoc{
		Name: "drover_maintenance_drain_duration_seconds", Type: "histogram",
		Help: "Time from the cordon of a node until it was drained for the first time, in seconds.",
	}
	leaseErrorsDoc = status.MetricDoc{
		Name: "drover_maintenance_lease_failures_total", Type: "counter",
		Help: "Attempts to take or renew the lease of a node that failed, those aside that found somebody else at work before they began.",
	}
)

// MetricDocs describes the metrics of this capability.
func MetricDocs() []status.MetricDoc { return []status.MetricDoc{phasesDoc, tookDoc, leaseErrorsDoc} }

// Metrics are the capability's, for both groups together.
type Metrics struct {
	phases      *prometheus.GaugeVec
	took        prometheus.Histogram
	leaseErrors prometheus.Counter

	mu     sync.Mutex
	phase  map[[2]string]medik8s.Phase
	counts map[[2]string]int
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		phases: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: phasesDoc.Name, Help: phasesDoc.Help}, phasesDoc.Labels),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: tookDoc.Name, Help: tookDoc.Help, Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600},
		}),
		leaseErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: leaseErrorsDoc.Name, Help: leaseErrorsDoc.Help}),
		phase:       map[[2]string]medik8s.Phase{}, counts: map[[2]string]int{},
	}
	for _, collector := range []prometheus.Collector{m.phases, m.took, m.leaseErrors} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe notes the phase of one maintenance.
func (m *Metrics) observe(flavour *Flavour, name string, phase medik8s.Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(flavour, name, phase)
}

// forget drops a maintenance that is gone.
func (m *Metrics) forget(flavour *Flavour, name string) { m.observe(flavour, name, "") }

func (m *Metrics) move(flavour *Flavour, name string, phase medik8s.Phase) {
	group, key := flavour.Resource.Group, [2]string{flavour.Resource.Group, name}
	before := m.phase[key]
	if before == phase {
		return
	}
	for _, change := range []struct {
		phase medik8s.Phase
		by    int
	}{{before, -1}, {phase, 1}} {
		if change.phase == "" {
			continue
		}
		series := [2]string{group, string(change.phase)}
		m.counts[series] += change.by
		if m.counts[series] == 0 {
			// The series ends with its last object.
			delete(m.counts, series)
			m.phases.DeleteLabelValues(series[0], series[1])
			continue
		}
		m.phases.WithLabelValues(series[0], series[1]).Set(float64(m.counts[series]))
	}
	if phase == "" {
		delete(m.phase, key)
		return
	}
	m.phase[key] = phase
}
