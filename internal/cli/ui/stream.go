package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/drover-io/drover/internal/cli/ui/model"
)

// heartbeat is how often a stream is written at least, so that the page notices when the connection is gone. A page that does not read for
// writeTimeout loses its stream: nothing waits for it in memory.
const (
	heartbeat    = 15 * time.Second
	writeTimeout = 20 * time.Second
)

// serveStream sends what the page shows as server-sent events: all of it first, then what changes. A stream that is slower than the cluster skips
// what was between.
func (s *server) serveStream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are open already; close one", maxStreams), http.StatusTooManyRequests)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream := &stream{writer: w, control: http.NewResponseController(w)}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		document, next := s.cluster.document()
		if err := stream.send(s.cluster, &document); err != nil {
			return
		}
		select {
		case <-next:
		case <-beat.C:
			if err := stream.write([]byte(": still here\n\n")); err != nil {
				return
			}
		case <-s.closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream is an answer with events.
type stream struct {
	writer  http.ResponseWriter
	control *http.ResponseController
	// sent is the document of the cluster that the page has, cells and the like are the versions of the lists.
	sent                             Cluster
	opened                           bool
	cells, waits, activities, budget uint64
	calendar                         *model.Calendar
}

// progressChanges are the changes of the document of progress. What has not changed is left out.
type progressChanges struct {
	Items    *model.Changes[model.Activity] `json:"items,omitempty"`
	Budgets  *model.Changes[model.Budget]   `json:"budgets,omitempty"`
	Calendar *model.Calendar                `json:"calendar,omitempty"`
}

// send sends what has changed.
func (s *stream) send(u *cluster, document *Cluster) error {
	var text bytes.Buffer
	add := func(name string, value any, isChanged bool) error {
		if !isChanged {
			return nil
		}
		return event(&text, name, value)
	}
	err := add("cluster", document, !s.opened || !reflect.DeepEqual(*document, s.sent))
	s.sent, s.opened = *document, true
	if err == nil && document.Ready {
		cells, version := u.tracker.Cells.Since(s.cells)
		s.cells = version
		err = add("fleet", cells, cells.Any())
	}
	if err == nil && document.Complete {
		waits, version := u.tracker.Waits.Since(s.waits)
		s.waits = version
		err = add("waits", waits, waits.Any())
	}
	if err == nil && document.Complete {
		progress := s.progress(u.tracker)
		err = add("progress", progress, progress != progressChanges{})
	}
	if err != nil || text.Len() == 0 {
		return err
	}
	return s.write(text.Bytes())
}

// progress returns what has changed of the document of progress.
func (s *stream) progress(tracker *model.Tracker) (out progressChanges) {
	activities, version := tracker.Activities.Since(s.activities)
	if s.activities = version; activities.Any() {
		out.Items = &activities
	}
	budgets, version := tracker.Budgets.Since(s.budget)
	if s.budget = version; budgets.Any() {
		out.Budgets = &budgets
	}
	if calendar := tracker.Calendar(); calendar != s.calendar {
		s.calendar, out.Calendar = calendar, calendar
	}
	return out
}

// event writes an event. JSON has no line breaks.
func event(to *bytes.Buffer, name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("rendering the event %s: %w", name, err)
	}
	_, err = fmt.Fprintf(to, "event: %s\ndata: %s\n\n", name, content)
	return err
}

func (s *stream) write(text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := s.writer.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}
