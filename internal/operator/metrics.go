package operator

import (
	"crypto/tls"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/version"
)

// certificateMetric is the metric that Metrics collects from the webhook.
const certificateMetric = "drover_webhook_certificate_expiry_timestamp_seconds"

// States lists the states of a capability, as its metric names them.
func States() []string {
	return []string{stateOff, stateStarting, stateStandby, stateCatchingUp, stateRunning}
}

// Metrics are those of the operator as a whole.
type Metrics struct {
	states        *prometheus.GaugeVec
	catchUp       *prometheus.GaugeVec
	eventsDropped *prometheus.CounterVec
	certificate   *prometheus.Desc
	// source is what the webhook shows; nil without a webhook. It is set before anybody collects.
	source func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	c := controller.NewCollectors(registry)
	m := &Metrics{
		states: c.GaugeVec("drover_capability_state",
			"1 for the state that a capability is in on this replica: off, filling caches, standing by, catching up or running.",
			"capability", "state"),
		catchUp: c.GaugeVec("drover_capability_catch_up_seconds",
			"How long the workers of a capability waited, when this replica began to lead, for the caches to show what was written before.",
			"capability"),
		eventsDropped: c.CounterVec("drover_events_dropped_total",
			"Events that Drover has dropped: queue full, throttled (too many of one object), rejected or failed (by the API server), stopped.",
			"reason"),
		certificate: prometheus.NewDesc(certificateMetric,
			"When the certificate that this replica shows to callers of the webhook ends, in seconds since 1970; none before it has one.",
			nil, nil),
	}
	build := c.GaugeVec("drover_build_info",
		"1, with the version of Drover, the commit and the version of Go that it was built from.",
		"version", "commit", "goversion")
	build.WithLabelValues(version.Version(), version.Commit(), runtime.Version()).Set(1)
	c.Register(certificateMetric, m)
	for _, reason := range []string{droppedQueueFull, droppedThrottled, droppedRejected, droppedFailed, droppedStopped} {
		m.eventsDropped.WithLabelValues(reason)
	}
	return m, c.Err()
}

// observe notes the state that a capability has come into. Its other series end.
func (m *Metrics) observe(capability, before, state string) {
	if before != state {
		m.states.DeleteLabelValues(capability, before)
	}
	m.states.WithLabelValues(capability, state).Set(1)
}

// Describe sends the descriptor of the webhook's certificate.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { to <- m.certificate }

// Collect reads when it ends.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	if m.source == nil {
		return
	}
	shown, err := m.source(nil)
	if err != nil || shown.Leaf == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(m.certificate, prometheus.GaugeValue, float64(shown.Leaf.NotAfter.Unix()))
}
