package harness

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
)

// Checker watches all Pods, Nodes and PodDisruptionBudgets while tests run, and reads the operator's requests in the audit log. It finds
// evictions that must not be: past a budget, on a node that is not in maintenance, of a DaemonSet's or a static pod, or of whatever pod
// has the name by now; and pods that went because of a taint.
type Checker struct {
	cluster *cluster.Cluster
	client  client.Client
	stop    context.CancelFunc

	mu sync.Mutex
	// waiting are the events of the watches that are not evaluated yet. The watches of three kinds have no common order: events are evaluated in the
	// order of their versions, and only up to a version that all watches have passed.
	waiting []observation
	// newest is the highest version that any watch has shown.
	newest  uint64
	state   evictionState
	marks   map[string]uint64
	audited cluster.AuditMark
	// requests are the evictions and deletions by the operator, by namespace.
	requests map[string]*Requests
}

// Requests are what the operator has asked for in one namespace.
type Requests struct {
	// Evictions and Deletions are the HTTP codes of the answers, in their order.
	Evictions, Deletions []cluster.AuditEvent
}

type observation struct {
	version uint64
	at      time.Time
	object  client.Object
	gone    bool
}

// markAnnotation is on the objects that show Checker how far the watches are.
const markAnnotation = "test.drover.dev/checker"

const markName = "checker"

// StartChecker begins to watch.
func StartChecker(c *cluster.Cluster) (*Checker, error) {
	clients, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return nil, err
	}
	writer, err := client.New(c.Admin(), client.Options{})
	if err != nil {
		return nil, err
	}
	// The Pod that marks a place in the watches needs it. Where kube-controller-manager runs it may be there.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: markNamespace, Name: "default"}}
	if err := writer.Create(context.Background(), account); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("harness: making the service account of namespace %s: %w", markNamespace, err)
	}
	k := &Checker{cluster: c, client: writer, state: newEvictionState(), marks: map[string]uint64{}, requests: map[string]*Requests{}}
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	factory := informers.NewSharedInformerFactory(clients, 0)
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer(), factory.Policy().V1().PodDisruptionBudgets().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { k.observe(object, false) },
			UpdateFunc: func(_, object any) { k.observe(object, false) },
			DeleteFunc: func(object any) { k.observe(object, true) },
		}); err != nil {
			stop()
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			stop()
			return nil, fmt.Errorf("harness: the watch of %v does not begin", kind)
		}
	}
	return k, nil
}

// Stop ends the watches.
func (k *Checker) Stop() { k.stop() }

