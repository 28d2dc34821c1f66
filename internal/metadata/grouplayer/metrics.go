package grouplayer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/controller"
)

// Metrics holds the controller's collectors. Create one for each process.
type Metrics struct {
	writes     *prometheus.CounterVec
	repairs    prometheus.Counter
	contention prometheus.Counter
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	return &Metrics{
		writes: c.CounterVec("drover_nodegroup_node_writes_total",
			"Patches of Nodes sent for their NodeGroups, by result (ok, conflict, gone, denied, error).",
			"result"),
		repairs: c.Counter("drover_nodegroup_drift_repairs_total",
			"Nodes of NodeGroups on which Drover has undone what another writer changed."),
		contention: c.Counter("drover_nodegroup_contention_total",
			"Times that Drover left a key of a NodeGroup alone for a while because another writer kept changing it."),
	}, c.Err()
}
