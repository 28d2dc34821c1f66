package undecodable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// decoders returns client-go's decoder of a stream of Machines, and Drover's own.
func decoders(t testing.TB) (clientGo, own func(body io.ReadCloser) watch.Decoder) {
	t.Helper()
	codecs := newCodecs(t)
	object, events, framer, err := runtime.NewClientNegotiator(codecs, machinev1beta1.GroupVersion).StreamDecoder(runtime.ContentTypeJSON, nil)
	if err != nil {
		t.Fatal(err)
	}
	clientGo = func(body io.ReadCloser) watch.Decoder {
		return restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(body), events), object)
	}
	return clientGo, func(body io.ReadCloser) watch.Decoder { return NewDecoder(body, decodeMachine) }
}

func newCodecs(t testing.TB) runtime.NegotiatedSerializer {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := machinev1beta1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

func decodeMachine(text []byte) (client.Object, error) {
	machine := &machinev1beta1.Machine{}
	return machine, Decode(text, machine)
}

// decoded are the events of a stream, and whether it ended with an error.
type decoded struct {
	Events []watch.Event
	Failed bool
}

func decodeAll(decoder watch.Decoder) (all decoded) {
	defer decoder.Close()
	for {
		kind, object, err := decoder.Decode()
		if err != nil {
			all.Failed = !errors.Is(err, io.EOF)
			return all
		}
		if machine, ok := object.(*machinev1beta1.Machine); ok {
			machine.ManagedFields = nil
		}
		if status, ok := object.(*metav1.Status); ok {
			status.TypeMeta = metav1.TypeMeta{}
		}
		all.Events = append(all.Events, watch.Event{Type: kind, Object: object})
	}
}

const machineText = `{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine","metadata":{"annotations":{"a":"line\nbreak \"}"},"name":"m",` +
	`"namespace":"n","resourceVersion":"7","uid":"u"},"spec":{"providerSpec":{"value":{"kind":"X","n":1.50,"s":"é\u2028"}}},` +
	`"status":{"phase":"Running"}}`

// TestEvents: events are what client-go makes of them, however they are written.
func TestEvents(t *testing.T) {
	event := func(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object) }
	clientGo, own := decoders(t)
	long := strings.Replace(machineText, "Running", strings.Repeat("x", 200<<10), 1)
	for name, stream := range map[string]string{
		"nothing":            "",
		"all types":          event("ADDED", machineText) + event("MODIFIED", machineText) + event("DELETED", machineText),
		"bookmark":           event("BOOKMARK", `{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine","metadata":{"resourceVersion":"9"}}`),
		"longer than buffer": event("ADDED", long) + event("ADDED", machineText) + event("MODIFIED", long),
		"other order":        event("ADDED", `{"kind":"Machine","metadata":{"name":"m"},"apiVersion":"machine.openshift.io/v1beta1"}`),
		"object first":       `{"object":` + machineText + `,"type":"ADDED"}` + "\n",
		"blanks":             `{ "type": "ADDED", "object": ` + machineText + " }\n",
		"end of a line":      strings.Replace(event("ADDED", machineText), "\n", "\r\n", 1),
		"an error":           event("ERROR", `{"apiVersion":"v1","kind":"Status","metadata":{},"status":"Failure","reason":"Expired","code":410}`),
		"unknown type":       event("CHANGED", machineText),
		"cut off":            event("ADDED", machineText) + event("ADDED", machineText)[:200],
		"no JSON":            "<html>\n",
	} {
		t.Run(name, func(t *testing.T) {
			want, got := decodeAll(clientGo(io.NopCloser(strings.NewReader(stream)))), decodeAll(own(io.NopCloser(strings.NewReader(stream))))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("not what client-go decodes (-client-go +own):\n%s", diff)
			}
		})
	}
}

// TestEvents_AnyMachine: what a Machine contains makes no difference.
func TestEvents_AnyMachine(t *testing.T) {
	clientGo, own := decoders(t)
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		for range rapid.IntRange(1, 4).Draw(t, "events") {
			machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
				Name: rapid.String().Draw(t, "name"), ResourceVersion: rapid.StringN(0, 5, -1).Draw(t, "version"),
				Labels: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "labels"),
			}}
			machine.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("Machine"))
			machine.Spec.ProviderID = new(rapid.String().Draw(t, "providerID"))
			for range rapid.IntRange(0, 2).Draw(t, "managers") {
				machine.ManagedFields = append(machine.ManagedFields, metav1.ManagedFieldsEntry{Manager: rapid.String().Draw(t, "manager")})
			}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(machine)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			kind := rapid.SampledFrom([]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}).Draw(t, "type")
			fmt.Fprintf(&stream, `{"type":%q,"object":%s}`+"\n", kind, text)
		}
		want, got := decodeAll(clientGo(io.NopCloser(bytes.NewReader(stream.Bytes())))), decodeAll(own(io.NopCloser(&stream)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("not what client-go decodes (-client-go +own):\n%s", diff)
		}
	})
}

