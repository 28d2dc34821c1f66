package machineset

import (
	"sync"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/controller"
)

// Metrics holds the controller's collectors. Create one for each process: it outlives the controller, which stops when its CRDs are deleted.
type Metrics struct {
	replicas, available, ready, created *prometheus.GaugeVec
	items                               prometheus.Gauge
	creates, deletes                    *prometheus.CounterVec

	mu    sync.Mutex
	known map[types.NamespacedName]bool
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		replicas: c.GaugeVec("mapi_machine_set_status_replicas",
			"Machines of a MachineSet, as status.replicas has it. The name is machine-api-operator's; a series ends with its MachineSet.",
			"name", "namespace"),
		available: c.GaugeVec("mapi_machine_set_status_replicas_available",
			"Machines of a MachineSet whose Nodes have been ready for spec.minReadySeconds. "+
				"The name is machine-api-operator's; a series ends with its MachineSet.",
			"name", "namespace"),
		ready: c.GaugeVec("mapi_machine_set_status_replicas_ready",
			"Machines of a MachineSet whose Nodes are ready. The name is machine-api-operator's; a series ends with its MachineSet.",
			"name", "namespace"),
		created: c.GaugeVec("mapi_machineset_created_timestamp_seconds",
			"When a MachineSet was created, in seconds since 1970. The name is machine-api-operator's; a series ends with its MachineSet.",
			"name", "namespace", "api_version"),
		items: c.Gauge("mapi_machineset_items",
			"MachineSets. The name is machine-api-operator's."),
		creates: c.CounterVec("drover_machineset_creates_total",
			"Requests to create a Machine, by result (ok, conflict, gone, denied, error).",
			"result"),
		deletes: c.CounterVec("drover_machineset_deletes_total",
			"Requests to delete a Machine, by result (ok, conflict, gone, denied, error).",
			"result"),
		known: map[types.NamespacedName]bool{},
	}
	return m, c.Err()
}

// observe sets the metrics of a MachineSet from a status.
func (m *Metrics) observe(key types.NamespacedName, set *machinev1beta1.MachineSet, has *machinev1beta1.MachineSetStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[key] = true
	m.items.Set(float64(len(m.known)))
	m.replicas.WithLabelValues(key.Name, key.Namespace).Set(float64(has.Replicas))
	m.available.WithLabelValues(key.Name, key.Namespace).Set(float64(has.AvailableReplicas))
	m.ready.WithLabelValues(key.Name, key.Namespace).Set(float64(has.ReadyReplicas))
	m.created.WithLabelValues(key.Name, key.Namespace, machinev1beta1.GroupVersion.String()).Set(float64(set.CreationTimestamp.Unix()))
}

// forget removes the metrics of a MachineSet that is gone.
func (m *Metrics) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
	m.items.Set(float64(len(m.known)))
	of := prometheus.Labels{"name": key.Name, "namespace": key.Namespace}
	for _, vector := range []*prometheus.GaugeVec{m.replicas, m.available, m.ready, m.created} {
		vector.DeletePartialMatch(of)
	}
}

// reset removes the metrics of all MachineSets, when the controller stops.
func (m *Metrics) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = map[types.NamespacedName]bool{}
	m.items.Set(0)
	for _, vector := range []*prometheus.GaugeVec{m.replicas, m.available, m.ready, m.created} {
		vector.Reset()
	}
}
