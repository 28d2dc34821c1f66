package certs

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write puts a certificate into a folder, as a mounted Secret is changed: each file is replaced at once.
func write(t *testing.T, folder, name string, b *bundle) {
	t.Helper()
	key, err := encodeKey(b.serving.key)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{name + ".key": key, name + ".crt": encodeCertificates(b.serving.certificate)} {
		path := filepath.Join(folder, file)
		if err := os.WriteFile(path+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesHaveTwoNames(t *testing.T) {
	folder := t.TempDir()
	if _, err := NewFiles(folder); err == nil || !strings.Contains(err.Error(), "neither tls.crt nor apiserver.crt") {
		t.Errorf("an empty folder: %v", err)
	}
	olm, own := advance(t, nil, names, epoch), advance(t, nil, names, epoch)
	write(t, folder, "apiserver", olm)
	shows(t, folder, olm)
	write(t, folder, "tls", own)
	shows(t, folder, own)
	if err := os.Remove(filepath.Join(folder, "tls.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFiles(folder); err == nil {
		t.Error("a certificate without a key is taken")
	}
}

func shows(t *testing.T, folder string, want *bundle) {
	t.Helper()
	files, err := NewFiles(folder)
	if err != nil {
		t.Fatal(err)
	}
	got, err := files.GetCertificate(nil)
	if err != nil || !got.Leaf.Equal(want.serving.certificate) {
		t.Errorf("it shows %v, %v", got, err)
	}
	if err := files.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	folder := t.TempDir()
	before, after := advance(t, nil, names, epoch), advance(t, nil, names, epoch)
	write(t, folder, "tls", before)
	files, err := NewFiles(folder)
	if err != nil {
		t.Fatal(err)
	}
	files.WithWatchInterval(10 * time.Millisecond)
	seen := make(chan tls.Certificate, 4)
	files.RegisterCallback(func(certificate tls.Certificate) { seen <- certificate })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- files.Start(ctx) }()
	write(t, folder, "tls", after)
	limit := time.After(time.Minute)
	for found := false; !found; {
		select {
		case certificate := <-seen:
			found = certificate.Leaf.Equal(after.serving.certificate)
		case <-limit:
			t.Fatal("the new certificate is not seen")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
