// Package apitest holds what the unit tests of controllers share: an API server in memory that records requests and lets them fail, and how its
// objects, events and metrics are read.
package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/undecodable"
)

// Scheme returns a scheme with the types that some functions add.
func Scheme(t testing.TB, add ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, one := range add {
		if err := one(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Indexer adds indexes to a client in memory.
type Indexer struct{ Builder *fake.ClientBuilder }

// IndexField adds one index.
func (i Indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.Builder.WithIndex(object, field, extract)
	return nil
}

// Pods reads the Pods of a drain engine from a client in memory.
type Pods struct{ client.Reader }

// IndexPods adds the index of Pods to a client in memory.
func IndexPods(builder *fake.ClientBuilder) {
	builder.WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
		if pod, ok := object.(*corev1.Pod); ok {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
}

// On lists the Pods that are bound to a node.
func (p Pods) On(ctx context.Context, node string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := p.List(ctx, &list, client.MatchingFields{"spec.nodeName": node})
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, err
}

// Get returns a Pod, nil when there is none.
func (p Pods) Get(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := p.Reader.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pod, err
}

// Requests records the writes to a client in memory, and lets requests fail.
type Requests struct {
	// Writes are the writes in their order: verb and kind, "patch Node"; a write of a subresource has its name as the verb.
	Writes []string
	// Names adds the name of the object to Writes: "patch Node/n1".
	Names bool
	// Fail has the errors that are returned in place of the answer of the API server, by verb and kind.
	Fail map[string]error
}

// Kind returns the kind of an object.
func Kind(object runtime.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	kind := fmt.Sprintf("%T", object)
	return kind[strings.LastIndex(kind, ".")+1:]
}

func (r *Requests) write(verb string, object client.Object) error {
	write := verb + " " + Kind(object)
	fail := r.Fail[write]
	if r.Names {
		write += "/" + object.GetName()
	}
	r.Writes = append(r.Writes, write)
	return fail
}

// Interceptors returns the functions for the client in memory.
func (r *Requests) Interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := r.Fail["get "+Kind(object)]; err != nil {
				return err
			}
			return next.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := r.Fail["list "+Kind(list)]; err != nil {
				return err
			}
			return next.List(ctx, list, options...)
		},
		Patch: func(ctx context.Context, next client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := r.write("patch", object); err != nil {
				return err
			}
			return next.Patch(ctx, object, patch, options...)
		},
		Create: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := r.write("create", object); err != nil {
				return err
			}
			return next.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := r.write("update", object); err != nil {
				return err
			}
			return next.Update(ctx, object, options...)
		},
		Delete: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := r.write("delete", object); err != nil {
				return err
			}
			return next.Delete(ctx, object, options...)
		},
		SubResourcePatch: func(
			ctx context.Context, next client.Client, part string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
		) error {
			if err := r.write(part, object); err != nil {
				return err
			}
			return next.SubResource(part).Patch(ctx, object, patch, options...)
		},
	}
}

// Edit changes an object as another writer does.
func Edit[T client.Object](t *testing.T, c client.Client, object T, change func(T)) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	change(object)
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// Events returns type and reason of the events since the last call, in their order.
func Events(recorder *record.FakeRecorder) []string {
	var events []string
	for {
		select {
		case event := <-recorder.Events:
			events = append(events, strings.Join(strings.Fields(event)[:2], " "))
		default:
			return events
		}
	}
}

// Reasons returns the reasons of the events since the last call, in their order.
func Reasons(recorder *record.FakeRecorder) []string {
	events := Events(recorder)
	for i := range events {
		_, events[i], _ = strings.Cut(events[i], " ")
	}
	return events
}

// Metric returns the value of a counter or a gauge, or the count of a histogram; -1 without such a series.
func Metric(t *testing.T, metrics prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var values []string
			for _, pair := range metric.GetLabel() {
				values = append(values, pair.GetValue())
			}
			if family.GetName() == name && fmt.Sprint(values) == fmt.Sprint(labels) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// UndecodableMark returns the value of undecodable.Annotation on a Machine that a cache could not decode as a whole.
func UndecodableMark(t testing.TB) string {
	t.Helper()
	machine := &machinev1beta1.Machine{}
	if err := undecodable.Decode([]byte(`{"metadata":{"name":"m"},"status":{"lastUpdated":"2020-01-01t00:00:00z"}}`), machine); err != nil {
		t.Fatal(err)
	}
	return machine.Annotations[undecodable.Annotation]
}
