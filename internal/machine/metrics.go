package machine

import (
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/status"
)

// The metrics; all are the incumbent's, with the labels that its alerts use.
var (
	createdDoc = status.MetricDoc{
		Name: "mapi_machine_created_timestamp_seconds", Type: "gauge", Help: "When the Machine was created, in seconds since 1970.",
		Labels: []string{"name", "namespace", "spec_provider_id", "node", "api_version", "phase"},
	}
	itemsDoc = status.MetricDoc{Name: "mapi_machine_items", Type: "gauge", Help: "How many Machines there are."}
	phaseDoc = status.MetricDoc{
		Name: "mapi_machine_phase_transition_seconds", Type: "histogram", Help: "Time from the Machine's creation to a phase.", Labels: []string{"phase"},
	}
	createFailedDoc = status.MetricDoc{
		Name: "mapi_instance_create_failed", Type: "counter", Help: "Refusals of the provider to make an instance.",
		Labels: []string{"name", "namespace", "reason"},
	}
	updateFailedDoc = status.MetricDoc{
		Name: "mapi_instance_update_failed", Type: "counter", Help: "Failures of the provider to look at an instance.",
		Labels: []string{"name", "namespace", "reason"},
	}
	deleteFailedDoc = status.MetricDoc{
		Name: "mapi_instance_delete_failed", Type: "counter", Help: "Refusals of the provider to end an instance.",
		Labels: []string{"name", "namespace", "reason"},
	}
)

// MetricDocs describes the metrics.
func MetricDocs() []status.MetricDoc {
	return []status.MetricDoc{createdDoc, itemsDoc, phaseDoc, createFailedDoc, updateFailedDoc, deleteFailedDoc}
}

// Metrics are the controller's.
type Metrics struct {
	created *prometheus.GaugeVec
	items   prometheus.Gauge
	phases  *prometheus.HistogramVec
	// failures are counted by the operation of the provider.
	failures map[string]*prometheus.CounterVec
}

// series is what the metrics show of one Machine.
type series struct {
	labels prometheus.Labels
	phase  string
}

// NewMetrics makes the collectors and registers them. It fails when one of the names is taken.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	counter := func(doc status.MetricDoc) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: doc.Name, Help: doc.Help}, doc.Labels)
	}
	m := &Metrics{
		created: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: createdDoc.Name, Help: createdDoc.Help}, createdDoc.Labels),
		items:   prometheus.NewGauge(prometheus.GaugeOpts{Name: itemsDoc.Name, Help: itemsDoc.Help}),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: phaseDoc.Name, Help: phaseDoc.Help, Buckets: []float64{5, 10, 20, 30, 60, 90, 120, 180, 240, 300, 360, 480, 600},
		}, phaseDoc.Labels),
		failures: map[string]*prometheus.CounterVec{
			"create": counter(createFailedDoc), "update": counter(updateFailedDoc), "delete": counter(deleteFailedDoc),
		},
	}
	for _, collector := range []prometheus.Collector{m.created, m.items, m.phases, m.failures["create"], m.failures["update"], m.failures["delete"]} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering the metrics of Machines: %w", err)
		}
	}
	return m, nil
}

// failed counts a refusal. The reasons are those of the API, so there are few.
func (m *Metrics) failed(operation string, machine types.NamespacedName, reason machinev1beta1.MachineStatusError) {
	m.failures[operation].WithLabelValues(machine.Name, machine.Namespace, string(reason)).Inc()
}

// forget drops the series of a Machine that is gone.
func (m *Metrics) forget(machine types.NamespacedName, s series) {
	if s.labels != nil {
		m.created.Delete(s.labels)
		m.items.Dec()
	}
	for _, failures := range m.failures {
		failures.DeletePartialMatch(prometheus.Labels{"name": machine.Name, "namespace": machine.Namespace})
	}
}

// phaseOf is the phase in a status; empty for none.
func phaseOf(status *machinev1beta1.MachineStatus) string {
	if status.Phase == nil {
		return ""
	}
	return *status.Phase
}

// measure shows where the Machine stands.
func (p *pass) measure(after *machinev1beta1.MachineStatus) {
	phase, node := phaseOf(after), ""
	if after.NodeRef != nil {
		node = after.NodeRef.Name
	}
	labels := prometheus.Labels{
		"name": p.key.Name, "namespace": p.key.Namespace, "spec_provider_id": nodelink.ProviderID(p.machine), "node": node,
		"api_version": machinev1beta1.GroupVersion.String(), "phase": phase,
	}
	s := &p.memory.counted
	if s.labels == nil {
		p.Metrics.items.Inc()
	}
	if phase != phaseOf(&p.machine.Status) && phase != "" && phase != machinev1beta1.PhaseDeleting {
		p.Metrics.phases.WithLabelValues(phase).Observe(p.now.Sub(p.machine.CreationTimestamp.Time).Seconds())
	}
	if s.labels != nil && s.phase == phase && s.labels["node"] == node && s.labels["spec_provider_id"] == labels["spec_provider_id"] {
		return
	}
	if s.labels != nil {
		p.Metrics.created.Delete(s.labels)
	}
	s.labels, s.phase = labels, phase
	p.Metrics.created.With(labels).Set(float64(p.machine.CreationTimestamp.Unix()))
}
