package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// informer hands its handler to the test, and reports when it is released.
type informer struct {
	ctrlcache.Informer
	handler cache.ResourceEventHandler
	refuses error
	removed chan cache.ResourceEventHandlerRegistration
}

type registration struct {
	cache.ResourceEventHandlerRegistration
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return registration{}, i.refuses
}

func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	i.removed <- handle
	return i.refuses
}

type oneInformer struct {
	informertest.FakeInformers
	informer *informer
	refuses  error
}

func (c *oneInformer) GetInformer(context.Context, client.Object, ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return c.informer, c.refuses
}

// noted is a queue that remembers priorities.
type noted struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	items []string
}

func (q *noted) AddWithOpts(options priorityqueue.AddOpts, items ...reconcile.Request) {
	for _, item := range items {
		q.items = append(q.items, fmt.Sprintf("%s@%d", item.Name, *options.Priority))
	}
}

// telling is a handler that writes down what it is called with.
func telling(into *[]string) Handler[*corev1.Node] {
	record := func(format string, args ...any) { *into = append(*into, fmt.Sprintf(format, args...)) }
	return Handler[*corev1.Node]{
		Created: func(_ context.Context, queue Queue, n *corev1.Node, initial bool) {
			queue.Add(PriorityNormal, request(n.Name))
			record("created %s initial=%v", n.Name, initial)
		},
		Updated: func(_ context.Context, _ Queue, before, after *corev1.Node) {
			record("updated %s to %s", before.Name, after.Name)
		},
		Deleted: func(_ context.Context, _ Queue, n *corev1.Node) { record("deleted %s", n.Name) },
	}
}

func TestEventsReachTheHandler(t *testing.T) {
	var got []string
	queue := &noted{}
	handler := adapt(t.Context(), Queue{queue}, telling(&got))
	handler.OnAdd(node("a"), true)
	handler.OnAdd(node("b"), false)
	handler.OnUpdate(node("a"), node("a2"))
	handler.OnDelete(node("a"))
	// A watch that broke off reports a deletion late, with the last state that was known.
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "c", Obj: node("c")})
	want := "created a initial=true, created b initial=false, updated a to a2, deleted a, deleted c"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if items := strings.Join(queue.items, " "); items != "a@0 b@0" {
		t.Errorf("queued %s", items)
	}
}

func TestOtherObjectsAndMissingFunctionsAreIgnored(t *testing.T) {
	var got []string
	handler := adapt(t.Context(), Queue{}, telling(&got))
	handler.OnAdd(&corev1.Pod{}, false)
	handler.OnUpdate(&corev1.Pod{}, node("a"))
	handler.OnUpdate(node("a"), &corev1.Pod{})
	handler.OnDelete(&corev1.Pod{})
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "x"})
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "x", Obj: &corev1.Pod{}})
	if len(got) > 0 {
		t.Errorf("called: %v", got)
	}
	deaf := adapt(t.Context(), Queue{}, Handler[*corev1.Node]{})
	deaf.OnAdd(node("a"), false)
	deaf.OnUpdate(node("a"), node("a"))
	deaf.OnDelete(node("a"))
}

// A capability whose CRDs come and go must not leave a handler behind each time.
func TestSourceLetsGoOfTheInformer(t *testing.T) {
	for name, refuses := range map[string]error{"and it works": nil, "and it does not": errors.New("unknown handler")} {
		t.Run(name, func(t *testing.T) {
			var got []string
			from := &informer{removed: make(chan cache.ResourceEventHandlerRegistration, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			queue := &noted{}
			if err := Source(&oneInformer{informer: from}, &corev1.Node{}, telling(&got)).Start(ctx, queue); err != nil {
				t.Fatal(err)
			}
			from.handler.OnAdd(node("a"), true)
			if len(got) != 1 || len(queue.items) != 1 || len(from.removed) != 0 {
				t.Fatalf("called with %v, queued %v", got, queue.items)
			}
			from.refuses = refuses
			cancel()
			if handle := <-from.removed; handle != (registration{}) {
				t.Errorf("lets go of %v", handle)
			}
		})
	}
}

func TestSourceThatCannotStart(t *testing.T) {
	no := errors.New("no")
	for name, cache := range map[string]*oneInformer{
		"no informer":          {refuses: no},
		"the informer refuses": {informer: &informer{refuses: no}},
	} {
		err := Source(cache, &corev1.Node{}, Handler[*corev1.Node]{}).Start(t.Context(), &noted{})
		if !errors.Is(err, no) || !strings.Contains(err.Error(), "watching *v1.Node") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQueueWithoutPriorities(t *testing.T) {
	plain := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer plain.ShutDown()
	Queue{plain}.Add(PriorityHigh, request("a"), request("b"))
	var names []string
	for plain.Len() > 0 {
		item, _ := plain.Get()
		names = append(names, item.Name)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("queued %v", names)
	}
}

// Several requests for an item that may wait become one work item. A request that may not wait takes it along.
func TestItemsThatMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := priorityqueue.New[reconcile.Request]("test")
		defer queue.ShutDown()
		items := make(chan string, 10)
		go func() {
			for {
				item, end := queue.Get()
				if end {
					return
				}
				items <- item.Name
				queue.Done(item)
			}
		}()
		expect := func(when string, want ...string) {
			synctest.Wait()
			var got []string
			for len(items) > 0 {
				got = append(got, <-items)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		for range 3 {
			Queue{queue}.AddAfter(PriorityNormal, time.Second, request("a"), request("b"))
			time.Sleep(100 * time.Millisecond)
		}
		Queue{queue}.Add(PriorityNormal, request("b"))
		expect("at once", "b")
		time.Sleep(time.Second)
		expect("after a second", "a")
	})
}

func TestPrioritiesAreInOrder(t *testing.T) {
	if PriorityHigh <= PriorityNormal || PriorityNormal <= PriorityStartup {
		t.Error("a hand edit comes before a roll-out, and that before the first look")
	}
}
