package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// maxPendingEvents bounds the events that wait to be sent: five for each of 5,000 Machines, and some more. One takes about 1 kB.
	maxPendingEvents = 32 << 10
	// eventSenders is how many events are sent at once. Those of one object are sent one after the other.
	eventSenders = 8
	// maxEventTries is how often the API server is asked to take an event when it fails to answer: for about two minutes.
	maxEventTries = 12
	// flushEvents is for how long events are sent after everything else has stopped.
	flushEvents = 5 * time.Second
	// logDropped is how often dropped events are logged, for each reason.
	logDropped = 10 * time.Minute
)

// Why an event is dropped, as the metric names it.
const (
	droppedQueueFull = "queue full"
	droppedThrottled = "throttled"
	droppedRejected  = "rejected"
	droppedFailed    = "failed"
	droppedStopped   = "stopped"
)

// recorder records events. It is like the recorder of client-go's tools/record, with its correlator, but for two things: that one queues 1,000
// events, sends them one at a time and drops the rest without a word; and it gives an event up when the API server answers 429 or 503. It is the
// API of core/v1: that of events.k8s.io takes the events of one object and reason for one series whatever they say, so of ten refused keys only
// the first would be reported.
type recorder struct {
	scheme     *runtime.Scheme
	source     corev1.EventSource
	sink       record.EventSink
	correlator *record.EventCorrelator
	metrics    *Metrics
	logger     logr.Logger
	limit      int
	// objects are those with pending events.
	objects workqueue.TypedRateLimitingInterface[corev1.ObjectReference]
	senders sync.WaitGroup
	// abandon ends the senders, whatever is pending.
	abandon context.CancelFunc

	mu      sync.Mutex
	pending map[corev1.ObjectReference][]*pendingEvent
	count   int
	logged  map[string]time.Time
}

// pendingEvent is one that has not been sent. The correlator sees it once, however often it is sent.
type pendingEvent struct {
	event      *corev1.Event
	patch      []byte
	correlated bool
}

var _ record.EventRecorder = (*recorder)(nil)

// newRecorder starts the recorder of all events. The function that it returns sends what is left, and stops it.
func newRecorder(ctx context.Context, mgr manager.Manager, metrics *Metrics) (*recorder, func(), error) {
	client, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for events: %w", err)
	}
	r := startRecorder(ctx, mgr.GetScheme(), &typedcorev1.EventSinkImpl{Interface: client.Events("")}, metrics, maxPendingEvents)
	return r, r.stop, nil
}

func startRecorder(ctx context.Context, scheme *runtime.Scheme, sink record.EventSink, metrics *Metrics, limit int) *recorder {
	r := &recorder{
		scheme: scheme, source: corev1.EventSource{Component: "drover"}, sink: sink, metrics: metrics, logger: log.FromContext(ctx), limit: limit,
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}),
		objects: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[corev1.ObjectReference](100*time.Millisecond, 30*time.Second)),
		pending: map[corev1.ObjectReference][]*pendingEvent{}, logged: map[string]time.Time{},
	}
	// The senders outlive the context: what happens while Drover stops is sent, too.
	ctx, r.abandon = context.WithCancel(context.WithoutCancel(ctx))
	for range eventSenders {
		r.senders.Go(func() {
			for r.sendNext(ctx) {
			}
		})
	}
	return r
}

// stop waits until all events are sent, but not for long.
func (r *recorder) stop() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.objects.ShutDownWithDrain()
		r.senders.Wait()
	}()
	select {
	case <-done:
	case <-time.After(flushEvents):
	}
	r.abandon()
	r.objects.ShutDown()
	r.mu.Lock()
	left := r.count
	r.mu.Unlock()
	if left > 0 {
		r.drop(droppedStopped, left, nil, nil)
	}
}

// Event records an event about an object.
func (r *recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.record(object, nil, eventType, reason, message)
}

