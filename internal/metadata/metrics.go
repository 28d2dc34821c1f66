package metadata

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/status"
)

var (
	propagationDoc = status.MetricDoc{
		Name: "drover_metadata_propagation_seconds", Type: "histogram",
		Help: "Seconds from when a change of a MachineSet's template was observed until one of its Nodes was written.",
	}
	writesDoc = status.MetricDoc{
		Name: "drover_metadata_writes_total", Type: "counter", Labels: []string{"kind", "result"},
		Help: "Patches sent, by kind (machine, node) and result (ok, conflict, gone, denied, error).",
	}
	nodesDoc = status.MetricDoc{
		Name: "drover_metadata_nodes", Type: "gauge", Labels: []string{"namespace", "machineset", "state"},
		Help: "Machines with or without a Node, by MachineSet and state (synced, pending, conflict, refused, held).",
	}
	stoppedDoc = status.MetricDoc{
		Name: "drover_metadata_rollout_stopped", Type: "gauge", Labels: []string{"namespace", "machineset"},
		Help: "1 while the waves of a MachineSet (metadata.rollout of the configuration) have stopped, 0 while they go on; absent without any.",
	}
	repairsDoc = status.MetricDoc{
		Name: "drover_metadata_drift_repairs_total", Type: "counter",
		Help: "Nodes and Machines on which Drover has undone what another writer changed.",
	}
	contentionDoc = status.MetricDoc{
		Name: "drover_metadata_fights_total", Type: "counter",
		Help: "Times that Drover left a key alone for a while because another writer kept changing it.",
	}
	mnmoDoc = status.MetricDoc{
		Name: "mnmo_node_reconciliation_failure", Type: "counter", Labels: []string{"node"},
		Help: "Failed attempts to write a Node or its Machine, by Node, or by Machine where there is no Node. The name is " +
			"managed-node-metadata-operator's; a series ends with its object.",
	}
)

// MetricDocs describes every metric of the capability.
var MetricDocs = []status.MetricDoc{propagationDoc, writesDoc, nodesDoc, stoppedDoc, repairsDoc, contentionDoc, mnmoDoc}

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
		propagation: c.Histogram(propagationDoc, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500),
		writes:      c.CounterVec(writesDoc), nodes: c.GaugeVec(nodesDoc), stopped: c.GaugeVec(stoppedDoc),
		repairs: c.Counter(repairsDoc), contention: c.Counter(contentionDoc), failures: c.CounterVec(mnmoDoc),
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
