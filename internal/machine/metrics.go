package machine

import (
	"maps"
	"sync"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelink"
)

// Metrics holds the controller's collectors. The names and labels are machine-api-operator's; its alerts use them.
type Metrics struct {
	machines *collector
	phases   *prometheus.HistogramVec
	// failures are the errors of the provider, by operation.
	failures map[string]*prometheus.CounterVec
}

// collector makes the series of single Machines when they are scraped. Those of a prometheus.GaugeVec take a kilobyte each.
type collector struct {
	created, items *prometheus.Desc

	mu       sync.Mutex
	machines map[types.NamespacedName]series
}

// series is what the metrics show of one Machine.
type series struct {
	providerID, node, phase string
	// created is in seconds since 1970.
	created int64
}

func newCollector() *collector {
	return &collector{
		created: prometheus.NewDesc("mapi_machine_created_timestamp_seconds",
			"When the Machine was created, in seconds since 1970.",
			[]string{"name", "namespace", "spec_provider_id", "node", "api_version", "phase"}, nil),
		items:    prometheus.NewDesc("mapi_machine_items", "Number of Machines.", nil, nil),
		machines: map[types.NamespacedName]series{},
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) { to <- c.created; to <- c.items }

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	machines := maps.Clone(c.machines)
	c.mu.Unlock()
	send := func(desc *prometheus.Desc, value float64, labels ...string) {
		metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		to <- metric
	}
	send(c.items, float64(len(machines)))
	for key, s := range machines {
		send(c.created, float64(s.created), key.Name, key.Namespace, s.providerID, s.node, machinev1beta1.GroupVersion.String(), s.phase)
	}
}

func (c *collector) set(machine types.NamespacedName, s series) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines[machine] = s
}

func (c *collector) forget(machine types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.machines, machine)
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		machines: newCollector(),
		phases: c.HistogramVec("mapi_machine_phase_transition_seconds",
			"Time from the Machine's creation to a phase.",
			[]float64{5, 10, 20, 30, 60, 90, 120, 180, 240, 300, 360, 480, 600}, "phase"),
		failures: map[string]*prometheus.CounterVec{
			"create": c.CounterVec("mapi_instance_create_failed",
				"Errors of the provider when it was asked to create an instance.",
				"name", "namespace", "reason"),
			"update": c.CounterVec("mapi_instance_update_failed",
				"Errors of the provider when it was asked for an instance.",
				"name", "namespace", "reason"),
			"delete": c.CounterVec("mapi_instance_delete_failed",
				"Errors of the provider when it was asked to delete an instance.",
				"name", "namespace", "reason"),
		},
	}
	c.Register("mapi_machine_created_timestamp_seconds", m.machines)
	return m, c.Err()
}

// failed counts an error of the provider. The reasons are those of the API, so there are few.
func (m *Metrics) failed(operation string, machine types.NamespacedName, reason machinev1beta1.MachineStatusError) {
	m.failures[operation].WithLabelValues(machine.Name, machine.Namespace, string(reason)).Inc()
}

// forget removes the series of a Machine that is gone.
func (m *Metrics) forget(machine types.NamespacedName) {
	m.machines.forget(machine)
	for _, failures := range m.failures {
		failures.DeletePartialMatch(prometheus.Labels{"name": machine.Name, "namespace": machine.Namespace})
	}
}

// observeMetrics sets the metrics of a Machine that is about to have a status.
func (rc *reconciliation) observeMetrics(in *plan.Input, after *machinev1beta1.MachineStatus) {
	machine, phase, node := in.Machine, plan.Phase(after), ""
	if after.NodeRef != nil {
		node = after.NodeRef.Name
	}
	if phase != plan.Phase(&machine.Status) && phase != "" && phase != machinev1beta1.PhaseDeleting {
		rc.Metrics.phases.WithLabelValues(phase).Observe(in.Now.Sub(machine.CreationTimestamp.Time).Seconds())
	}
	rc.Metrics.machines.set(rc.key, series{nodelink.ProviderID(machine), node, phase, machine.CreationTimestamp.Unix()})
}
