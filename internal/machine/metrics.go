package machine

import (
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/status"
)

// The metrics; all are machine-api-operator's, with the labels that its alerts use.
var (
	createdDoc = status.MetricDoc{
		Name: "mapi_machine_created_timestamp_seconds", Type: "gauge", Help: "When the Machine was created, in seconds since 1970.",
		Labels: []string{"name", "namespace", "spec_provider_id", "node", "api_version", "phase"},
	}
	itemsDoc = status.MetricDoc{Name: "mapi_machine_items", Type: "gauge", Help: "Number of Machines."}
	phaseDoc = status.MetricDoc{
		Name: "mapi_machine_phase_transition_seconds", Type: "histogram", Help: "Time from the Machine's creation to a phase.", Labels: []string{"phase"},
	}
	createFailedDoc = status.MetricDoc{
		Name: "mapi_instance_create_failed", Type: "counter", Help: "Errors of the provider when it was asked to create an instance.",
		Labels: []string{"name", "namespace", "reason"},
	}
	updateFailedDoc = status.MetricDoc{
		Name: "mapi_instance_update_failed", Type: "counter", Help: "Errors of the provider when it was asked for an instance.",
		Labels: []string{"name", "namespace", "reason"},
	}
	deleteFailedDoc = status.MetricDoc{
		Name: "mapi_instance_delete_failed", Type: "counter", Help: "Errors of the provider when it was asked to delete an instance.",
		Labels: []string{"name", "namespace", "reason"},
	}
)

// MetricDocs describes the metrics.
func MetricDocs() []status.MetricDoc {
	return []status.MetricDoc{createdDoc, itemsDoc, phaseDoc, createFailedDoc, updateFailedDoc, deleteFailedDoc}
}

// Metrics holds the controller's collectors.
type Metrics struct {
	created *prometheus.GaugeVec
	items   prometheus.Gauge
	phases  *prometheus.HistogramVec
	// failures are the errors of the provider, by operation.
	failures map[string]*prometheus.CounterVec
}

// series is what the metrics show of one Machine.
type series struct{ labels prometheus.Labels }

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		created: c.GaugeVec(createdDoc), items: c.Gauge(itemsDoc),
		phases: c.HistogramVec(phaseDoc, 5, 10, 20, 30, 60, 90, 120, 180, 240, 300, 360, 480, 600),
		failures: map[string]*prometheus.CounterVec{
			"create": c.CounterVec(createFailedDoc), "update": c.CounterVec(updateFailedDoc), "delete": c.CounterVec(deleteFailedDoc),
		},
	}
	return m, c.Err()
}

// failed counts an error of the provider. The reasons are those of the API, so there are few.
func (m *Metrics) failed(operation string, machine types.NamespacedName, reason machinev1beta1.MachineStatusError) {
	m.failures[operation].WithLabelValues(machine.Name, machine.Namespace, string(reason)).Inc()
}

// forget removes the series of a Machine that is gone.
func (m *Metrics) forget(machine types.NamespacedName, s series) {
	if s.labels != nil {
		m.created.Delete(s.labels)
		m.items.Dec()
	}
	for _, failures := range m.failures {
		failures.DeletePartialMatch(prometheus.Labels{"name": machine.Name, "namespace": machine.Namespace})
	}
}

// observeMetrics sets the metrics of a Machine that is about to have a status.
func (rc *reconciliation) observeMetrics(in *plan.Input, after *machinev1beta1.MachineStatus) {
	machine, current := in.Machine, &rc.state.series
	phase, node := plan.Phase(after), ""
	if after.NodeRef != nil {
		node = after.NodeRef.Name
	}
	labels := prometheus.Labels{
		"name": rc.key.Name, "namespace": rc.key.Namespace, "spec_provider_id": nodelink.ProviderID(machine), "node": node,
		"api_version": machinev1beta1.GroupVersion.String(), "phase": phase,
	}
	if current.labels == nil {
		rc.Metrics.items.Inc()
	}
	if phase != plan.Phase(&machine.Status) && phase != "" && phase != machinev1beta1.PhaseDeleting {
		rc.Metrics.phases.WithLabelValues(phase).Observe(in.Now.Sub(machine.CreationTimestamp.Time).Seconds())
	}
	if maps.Equal(current.labels, labels) {
		return
	}
	if current.labels != nil {
		rc.Metrics.created.Delete(current.labels)
	}
	current.labels = labels
	rc.Metrics.created.With(labels).Set(float64(machine.CreationTimestamp.Unix()))
}
