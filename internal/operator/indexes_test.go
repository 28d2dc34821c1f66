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
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// strict is a cache that takes an index once for each informer, as a real one does.
type strict struct{ made []string }

func (s *strict) IndexField(_ context.Context, object client.Object, field string, _ client.IndexerFunc) error {
	name := fmt.Sprintf("%T.%s", object, field)
	if slices.Contains(s.made, name) {
		return errors.New("indexer conflict")
	}
	s.made = append(s.made, name)
	return nil
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
