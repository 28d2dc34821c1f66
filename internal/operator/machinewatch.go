package operator

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/machineapi/machinejson"
)

// informerFunc makes an informer, as cache.Options.NewInformer does.
type informerFunc func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// newInformerFunc returns what makes the informers of the cache. namespace is that of the Machines; "" is all.
func newInformerFunc(config *rest.Config, scheme *runtime.Scheme, namespace string) (informerFunc, error) {
	watchMachines, err := newMachineWatch(config, scheme, namespace)
	if err != nil {
		return nil, err
	}
	return func(
		from toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		if _, ok := kind.(*machinev1beta1.Machine); ok {
			from = &toolscache.ListWatch{
				ListWithContextFunc: toolscache.ToListerWatcherWithContext(from).ListWithContext, WatchFuncWithContext: watchMachines,
			}
		}
		return toolscache.NewSharedIndexInformer(from, kind, resync, indexers)
	}, nil
}

// newMachineWatch returns what watches Machines. They are the only custom resources that are many, and so come as JSON. client-go reads each event of
// such a watch five times: for its end, for its kind, for itself, for the kind of its object, and for the object. This watch reads only the object.
// It has a connection of its own.
func newMachineWatch(config *rest.Config, scheme *runtime.Scheme, namespace string) (toolscache.WatchFuncWithContext, error) {
	codecs := serializer.NewCodecFactory(scheme)
	client, err := machinejson.Client(ownConnection(config), codecs)
	if err != nil {
		return nil, err
	}
	decoderOf, err := clientGoDecoders(codecs.WithoutConversion())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.Watch, options.AllowWatchBookmarks = true, true
		body, err := machinejson.Stream(ctx, client, namespace, options)
		switch {
		case options.SendInitialEvents == nil && isBroken(err):
			// The reflector tries a refusal for too many requests again after a while, from where it is. After any other error it lists all Machines.
			log.FromContext(ctx).Info("the watch of Machines did not begin; trying again", "error", err.Error())
			return nil, apierrors.NewTooManyRequestsError(fmt.Sprintf("watching Machines: %v", err))
		case err != nil:
			return nil, err
		}
		reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")
		return watch.NewStreamWatcher(newMachineDecoder(body, decoderOf), reporter), nil
	}, nil
}

// isBroken reports whether a request may have failed because its connection has ended, as when an API server restarts.
func isBroken(err error) bool {
	return utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// maxEvent is how long an event of a watch can be, in bytes; an object in etcd has 1.5 MiB at most.
const maxEvent = 16 << 20

// clientGoDecoders returns what makes client-go's decoder of a watch.
func clientGoDecoders(codecs runtime.NegotiatedSerializer) (func(body io.ReadCloser) watch.Decoder, error) {
	object, events, framer, err := runtime.NewClientNegotiator(codecs, machinev1beta1.GroupVersion).StreamDecoder(runtime.ContentTypeJSON, nil)
	if err != nil {
		return nil, fmt.Errorf("making the decoder of a watch: %w", err)
	}
	return func(body io.ReadCloser) watch.Decoder {
		return restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(body), events), object)
	}, nil
}

// machineDecoder decodes the events of a watch of Machines, each of which is a line. client-go's decoder gets what is not as the API server writes
// it.
type machineDecoder struct {
	body  io.Closer
	lines *bufio.Reader
	// clientGo makes client-go's decoder of a stream.
	clientGo func(body io.ReadCloser) watch.Decoder
	// long is the line that is longer than the buffer of lines.
	long []byte
}

func newMachineDecoder(body io.ReadCloser, clientGo func(body io.ReadCloser) watch.Decoder) *machineDecoder {
	return &machineDecoder{body: body, lines: bufio.NewReaderSize(body, 64<<10), clientGo: clientGo}
}

// Close ends the watch.
func (d *machineDecoder) Close() { _ = d.body.Close() }

// Decode returns the next event. The error is io.EOF when the watch has ended.
func (d *machineDecoder) Decode() (watch.EventType, runtime.Object, error) {
	line, err := d.next()
	if err != nil {
		return "", nil, err
	}
	kind, object := splitEvent(line)
	if object == nil {
		return d.clientGo(io.NopCloser(bytes.NewReader(line))).Decode()
	}
	machine, err := machinejson.Decode(object)
	if err != nil {
		return "", nil, fmt.Errorf("an event of a watch: %w", err)
	}
	return kind, machine, nil
}

// next returns the next line, which is valid until the next call.
func (d *machineDecoder) next() ([]byte, error) {
	d.long = d.long[:0]
	for {
		part, err := d.lines.ReadSlice('\n')
		switch {
		case err == nil && len(d.long) == 0:
			return part, nil
		case len(d.long)+len(part) > maxEvent:
			return nil, fmt.Errorf("an event of a watch of Machines has more than %d bytes", maxEvent)
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

// eventStarts are how the API server begins the types of events.
var eventStarts = map[watch.EventType][]byte{
	watch.Added: eventStart(watch.Added), watch.Modified: eventStart(watch.Modified), watch.Deleted: eventStart(watch.Deleted),
	watch.Bookmark: eventStart(watch.Bookmark),
}

func eventStart(kind watch.EventType) []byte { return fmt.Appendf(nil, `{"type":%q,"object":`, kind) }

// splitEvent returns the type of an event and its Machine; nil if it is not written in the usual way, or is about something else.
func splitEvent(line []byte) (kind watch.EventType, machine []byte) {
	for kind, start := range eventStarts {
		rest, found := bytes.CutPrefix(line, start)
		if !found {
			continue
		}
		if machine, found = bytes.CutSuffix(bytes.TrimRight(rest, " \r\n"), []byte("}")); found && machinejson.IsMachine(machine) {
			return kind, machine
		}
	}
	return "", nil
}
