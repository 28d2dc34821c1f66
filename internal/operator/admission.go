package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"

	"k8s.io/client-go/discovery"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
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

// guardOff switches the guard of the control plane off.
const guardOff = "Off"

// newGuard makes the guard of the control plane, nil when it is switched off.
func newGuard(mgr manager.Manager, settings v1alpha1.Maintenance) (guard, error) {
	if settings.ControlPlaneGuard == guardOff {
		return nil, nil
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	return quorum.New(mgr.GetAPIReader(), client), nil
}

// certificates are where the webhook's certificate comes from.
type certificates interface {
	manager.Runnable
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Ready tells whether the webhook can be called.
	Ready(ctx context.Context) error
}

// addAdmission serves the webhooks of NodeMaintenance, of both groups, on every replica: one that stands by answers as well. It returns
// what /readyz has to look at.
func addAdmission(mgr manager.Manager, board *switchboard, settings *v1alpha1.DroverConfiguration) ([]check, error) {
	flavours := maintenance.Flavours()
	on := false
	for _, flavour := range flavours {
		on = on || config.Enabled(settings.Controllers, flavour.Name)
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
	server, err := newWebhookServer(settings.Webhook, source)
	if err != nil {
		return nil, err
	}
	claims := &admission.Claims{Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Cached: board.full}
	for _, flavour := range flavours {
		server.Register(admission.Path(flavour), &ctrladmission.Webhook{Handler: &admission.Validator{
			Flavour: flavour, Nodes: mgr.GetCache(), Live: mgr.GetAPIReader(), Claims: claims, Guard: guard,
		}})
	}
	board.metrics.source = source.GetCertificate
	for _, part := range []manager.Runnable{source, server} {
		if err := mgr.Add(part); err != nil {
			return nil, err
		}
	}
	return []check{{"webhook", source.Ready}}, nil
}

// full tells whether the caches of a capability are full.
func (s *switchboard) full(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.states[name].state
	return state == stateStandby || state == stateCatchingUp || state == stateRunning
}

func newWebhookServer(settings v1alpha1.Webhook, source certificates) (webhook.Server, error) {
	host, text, err := net.SplitHostPort(*settings.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("webhook.bindAddress: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("webhook.bindAddress: %w", err)
	}
	return webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate, c.MinVersion = source.GetCertificate, tls.VersionTLS12
		if !*settings.HTTP2 {
			c.NextProtos = []string{"http/1.1"}
		}
	}}}), nil
}

func newCertificates(mgr manager.Manager, settings v1alpha1.Webhook) (certificates, error) {
	if settings.Certificates == config.CertificatesFiles {
		return certs.NewFiles(settings.CertDir)
	}
	core, err := coreclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for Secrets: %w", err)
	}
	configurations, err := admissionclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for webhook configurations: %w", err)
	}
	namespace := ownNamespace()
	service := settings.ServiceName + "." + namespace
	return certs.NewKeeper(core, configurations, clock.RealClock{}, certs.Options{
		Namespace: namespace, Secret: settings.SecretName, Configuration: settings.ValidatingConfigurationName,
		Names: append([]string{service + ".svc", service, service + ".svc.cluster.local"}, settings.ExtraNames...),
	}), nil
}
