package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/cli/view"
)

// heartbeat is how often a stream is written at least, so that the page notices when the connection is gone. A page that does not read for
// writeTimeout loses its stream: nothing waits for it in memory.
const (
	heartbeat    = 15 * time.Second
	writeTimeout = 20 * time.Second
)

func (s snapshot) fleet() model.Fleet {
	if s.state == nil {
		return model.Fleet{TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "Fleet"}, Items: []model.Cell{}}
	}
	return s.state.Fleet
}

func (s snapshot) waits() model.WaitList {
	if s.state == nil {
		return model.WaitList{TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "WaitList"}, Items: []model.Wait{}}
	}
	return s.state.Waits
}

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
		now := s.cluster.snapshot()
		if err := stream.send(now); err != nil {
			return
		}
		select {
		case <-now.next:
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
	// sent is what the page has been sent.
	sent   snapshot
	opened bool
}

// waitChanges are the changes of a list of waits, with how many more there are.
type waitChanges struct {
	model.Changes[model.Wait]

	Omitted int `json:"omitted,omitempty"`
}

// send sends what has changed.
func (s *stream) send(now snapshot) error {
	var text bytes.Buffer
	if !s.opened || !reflect.DeepEqual(now.cluster, s.sent.cluster) {
		if err := event(&text, "cluster", now.cluster); err != nil {
			return err
		}
	}
	if now.state != nil && now.state != s.sent.state {
		cells := model.ChangesOf(s.sent.fleet().Items, now.state.Fleet.Items)
		waits := waitChanges{model.ChangesOf(s.sent.waits().Items, now.state.Waits.Items), now.state.Waits.Omitted}
		cells.Full, waits.Full = s.sent.state == nil, s.sent.state == nil
		if cells.Any() {
			if err := event(&text, "fleet", cells); err != nil {
				return err
			}
		}
		if waits.Any() || waits.Omitted != s.sent.waits().Omitted {
			if err := event(&text, "waits", waits); err != nil {
				return err
			}
		}
	}
	s.sent, s.opened = now, true
	if text.Len() == 0 {
		return nil
	}
	return s.write(text.Bytes())
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
