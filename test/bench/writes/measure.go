package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
)

// writer is the user of all routes but the exempt one.
const writer = "bench-writer"

// managers is how many other field managers the objects get for the last part of the measurement.
const managers = 10

// stage is a control plane without controllers, and the ways to its server.
type stage struct {
	*bench.Stage
	settings settings
	routes   map[string][]*route
	sent     int
}

// route is a client that counts the bytes on its connections.
type route struct {
	client  *http.Client
	host    string
	out, in atomic.Int64
}

// measure measures all forms.
func measure(ctx context.Context, s settings) (*report, error) {
	base, err := bench.NewStage(ctx, s.Settings, cluster.Options{})
	if err != nil {
		return nil, err
	}
	defer base.Close()
	b := &stage{Stage: base, settings: s}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	r := &report{Go: runtime.Version(), Cores: runtime.NumCPU(), Objects: s.objects, Writers: s.writers}
	for _, kind := range []string{"Node", "Machine"} {
		if err := b.measureForms(ctx, r, forms(kind)); err != nil {
			return nil, err
		}
	}
	if s.profile != "" {
		if err := b.profile(ctx); err != nil {
			return nil, err
		}
	}
	return r, b.measureManagers(ctx, r)
}

// measureManagers measures what other field managers cost: each has its own entry in managedFields, which every write decodes and encodes.
func (b *stage) measureManagers(ctx context.Context, r *report) error {
	bench.Progress("%d more field managers for each object", managers)
	for _, kind := range []string{"Node", "Machine"} {
		if err := b.manage(ctx, kind); err != nil {
			return err
		}
		var many []form
		for _, f := range forms(kind) {
			if f.Name == plain || f.Name == "JSON patch with tests" {
				f.Name += fmt.Sprintf(", %d more managers", managers)
				many = append(many, f)
			}
		}
		if err := b.measureForms(ctx, r, many); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the objects, and the routes.
func (b *stage) prepare(ctx context.Context) error {
	options := cluster.PoolOptions{Name: "bench", Machines: b.settings.objects}
	if err := cluster.CreatePool(ctx, b.Cluster.Admin(), options); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: writer}}
	binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: writer}}
	if err := b.Client.Create(ctx, binding); err != nil {
		return err
	}
	b.routes = map[string][]*route{}
	for name, kind := range map[string]struct {
		clients int
		http1   bool
	}{routeDefault: {clients: 1}, routeFour: {clients: 4}, routeHTTP1: {clients: 1, http1: true}, routeExempt: {clients: 1}} {
		for range kind.clients {
			config, err := b.Cluster.As(writer)
			if name == routeExempt {
				config, err = b.Cluster.Admin(), nil
			}
			if err != nil {
				return err
			}
			next, err := newRoute(config, kind.http1)
			if err != nil {
				return err
			}
			b.routes[name] = append(b.routes[name], next)
		}
	}
	return nil
}

func newRoute(config *rest.Config, http1 bool) (*route, error) {
	r := &route{host: config.Host}
	dialer := &net.Dialer{}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		return &countedConn{conn, r}, err
	}
	if http1 {
		config.NextProtos = []string{"http/1.1"}
	}
	var err error
	r.client, err = rest.HTTPClientFor(config)
	return r, err
}

// countedConn counts the bytes of a connection.
type countedConn struct {
	net.Conn
	route *route
}

// Read reads from the server.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.route.in.Add(int64(n))
	return n, err
}

// Write sends to the server.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.route.out.Add(int64(n))
	return n, err
}

// errNotServed is the answer to a content type that the server does not take.
var errNotServed = errors.New("not served")

// measureForms measures forms of one kind, which take turns.
func (b *stage) measureForms(ctx context.Context, r *report, all []form) error {
	for round := range b.settings.rounds {
		bench.Progress("%s: round %d of %d", all[0].Kind, round+1, b.settings.rounds)
		var floor sample
		for i := range all {
			one, err := b.measureForm(ctx, &all[i])
			switch {
			case errors.Is(err, errNotServed):
				r.refuse(&all[i], err)
				continue
			case err != nil:
				return fmt.Errorf("%s: %w", all[i].key(), err)
			}
			if i == 0 {
				floor = one
			}
			one.Ratio = one.PerSecond / floor.PerSecond
			r.add(&all[i], one)
		}
	}
	return nil
}

