package metadata

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/metadata/plan"
)

// Metrics holds the controller's collectors. Create one for each process: it outlives the controller, which stops when its CRDs are deleted.
type Metrics struct {
	propagation prometheus.Histogram
	writes      *prometheus.CounterVec
	nodes       *prometheus.GaugeVec
	stopped     *prometheus.GaugeVec
	repairs     prometheus.Counter
	contention  prometheus.Counter
	failures    *prometheus.CounterVec
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		propagation: c.Histogram("drover_metadata_propagation_seconds",
			"Seconds from when a change of a MachineSet's template was observed until one of its Nodes was written.",
			.05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500),
		writes: c.CounterVec("drover_metadata_writes_total",
			"Patches sent, by kind (machine, node) and result (ok, conflict, gone, denied, error).",
			"kind", "result"),
		nodes: c.GaugeVec("drover_metadata_nodes",
			"Machines with or without a Node, by MachineSet and state (synced, pending, conflict, refused, held).",
			"namespace", "machineset", "state"),
		stopped: c.GaugeVec("drover_metadata_rollout_stopped",
			"1 while the waves of a MachineSet (metadata.rollout of the configuration) have stopped, 0 while they go on; absent without any.",
			"namespace", "machineset"),
		repairs: c.Counter("drover_metadata_drift_repairs_total",
			"Nodes and Machines on which Drover has undone what another writer changed."),
		contention: c.Counter("drover_metadata_fights_total",
			"Times that Drover left a key alone for a while because another writer kept changing it."),
		failures: c.CounterVec("mnmo_node_reconciliation_failure",
			"Failed attempts to write a Node or its Machine, by Node, or by Machine where there is no Node. The name is "+
				"managed-node-metadata-operator's; a series ends with its object.",
			"node"),
	}
	return m, c.Err()
}

func (m *Metrics) setNodes(set types.NamespacedName, state plan.State, count int) {
	m.nodes.WithLabelValues(set.Namespace, set.Name, string(state)).Set(float64(count))
}

// setStopped records whether the waves of a MachineSet have stopped; rollout is nil for one without any.
func (m *Metrics) setStopped(set types.NamespacedName, rollout *v1alpha1.RolloutStatus) {
	switch {
	case rollout == nil:
		m.stopped.DeleteLabelValues(set.Namespace, set.Name)
	case rollout.Stopped != "":
		m.stopped.WithLabelValues(set.Namespace, set.Name).Set(1)
	default:
		m.stopped.WithLabelValues(set.Namespace, set.Name).Set(0)
	}
}

func (m *Metrics) forgetSet(set types.NamespacedName) {
	m.nodes.DeletePartialMatch(prometheus.Labels{"namespace": set.Namespace, "machineset": set.Name})
}

// reset removes the series of single objects, when the controller stops.
func (m *Metrics) reset() {
	m.nodes.Reset()
	m.stopped.Reset()
	m.failures.Reset()
}
