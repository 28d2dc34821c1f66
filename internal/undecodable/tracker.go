package undecodable

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// EventUndecodable (Warning on any custom resource): a field has a value that the API server accepts and Go cannot decode, such as the date
// `2020-01-01t00:00:00z`; Drover does not act on the object, nor on what depends on it, until the field is corrected.
const EventUndecodable = "Undecodable"

// Tracker knows the objects of the cache that could not be decoded. It is safe for concurrent use.
type Tracker struct {
	mu      sync.Mutex
	objects map[id]*tracked
	kinds   map[string]int
	counts  *prometheus.GaugeVec
	changed chan struct{}
}

// id names an object. Two kinds of the same name have different Go types.
type id struct {
	goType reflect.Type
	key    types.NamespacedName
}

func idOf(object client.Object) id {
	return id{reflect.TypeOf(object), client.ObjectKeyFromObject(object)}
}

// tracked is an object that could not be decoded.
type tracked struct {
	object   client.Object
	problem  string
	reported bool
}

// NewTracker returns a tracker without objects.
func NewTracker() *Tracker {
	return &Tracker{
		objects: map[id]*tracked{}, kinds: map[string]int{}, changed: make(chan struct{}, 1),
		counts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_undecodable_objects", Help: "Objects that Drover does not act on because a field cannot be decoded.",
		}, []string{"kind"}),
	}
}

// Register registers the metric.
func (t *Tracker) Register(registry prometheus.Registerer) error {
	if err := registry.Register(t.counts); err != nil {
		return fmt.Errorf("registering the metric drover_undecodable_objects: %w", err)
	}
	return nil
}

// Handler returns the handler of the events of an informer.
func (t *Tracker) Handler() toolscache.ResourceEventHandler {
	observe := func(object any) {
		if object, ok := object.(client.Object); ok {
			t.set(object, ProblemOf(object))
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: observe, UpdateFunc: func(_, object any) { observe(object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if object, ok := object.(client.Object); ok {
				t.set(object, "")
			}
		},
	}
}

// set records why an object cannot be decoded; empty for one that can be, or is gone.
func (t *Tracker) set(object client.Object, problem string) {
	key := idOf(object)
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.objects[key]
	switch {
	case problem == "" && known == nil:
		return
	case problem == "":
		delete(t.objects, key)
		t.count(kindOf(object), -1)
		return
	case known != nil && known.problem == problem && known.object.GetUID() == object.GetUID():
		return
	case known == nil:
		t.count(kindOf(object), 1)
	}
	t.objects[key] = &tracked{object: object, problem: problem}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// Forget ends what is known of the objects of a kind, whose cache is dropped.
func (t *Tracker) Forget(of client.Object) {
	goType := idOf(of).goType
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.objects {
		if key.goType == goType {
			delete(t.objects, key)
			t.count(kindOf(of), -1)
		}
	}
}

// count adds objects of a kind to those that are counted, or takes them away.
func (t *Tracker) count(kind string, change int) {
	if t.kinds[kind] += change; t.kinds[kind] > 0 {
		t.counts.WithLabelValues(kind).Set(float64(t.kinds[kind]))
		return
	}
	delete(t.kinds, kind)
	t.counts.DeleteLabelValues(kind)
}

// maxLines bounds how many objects Lines names.
const maxLines = 10

// Lines describes the objects for /readyz.
func (t *Tracker) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]string, 0, len(t.objects))
	for _, tracked := range t.objects {
		all = append(all, "warning: "+Check(tracked.object).Error())
	}
	slices.SortFunc(all, cmp.Compare)
	if more := len(all) - maxLines; more > 0 {
		all = append(all[:maxLines], fmt.Sprintf("warning: %d more objects cannot be decoded", more))
	}
	return all
}

// Report emits an event for each object, and logs it, until the context ends. Only the leader calls it.
func (t *Tracker) Report(ctx context.Context, recorder record.EventRecorder) {
	for {
		for _, object := range t.unreported() {
			problem := Check(object)
			log.FromContext(ctx).Error(problem, "cannot decode an object; Drover does not act on it")
			recorder.Event(object, corev1.EventTypeWarning, EventUndecodable, problem.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		}
	}
}

func (t *Tracker) unreported() []client.Object {
	t.mu.Lock()
	defer t.mu.Unlock()
	var objects []client.Object
	for _, tracked := range t.objects {
		if !tracked.reported {
			tracked.reported = true
			objects = append(objects, tracked.object)
		}
	}
	return objects
}
