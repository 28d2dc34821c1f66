// Package browser drives a real Chromium in tests.
package browser

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is how long a busy machine may take for a request, or until a condition of a page holds.
const patience = 90 * time.Second

// Path returns the program of Chromium: CHROMIUM, or the one that is installed. It is empty if there is none.
func Path() string {
	if given := os.Getenv("CHROMIUM"); given != "" {
		return given
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Browser is a running Chromium.
type Browser struct {
	// ctx is that of chromedp: pages are made from it.
	ctx context.Context
}

// Start starts Chromium, which ends with the test. It renders in software. Without Chromium the test is skipped.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := Path()
	if path == "" {
		t.Skip("Chromium is not installed; on Debian: apt-get install chromium")
	}
	ctx, end := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("lang", "en-GB"),
		chromedp.Flag("enable-precise-memory-info", true),
	))
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	return &Browser{ctx: ctx}
}
