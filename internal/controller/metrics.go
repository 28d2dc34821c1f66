package controller

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/status"
)

// Collectors creates metrics from their descriptions and registers them.
type Collectors struct {
	registry prometheus.Registerer
	errs     []error
}

// NewCollectors returns Collectors that register what they create.
func NewCollectors(registry prometheus.Registerer) *Collectors {
	return &Collectors{registry: registry}
}

// Err returns why metrics could not be registered: their names may be registered already.
func (c *Collectors) Err() error { return errors.Join(c.errs...) }

func register[C prometheus.Collector](c *Collectors, doc status.MetricDoc, collector C) C {
	if err := c.registry.Register(collector); err != nil {
		c.errs = append(c.errs, fmt.Errorf("registering the metric %s: %w", doc.Name, err))
	}
	return collector
}

// Register registers a collector that makes its metrics when they are scraped; doc is one of them.
func (c *Collectors) Register(doc status.MetricDoc, collector prometheus.Collector) {
	register(c, doc, collector)
}

// Gauge creates a gauge without labels.
func (c *Collectors) Gauge(doc status.MetricDoc) prometheus.Gauge {
	return register(c, doc, prometheus.NewGauge(prometheus.GaugeOpts{Name: doc.Name, Help: doc.Help}))
}

// GaugeVec creates a gauge with labels.
func (c *Collectors) GaugeVec(doc status.MetricDoc) *prometheus.GaugeVec {
	return register(c, doc, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: doc.Name, Help: doc.Help}, doc.Labels))
}

// Counter creates a counter without labels.
func (c *Collectors) Counter(doc status.MetricDoc) prometheus.Counter {
	return register(c, doc, prometheus.NewCounter(prometheus.CounterOpts{Name: doc.Name, Help: doc.Help}))
}

// CounterVec creates a counter with labels.
func (c *Collectors) CounterVec(doc status.MetricDoc) *prometheus.CounterVec {
	return register(c, doc, prometheus.NewCounterVec(prometheus.CounterOpts{Name: doc.Name, Help: doc.Help}, doc.Labels))
}

// Histogram creates a histogram without labels.
func (c *Collectors) Histogram(doc status.MetricDoc, buckets ...float64) prometheus.Histogram {
	return register(c, doc, prometheus.NewHistogram(prometheus.HistogramOpts{Name: doc.Name, Help: doc.Help, Buckets: buckets}))
}

// HistogramVec creates a histogram with labels.
func (c *Collectors) HistogramVec(doc status.MetricDoc, buckets ...float64) *prometheus.HistogramVec {
	return register(c, doc, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: doc.Name, Help: doc.Help, Buckets: buckets}, doc.Labels))
}
