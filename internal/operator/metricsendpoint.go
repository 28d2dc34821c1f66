package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// metricsLimits bound what a caller without a token can make Drover ask the API server: each token that is not known is a TokenReview.
var metricsLimits = limits{connections: 64, clientConnections: 16, requests: 8, clientRequests: 2, perSecond: 10, body: 1 << 10}

// addMetricsEndpoint serves /metrics.
func addMetricsEndpoint(mgr manager.Manager, settings v1alpha1.Metrics) error {
	if *settings.BindAddress == "0" {
		return nil
	}
	handler := promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	served := &endpoint{name: "metrics", address: *settings.BindAddress, limits: metricsLimits}
	if *settings.Secure {
		filter, err := filters.WithAuthenticationAndAuthorization(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		if handler, err = filter(mgr.GetLogger().WithName("metrics"), handler); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		served.tls = func(ctx context.Context) (*tls.Config, error) { return metricsTLS(ctx, settings) }
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	served.handler = mux
	return mgr.Add(served)
}

// metricsTLS uses the certificate in files, which it reads again when they change, or makes one.
func metricsTLS(ctx context.Context, settings v1alpha1.Metrics) (*tls.Config, error) {
	config := newTLSConfig(*settings.HTTP2)
	if settings.CertDir != "" {
		watcher, err := certwatcher.New(filepath.Join(settings.CertDir, "tls.crt"), filepath.Join(settings.CertDir, "tls.key"))
		if err != nil {
			return nil, fmt.Errorf("certDir: %w", err)
		}
		config.GetCertificate = watcher.GetCertificate
		go func() {
			if err := watcher.Start(ctx); err != nil {
				log.FromContext(ctx).Error(err, "cannot watch the certificate of /metrics; a new one counts after the next start")
			}
		}()
		return config, nil
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil, "")
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// newTLSConfig offers HTTP/1.1, and HTTP/2 where it is asked for: HTTP/1.1 is not open to the rapid reset of streams.
func newTLSConfig(http2 bool) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if http2 {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	return config
}
