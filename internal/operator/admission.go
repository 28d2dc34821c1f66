package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/admission"
	"github.com/drover-io/drover/internal/admission/certs"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/quorum"
)

// newGuard makes the guard of the control plane, nil when it is switched off.
func newGuard(mgr manager.Manager, settings v1alpha1.Maintenance) (guard, error) {
	if settings.ControlPlaneGuard == config.Off {
		return nil, nil
	}
	client, err := newDiscovery(mgr)
	if err != nil {
		return nil, err
	}
	return quorum.New(mgr.GetAPIReader(), client), nil
}

// certificates are where the webhook's certificate comes from.
type certificates interface {
	manager.Runnable
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Ready reports whether the webhook can be called.
	Ready(ctx context.Context) error
}

// addAdmission serves the webhooks of NodeMaintenance, of both groups, on every replica. A replica that stands by answers as well. It returns what
// /readyz has to look at.
func addAdmission(mgr manager.Manager, cm *capabilityManager, settings *v1alpha1.DroverConfiguration) ([]check, error) {
	groups := maintenance.Groups()
	on := false
	for _, group := range groups {
		on = on || config.Enabled(settings.Controllers, group.Name)
	}
	if !on || *settings.Webhook.BindAddress == "0" {
		return nil, nil
	}
	guard, err := newGuard(mgr, settings.Maintenance)
	if err != nil {
		return nil, err
	}
	source, err := newCertificates(mgr, settings.Webhook)
	if err != nil {
		return nil, err
	}
	// It measures the webhooks, and is never started: the endpoint serves them.
	server := webhook.NewServer(webhook.Options{})
	finder := &admission.Finder{Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Cached: cm.full}
	limiter := admission.NewLimiter()
	for _, group := range groups {
		server.Register(admission.Path(group), &ctrladmission.Webhook{Handler: &admission.Validator{
			Group: group, Nodes: mgr.GetCache(), Live: mgr.GetAPIReader(), Finder: finder, Guard: guard,
			Limits: maintenanceLimits(settings), Limiter: limiter,
		}})
	}
	served, err := newWebhookEndpoint(settings.Webhook, source, server)
	if err != nil {
		return nil, err
	}
	cm.metrics.source = source.GetCertificate
	for _, part := range []manager.Runnable{source, served} {
		if err := mgr.Add(part); err != nil {
			return nil, err
		}
	}
	return []check{{"webhook", source.Ready}}, nil
}

// full reports whether the caches of a capability are synced.
func (s *capabilityManager) full(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.states[name].state
	return state == stateStandby || state == stateCatchingUp || state == stateRunning
}

// webhookLimits are for the API servers. An AdmissionReview has the old and the new object, of 1.5 MiB at most each.
var webhookLimits = limits{connections: 512, clientConnections: 128, requests: 16, clientRequests: 8, perSecond: 200, body: 4 << 20}

// newWebhookEndpoint serves the webhooks that are registered with hooks.
func newWebhookEndpoint(settings v1alpha1.Webhook, source certificates, hooks webhook.Server) (*endpoint, error) {
	if _, _, err := net.SplitHostPort(*settings.BindAddress); err != nil {
		return nil, fmt.Errorf("webhook.bindAddress: %w", err)
	}
	return &endpoint{
		name: "webhook", address: *settings.BindAddress, handler: hooks.WebhookMux(), limits: webhookLimits,
		tls: func(context.Context) (*tls.Config, error) {
			config := newTLSConfig(*settings.HTTP2)
			config.GetCertificate = source.GetCertificate
			return config, nil
		},
	}, nil
}

func newCertificates(mgr manager.Manager, settings v1alpha1.Webhook) (certificates, error) {
	if settings.Certificates == config.CertificatesFiles {
		return certs.NewFiles(settings.CertDir)
	}
	client, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating a client for the webhook's certificate: %w", err)
	}
	namespace := ownNamespace()
	service := settings.ServiceName + "." + namespace
	return certs.NewKeeper(client, clock.RealClock{}, certs.Options{
		Namespace: namespace, Secret: settings.SecretName, Configuration: settings.ValidatingConfigurationName,
		Names: append([]string{service + ".svc", service, service + ".svc.cluster.local"}, settings.ExtraNames...),
	}), nil
}
