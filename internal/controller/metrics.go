package controller

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Collectors creates metrics and registers them.
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

func register[C prometheus.Collector](c *Collectors, name string, collector C) C {
	if err := c.registry.Register(collector); err != nil {
		c.errs = append(c.errs, fmt.Errorf("registering the metric %s: %w", name, err))
	}
	return collector
}

// Register registers a collector that makes its metrics when they are scraped. The name of one of them identifies the collector in errors.
func (c *Collectors) Register(name string, collector prometheus.Collector) {
	register(c, name, collector)
}

// Gauge creates a gauge without labels.
func (c *Collectors) Gauge(name, help string) prometheus.Gauge {
	return register(c, name, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

// GaugeVec creates a gauge with labels.
func (c *Collectors) GaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(c, name, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// Counter creates a counter without labels.
func (c *Collectors) Counter(name, help string) prometheus.Counter {
	return register(c, name, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

// CounterVec creates a counter with labels.
func (c *Collectors) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return register(c, name, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

// Histogram creates a histogram without labels.
func (c *Collectors) Histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return register(c, name, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

// HistogramVec creates a histogram with labels.
func (c *Collectors) HistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(c, name, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}