// observe records an event of a watch.
func (k *Checker) observe(object any, gone bool) {
	final, unknown := object.(cache.DeletedFinalStateUnknown)
	if unknown {
		object = final.Obj
	}
	typed, ok := object.(client.Object)
	if !ok {
		return
	}
	version, err := strconv.ParseUint(typed.GetResourceVersion(), 10, 64)
	if err != nil {
		return // no server of ours has other versions
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if typed.GetName() == markName {
		k.marks[fmt.Sprintf("%T=%s", typed, typed.GetAnnotations()[markAnnotation])] = version
		return
	}
	if unknown {
		// It went while the watch was broken. Its last known version may be from long before that: it counts as gone with the newest that
		// is known by now.
		version = max(version, k.newest)
	}
	k.newest = max(k.newest, version)
	k.waiting = append(k.waiting, observation{version: version, at: time.Now(), object: typed, gone: gone})
}

// Blind says that there was no API server between two times: nothing can be said about budgets then, and for a moment afterwards.
func (k *Checker) Blind(begun, over time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.blind = append(k.state.blind, [2]time.Time{begun, over})
}

// Verify fails a test for what was done wrong in its namespace so far, and returns the operator's requests there.
func (k *Checker) Verify(s *Site) Requests {
	s.Helper()
	// The test's own context may be over.
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := k.advance(ctx); err != nil {
		s.Errorf("the checker of budgets: %v", err)
		return Requests{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, fault := range k.state.faults[s.Name] {
		s.Error(fault)
	}
	delete(k.state.faults, s.Name)
	if tainted := k.state.tainted[s.Name]; len(tainted) > 0 && !s.Force {
		s.Errorf("pods were deleted because of a taint, without regard to their budgets: %s", strings.Join(tainted, ", "))
	}
	requests := k.requests[s.Name]
	if requests == nil {
		return Requests{}
	}
	for i := range requests.Deletions {
		if !s.Force {
			s.Errorf("pod %s was deleted, not evicted", requests.Deletions[i].Name)
		}
	}
	return *requests
}

// Finish returns the faults in namespaces that no test has asked about.
func (k *Checker) Finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := k.advance(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for namespace, faults := range k.state.faults {
		for _, fault := range faults {
			all = append(all, namespace+": "+fault)
		}
	}
	fmt.Printf("checker: %d evictions judged, %d of them beside a loss that no eviction made, which are not held against the operator\n",
		k.state.judged, k.state.unclear)
	if len(all) > 0 {
		slices.Sort(all)
		return fmt.Errorf("evictions that must not be:\n%s", strings.Join(all, "\n"))
	}
	return nil
}

// advance looks at everything that has happened before the call.
func (k *Checker) advance(ctx context.Context) error {
	upTo, err := k.mark(ctx)
	if err != nil {
		return err
	}
	if _, err := k.cluster.Audit().Sync(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	slices.SortStableFunc(k.waiting, func(a, b observation) int {
		switch {
		case a.version < b.version:
			return -1
		case a.version > b.version:
			return 1
		}
		return 0
	})
	done := 0
	for ; done < len(k.waiting) && k.waiting[done].version <= upTo; done++ {
		k.state.see(&k.waiting[done])
	}
	k.waiting = slices.Clone(k.waiting[done:])
	k.audited, err = k.cluster.Audit().Follow(k.audited, k.observeRequest)
	return err
}

// mark writes one object of each kind and waits until the watches have shown them. It returns a version that all watches have passed.
func (k *Checker) mark(ctx context.Context) (uint64, error) {
	value := strconv.FormatInt(time.Now().UnixNano(), 10)
	meta := metav1.ObjectMeta{Name: markName, Annotations: map[string]string{markAnnotation: value}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, markAnnotation, value))
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		SchedulerName: "none", Containers: []corev1.Container{{Name: "none", Image: "sandbox.invalid/none"}},
	}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	pod.Namespace, budget.Namespace = markNamespace, markNamespace
	for _, object := range []client.Object{&corev1.Node{ObjectMeta: meta}, pod, budget} {
		err := WaitFor(ctx, func() error {
			err := k.client.Patch(ctx, object, patch)
			if apierrors.IsNotFound(err) {
				err = k.client.Create(ctx, object)
			}
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("marking a place in the watches: %w", err)
		}
	}
	return k.passed(ctx, value)
}

// passed waits until all watches have shown a mark, and returns the version of the first.
func (k *Checker) passed(ctx context.Context, value string) (uint64, error) {
	var lowest uint64
	err := WaitFor(ctx, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		lowest = 0
		for _, kind := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &policyv1.PodDisruptionBudget{}} {
			version, ok := k.marks[fmt.Sprintf("%T=%s", kind, value)]
			if !ok {
				return fmt.Errorf("the watch of %T is behind", kind)
			}
			if lowest == 0 || version < lowest {
				lowest = version
			}
		}
		return nil
	})
	return lowest, err
}

const markNamespace = cluster.MachineNamespace

// observeRequest records one line of the audit log.
func (k *Checker) observeRequest(e *cluster.AuditEvent) error {
	if e.User != User || e.Resource != "pods" || !e.Write() {
		return nil
	}
	requests := k.requests[e.Namespace]
	if requests == nil {
		requests = &Requests{}
		k.requests[e.Namespace] = requests
	}
	switch {
	case e.Verb == "create" && e.Subresource == "eviction":
		requests.Evictions = append(requests.Evictions, *e)
	case e.Verb == "delete":
		requests.Deletions = append(requests.Deletions, *e)
	default:
		k.state.fault(e.Namespace, "the operator made a %s of pod %s/%s", e.Verb, e.Name, e.Subresource)
	}
	if !e.Unread() {
		k.state.seeRequest(e)
	}
	return nil
}

// Codes counts answers by their HTTP code.
func Codes(events []cluster.AuditEvent) map[int]int {
	codes := map[int]int{}
	for i := range events {
		codes[events[i].Code]++
	}
	return codes
}