// TestEvents_TooLong: a stream without an end of a line does not fill the memory.
func TestEvents_TooLong(t *testing.T) {
	decoder := newDecoder(io.NopCloser(io.LimitReader(zeros{}, 2*maxEvent)), decodeMachine)
	if _, _, err := decoder.Decode(); err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("error %v", err)
	}
	if len(decoder.long) > maxEvent {
		t.Errorf("%d bytes are kept", len(decoder.long))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestSource_Watch: the informer asks for the Machines of its namespace, and an error of the API server is one of the watch.
func TestSource_Watch(t *testing.T) {
	requests, initial := make(chan *http.Request, 20), atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		if r.URL.Query().Get("resourceVersion") == "2" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		if r.URL.Query().Get("resourceVersion") == "1" {
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Expired","code":410}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", machineText)
	}))
	defer server.Close()
	watchOf := func(namespace, version string) (watch.Interface, error) {
		options := metav1.ListOptions{ResourceVersion: version}
		if initial.Load() {
			options.SendInitialEvents = new(true)
		}
		return newSource(t, server.URL, namespace).watch(t.Context(), options)
	}
	for namespace, path := range map[string]string{
		"": "/apis/machine.openshift.io/v1beta1/machines", "n": "/apis/machine.openshift.io/v1beta1/namespaces/n/machines",
	} {
		events, err := watchOf(namespace, "5")
		if err != nil {
			t.Fatal(err)
		}
		if event := <-events.ResultChan(); event.Type != watch.Added {
			t.Errorf("event %+v", event)
		}
		events.Stop()
		request := <-requests
		query := request.URL.Query()
		if request.URL.Path != path || query.Get("watch") != "true" || query.Get("allowWatchBookmarks") != "true" || query.Get("resourceVersion") != "5" {
			t.Errorf("request %s, want %s", request.URL, path)
		}
	}
	if _, err := watchOf("", "1"); !apierrors.IsResourceExpired(err) {
		t.Errorf("error %v", err)
	}
	if _, err := watchOf("", "2"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a connection that ends at once: %v", err)
	}
	initial.Store(true)
	if _, err := watchOf("", "2"); err == nil || apierrors.IsTooManyRequests(err) {
		t.Errorf("a connection that ends at once, of a first watch: %v; want an error after which the Machines are listed", err)
	}
}

// newSource returns the source of the Machines of a namespace.
func newSource(t *testing.T, host, namespace string) *Source {
	t.Helper()
	client, err := rest.RESTClientFor(&rest.Config{Host: host, APIPath: "/apis", ContentConfig: rest.ContentConfig{
		GroupVersion: &machinev1beta1.GroupVersion, NegotiatedSerializer: newCodecs(t),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &Source{Lists: client, Watches: client, Resource: "machines", Namespace: namespace, Decode: decodeMachine}
}

// newList returns the source of Machines of a server whose every answer is the text.
func newList(t *testing.T) (*Source, *atomic.Pointer[string]) {
	t.Helper()
	answer := &atomic.Pointer[string]{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_, _ = io.WriteString(w, *answer.Load())
	}))
	t.Cleanup(server.Close)
	return newSource(t, server.URL, "n"), answer
}

// TestSource_List: one object that cannot be decoded does not keep the others from being listed, and what is no list is an error.
func TestSource_List(t *testing.T) {
	source, answer := newList(t)
	bad := strings.Replace(machineText, `"phase":"Running"`, `"lastUpdated":"2020-01-01t00:00:00z","phase":"Running"`, 1)
	answer.Store(new(`{"kind":"MachineList","metadata":{"resourceVersion":"9","continue":"next"},"items":[` + machineText + `,` + bad + `]}`))
	listed, err := source.list(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	items, err := meta.ExtractList(listed)
	if err != nil || len(items) != 2 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	about, err := meta.ListAccessor(listed)
	if err != nil || about.GetResourceVersion() != "9" || about.GetContinue() != "next" {
		t.Errorf("%+v, %v", about, err)
	}
	for i, want := range []string{"", "status.lastUpdated: "} {
		machine, ok := items[i].(*machinev1beta1.Machine)
		if !ok || *machine.Status.Phase != "Running" || !strings.HasPrefix(ProblemOf(machine), want) || (want == "") != (ProblemOf(machine) == "") {
			t.Errorf("item %d is %+v", i, items[i])
		}
	}
	for _, wrong := range []string{`{"kind":"Table"}`, `[]`, `{"metadata":{"resourceVersion":"9"},"items":[7]}`, `<html>`} {
		answer.Store(&wrong)
		if listed, err := source.list(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s is read as %+v", wrong, listed)
		}
	}
}

// TestSource_ListOfDeepObjects: what is as deep as the API server accepts in one object is deeper in a list.
func TestSource_ListOfDeepObjects(t *testing.T) {
	source, answer := newList(t)
	deep := strings.Repeat("[", 9994) + strings.Repeat("]", 9994)
	deeper := strings.Repeat(`{"f:a":`, 12000) + "{}" + strings.Repeat("}", 12000)
	answer.Store(new(`{ "metadata" : {"resourceVersion":"9"}, "items": [ ` + strings.Join([]string{
		machineText, strings.Replace(machineText, `"n":1.50`, `"n":`+deep, 1),
		strings.Replace(machineText, `"name":"m"`, `"managedFields":[{"fieldsV1":`+deeper+`}],"name":"m"`, 1),
		strings.Replace(machineText, `"n":1.50`, `"n":`+deeper, 1),
	}, " , ") + " ] }\n"))
	listed, err := source.list(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	items, err := meta.ExtractList(listed)
	if err != nil || len(items) != 4 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	for i, item := range items {
		machine, ok := item.(*machinev1beta1.Machine)
		if !ok || machine.Name != "m" || machine.ManagedFields != nil || (ProblemOf(machine) != "") != (i == 3) {
			t.Errorf("item %d is %.300v", i, item)
		}
	}
}

// TestSource_ListRefused: the error of a list has the message of the API server, which says who lacks which right.
func TestSource_ListRefused(t *testing.T) {
	const message = `machines is forbidden: User "someone" cannot list resource "machines"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":"Forbidden","code":403}`, message)
	}))
	defer server.Close()
	_, err := newSource(t, server.URL, "").ListWatch().ListWithContextFunc(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || err.Error() != message {
		t.Errorf("the error is %v", err)
	}
}
