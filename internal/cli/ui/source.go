package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/ui/model"
)

// Availability says whether the page has the objects of a kind.
type Availability string

// The availabilities.
const (
	// Loading: the API server has not answered yet.
	Loading Availability = "Loading"
	// Live: a watch keeps the objects up to date.
	Live Availability = "Live"
	// NotServed: the cluster does not have the kind.
	NotServed Availability = "NotServed"
	// Forbidden: the user may not list or watch the kind.
	Forbidden Availability = "Forbidden"
	// Failing: the API server does not answer, or answers with an error. The page shows what it was before.
	Failing Availability = "Failing"
)

// SourceStatus is whether the page has the objects of a kind.
type SourceStatus struct {
	// Resource is the kind, as resource.group.
	Resource     string       `json:"resource"`
	Availability Availability `json:"availability"`
	// Namespace is the only namespace that is read; empty for all.
	Namespace string `json:"namespace,omitempty"`
	// Message is why the page does not have the objects, or cannot decode one of them.
	Message string `json:"message,omitempty"`
	Objects int    `json:"objects"`
	// Incomplete reports that there are more objects than the page keeps.
	Incomplete bool `json:"incomplete,omitempty"`
}

// source lists and watches the objects of a kind.
type source struct {
	store    *store
	resource string
	client   client.WithWatch
	object   client.Object
	newList  func() client.ObjectList
	// pageSize is how many objects are asked for at once.
	pageSize int64
	// isDetail reports that the kind decides about no node's state.
	isDetail bool
	// early is called with each page of a list, if it is not nil.
	early func(client.ObjectList)
	// changed is called when the availability has changed.
	changed func()
	// after is a source that is read first, as far as the API server answers; nil for none. answered is closed after the first answer.
	after    *source
	answered chan struct{}

	mu sync.Mutex
	// namespaces are tried, one after another, until the user may list the kind in one. Empty is all namespaces.
	namespaces   []string
	availability Availability
	message      string
	// read is the size of the objects in the pages of the list that is being read. cut reports that its last pages were left out.
	read int
	cut  bool
}

