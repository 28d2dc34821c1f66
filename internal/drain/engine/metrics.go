package engine

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain"
)

// Metrics are the metrics of the drain engine.
type Metrics struct {
	evictions *prometheus.CounterVec
	left      *prometheus.GaugeVec

	mu     sync.Mutex
	byNode map[string]map[drain.Reason]int
}

// NewMetrics creates and registers the collectors. It returns an error when one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		evictions: c.CounterVec("drover_drain_requests_total",
			"Requests to make a pod leave, by the HTTP code of the answer (0 for none) and by request (eviction, deletion).",
			"code", "request"),
		left: c.GaugeVec("drover_drain_pods_left",
			"Pods that have still to leave the nodes being drained, by the reason why they are there.",
			"reason"),
		byNode: map[string]map[drain.Reason]int{},
	}
	for _, reason := range drain.Reasons {
		m.left.WithLabelValues(string(reason))
	}
	return m, c.Err()
}

// report replaces the counts of the pods that are left on a node; nil removes them.
func (m *Metrics) report(node string, left []drain.RemainingPod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for reason, count := range m.byNode[node] {
		m.left.WithLabelValues(string(reason)).Sub(float64(count))
	}
	delete(m.byNode, node)
	if len(left) == 0 {
		return
	}
	counts := map[drain.Reason]int{}
	for _, pod := range left {
		counts[pod.Reason]++
	}
	for reason, count := range counts {
		m.left.WithLabelValues(string(reason)).Add(float64(count))
	}
	m.byNode[node] = counts
}

func codeLabel(code int) string { return strconv.Itoa(code) }

func requestLabel(task drain.Task) string {
	if task.Grace != nil {
		return "deletion"
	}
	return "eviction"
}
