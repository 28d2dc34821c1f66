package operator

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/admission/certs"
	"github.com/drover-io/drover/internal/config"
)

func TestTheWebhookIsServedWithMaintenanceOnly(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*v1alpha1.DroverConfiguration)
		served bool
		fails  string
	}{
		"as it is":      {func(*v1alpha1.DroverConfiguration) {}, true, ""},
		"one group":     {func(c *v1alpha1.DroverConfiguration) { c.Controllers = []string{"maintenance-kubevirt"} }, true, ""},
		"neither group": {func(c *v1alpha1.DroverConfiguration) { c.Controllers = []string{"metadata"} }, false, ""},
		"switched off":  {func(c *v1alpha1.DroverConfiguration) { c.Webhook.BindAddress = new("0") }, false, ""},
		"files that are not there": {func(c *v1alpha1.DroverConfiguration) { c.Webhook.Certificates = config.CertificatesFiles }, false,
			"webhook.certDir"},
		"no guard, and yet a server": {func(c *v1alpha1.DroverConfiguration) { c.Maintenance.ControlPlaneGuard = "Off" }, true, ""},
		"an address without a port":  {func(c *v1alpha1.DroverConfiguration) { c.Webhook.BindAddress = new("x") }, false, "webhook.bindAddress"},
	} {
		settings := quietSettings()
		c.edit(settings)
		metrics, _ := quietMetrics(t)
		checks, err := addAdmission(quietManager(t), newCapabilityManager(nil, nil, nil, nil, nil, metrics), settings)
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, want %q", name, err, c.fails)
		}
		if (len(checks) == 1) != c.served {
			t.Errorf("%s: %d checks", name, len(checks))
		}
		if (metrics.source != nil) != c.served {
			t.Errorf("%s: the metric of the certificate's end exists: %t", name, metrics.source != nil)
		}
		for _, check := range checks {
			if err := check.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "has not been read yet") {
				t.Errorf("%s: before it has begun: %v", name, err)
			}
		}
	}
}

func TestWebhookEndpoint_SpeaksHTTP1UnlessAskedForMore(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		settings := config.Default().Webhook
		settings.HTTP2 = new(http2)
		made, err := newWebhookEndpoint(settings, &certs.Keeper{}, webhook.NewServer(webhook.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		options, err := made.tls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(options.NextProtos, "h2"); got != http2 || options.GetCertificate == nil || options.MinVersion != tls.VersionTLS12 {
			t.Errorf("http2=%t: %v", http2, options.NextProtos)
		}
	}
}

func TestTheGuardIsOffWhenItIsSwitchedOff(t *testing.T) {
	settings := config.Default().Maintenance
	if guard, err := newGuard(quietManager(t), settings); guard == nil || err != nil {
		t.Errorf("%v, %v", guard, err)
	}
	settings.ControlPlaneGuard = "Off"
	if guard, err := newGuard(quietManager(t), settings); guard != nil || err != nil {
		t.Errorf("%v, %v", guard, err)
	}
}
