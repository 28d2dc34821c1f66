package upgrade

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
)

var (
	runDoc = status.MetricDoc{
		Name: "drover_upgrade_run_phase", Type: "gauge", Labels: []string{"namespace", "name", "phase"},
		Help: "1 for the phase that a MutexRunConfig is in.",
	}
	nodesDoc = status.MetricDoc{
		Name: "drover_upgrade_nodes", Type: "gauge", Labels: []string{"namespace", "name", "phase"},
		Help: "Nodes of a MutexRunConfig by phase.",
	}
	tookDoc = status.MetricDoc{
		Name: "drover_upgrade_phase_duration_seconds", Type: "histogram", Labels: []string{"phase"},
		Help: "Time that nodes were in a phase, in seconds, of those that came into it and left it while this process was at work.",
	}
	jobsDoc = status.MetricDoc{
		Name: "drover_upgrade_jobs_total", Type: "counter", Labels: []string{"kind", "result"},
		Help: "Jobs of rules, before and after the upgrade of nodes, by what became of them: created, failed.",
	}
)

// Values of the label result.
const (
	resultCreated = "created"
	resultFailed  = "failed"
)

// MetricDocs describes the metrics of this capability.
func MetricDocs() []status.MetricDoc { return []status.MetricDoc{runDoc, nodesDoc, tookDoc, jobsDoc} }

// Metrics are the capability's.
type Metrics struct {
	run, nodes *prometheus.GaugeVec
	took       *prometheus.HistogramVec
	jobs       *prometheus.CounterVec
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	gauge := func(doc status.MetricDoc) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: doc.Name, Help: doc.Help}, doc.Labels)
	}
	m := &Metrics{
		run: gauge(runDoc), nodes: gauge(nodesDoc),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: tookDoc.Name, Help: tookDoc.Help, Buckets: []float64{0.1, 1, 5, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600},
		}, tookDoc.Labels),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: jobsDoc.Name, Help: jobsDoc.Help}, jobsDoc.Labels),
	}
	for _, collector := range []prometheus.Collector{m.run, m.nodes, m.took, m.jobs} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe notes where a run stands.
func (m *Metrics) observe(run *v1alpha1.MutexRunConfig, phase v1alpha1.Phase) {
	m.run.DeletePartialMatch(prometheus.Labels{"namespace": run.Namespace, "name": run.Name})
	m.run.WithLabelValues(run.Namespace, run.Name, string(phase)).Set(1)
}

// count notes how many of its nodes are in which phase.
func (m *Metrics) count(run *v1alpha1.MutexRunConfig, nodes map[v1alpha1.NodePhase]int) {
	m.uncount(run)
	for phase, count := range nodes {
		m.nodes.WithLabelValues(run.Namespace, run.Name, string(phase)).Set(float64(count))
	}
}

// uncount drops the counts of a run's nodes.
func (m *Metrics) uncount(run *v1alpha1.MutexRunConfig) {
	m.nodes.DeletePartialMatch(prometheus.Labels{"namespace": run.Namespace, "name": run.Name})
}

// left notes how long a node was in a phase.
func (m *Metrics) left(phase v1alpha1.NodePhase, took time.Duration) {
	m.took.WithLabelValues(string(phase)).Observe(took.Seconds())
}

// forget drops the series of a run.
func (m *Metrics) forget(namespace, name string) {
	of := prometheus.Labels{"namespace": namespace, "name": name}
	m.run.DeletePartialMatch(of)
	m.nodes.DeletePartialMatch(of)
}
