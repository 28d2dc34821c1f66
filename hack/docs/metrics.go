package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere"
)

// metric is a row of the page about metrics.
type metric struct {
	Name, Type, Help string
	Labels           []string
}

// metricsOf returns the metrics that some functions register, in the order in which the functions do so.
func metricsOf(functions []register) ([]metric, error) {
	found := &recorder{}
	for _, function := range functions {
		if err := function(found); err != nil {
			return nil, err
		}
	}
	return found.metrics, nil
}

// register registers metrics.
type register func(prometheus.Registerer) error

// registers returns the function that registers the metrics of a constructor.
func registers[M any](constructor func(prometheus.Registerer) (M, error)) register {
	return func(registry prometheus.Registerer) error {
		_, err := constructor(registry)
		return err
	}
}

func registerUndecodable(registry prometheus.Registerer) error {
	return undecodable.NewTracker().Register(registry)
}

// registerVSphere registers the metrics of the provider vsphere.
func registerVSphere(registry prometheus.Registerer) error {
	_, err := vsphere.Provider().New(provider.Environment{Config: &rest.Config{}, Metrics: registry})
	return err
}

// recorder is a prometheus.Registerer that keeps the descriptions of what is registered.
type recorder struct {
	prometheus.Registerer
	metrics []metric
}

// printed is what client_golang prints of a metric. There is no other way to the name, the help and the labels.
var printed = regexp.MustCompile(`(?s)^Desc\{fqName: ("[^"]+"), help: (".*"), unit: "", constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

// Register implements prometheus.Registerer.
func (r *recorder) Register(collector prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		collector.Describe(descriptions)
	}()
	var failure error
	for desc := range descriptions {
		m := metric{Type: typeOf(collector)}
		match := printed.FindStringSubmatch(desc.String())
		if match == nil {
			failure = fmt.Errorf("cannot read %s", desc)
			continue
		}
		m.Name, _ = strconv.Unquote(match[1])
		m.Help, _ = strconv.Unquote(match[2])
		if match[3] != "" {
			m.Labels = strings.Split(match[3], ",")
		}
		r.metrics = append(r.metrics, m)
	}
	return failure
}

// typeOf returns the type of a collector's metrics. Collectors of Drover's own types collect gauges.
func typeOf(collector prometheus.Collector) string {
	switch collector.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case prometheus.Histogram, *prometheus.HistogramVec:
		return "histogram"
	case prometheus.Gauge: // before Counter, whose methods are a part of Gauge's
		return "gauge"
	case prometheus.Counter:
		return "counter"
	}
	return "gauge"
}
