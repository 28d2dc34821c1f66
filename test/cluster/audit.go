package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// AuditMark is a place in the audit log.
type AuditMark int64

// AuditEvent is one request to the API server, as its audit log has it.
type AuditEvent struct {
	// User is who asked; for an impersonated request that is the impersonated user.
	User      string
	UserAgent string
	Verb      string
	// Group, Resource, Subresource, Namespace and Name say what was asked for; they are empty for other paths.
	Group, Resource, Subresource, Namespace, Name string
	// URI is the path and query of the request.
	URI string
	// Code is the HTTP status of the answer.
	Code int
	// Message is what the answer says of an error.
	Message string
	// UID and Grace are the precondition and the grace period of an eviction or of a pod's deletion; empty when it has none.
	UID   string
	Grace *int64
	// Received is when the request came, Answered when its answer was complete, or had begun for a watch.
	Received, Answered time.Time
}

// Write reports whether the request changes something, if it succeeds.
func (e *AuditEvent) Write() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Unread reports whether the request's body was not read: the authorizer refused it, or its client died while it was being sent.
func (e *AuditEvent) Unread() bool {
	return slices.Contains([]int{0, http.StatusBadRequest, http.StatusForbidden, http.StatusInternalServerError}, e.Code)
}

// InEndingNamespace reports whether an object was to be created in a namespace that is being deleted, which is forbidden for every user.
func (e *AuditEvent) InEndingNamespace() bool {
	return e.Code == http.StatusForbidden && strings.Contains(e.Message, "because it is being terminated")
}

// Audit reads the API server's audit log, which has one event for every request, also for those it refused.
type Audit struct {
	path  string
	admin *rest.Config
}

// Audit returns the reader of the audit log.
func (c *Cluster) Audit() *Audit { return &Audit{path: c.layout.audit(), admin: c.Admin()} }

// Path returns the name of the file, which has one JSON document per line.
func (a *Audit) Path() string { return a.path }

// Mark returns the present end of the log. A request that is still being answered comes after it.
func (a *Audit) Mark() (AuditMark, error) {
	info, err := os.Stat(a.path)
	if err != nil {
		return 0, fmt.Errorf("cluster: reading the audit log: %w", err)
	}
	return AuditMark(info.Size()), nil
}

// syncParameter marks the requests of Sync, which no reading method returns.
const syncParameter = "drover-sandbox-sync"

// Sync waits until the log has every request that was answered before the call, and returns the place behind them.
func (a *Audit) Sync(ctx context.Context) (AuditMark, error) {
	clients, err := kubernetes.NewForConfig(a.admin)
	if err != nil {
		return 0, fmt.Errorf("cluster: making a client: %w", err)
	}
	mark, err := a.Mark()
	if err != nil {
		return 0, err
	}
	// The API server writes the log in the order of its answers, so our own request comes after all requests that it had answered.
	id := rand.String(20)
	err = clients.Discovery().RESTClient().Get().AbsPath("/version").Param(syncParameter, id).Do(ctx).Error()
	if err != nil {
		return 0, fmt.Errorf("cluster: asking the API server for a line in its audit log: %w", err)
	}
	found := AuditMark(-1)
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		mark, err = a.lines(mark, func(line []byte, end AuditMark) error {
			if found < 0 && strings.Contains(string(line), id) {
				found = end
			}
			return nil
		})
		return found >= 0, err
	})
	if err != nil {
		return 0, fmt.Errorf("cluster: waiting for a request to appear in the audit log: %w", err)
	}
	return found, nil
}

// Since returns the requests after a mark, ordered by when they were answered.
func (a *Audit) Since(mark AuditMark) ([]AuditEvent, error) {
	var events []AuditEvent
	err := a.Each(mark, func(e *AuditEvent) error {
		events = append(events, *e)
		return nil
	})
	return events, err
}

// Each calls a function with every request after a mark, ordered by when they were answered, and stops at its first error.
func (a *Audit) Each(mark AuditMark, see func(*AuditEvent) error) error {
	_, err := a.Follow(mark, see)
	return err
}

// Follow is Each, and returns the place behind what the function has seen.
func (a *Audit) Follow(mark AuditMark, see func(*AuditEvent) error) (AuditMark, error) {
	return a.lines(mark, func(line []byte, _ AuditMark) error {
		var wire wireEvent
		if err := json.Unmarshal(line, &wire); err != nil {
			return fmt.Errorf("cluster: reading the audit log: %w", err)
		}
		if wire.repeated() || strings.Contains(wire.RequestURI, syncParameter) {
			return nil
		}
		event := wire.event()
		return see(&event)
	})
}

// lines calls a function with every complete line after a mark and the place behind it, and returns the place behind
// the last one.
func (a *Audit) lines(mark AuditMark, see func(line []byte, end AuditMark) error) (AuditMark, error) {
	file, err := os.Open(filepath.Clean(a.path))
	if err != nil {
		return mark, fmt.Errorf("cluster: reading the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(int64(mark), io.SeekStart); err != nil {
		return mark, fmt.Errorf("cluster: reading the audit log: %w", err)
	}
	reader := bufio.NewReaderSize(file, 1<<16)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return mark, nil // what is left is a line that is being written
		}
		if err != nil {
			return mark, fmt.Errorf("cluster: reading the audit log: %w", err)
		}
		mark += AuditMark(len(line))
		if err := see(line, mark); err != nil {
			return mark, err
		}
	}
}
