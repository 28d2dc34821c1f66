package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// olmFolder is where the Operator Lifecycle Manager puts the certificate that it makes for an operator's webhooks.
const olmFolder = "/apiserver.local.config/certificates"

// Files shows a certificate that somebody else makes and renews.
type Files struct {
	*certwatcher.CertWatcher
}

// NewFiles finds the certificate in a folder: tls.crt and tls.key, or apiserver.crt and apiserver.key, as the Operator Lifecycle Manager
// names them. Without a folder it is the one that the Operator Lifecycle Manager uses.
func NewFiles(folder string) (*Files, error) {
	if folder == "" {
		folder = olmFolder
	}
	for _, name := range []string{"tls", "apiserver"} {
		certificate, key := filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key")
		if _, err := os.Stat(certificate); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		watcher, err := certwatcher.New(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("reading the webhook's certificate: %w", err)
		}
		return &Files{watcher}, nil
	}
	return nil, fmt.Errorf("webhook.certDir: %s has neither tls.crt nor apiserver.crt", folder)
}

// GetCertificate is what a TLS server calls.
func (f *Files) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.CertWatcher.GetCertificate(hello)
}

// Ready tells whether the webhook can be called; with files it always can.
func (f *Files) Ready(context.Context) error { return nil }
