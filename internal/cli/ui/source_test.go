package ui

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/cli/ui/model"
)

// TestSource_Delay: a kind that cannot be read is asked for again, less and less often, up to a bound.
func TestSource_Delay(t *testing.T) {
	for name, c := range map[string]struct {
		availability Availability
		first, last  time.Duration
	}{
		"not served":           {NotServed, 5 * time.Second, maxDelayDenied},
		"forbidden":            {Forbidden, 5 * time.Second, maxDelayDenied},
		"the server is gone":   {Failing, minDelay, maxDelay},
		"a watch ends at once": {Live, minDelay, maxDelay},
	} {
		t.Run(name, func(t *testing.T) {
			s := &source{availability: c.availability, store: newStore(1, nil, nil), namespaces: []string{""}}
			delay := s.delay(0, 0)
			if delay != c.first {
				t.Errorf("the first delay is %s, want %s", delay, c.first)
			}
			for range 20 {
				next := s.delay(delay, time.Second)
				if next < delay || next > c.last {
					t.Errorf("after %s comes %s", delay, next)
				}
				delay = next
			}
			if delay != c.last {
				t.Errorf("the last delay is %s, want %s", delay, c.last)
			}
			if again := s.delay(delay, longRun); again != c.first {
				t.Errorf("after a long run the delay is %s, want %s", again, c.first)
			}
		})
	}
}

// TestSource_NotServed: a kind that the cluster does not have is asked for once, and not again and again.
func TestSource_NotServed(t *testing.T) {
	asked := make(chan struct{}, 100)
	s := newTestServer(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*machinev1beta1.MachineList); ok {
				asked <- struct{}{}
				return notServed()
			}
			return c.List(ctx, list, options...)
		},
	})
	stream := openStream(t, s)
	until(stream, "cluster", func(c Cluster) bool {
		return c.Complete && sourceOf(c, model.ResourceMachines).Availability == NotServed
	})
	if len(asked) != 1 {
		t.Errorf("the kind was asked for %d times", len(asked))
	}
}

// TestSource_WatchEnds: the page does not say that it is live while the API server answers lists but ends watches, as one that starts does. It lists
// what there is, and not what there was when it listed before.
func TestSource_WatchEnds(t *testing.T) {
	var starting atomic.Bool
	starting.Store(true)
	s := newTestServer(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			of := (&client.ListOptions{}).ApplyOptions(options)
			if of.Raw != nil && of.Raw.ResourceVersion+string(of.Raw.ResourceVersionMatch) != "" {
				t.Errorf("%T is listed as of %q", list, of.Raw.ResourceVersion)
			}
			return c.List(ctx, list, options...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			if _, ok := list.(*corev1.NodeList); ok && starting.Load() {
				ended := watch.NewFake()
				ended.Stop()
				return ended, nil
			}
			return c.Watch(ctx, list, options...)
		},
	})
	stream := openStream(t, s)
	until(stream, "cluster", func(c Cluster) bool { return sourceOf(c, model.ResourceNodes).Availability == Failing })
	starting.Store(false)
	until(stream, "cluster", func(c Cluster) bool { return sourceOf(c, model.ResourceNodes).Availability == Live })
}
