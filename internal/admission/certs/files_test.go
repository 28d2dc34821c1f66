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

// write writes a certificate into a folder, as the kubelet changes a mounted Secret: each file is replaced at once.
func write(t *testing.T, folder, name string, b *bundle) {
	t.Helper()
	data, err := b.encode()
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{name + ".key": data[keyServingKey], name + ".crt": data[keyServing]} {
		path := filepath.Join(folder, file)
		if err := os.WriteFile(path+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFiles_HaveOneOfTwoNames(t *testing.T) {
	folder := t.TempDir()
	if _, err := NewFiles(folder); err == nil || !strings.Contains(err.Error(), "neither tls.crt nor apiserver.crt") {
		t.Errorf("an empty folder: %v", err)
	}
	olm, own := advance(t, nil, names, epoch), advance(t, nil, names, epoch)
	write(t, folder, "apiserver", olm)
	serves(t, folder, olm)
	write(t, folder, "tls", own)
	serves(t, folder, own)
	if err := os.Remove(filepath.Join(folder, "tls.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFiles(folder); err == nil {
		t.Error("a certificate without a key is accepted")
	}
}

func serves(t *testing.T, folder string, want *bundle) {
	t.Helper()
	files, err := NewFiles(folder)
	if err != nil {
		t.Fatal(err)
	}
	got, err := files.GetCertificate(nil)
	if err != nil || !got.Leaf.Equal(want.serving.Leaf) {
		t.Errorf("it serves %v, %v", got, err)
	}
	if err := files.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFiles_AreReadAgainWhenTheyChange(t *testing.T) {
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
			found = certificate.Leaf.Equal(after.serving.Leaf)
		case <-limit:
			t.Fatal("the new certificate is not read")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
