package undecodable

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxEvent is how long an event of a watch can be, in bytes; an object in etcd has 1.5 MiB at most.
const maxEvent = 16 << 20

// eventDecoder decodes the events of a watch, each of which is a line. client-go reads each event five times: for its end, for its kind, for
// itself, for the kind of its object, and for the object. This one reads only the object of an event that is written as the API server does.
type eventDecoder struct {
	body   io.Closer
	lines  *bufio.Reader
	decode func(text []byte) (client.Object, error)
	// long is the line that is longer than the buffer of lines.
	long []byte
}

// NewDecoder returns a decoder of the answer to a watch. decode decodes an object as Source.Decode does.
func NewDecoder(body io.ReadCloser, decode func(text []byte) (client.Object, error)) watch.Decoder {
	return newDecoder(body, decode)
}

func newDecoder(body io.ReadCloser, decode func(text []byte) (client.Object, error)) *eventDecoder {
	return &eventDecoder{body: body, lines: bufio.NewReaderSize(body, 64<<10), decode: decode}
}

// Close ends the watch.
func (d *eventDecoder) Close() { _ = d.body.Close() }

// Decode returns the next event. The error is io.EOF when the watch has ended.
func (d *eventDecoder) Decode() (watch.EventType, runtime.Object, error) {
	line, err := d.next()
	if err != nil {
		return "", nil, err
	}
	kind, text, err := splitEvent(line)
	if err != nil {
		return "", nil, err
	}
	if kind == watch.Error {
		status := &metav1.Status{}
		if err := json.Unmarshal(text, status); err != nil {
			return "", nil, fmt.Errorf("an event of a watch: %w", err)
		}
		return kind, status, nil
	}
	object, err := d.decode(text)
	if err != nil {
		return "", nil, fmt.Errorf("an event of a watch: %w", err)
	}
	return kind, object, nil
}

// next returns the next line, which is valid until the next call.
func (d *eventDecoder) next() ([]byte, error) {
	d.long = d.long[:0]
	for {
		part, err := d.lines.ReadSlice('\n')
		switch {
		case err == nil && len(d.long) == 0:
			return part, nil
		case len(d.long)+len(part) > maxEvent:
			return nil, fmt.Errorf("an event of a watch has more than %d bytes", maxEvent)
		}
		d.long = append(d.long, part...)
		switch {
		case err == nil:
			return d.long, nil
		case errors.Is(err, io.EOF) && len(d.long) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// eventStarts are how the API server begins the types of events with an object.
var eventStarts = map[watch.EventType][]byte{
	watch.Added: eventStart(watch.Added), watch.Modified: eventStart(watch.Modified), watch.Deleted: eventStart(watch.Deleted),
}

func eventStart(kind watch.EventType) []byte { return fmt.Appendf(nil, `{"type":%q,"object":{`, kind) }

// splitEvent returns the type of an event and its object.
func splitEvent(line []byte) (kind watch.EventType, object []byte, err error) {
	for kind, start := range eventStarts {
		rest, found := bytes.CutPrefix(line, start)
		if !found {
			continue
		}
		if end := bytes.TrimRight(rest, " \r\n"); bytes.HasSuffix(end, []byte("}}")) {
			return kind, line[len(start)-1 : len(start)+len(end)-1], nil
		}
	}
	var event metav1.WatchEvent
	if err := json.Unmarshal(line, &event); err != nil {
		return "", nil, fmt.Errorf("an event of a watch: %w", err)
	}
	switch kind := watch.EventType(event.Type); kind {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
		return kind, event.Object.Raw, nil
	default:
		return "", nil, fmt.Errorf("an event of a watch has the type %q", event.Type)
	}
}