// Eventf is Event with a format.
func (r *recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.record(object, nil, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf is Eventf with annotations on the event.
func (r *recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	r.record(object, annotations, eventType, reason, fmt.Sprintf(format, args...))
}

// record queues an event. It never blocks a worker.
func (r *recorder) record(object runtime.Object, annotations map[string]string, eventType, reason, message string) {
	about, err := reference.GetReference(r.scheme, object)
	if err != nil {
		r.logger.Error(err, "cannot record an event", "reason", reason, "message", message)
		return
	}
	now, namespace := metav1.Now(), about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: util.GenerateEventName(about.Name, now.UnixNano()), Annotations: annotations,
		},
		InvolvedObject: *about, Type: eventType, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: r.source, ReportingController: r.source.Component,
	}
	key := keyOf(event)
	r.mu.Lock()
	full := r.count >= r.limit
	if !full {
		r.pending[key] = append(r.pending[key], &pendingEvent{event: event})
		r.count++
	}
	r.mu.Unlock()
	if full {
		r.drop(droppedQueueFull, 1, event, nil)
		return
	}
	r.objects.Add(key)
}

// keyOf returns the object that an event is about, at whatever version.
func keyOf(event *corev1.Event) corev1.ObjectReference {
	key := event.InvolvedObject
	key.ResourceVersion = ""
	return key
}

// sendNext sends the pending events of one object, in their order. It reports whether there may be another.
func (r *recorder) sendNext(ctx context.Context) bool {
	key, stopped := r.objects.Get()
	if stopped {
		return false
	}
	defer r.objects.Done(key)
	for {
		next := r.first(key)
		if next == nil || ctx.Err() != nil {
			return ctx.Err() == nil
		}
		if !r.send(next, r.objects.NumRequeues(key)+1) {
			r.objects.AddRateLimited(key)
			return true
		}
		r.objects.Forget(key)
		r.removeFirst(key)
	}
}

func (r *recorder) first(key corev1.ObjectReference) *pendingEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pending := r.pending[key]; len(pending) > 0 {
		return pending[0]
	}
	return nil
}

func (r *recorder) removeFirst(key corev1.ObjectReference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count--
	if r.pending[key] = r.pending[key][1:]; len(r.pending[key]) == 0 {
		delete(r.pending, key)
	}
}

// send reports whether nothing is left to be done about an event: it is sent, or dropped.
func (r *recorder) send(p *pendingEvent, try int) bool {
	if !p.correlated {
		// As in client-go, an error leaves an event that can be sent.
		result, err := r.correlator.EventCorrelate(p.event)
		if err != nil {
			r.logger.Error(err, "correlating an event")
		}
		if result.Skip {
			r.drop(droppedThrottled, 1, p.event, nil)
			return true
		}
		p.event, p.patch, p.correlated = result.Event, result.Patch, true
	}
	sent, err := r.write(p)
	switch {
	case err == nil:
		r.correlator.UpdateState(sent)
	case apierrors.IsAlreadyExists(err):
		// An earlier try has arrived, and its answer has not.
	case isFinal(err):
		r.drop(droppedRejected, 1, p.event, err)
	case try >= maxEventTries:
		r.drop(droppedFailed, 1, p.event, err)
	default:
		return false
	}
	return true
}

// write creates an event, or counts it where the correlator has found an equal one that is still there.
func (r *recorder) write(p *pendingEvent) (*corev1.Event, error) {
	if p.event.Count > 1 {
		if sent, err := r.sink.Patch(p.event, p.patch); !apierrors.IsNotFound(err) {
			return sent, err
		}
	}
	p.event.ResourceVersion = ""
	return r.sink.Create(p.event)
}

// isFinal reports whether the API server has denied an event, so that a retry would not help.
func isFinal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTooManyRequests(err) && !apierrors.IsTimeout(err) && !apierrors.IsConflict(err)
}

// drop counts dropped events, and logs them now and then.
func (r *recorder) drop(why string, count int, event *corev1.Event, err error) {
	r.metrics.eventsDropped.WithLabelValues(why).Add(float64(count))
	r.mu.Lock()
	last, now := r.logged[why], time.Now()
	due := last.IsZero() || now.Sub(last) >= logDropped
	if due {
		r.logged[why] = now
	}
	r.mu.Unlock()
	if !due {
		return
	}
	values := []any{"why", why, "count", count}
	if event != nil {
		values = append(values, "kind", event.InvolvedObject.Kind, "namespace", event.InvolvedObject.Namespace, "name", event.InvolvedObject.Name,
			"reason", event.Reason, "message", event.Message)
	}
	r.logger.Error(err, "an event is dropped; drover_events_dropped_total counts those that follow", values...)
}
