package upgrade

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
)

// Values of the label result.
const (
	resultCreated = "created"
	resultFailed  = "failed"
)

// Metrics are the capability's.
type Metrics struct {
	run, nodes *prometheus.GaugeVec
	durations  *prometheus.HistogramVec
	jobs       *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		run:   c.GaugeVec("drover_upgrade_run_phase", "1 for the phase that a MutexRunConfig is in.", "namespace", "name", "phase"),
		nodes: c.GaugeVec("drover_upgrade_nodes", "Nodes of a MutexRunConfig by phase.", "namespace", "name", "phase"),
		durations: c.HistogramVec("drover_upgrade_phase_duration_seconds",
			"Time that nodes were in a phase, in seconds, if they entered and left it while this process was running.",
			[]float64{0.1, 1, 5, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}, "phase"),
		jobs: c.CounterVec("drover_upgrade_jobs_total",
			"Jobs of rules, before and after the upgrade of nodes, by result: created, failed.",
			"kind", "result"),
	}
	return m, c.Err()
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
