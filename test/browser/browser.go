// Package browser drives a real Chromium in tests, by the DevTools protocol over a pipe (https://chromedevtools.github.io/devtools-protocol).
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

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

// flags are the flags of Chromium: no window, rendering in software, nothing that asks the network, and frames also for pages in the background.
func flags(profile string) []string {
	return []string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-background-timer-throttling",
		"--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", "--force-color-profile=srgb", "--enable-precise-memory-info",
		"--lang=en-GB", "--remote-debugging-pipe", "--user-data-dir=" + profile, "about:blank",
	}
}

// Browser is a running Chromium.
type Browser struct {
	process *exec.Cmd
	output  strings.Builder

	mu sync.Mutex
	// to is where requests go; a zero byte ends each.
	to      io.Writer
	last    int
	answers map[int]chan message
	pages   map[string]*record
	// gone is closed when Chromium has closed its pipe.
	gone chan struct{}
}

// message is a request, an answer or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts Chromium, which ends with the test. Without Chromium the test is skipped.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := Path()
	if path == "" {
		t.Skip("Chromium is not installed; on Debian: apt-get install chromium")
	}
	b, end, err := start(path, t.TempDir())
	if err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	t.Cleanup(end)
	return b
}

func start(path, profile string) (b *Browser, end func(), err error) {
	requests, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	from, answers, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	b = &Browser{
		process: exec.Command(path, flags(profile)...), to: to, answers: map[int]chan message{}, pages: map[string]*record{}, gone: make(chan struct{}),
	}
	// Chromium reads from file 3 and writes to file 4.
	b.process.ExtraFiles, b.process.Stderr = []*os.File{requests, answers}, &b.output
	err = b.process.Start()
	for _, file := range []*os.File{requests, answers} {
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return nil, nil, err
	}
	go b.read(from)
	return b, func() {
		// Chromium ends when its pipe is closed.
		_ = to.Close()
		select {
		case <-b.gone:
		case <-time.After(patience):
			_ = b.process.Process.Kill()
		}
		_ = b.process.Wait()
		_ = from.Close()
	}, nil
}

// read hands answers to who waits for them, and events to their pages.
func (b *Browser) read(from io.Reader) {
	defer close(b.gone)
	reader := bufio.NewReader(from)
	for {
		text, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		answer, page := b.answers[m.ID], b.pages[m.Session]
		delete(b.answers, m.ID)
		b.mu.Unlock()
		if answer != nil {
			answer <- m
		} else if page != nil {
			page.take(m)
		}
	}
}

// call makes a request of a session, or of the browser if session is empty, and waits for the answer.
func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	content, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	b.answers[b.last] = answer
	text, err := json.Marshal(message{ID: b.last, Session: session, Method: method, Params: content})
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-b.gone:
		return fmt.Errorf("%s: Chromium has ended: %s", method, b.output.String())
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}
