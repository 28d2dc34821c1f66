package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/ownership"
)

// TestDemo serves the page with an invented fleet until an interrupt: DROVER_UI_DEMO=500 is the number of nodes, DROVER_UI_CHURN=100 how many change
// each second, DROVER_UI_PORT=8090 and DROVER_UI_TOKEN=token the address, and with DROVER_UI_WRITE=true the page may write. `make ui-demo` and
// `make screenshots` run it.
func TestDemo(t *testing.T) {
	count := environment(t, "DROVER_UI_DEMO")
	if count == 0 {
		t.Skip("DROVER_UI_DEMO is not set")
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	c := newFakeClient(newFleet(t, count, time.Now()))
	u := newCluster(c, []string{""}, ownership.DefaultProtected(), time.Now)
	u.write = os.Getenv("DROVER_UI_WRITE") != ""
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", environment(t, "DROVER_UI_PORT")))
	if err != nil {
		t.Fatal(err)
	}
	token := os.Getenv("DROVER_UI_TOKEN")
	if token == "" {
		token = "demo"
	}
	s := newServer(u, listener.Addr().String(), token)
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Logf("Open http://%s/#token=%s", listener.Addr(), token)
	go churn(ctx, t, c, count, environment(t, "DROVER_UI_CHURN"))
	if err := u.run(ctx); err != nil {
		t.Error(err)
	}
	s.close()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

func environment(t *testing.T, name string) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return number
}

// newFakeClient returns a client of a cluster in memory.
func newFakeClient(objects []client.Object) client.WithWatch { return fakeBuilder(objects).Build() }

// fakeBuilder builds a client of a cluster in memory, with the indexes that the page needs.
func fakeBuilder(objects []client.Object) *fake.ClientBuilder {
	builder := fake.NewClientBuilder().WithScheme(cmdutil.Scheme).WithRESTMapper(cmdutil.Mapper()).WithObjects(objects...).WithReturnManagedFields()
	for field, of := range map[string]func(*corev1.Event) string{
		"involvedObject.kind":      func(e *corev1.Event) string { return e.InvolvedObject.Kind },
		"involvedObject.name":      func(e *corev1.Event) string { return e.InvolvedObject.Name },
		"involvedObject.namespace": func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
	} {
		builder.WithIndex(&corev1.Event{}, field, func(object client.Object) []string {
			if event, ok := object.(*corev1.Event); ok {
				return []string{of(event)}
			}
			return nil
		})
	}
	return builder.WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
		if pod, ok := object.(*corev1.Pod); ok {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
}

// churn changes so many nodes a second: it cordons half of them, and uncordons those that it has cordoned a second before.
func churn(ctx context.Context, t *testing.T, c client.Client, count, rate int) {
	if rate == 0 {
		return
	}
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		node, cordons, place := &corev1.Node{}, i%2 == 0, i/2
		if !cordons {
			place -= rate/2 + 1
		}
		if place < 0 {
			continue
		}
		err := c.Get(ctx, client.ObjectKey{Name: nodeName(place * 7919 % count)}, node)
		if err == nil {
			node.Spec.Unschedulable = cordons
			err = c.Update(ctx, node)
		}
		if err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
	}
}
