package operator

import (
	"crypto/tls"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	statusdocs "github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/version"
)

var (
	capabilityDoc = statusdocs.MetricDoc{
		Name: "drover_capability_state", Type: "gauge", Labels: []string{"capability", "state"},
		Help: "1 for the state that a capability is in on this replica: off, filling caches, standing by, catching up or running.",
	}
	catchUpDoc = statusdocs.MetricDoc{
		Name: "drover_capability_catch_up_seconds", Type: "gauge", Labels: []string{"capability"},
		Help: "How long the workers of a capability waited, when this replica began to lead, for the caches to show what was written before.",
	}
	eventsDroppedDoc = statusdocs.MetricDoc{
		Name: "drover_events_dropped_total", Type: "counter", Labels: []string{"reason"},
		Help: "Events that Drover has dropped: queue full, throttled (too many of one object), rejected or failed (by the API server), stopped.",
	}
	buildDoc = statusdocs.MetricDoc{
		Name: "drover_build_info", Type: "gauge", Labels: []string{"version", "commit", "goversion"},
		Help: "1, with the version of Drover, the commit and the version of Go that it was built from.",
	}
	certificateDoc = statusdocs.MetricDoc{
		Name: "drover_webhook_certificate_expiry_timestamp_seconds", Type: "gauge",
		Help: "When the certificate that this replica shows to callers of the webhook ends, in seconds since 1970; none before it has one.",
	}
)

// MetricDocs describes the metrics of the operator as a whole.
func MetricDocs() []statusdocs.MetricDoc {
	return []statusdocs.MetricDoc{capabilityDoc, catchUpDoc, eventsDroppedDoc, buildDoc, certificateDoc}
}

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
	m := &Metrics{
		states:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: capabilityDoc.Name, Help: capabilityDoc.Help}, capabilityDoc.Labels),
		catchUp: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: catchUpDoc.Name, Help: catchUpDoc.Help}, catchUpDoc.Labels),
		eventsDropped: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: eventsDroppedDoc.Name, Help: eventsDroppedDoc.Help}, eventsDroppedDoc.Labels),
		certificate: prometheus.NewDesc(certificateDoc.Name, certificateDoc.Help, nil, nil),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildDoc.Name, Help: buildDoc.Help}, buildDoc.Labels)
	build.WithLabelValues(version.Version(), version.Commit(), runtime.Version()).Set(1)
	for _, collector := range []prometheus.Collector{m.states, m.catchUp, m.eventsDropped, build, m} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	for _, reason := range []string{droppedQueueFull, droppedThrottled, droppedRejected, droppedFailed, droppedStopped} {
		m.eventsDropped.WithLabelValues(reason)
	}
	return m, nil
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
