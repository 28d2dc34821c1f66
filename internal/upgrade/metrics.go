package upgrade

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

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
	durationDoc = status.MetricDoc{
		Name: "drover_upgrade_phase_duration_seconds", Type: "histogram", Labels: []string{"phase"},
		Help: "Time that nodes were in a phase, in seconds, if they entered and left it while this process was running.",
	}
	jobsDoc = status.MetricDoc{
		Name: "drover_upgrade_jobs_total", Type: "counter", Labels: []string{"kind", "result"},
		Help: "Jobs of rules, before and after the upgrade of nodes, by result: created, failed.",
	}
)

// Values of the label result.
const (
	resultCreated = "created"
	resultFailed  = "failed"
)

// MetricDocs describes the metrics of this capability.
func MetricDocs() []status.MetricDoc {
	return []status.MetricDoc{runDoc, nodesDoc, durationDoc, jobsDoc}
}

// Metrics are the capability's.
type Metrics struct {
	run, nodes *prometheus.GaugeVec
	durations  *prometheus.HistogramVec
	jobs       *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	gauge := func(doc status.MetricDoc) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: doc.Name, Help: doc.Help}, doc.Labels)
	}
	m := &Metrics{
		run: gauge(runDoc), nodes: gauge(nodesDoc),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: durationDoc.Name, Help: durationDoc.Help, Buckets: []float64{0.1, 1, 5, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600},
		}, durationDoc.Labels),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: jobsDoc.Name, Help: jobsDoc.Help}, jobsDoc.Labels),
	}
	for _, collector := range []prometheus.Collector{m.run, m.nodes, m.durations, m.jobs} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// setPhase sets the phase of a run.
func (m *Metrics) setPhase(run types.NamespacedName, phase v1alpha1.Phase) {
	m.run.DeletePartialMatch(labelsOf(run))
	m.run.WithLabelValues(run.Namespace, run.Name, string(phase)).Set(1)
}

// setNodes sets how many nodes of a run are in each phase; nil removes the series.
func (m *Metrics) setNodes(run types.NamespacedName, counts map[v1alpha1.NodePhase]int) {
	m.nodes.DeletePartialMatch(labelsOf(run))
	for phase, count := range counts {
		m.nodes.WithLabelValues(run.Namespace, run.Name, string(phase)).Set(float64(count))
	}
}

// forget removes the series of a run.
func (m *Metrics) forget(run types.NamespacedName) {
	m.run.DeletePartialMatch(labelsOf(run))
	m.nodes.DeletePartialMatch(labelsOf(run))
}

func labelsOf(run types.NamespacedName) prometheus.Labels {
	return prometheus.Labels{"namespace": run.Namespace, "name": run.Name}
}
