package certs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// olmFolder is where the Operator Lifecycle Manager puts the certificate that it creates for an operator's webhooks.
const olmFolder = "/apiserver.local.config/certificates"

// Files serves a certificate that another program creates and renews.
type Files struct {
	*certwatcher.CertWatcher
}

// NewFiles returns the certificate in a folder: tls.crt and tls.key, or apiserver.crt and apiserver.key, the names that the Operator Lifecycle
// Manager uses. An empty folder means the folder of the Operator Lifecycle Manager.
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

// Ready returns nil: there is a certificate from the beginning.
func (f *Files) Ready(context.Context) error { return nil }
