package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// strict is a cache that takes an index once for each informer, as a real one does.
type strict struct {
	ctrlcache.Informers
	made []string
}

func (s *strict) GetInformer(_ context.Context, object client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return &strictInformer{cache: s, kind: fmt.Sprintf("%T", object)}, nil
}

type strictInformer struct {
	ctrlcache.Informer
	cache *strict
	kind  string
}

func (i *strictInformer) AddIndexers(indexers toolscache.Indexers) error {
	for field := range indexers {
		name := i.kind + "." + strings.TrimPrefix(field, indexName)
		if slices.Contains(i.cache.made, name) {
			return errors.New("indexer conflict")
		}
		i.cache.made = append(i.cache.made, name)
	}
	return nil
}

// TestIndexes_OneKey: an object has one key for each value, so that an informer leaves an index alone whose value stays.
func TestIndexes_OneKey(t *testing.T) {
	keys, err := keysOf(func(object client.Object) []string { return []string{object.GetName()} })(fullMachine())
	if want := allNamespaces + fullMachine().Name; err != nil || len(keys) != 1 || keys[0] != want {
		t.Errorf("keys are %q, want %q: %v", keys, want, err)
	}
	if _, err := keysOf(nil)(toolscache.DeletedFinalStateUnknown{}); err == nil {
		t.Error("what is no object is not reported")
	}
}

func TestAnIndexIsMadeOnceForEachInformer(t *testing.T) {
	cache := &strict{}
	indexes := newIndexes(cache)
	index := func(object client.Object, field string) {
		t.Helper()
		if err := indexes.IndexField(t.Context(), object, field, nil); err != nil {
			t.Errorf("%T by %s: %v", object, field, err)
		}
	}
	for range 2 {
		index(&machinev1beta1.Machine{}, "a")
		index(&machinev1beta1.Machine{}, "b")
		index(&corev1.Node{}, "a")
		index(&medik8s.NodeMaintenance{}, "a")
	}
	// The other group's type has the same name.
	cache.made = nil
	index(&kubevirt.NodeMaintenance{}, "a")
	if got := strings.Join(cache.made, " "); got != "*v1beta1.NodeMaintenance.a" {
		t.Errorf("made are %s", got)
	}
	cache.made = []string{"*v1beta1.Machine.a", "*v1.Node.a"}
	if len(indexes.made) != 4 {
		t.Errorf("made are %v", indexes.made)
	}
	cache.made = slices.DeleteFunc(cache.made, func(name string) bool { return strings.Contains(name, "Machine") })
	indexes.forget(&machinev1beta1.Machine{})
	index(&machinev1beta1.Machine{}, "a")
	if got := strings.Join(cache.made, " "); got != "*v1.Node.a *v1beta1.Machine.a" {
		t.Errorf("made are %s", got)
	}
	cache.made = append(cache.made, "*v1.Node.c")
	if err := indexes.IndexField(t.Context(), &corev1.Node{}, "c", nil); err == nil {
		t.Error("what the cache refuses is not reported")
	}
}

// A capability that stops must not make another one deaf.
func TestWhatAnotherCapabilityReadsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant()
		p.capabilities = append(p.capabilities, capability{
			name: "machines",
			needs: append(slices.Clone(p.capabilities[0].needs),
				machinev1beta1.GroupVersion.WithResource("machinehealthchecks")),
			watches: []client.Object{&machinev1beta1.MachineSet{}, &machinev1beta1.MachineHealthCheck{}},
			own:     []client.Object{&machinev1beta1.MachineHealthCheck{}, &machinev1beta1.MachineSet{}},
			prepare: func(context.Context) error { return nil },
			run:     func(ctx context.Context) error { <-ctx.Done(); return nil },
		})
		p.operate(t, func(t *testing.T, p *plant) {
			p.elect()
			for _, step := range []struct {
				served  []string
				dropped string
			}{
				{[]string{"machinesets", "machines", "machinehealthchecks"}, ""},
				{[]string{"machinesets", "machines"}, "?"},
				{[]string{"machinesets", "machines", "machinehealthchecks"}, "?"},
				{nil, "? Machine ? MachineSet"},
			} {
				p.server.serve(nil, step.served...)
				time.Sleep(2 * recheck)
				synctest.Wait()
				if got := strings.Join(p.cache.dropped, " "); got != step.dropped {
					t.Errorf("with %v dropped are %q, want %q", step.served, got, step.dropped)
				}
			}
			if got := p.history(); got != "prepare run stop" {
				t.Errorf("the other one was stopped: %s", got)
			}
		})
	})
}