// measureForm writes each object once.
func (b *stage) measureForm(ctx context.Context, f *form) (sample, error) {
	objects, err := b.list(ctx, f.Kind)
	if err != nil {
		return sample{}, err
	}
	b.sent++
	value := fmt.Sprintf("r%d", b.sent)
	bodies := make([][]byte, len(objects))
	for i := range objects {
		if bodies[i], err = f.body(&objects[i], value); err != nil {
			return sample{}, err
		}
	}
	routes := b.routes[f.route]
	before, err := b.usage(ctx, routes)
	if err != nil {
		return sample{}, err
	}
	begun := time.Now()
	next := atomic.Int64{}
	group, sending := errgroup.WithContext(ctx)
	for w := range b.settings.writers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(objects) {
					return nil
				}
				if err := routes[w%len(routes)].send(sending, f, &objects[i], bodies[i]); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return sample{}, err
	}
	took := time.Since(begun).Seconds()
	after, err := b.usage(ctx, routes)
	if err != nil {
		return sample{}, err
	}
	count := float64(len(objects))
	return sample{
		PerSecond: count / took, ServerMillis: 1000 * (after.server - before.server) / count, EtcdMillis: 1000 * (after.etcd - before.etcd) / count,
		BytesOut: float64(after.out-before.out) / count, BytesIn: float64(after.in-before.in) / count,
	}, b.check(ctx, f.Kind, value)
}

// profileSeconds is how long the API server is profiled.
const profileSeconds = 10

// profile writes a processor profile of the API server during writes of Machines.
func (b *stage) profile(ctx context.Context) error {
	bench.Progress("profiling the API server for %d s", profileSeconds)
	clientset, err := kubernetes.NewForConfig(b.Cluster.Admin())
	if err != nil {
		return err
	}
	group, profiling := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() error {
		defer close(done)
		request := clientset.RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(profileSeconds))
		profile, err := request.DoRaw(profiling)
		if err != nil {
			return fmt.Errorf("profiling the API server: %w", err)
		}
		return os.WriteFile(b.settings.profile, profile, 0o644) //nolint:gosec // every user may read it
	})
	group.Go(func() error {
		plainForm := forms("Machine")[0]
		for {
			select {
			case <-done:
				return nil
			default:
			}
			if _, err := b.measureForm(profiling, &plainForm); err != nil {
				return err
			}
		}
	})
	return group.Wait()
}

// send makes one write.
func (r *route) send(ctx context.Context, f *form, o *unstructured.Unstructured, body []byte) error {
	url := r.host + path(o) + "?fieldManager=bench"
	if f.method == http.MethodPatch && (f.content == "application/apply-patch+yaml" || f.content == "application/apply-patch+cbor") {
		url += "&force=true"
	}
	request, err := http.NewRequestWithContext(ctx, f.method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", f.content)
	request.Header.Set("Accept", f.answer)
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	if closing := response.Body.Close(); err == nil {
		err = closing
	}
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusUnsupportedMediaType, response.StatusCode == http.StatusNotAcceptable:
		return errNotServed
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %.300s", f.method, path(o), response.Status, answer)
	}
	return nil
}

// list returns the objects as they are.
func (b *stage) list(ctx context.Context, kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	if kind != "Node" {
		list.SetAPIVersion(machinev1beta1.GroupVersion.String())
	}
	list.SetKind(kind + "List")
	err := b.Client.List(ctx, list)
	return list.Items, err
}

// check fails unless every object has what was written: a form that writes something else would be fast.
func (b *stage) check(ctx context.Context, kind, value string) error {
	objects, err := b.list(ctx, kind)
	if err != nil {
		return err
	}
	fields := []string{"metadata", "labels", label}
	if kind != "Node" {
		fields = slices.Insert(fields, 0, "spec")
	}
	for i := range objects {
		taints, _, err := unstructured.NestedSlice(objects[i].Object, "spec", "taints")
		got, _, _ := unstructured.NestedString(objects[i].Object, fields...)
		if err != nil || got != value || !slices.ContainsFunc(taints, func(t any) bool {
			entry, ok := t.(map[string]any)
			return ok && entry["key"] == taint && entry["value"] == value
		}) {
			return fmt.Errorf("%s %s has label %q and taints %v, want %s", kind, objects[i].GetName(), got, taints, value)
		}
	}
	return nil
}

// usage is what the processes of the control plane, and the connections, have used.
type usage struct {
	server, etcd float64
	out, in      int64
}

func (b *stage) usage(ctx context.Context, routes []*route) (u usage, err error) {
	for _, status := range b.Cluster.Status(ctx) {
		var into *float64
		switch status.Component {
		case cluster.APIServer:
			into = &u.server
		case cluster.Etcd:
			into = &u.etcd
		default:
			continue
		}
		if *into, err = bench.CPUSeconds(status.PID); err != nil {
			return u, err
		}
	}
	for _, r := range routes {
		u.out, u.in = u.out+r.out.Load(), u.in+r.in.Load()
	}
	return u, nil
}

// manage has other field managers own an annotation of each object.
func (b *stage) manage(ctx context.Context, kind string) error {
	objects, err := b.list(ctx, kind)
	if err != nil {
		return err
	}
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(b.settings.writers)
	for i := range objects {
		group.Go(func() error {
			for m := range managers {
				owner := fmt.Sprintf("manager-%d", m)
				patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"%s.example.com/a":"x"}}}`, owner))
				if err := b.Client.Patch(sending, objects[i].DeepCopy(), patch, client.FieldOwner(owner)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
