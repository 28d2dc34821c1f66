package operator

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/drover-io/drover/internal/undecodable"
)

// TestInformerFactory_Sources: every custom resource of the cache is read so that no object of it stops Drover; what the API server decodes
// itself is read as client-go does.
func TestInformerFactory_Sources(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	informers, err := newInformerFactory(nowhere, scheme, cacheOptions("machines", true), undecodable.NewTracker())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"MachineSet": "machinesets in machines", "Machine": "machines in machines", "MachineHealthCheck": "machinehealthchecks in machines",
		"MachineAutoscaler": "machineautoscalers in machines", "NodeGroup": "nodegroups in ", "MutexRule": "mutexrules in ",
		"MutexTarget": "mutextargets in ", "MutexRunConfig": "mutexrunconfigs in ", "MachineConfigPool": "machineconfigpools in ",
		"ClusterVersion": "clusterversions in ", "NodeMaintenance": "nodemaintenances in ",
	}
	for object := range cacheOptions("machines", true).ByObject {
		source, err := informers.source(object)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(fmt.Sprintf("%T", object), ".")
		kind, got := parts[len(parts)-1], ""
		if source != nil {
			got = source.Resource + " in " + source.Namespace
			read, err := source.Decode([]byte(`{"metadata":{"name":"a"}}`))
			if err != nil || fmt.Sprintf("%T", read) != fmt.Sprintf("%T", object) {
				t.Errorf("%s is decoded into a %T: %v", kind, read, err)
			}
		}
		if got != want[kind] {
			t.Errorf("%s is read from %q, want %q", kind, got, want[kind])
		}
	}
}

const machineText = `{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine","metadata":{"annotations":{"a":"line\nbreak \"}"},"name":"m",` +
	`"namespace":"n","resourceVersion":"7","uid":"u"},"spec":{"providerSpec":{"value":{"kind":"X","n":1.50,"s":"é\u2028"}}},` +
	`"status":{"phase":"Running"}}`

// BenchmarkMachineDecoder compares with client-go's decoder: go test -bench MachineDecoder ./internal/operator.
func BenchmarkMachineDecoder(b *testing.B) {
	var managed strings.Builder
	for i := range 40 {
		fmt.Fprintf(&managed, `"f:field%d":{".":{},"f:inner":{}},`, i)
	}
	machine := strings.Replace(machineText, `"name":"m"`, `"managedFields":[{"fieldsType":"FieldsV1","fieldsV1":{`+
		strings.TrimSuffix(managed.String(), ",")+`},"manager":"x","operation":"Update"}],"name":"m"`, 1)
	stream := strings.Repeat(fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", machine), 100)
	for name, decoder := range decoders(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := decodeAll(decoder(io.NopCloser(strings.NewReader(stream)))); n != 100 {
					b.Fatalf("%d events", n)
				}
			}
		})
	}
}

// decoders returns Drover's decoder of a watch of Machines, and client-go's.
func decoders(b *testing.B) map[string]func(io.ReadCloser) watch.Decoder {
	b.Helper()
	scheme, err := newScheme()
	if err != nil {
		b.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	object, events, framer, err := runtime.NewClientNegotiator(codecs, machinev1beta1.GroupVersion).StreamDecoder(runtime.ContentTypeJSON, nil)
	if err != nil {
		b.Fatal(err)
	}
	decode := (&informerFactory{scheme: scheme}).decoder(machinev1beta1.GroupVersion.WithKind("Machine"))
	return map[string]func(io.ReadCloser) watch.Decoder{
		"own": func(body io.ReadCloser) watch.Decoder { return undecodable.NewDecoder(body, decode) },
		"client-go": func(body io.ReadCloser) watch.Decoder {
			return restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(body), events), object)
		},
	}
}

// decodeAll returns how many events a stream has.
func decodeAll(decoder watch.Decoder) (events int) {
	defer decoder.Close()
	for {
		if _, _, err := decoder.Decode(); err != nil {
			if !errors.Is(err, io.EOF) {
				return -1
			}
			return events
		}
		events++
	}
}
