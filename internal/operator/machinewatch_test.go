package operator

import (
	"bytes"
	"context"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// decoders returns client-go's decoder of a stream, and Drover's own.
func decoders(t testing.TB) (clientGo, own func(body io.ReadCloser) watch.Decoder) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	clientGo, err = clientGoDecoders(serializer.NewCodecFactory(scheme).WithoutConversion())
	if err != nil {
		t.Fatal(err)
	}
	return clientGo, func(body io.ReadCloser) watch.Decoder { return newMachineDecoder(body, clientGo) }
}

// decoded are the events of a stream, and whether it ended with an error.
type decoded struct {
	Events []watch.Event
	Failed bool
}

// decodeAll decodes a stream, without the managedFields of Machines, which Drover's own decoder does not read.
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
		all.Events = append(all.Events, watch.Event{Type: kind, Object: object})
	}
}

const machineText = `{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine","metadata":{"annotations":{"a":"line\nbreak \"}"},"name":"m",` +
	`"namespace":"n","resourceVersion":"7","uid":"u"},"spec":{"providerSpec":{"value":{"kind":"X","n":1.50,"s":"é\u2028"}}},` +
	`"status":{"phase":"Running"}}`

// TestMachineDecoder: events are what client-go makes of them, however they are written.
func TestMachineDecoder(t *testing.T) {
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
		"another kind":       event("ADDED", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"m"}}`),
		"an error":           event("ERROR", `{"apiVersion":"v1","kind":"Status","metadata":{},"status":"Failure","reason":"Expired","code":410}`),
		"wrong type":         event("ADDED", `{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine","metadata":{"name":7}}`),
		"unknown type":       event("CHANGED", machineText),
		"unknown kind":       event("ADDED", `{"apiVersion":"v9","kind":"Thing"}`),
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

// TestMachineDecoder_AnyMachine: what a Machine contains makes no difference.
func TestMachineDecoder_AnyMachine(t *testing.T) {
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

// TestMachineDecoder_TooLong: a stream without an end of a line does not fill the memory.
func TestMachineDecoder_TooLong(t *testing.T) {
	clientGo, _ := decoders(t)
	decoder := newMachineDecoder(io.NopCloser(io.LimitReader(zeros{}, 2*maxEvent)), clientGo)
	if _, _, err := decoder.Decode(); err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("error %v", err)
	}
	if len(decoder.long) > maxEvent {
		t.Errorf("%d bytes are kept", len(decoder.long))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestMachineInformer_Watch: the informer asks for the Machines of its namespace, and an error of the API server is one of the watch.
func TestMachineInformer_Watch(t *testing.T) {
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
		scheme, err := newScheme()
		if err != nil {
			t.Fatal(err)
		}
		watchMachines, err := newMachineWatch(&rest.Config{Host: server.URL}, scheme, namespace)
		if err != nil {
			t.Fatal(err)
		}
		options := metav1.ListOptions{ResourceVersion: version}
		if initial.Load() {
			options.SendInitialEvents = new(true)
		}
		return watchMachines(t.Context(), options)
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

// TestMachineInformer_OthersAreOfClientGo: only Machines have a watch of their own.
func TestMachineInformer_OthersAreOfClientGo(t *testing.T) {
	watched := make(chan struct{}, 1)
	from := &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &machinev1beta1.MachineSetList{}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			select {
			case watched <- struct{}{}:
			default:
			}
			return watch.NewFake(), nil
		},
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	newInformer, err := newInformerFunc(nowhere, scheme, "")
	if err != nil {
		t.Fatal(err)
	}
	informer := newInformer(from, &machinev1beta1.MachineSet{}, 0, nil)
	go informer.RunWithContext(t.Context())
	<-watched
}

// BenchmarkMachineDecoder compares with client-go's decoder: go test -bench MachineDecoder ./internal/operator.
func BenchmarkMachineDecoder(b *testing.B) {
	var managed strings.Builder
	for i := range 40 {
		fmt.Fprintf(&managed, `"f:field%d":{".":{},"f:inner":{}},`, i)
	}
	machine := strings.Replace(machineText, `"name":"m"`, `"managedFields":[{"fieldsType":"FieldsV1","fieldsV1":{`+
		strings.TrimSuffix(managed.String(), ",")+`},"manager":"x","operation":"Update"}],"name":"m"`, 1)
	stream := strings.Repeat(fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", machine), 100)
	clientGo, own := decoders(b)
	for name, decoder := range map[string]func(io.ReadCloser) watch.Decoder{"own": own, "client-go": clientGo} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if all := decodeAll(decoder(io.NopCloser(strings.NewReader(stream)))); len(all.Events) != 100 {
					b.Fatalf("%d events", len(all.Events))
				}
			}
		})
	}
}
