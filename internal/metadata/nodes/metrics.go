package nodes

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/status"
)

var (
	writesDoc = status.MetricDoc{
		Name: "drover_nodegroup_node_writes_total", Type: "counter", Labels: []string{"result"},
		Help: "Patches of Nodes sent for their NodeGroups, by result (ok, conflict, gone, denied, error).",
	}
	repairsDoc = status.MetricDoc{
		Name: "drover_nodegroup_drift_repairs_total", Type: "counter", Help: "Nodes of NodeGroups on which Drover has undone what another writer changed.",
	}
	contentionDoc = status.MetricDoc{
		Name: "drover_nodegroup_contention_total", Type: "counter",
		Help: "Times that Drover left a key of a NodeGroup alone for a while because another writer kept changing it.",
	}
)

// MetricDocs describes every metric of the controller.
var MetricDocs = []status.MetricDoc{writesDoc, repairsDoc, contentionDoc}

// Metrics holds the controller's collectors. Create one for each process.
type Metrics struct {
	writes     *prometheus.CounterVec
	repairs    prometheus.Counter
	contention prometheus.Counter
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	return &Metrics{writes: c.CounterVec(writesDoc), repairs: c.Counter(repairsDoc), contention: c.Counter(contentionDoc)}, c.Err()
}
