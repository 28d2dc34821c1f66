package healthcheck

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/controller"
)

// Metrics holds the controller's collectors. Create one for each process: it outlives the controller, which stops when its CRDs are deleted.
type Metrics struct {
	covered, shortCircuit, waiting *prometheus.GaugeVec
	remediated, attempts           *prometheus.CounterVec
	delay                          prometheus.Histogram
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		covered: c.GaugeVec("mapi_machinehealthcheck_nodes_covered",
			"Machines that a MachineHealthCheck selects.",
			"name", "namespace"),
		shortCircuit: c.GaugeVec("mapi_machinehealthcheck_short_circuit",
			"1 while remediation is not allowed because too many Machines are not healthy, else 0.",
			"name", "namespace"),
		waiting: c.GaugeVec("drover_healthcheck_waiting_machines",
			"Machines that need remediation and are not remediated, by the reason in the condition RemediationProgressing.",
			"name", "namespace", "reason"),
		remediated: c.CounterVec("mapi_machinehealthcheck_remediation_success_total",
			"Machines that have been deleted for a MachineHealthCheck.",
			"name", "namespace"),
		attempts: c.CounterVec("drover_healthcheck_remediations_total",
			"Attempts to start a remediation, by means (deletion, annotation, template) and result (ok, conflict, gone, denied, error).",
			"means", "result"),
		delay: c.Histogram("drover_healthcheck_remediation_delay_seconds",
			"Seconds from when a Machine needed remediation until its remediation started.",
			.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4*3600),
	}
	return m, c.Err()
}

// observe sets the metrics of a MachineHealthCheck.
func (m *Metrics) observe(key types.NamespacedName, covered int, restricted bool) {
	m.covered.WithLabelValues(key.Name, key.Namespace).Set(float64(covered))
	circuit := 0.0
	if restricted {
		circuit = 1
	}
	m.shortCircuit.WithLabelValues(key.Name, key.Namespace).Set(circuit)
	// The counter exists before its first increment, which rate() would miss otherwise.
	m.remediated.WithLabelValues(key.Name, key.Namespace)
}

// wait sets how many Machines are blocked, by reason. A reason that blocks none any more has no series.
func (m *Metrics) wait(key types.NamespacedName, before, after map[string]int) {
	for reason := range before {
		if after[reason] == 0 {
			m.waiting.DeleteLabelValues(key.Name, key.Namespace, reason)
		}
	}
	for reason, count := range after {
		m.waiting.WithLabelValues(key.Name, key.Namespace, reason).Set(float64(count))
	}
}

// forget removes the metrics of a MachineHealthCheck that is gone.
func (m *Metrics) forget(key types.NamespacedName) {
	series := prometheus.Labels{"name": key.Name, "namespace": key.Namespace}
	for _, vec := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.covered, m.shortCircuit, m.waiting, m.remediated} {
		vec.DeletePartialMatch(series)
	}
}

// reset removes the metrics of all MachineHealthChecks, when the controller stops.
func (m *Metrics) reset() {
	for _, vec := range []interface{ Reset() }{m.covered, m.shortCircuit, m.waiting, m.remediated} {
		vec.Reset()
	}
}
