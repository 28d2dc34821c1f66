package replacement

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/controller"
)

// Metrics holds the controller's collectors. Create one for each process.
type Metrics struct {
	deletes *prometheus.CounterVec
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	return &Metrics{
		deletes: c.CounterVec("drover_nodegroup_machine_replacements_total",
			"Requests to delete an outdated Machine of a NodeGroup, by result (ok, conflict, gone, denied, error).",
			"result"),
	}, c.Err()
}
