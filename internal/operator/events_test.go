package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// eventSink is an API server that takes its time for each event.
type eventSink struct {
	mu sync.Mutex
	// takes is how long an answer takes.
	takes time.Duration
	// fails returns the answer to a try; nil for events that are taken.
	fails func(try int, event *corev1.Event) error
	tries map[string]int
	taken []string
}

func (s *eventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tries == nil {
		s.tries = map[string]int{}
	}
	s.tries[event.Name]++
	if s.fails != nil {
		if err := s.fails(s.tries[event.Name], event); err != nil {
			return nil, err
		}
	}
	s.taken = append(s.taken, event.InvolvedObject.Name+" "+event.Reason)
	return event, nil
}

func (s *eventSink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
}

func (s *eventSink) Update(event *corev1.Event) (*corev1.Event, error) { return event, nil }

func (s *eventSink) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(event)
}

// withRecorder runs a test with a recorder whose events go to a sink, and stops it.
func withRecorder(t *testing.T, sink *eventSink, limit int, test func(t *testing.T, r record.EventRecorder)) (*prometheus.Registry, string) {
	t.Helper()
	var logged strings.Builder
	metrics, registry := quietMetrics(t)
	synctest.Test(t, func(t *testing.T) {
		scheme, err := newScheme()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), zap.New(zap.WriteTo(&logged))))
		r := startRecorder(ctx, scheme, sink, metrics, limit)
		test(t, r)
		cancel()
		r.stop()
		// What is under way ends.
		time.Sleep(time.Minute)
	})
	return registry, logged.String()
}

func machineNamed(i int) *machinev1beta1.Machine {
	name := fmt.Sprintf("machine-%d", i)
	return &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: name, UID: types.UID(name)}}
}

// dropped compares the metric.
func dropped(t *testing.T, registry *prometheus.Registry, reason string, want int) {
	t.Helper()
	if got := countDropped(t, registry, reason); got != want {
		t.Errorf("dropped because of %q: %d, want %d", reason, got, want)
	}
}

func countDropped(t *testing.T, registry *prometheus.Registry, reason string) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "drover_events_dropped_total" && metric.GetLabel()[0].GetValue() == reason {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("there is no series for %q", reason)
	return 0
}

func TestRecorder_LosesNoEventInABurst(t *testing.T) {
	const machines = 5000
	reasons := []string{"Delete", "Drained", "Deleted"}
	sink := &eventSink{takes: 20 * time.Millisecond}
	metrics, _ := withRecorder(t, sink, maxPendingEvents, func(_ *testing.T, r record.EventRecorder) {
		for i := range machines {
			for _, reason := range reasons {
				r.Event(machineNamed(i), corev1.EventTypeNormal, reason, "a transition")
			}
		}
		time.Sleep(time.Minute)
	})
	count, last := map[string]int{}, map[string]int{}
	for _, taken := range sink.taken {
		count[taken]++
		machine, reason, _ := strings.Cut(taken, " ")
		if reasons[last[machine]] != reason {
			t.Fatalf("%s: event %d is %s", machine, last[machine], reason)
		}
		last[machine]++
	}
	if len(sink.taken) != machines*len(reasons) || len(count) != len(sink.taken) {
		t.Errorf("%d events have arrived, %d of them different, want %d", len(sink.taken), len(count), machines*len(reasons))
	}
	for _, reason := range []string{droppedQueueFull, droppedThrottled, droppedRejected, droppedFailed, droppedStopped} {
		dropped(t, metrics, reason, 0)
	}
}

func TestRecorder_CountsWhatItDrops(t *testing.T) {
	sink := &eventSink{takes: time.Second}
	metrics, logged := withRecorder(t, sink, 10, func(_ *testing.T, r record.EventRecorder) {
		for i := range 100 {
			r.Event(machineNamed(i), corev1.EventTypeNormal, "Delete", "a transition")
		}
		time.Sleep(time.Minute)
	})
	if len(sink.taken) != 10 {
		t.Errorf("%d events have arrived", len(sink.taken))
	}
	dropped(t, metrics, droppedQueueFull, 90)
	if n := strings.Count(logged, "an event is dropped"); n != 1 {
		t.Errorf("the loss is logged %d times:\n%s", n, logged)
	}
}

