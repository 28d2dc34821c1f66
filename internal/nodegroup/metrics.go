package nodegroup

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// Metrics holds the controller's collectors. Create one for each process.
type Metrics struct {
	nodes, unavailable, budget, waiting, stopped, outdated *prometheus.GaugeVec
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	return &Metrics{
		nodes: c.GaugeVec("drover_nodegroup_nodes",
			"Nodes by NodeGroup and state (synced, pending, conflict, refused, held).",
			"nodegroup", "state"),
		unavailable: c.GaugeVec("drover_nodegroup_unavailable_nodes",
			"Nodes of a NodeGroup that count against its budget.",
			"nodegroup"),
		budget: c.GaugeVec("drover_nodegroup_budget_nodes",
			"How many Nodes of a NodeGroup may be unavailable; absent without a budget.",
			"nodegroup"),
		waiting: c.GaugeVec("drover_nodegroup_waiting_disruptions",
			"Disruptions that wait for the budget of a NodeGroup, or for one of its windows.",
			"nodegroup"),
		stopped: c.GaugeVec("drover_nodegroup_rollout_stopped",
			"1 while the roll-out of a NodeGroup, or the replacement of its Machines, has stopped, or waits for a confirmation, else 0.",
			"nodegroup"),
		outdated: c.GaugeVec("drover_nodegroup_outdated_machines",
			"Machines of a NodeGroup that do not match the template of their MachineSet.",
			"nodegroup"),
	}, c.Err()
}

// observe sets the metrics of a group. budget is nil for one without a budget.
func (m *Metrics) observe(group string, after *v1alpha1.NodeGroupStatus, budget *plan.Budget) {
	m.unavailable.WithLabelValues(group).Set(float64(after.Unavailable))
	if budget == nil {
		m.budget.DeleteLabelValues(group)
		m.waiting.DeleteLabelValues(group)
	} else {
		m.budget.WithLabelValues(group).Set(float64(budget.Limit))
		m.waiting.WithLabelValues(group).Set(float64(budget.Waiting))
	}
	for state, count := range map[string]int32{
		"synced": after.Synced, "pending": after.Pending, "conflict": after.Conflicts, "refused": after.Refused, "held": after.Held,
	} {
		m.nodes.WithLabelValues(group, state).Set(float64(count))
	}
	stopped := 0.0
	if after.Phase == v1alpha1.PhaseStopped {
		stopped = 1
	}
	m.stopped.WithLabelValues(group).Set(stopped)
	m.outdated.WithLabelValues(group).Set(float64(after.Outdated))
}

func (m *Metrics) forget(group string) {
	of := prometheus.Labels{"nodegroup": group}
	for _, vector := range []*prometheus.GaugeVec{m.nodes, m.unavailable, m.budget, m.waiting, m.stopped, m.outdated} {
		vector.DeletePartialMatch(of)
	}
}
