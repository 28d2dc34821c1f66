package operator

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"github.com/drover-io/drover/internal/config"
)

// TestMetricsTLS_ShowsTheCertificateOfItsFolder: a client that knows its authority and asks for the name of the Service is content. With the
// certificate that Drover makes for itself it is not.
func TestMetricsTLS_ShowsTheCertificateOfItsFolder(t *testing.T) {
	const name = "drover-metrics.drover-system.svc"
	certificate, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures(name, nil, []string{name}, "")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for file, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authorities, err := certutil.NewPoolFromBytes(certificate)
	if err != nil {
		t.Fatal(err)
	}
	for certDir, known := range map[string]bool{folder: true, "": false} {
		settings := config.Default().Metrics
		settings.CertDir = certDir
		served, err := metricsTLS(t.Context(), settings)
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		go func() {
			_ = tls.Server(there, served).HandshakeContext(t.Context())
			_ = there.Close()
		}()
		client := tls.Client(here, &tls.Config{RootCAs: authorities, ServerName: name, MinVersion: tls.VersionTLS12})
		if err := client.HandshakeContext(t.Context()); (err == nil) != known {
			t.Errorf("with the folder %q: %v, want it to be known: %t", certDir, err, known)
		}
		_ = here.Close()
	}
}