// run lists and watches until the context ends. Each failure has it wait longer before it asks again.
func (s *source) run(ctx context.Context) {
	// status has the errors.
	logger := logr.Discard()
	ctx = klog.NewContext(ctx, logger)
	reflector := toolscache.NewReflectorWithOptions(plainListWatch{&toolscache.ListWatch{
		ListWithContextFunc: s.list, WatchFuncWithContext: s.watch,
	}}, s.object, filled{s.store, func() { s.report(ctx, nil) }}, toolscache.ReflectorOptions{Name: s.resource, Logger: &logger})
	reflector.WatchListPageSize = s.pageSize
	if s.after != nil {
		select {
		case <-ctx.Done():
		case <-s.after.answered:
		}
	}
	for wait := time.Duration(0); ctx.Err() == nil; {
		begun := time.Now()
		// list and watch have reported the error.
		_ = reflector.ListAndWatchWithContext(ctx)
		if wait = s.delay(wait, time.Since(begun)); wait > minDelay && s.status().Availability == Live {
			// An API server that starts answers lists before watches.
			s.report(ctx, errWatchEnded)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// The delays before a kind is read again. A kind that is not served, or that the user may not read, changes seldom; a server that does not answer is
// back soon. Without a delay, a watch that ends at once would have all objects listed over and over.
const (
	minDelay       = 500 * time.Millisecond
	maxDelay       = 10 * time.Second
	maxDelayDenied = 5 * time.Minute
	// longRun is how long a kind has been read well for the delays to begin anew.
	longRun = 2 * time.Minute
)

var errWatchEnded = errors.New("the API server has ended the watch")

// delay returns how long to wait after a run of a length, and a delay before it.
func (s *source) delay(before, run time.Duration) time.Duration {
	if run >= longRun {
		before = 0
	}
	next := max(minDelay, 2*before)
	switch s.status().Availability {
	case NotServed, Forbidden:
		return min(max(next, 5*time.Second), maxDelayDenied)
	}
	return min(next, maxDelay)
}

// filled is a store that says when it has all objects.
type filled struct {
	*store

	then func()
}

// Replace keeps the objects of a list, and no others.
func (f filled) Replace(list []any, version string) error {
	err := f.store.Replace(list, version)
	f.then()
	return err
}

// plainListWatch keeps reflectors from reading all objects by a watch, because they would hold any number in memory.
type plainListWatch struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported is how client-go asks for that.
func (plainListWatch) IsWatchListSemanticsUnSupported() bool { return true }

// list returns a page of the objects. It ends the list when the store is full.
func (s *source) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	// An API server ignores the limit of a list from its watch cache. For any other version of a reflector it lists what was there then, from which it
	// may no longer watch: https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list.
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	list := s.newList()
	err := s.client.List(ctx, list, s.listOptions(&options))
	for apierrors.IsForbidden(err) && s.narrow() {
		err = s.client.List(ctx, list, s.listOptions(&options))
	}
	if err != nil {
		s.report(ctx, err)
		return nil, err
	}
	err = s.bound(list, options.Continue == "")
	if err == nil && s.early != nil {
		s.early(list)
	}
	return list, err
}

// bound trims the objects of a page. If they do not fit into the store, the list ends.
func (s *source) bound(list client.ObjectList, isFirst bool) error {
	size := 0
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok {
			s.store.trim(object)
			size += sizeOf(object)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if isFirst {
		s.read, s.cut = 0, false
	}
	s.read += size
	if s.read > s.store.most && list.GetContinue() != "" {
		list.SetContinue("")
		s.cut = true
	}
	return nil
}

// watch begins a watch.
func (s *source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events, err := s.client.Watch(ctx, s.newList(), s.listOptions(&options))
	s.report(ctx, err)
	return events, err
}

func (s *source) listOptions(raw *metav1.ListOptions) *client.ListOptions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &client.ListOptions{Raw: raw, Limit: raw.Limit, Continue: raw.Continue, Namespace: s.namespaces[0]}
}

// narrow goes on to the next namespace, and reports whether there is one.
func (s *source) narrow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.namespaces) < 2 {
		return false
	}
	s.namespaces = s.namespaces[1:]
	return true
}

// report records how a request ended.
func (s *source) report(ctx context.Context, err error) {
	availability, message := Live, ""
	switch {
	case ctx.Err() != nil, errors.Is(err, io.EOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return
	case err == nil:
	case cmdutil.IsNotServed(err):
		availability = NotServed
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		availability, message = Forbidden, err.Error()
	default:
		availability, message = Failing, err.Error()
	}
	s.mu.Lock()
	changed := s.availability != availability
	if s.availability == Loading {
		close(s.answered)
	}
	s.availability, s.message = availability, model.Text(message, maxText)
	s.mu.Unlock()
	if changed {
		s.changed()
	}
}

// maxText is the longest text of another program in a document, in bytes.
const maxText = 1024

// status returns whether the page has the objects.
func (s *source) status() SourceStatus {
	count, full := s.store.count()
	problem := s.store.problem()
	s.mu.Lock()
	defer s.mu.Unlock()
	message := s.message
	if message == "" && problem != nil {
		message = model.Text(problem.Error(), maxText)
	}
	return SourceStatus{
		Resource: s.resource, Availability: s.availability, Message: message, Objects: count, Incomplete: full || s.cut, Namespace: s.namespaces[0],
	}
}

// missing returns why the page has no objects; nil where it has them, or has had them.
func (s *source) missing() error {
	status := s.status()
	switch status.Availability {
	case NotServed:
		return fmt.Errorf("the cluster does not serve %s", s.resource)
	case Forbidden:
		return errors.New(status.Message)
	}
	return nil
}