func TestRecorder_ThrottlesOneObject(t *testing.T) {
	sink := &eventSink{}
	metrics, logged := withRecorder(t, sink, maxPendingEvents, func(_ *testing.T, r record.EventRecorder) {
		for i := range 100 {
			r.Eventf(machineNamed(0), corev1.EventTypeWarning, "Delete", "try %d", i)
		}
		time.Sleep(time.Second)
	})
	dropped(t, metrics, droppedThrottled, 75)
	if n := strings.Count(logged, "an event is dropped"); n != 1 || len(sink.taken) != 25 {
		t.Errorf("%d events have arrived; the loss is logged %d times:\n%s", len(sink.taken), n, logged)
	}
}

func TestRecorder_RetriesWhatTheAPIServerDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		fails   int
		arrives bool
		reason  string
	}{
		"no connection":        {errors.New("connection refused"), 5, true, ""},
		"too many requests":    {apierrors.NewTooManyRequests("wait", 1), 5, true, ""},
		"unavailable":          {apierrors.NewServiceUnavailable("starting"), 5, true, ""},
		"no answer at all":     {errors.New("connection refused"), 1000, false, droppedFailed},
		"refused":              {apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("no")), 1000, false, droppedRejected},
		"taken without answer": {apierrors.NewAlreadyExists(corev1.Resource("events"), "x"), 1000, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &eventSink{fails: func(try int, event *corev1.Event) error {
				if try <= c.fails && event.Reason == "Delete" {
					return c.err
				}
				return nil
			}}
			metrics, logged := withRecorder(t, sink, maxPendingEvents, func(_ *testing.T, r record.EventRecorder) {
				r.Event(machineNamed(0), corev1.EventTypeNormal, "Delete", "a transition")
				r.Event(machineNamed(0), corev1.EventTypeNormal, "Deleted", "the next one")
				time.Sleep(10 * time.Minute)
			})
			want := "machine-0 Deleted"
			if c.arrives {
				want = "machine-0 Delete machine-0 Deleted"
			}
			if got := strings.Join(sink.taken, " "); got != want {
				t.Errorf("events %q, want %q", got, want)
			}
			if c.reason != "" {
				dropped(t, metrics, c.reason, 1)
			}
			if got := strings.Contains(logged, "an event is dropped"); got != (c.reason != "") {
				t.Errorf("logged: %s", logged)
			}
		})
	}
}

// What happens while Drover stops is sent, too, as long as the API server answers.
func TestRecorder_SendsWhatIsLeftWhenItStops(t *testing.T) {
	for takes, want := range map[time.Duration]int{10 * time.Millisecond: 100, time.Second: 40} {
		sink := &eventSink{takes: takes}
		metrics, _ := withRecorder(t, sink, maxPendingEvents, func(_ *testing.T, r record.EventRecorder) {
			for i := range 100 {
				r.AnnotatedEventf(machineNamed(i), nil, corev1.EventTypeNormal, "Delete", "a transition")
			}
		})
		if got := len(sink.taken); got < want {
			t.Errorf("an API server that takes %s for an event: %d have arrived, want %d", takes, got, want)
		}
		if got := countDropped(t, metrics, droppedStopped); got > 100-want+eventSenders {
			t.Errorf("an API server that takes %s for an event: %d are dropped", takes, got)
		}
	}
}

// BenchmarkRecorder records an event of each of 5,000 Machines at once, and reports how many of them an API server that takes a millisecond for each
// gets.
func BenchmarkRecorder(b *testing.B) {
	const machines = 5000
	scheme, err := newScheme()
	if err != nil {
		b.Fatal(err)
	}
	burst := func(b *testing.B, start func(ctx context.Context, sink *eventSink) (record.EventRecorder, func())) {
		for b.Loop() {
			sink := &eventSink{takes: time.Millisecond}
			recorder, stop := start(b.Context(), sink)
			for i := range machines {
				recorder.Event(machineNamed(i), corev1.EventTypeNormal, "Created", "the Machine has an instance")
			}
			for before := -1; before != sink.count(); time.Sleep(100 * time.Millisecond) {
				before = sink.count()
			}
			stop()
			b.ReportMetric(float64(machines-sink.count()), "lost")
		}
	}
	b.Run("Drover", func(b *testing.B) {
		burst(b, func(ctx context.Context, sink *eventSink) (record.EventRecorder, func()) {
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			r := startRecorder(ctx, scheme, sink, metrics, maxPendingEvents)
			return r, r.stop
		})
	})
	b.Run("client-go", func(b *testing.B) {
		burst(b, func(_ context.Context, sink *eventSink) (record.EventRecorder, func()) {
			broadcaster := record.NewBroadcaster()
			broadcaster.StartRecordingToSink(sink)
			return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "drover"}), broadcaster.Shutdown
		})
	})
}
