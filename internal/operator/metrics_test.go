package operator

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/version"
)

func quietMetrics(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return metrics, registry
}

// served compares the series of a metric, as {labels} value.
func served(t *testing.T, registry *prometheus.Registry, name string, want ...string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			text := ""
			for _, label := range metric.GetLabel() {
				text += label.GetName() + "=" + label.GetValue() + " "
			}
			got = append(got, fmt.Sprint(text, metric.GetGauge().GetValue()))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

func TestACapabilityIsInOneState(t *testing.T) {
	metrics, registry := quietMetrics(t)
	capabilities := newCapabilityManager([]capability{{name: "herd"}, {name: "shear"}}, nil, nil, nil, nil, metrics)
	capabilities.set(t.Context(), "herd", stateStarting, "")
	capabilities.set(t.Context(), "herd", stateStandby, "another replica leads")
	capabilities.set(t.Context(), "herd", stateStandby, "another replica leads")
	served(t, registry, "drover_capability_state", "capability=herd state=standing by 1", "capability=shear state=off 1")
}

func TestTheEndOfTheWebhooksCertificate(t *testing.T) {
	metrics, registry := quietMetrics(t)
	served(t, registry, "drover_webhook_certificate_expiry_timestamp_seconds")
	metrics.source = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none yet") }
	served(t, registry, "drover_webhook_certificate_expiry_timestamp_seconds")
	metrics.source = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Unix(1234567, 0)}}, nil
	}
	served(t, registry, "drover_webhook_certificate_expiry_timestamp_seconds", "1.234567e+06")
}

func TestMetrics_BuildInfo(t *testing.T) {
	_, registry := quietMetrics(t)
	served(t, registry, "drover_build_info",
		fmt.Sprintf("commit=%s goversion=%s version=%s 1", version.Commit(), runtime.Version(), version.Version()))
}
