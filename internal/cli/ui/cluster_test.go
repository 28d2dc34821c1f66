package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/ui/model"
)

// events reads the events of a stream.
type events struct {
	t       *testing.T
	scanner *bufio.Scanner
}

// openStream opens a stream of a server.
func openStream(t *testing.T, s *server) *events {
	t.Helper()
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = testHost
		s.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, listening.URL+"/api/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		listening.Close()
	})
	scanner := bufio.NewScanner(answer.Body)
	scanner.Buffer(nil, 16<<20)
	return &events{t, scanner}
}

// until reads events until one of a name satisfies done.
func until[T any](e *events, name string, done func(T) bool) {
	e.t.Helper()
	current := ""
	for e.scanner.Scan() {
		line := e.scanner.Text()
		if after, found := strings.CutPrefix(line, "event: "); found {
			current = after
		}
		data, found := strings.CutPrefix(line, "data: ")
		if !found || current != name {
			continue
		}
		var value T
		if err := json.Unmarshal([]byte(data), &value); err != nil {
			e.t.Fatal(err)
		}
		if done(value) {
			return
		}
	}
	e.t.Fatalf("the stream has ended before the event %s: %v", name, e.scanner.Err())
}

// TestStream: a page gets all nodes first, then those alone that change.
func TestStream(t *testing.T) {
	group := builder.NodeGroup("web")
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "web"}}
	inGroup := builder.WithNodeLabels(map[string]string{"pool": "web"})
	s := newTestServer(t, interceptor.Funcs{}, group, builder.Node("a", builder.WithReady(corev1.ConditionTrue), inGroup),
		builder.Node("b", builder.WithReady(corev1.ConditionTrue)))
	stream := openStream(t, s)
	// The nodes may come before what concerns them.
	cells, isFirst := map[string]model.Cell{}, true
	until(stream, "fleet", func(changes model.Changes[model.Cell]) bool {
		if changes.Full != isFirst || isFirst && len(changes.Set) != 2 {
			t.Fatalf("got %+v", changes)
		}
		isFirst = false
		for _, cell := range changes.Set {
			cells[cell.Name] = cell
		}
		return cells["a"].NodeGroup == "web" && cells["b"].State == model.Unmanaged
	})
	c := s.cluster.client
	changed := builder.Node("b")
	if err := c.Get(t.Context(), types.NamespacedName{Name: "b"}, changed); err != nil {
		t.Fatal(err)
	}
	changed.Spec.Unschedulable = true
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	until(stream, "fleet", func(changes model.Changes[model.Cell]) bool {
		if changes.Full || len(changes.Set) != 1 || changes.Set[0].State != model.Disrupted {
			t.Fatalf("after a cordon: %+v", changes)
		}
		return true
	})
	if err := c.Delete(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	until(stream, "fleet", func(changes model.Changes[model.Cell]) bool { return len(changes.Gone) == 1 && changes.Gone[0] == "b" })
}

// TestStream_Progress: a page gets what Drover does first, then what changes of it.
func TestStream_Progress(t *testing.T) {
	group := builder.NodeGroup("web")
	group.Spec.Disruption = &drover.Disruption{}
	group.Status = drover.NodeGroupStatus{Phase: drover.PhaseRolling, Nodes: 10, Synced: 2, Pending: 8}
	s := newTestServer(t, interceptor.Funcs{}, group, builder.NodeMaintenance("m", "n"))
	stream := openStream(t, s)
	until(stream, "progress", func(changes progressChanges) bool {
		if changes.Items == nil || !changes.Items.Full || len(changes.Items.Set) != 2 || len(changes.Budgets.Set) != 1 || changes.Calendar == nil {
			t.Fatalf("first: %+v", changes)
		}
		return true
	})
	c := s.cluster.client
	if err := c.Get(t.Context(), types.NamespacedName{Name: "web"}, group); err != nil {
		t.Fatal(err)
	}
	group.Status.Synced, group.Status.Pending = 3, 7
	if err := c.Update(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	until(stream, "progress", func(changes progressChanges) bool {
		if changes.Items == nil || changes.Items.Full || len(changes.Items.Set) != 1 || changes.Items.Set[0].Done != 3 || changes.Budgets != nil ||
			changes.Calendar != nil {
			t.Fatalf("after a node has followed: %+v", changes)
		}
		return true
	})
}

// TestStream_Omitted: the stream has how many activities are left out.
func TestStream_Omitted(t *testing.T) {
	var objects []client.Object
	for i := range 1005 {
		objects = append(objects, builder.NodeMaintenance(fmt.Sprint("m-", i), fmt.Sprint("n-", i)))
	}
	u := newFilledCluster(t, objects, time.Now())
	stream := &stream{}
	if text := toJSON(t, stream.progress(u.tracker).Items); !strings.Contains(text, `"omitted":5`) || !strings.HasPrefix(text, `{"full":true`) {
		t.Errorf("the page gets %.100s ... %s", text, text[len(text)-100:])
	}
	gone := builder.NodeMaintenance("m-0", "n-0")
	u.change(t, gone, true)
	u.update(t.Context(), false)
	if changes := stream.progress(u.tracker); changes.Items == nil || changes.Items.Omitted != 4 {
		t.Errorf("after an end: %+v", changes.Items)
	}
	if changes := stream.progress(u.tracker); changes.Items != nil {
		t.Errorf("without a change: %+v", changes.Items)
	}
}

// notServed is the answer of an API server that does not know a resource.
func notServed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}}
}

func sourceOf(c Cluster, resource string) SourceStatus {
	for _, source := range c.Sources {
		if source.Resource == resource {
			return source
		}
	}
	return SourceStatus{}
}

// TestCluster_FewRights: what the cluster does not have, and what the user may not read, is named; the rest is shown.
func TestCluster_FewRights(t *testing.T) {
	lists := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		var of client.ListOptions
		of.ApplyOptions(options)
		switch list.(type) {
		case *machinev1beta1.MachineHealthCheckList:
			return notServed()
		case *drover.NodeGroupList:
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodegroups"}, "", errors.New("you may not"))
		case *machinev1beta1.MachineList:
			if of.Namespace == "" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("not in all namespaces"))
			}
		}
		return c.List(ctx, list, options...)
	}}
	s := newTestServer(t, lists, builder.Node("n", builder.WithReady(corev1.ConditionTrue)),
		builder.Machine(cmdutil.DefaultNamespace, "m", builder.WithNode("n")))
	stream := openStream(t, s)
	until(stream, "cluster", func(c Cluster) bool {
		return c.Complete && sourceOf(c, "machinehealthchecks.machine.openshift.io").Availability == NotServed &&
			sourceOf(c, "nodegroups.drover.dev").Availability == Forbidden &&
			sourceOf(c, "machines.machine.openshift.io").Namespace == cmdutil.DefaultNamespace
	})
	until(stream, "fleet", func(changes model.Changes[model.Cell]) bool {
		return len(changes.Set) == 1 && (changes.Set[0].State == model.Loading || changes.Set[0].Machine == cmdutil.DefaultNamespace+"/m")
	})
}

// TestStream_Many: the number of streams is bounded, and a stream that ends makes place for another one.
func TestStream_Many(t *testing.T) {
	s := newTestServer(t, interceptor.Funcs{})
	for range maxStreams {
		s.streams <- struct{}{}
	}
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request(http.MethodGet, "/api/stream", nil))
	if answer.Code != http.StatusTooManyRequests {
		t.Errorf("status %d", answer.Code)
	}
	<-s.streams
	s.close()
	answer = httptest.NewRecorder()
	s.ServeHTTP(answer, request(http.MethodGet, "/api/stream", nil))
	if answer.Code != http.StatusOK || len(s.streams) != maxStreams-1 {
		t.Errorf("status %d, %d streams", answer.Code, len(s.streams))
	}
}

// TestNodePage: the document of a node says who owns what, what keeps the node from draining, and what happened, with bounded texts.
func TestNodePage(t *testing.T) {
	node := builder.Node("n", builder.WithReady(corev1.ConditionTrue))
	node.Annotations = map[string]string{"long": strings.Repeat("x", 100<<10)}
	for range 1000 {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Other", Message: strings.Repeat("x", 10<<10)})
	}
	lease := builder.NodeLease("medik8s-leases", "n", "someone", time.Now())
	lease.Spec.AcquireTime = &metav1.MicroTime{Time: time.Now()}
	m := builder.NodeMaintenance("disk", "n")
	m.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Labels: map[string]string{"app": "cart"}}}
	pod.Spec.NodeName, pod.OwnerReferences = "n", []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "cart", Controller: new(true)}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: pod.Labels}
	budget.Status = policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 1, CurrentHealthy: 1}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n.1"}, InvolvedObject: corev1.ObjectReference{Kind: "NodeMaintenance", Name: "disk"},
		Type: corev1.EventTypeWarning, Reason: "Blocked", Message: "\x1b[31mred", LastTimestamp: metav1.Now(),
	}
	s := newTestServer(t, interceptor.Funcs{}, node, lease, m, pod, budget, event)
	until(openStream(t, s), "cluster", func(c Cluster) bool { return c.Complete })
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request(http.MethodGet, "/api/nodes/n", nil))
	var page NodePage
	if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
		t.Fatalf("%v: %s", err, answer.Body)
	}
	if page.Explanation.Name != "n" || page.Lease == nil || page.Lease.Holder != "someone" || !page.Lease.Valid || len(page.Explanation.Entries) != 1 {
		t.Errorf("got %+v", page)
	}
	if answer.Body.Len() > 256<<10 {
		t.Errorf("the document has %d bytes", answer.Body.Len())
	}
	if len(page.Notes) != 0 {
		t.Errorf("notes: %v", page.Notes)
	}
	if page.Drain == nil || len(page.Drain.Pods) != 1 || len(page.Drain.Budgets) != 1 || page.Drain.Budgets[0].Here != 1 {
		t.Errorf("drain: %+v", page.Drain)
	}
	var got []string
	for _, moment := range page.Timeline {
		if moment.Type != MomentCondition {
			got = append(got, string(moment.Type)+" "+moment.Object+" "+moment.Reason)
		}
		if strings.ContainsAny(moment.Message, "\x1b") {
			t.Errorf("not escaped: %q", moment.Message)
		}
	}
	for _, want := range []string{"Disruption Node/n Leased", "Event NodeMaintenance/disk Blocked", "Disruption NodeMaintenance/disk Maintenance"} {
		if !slices.Contains(got, want) {
			t.Errorf("the time line lacks %s: %v", want, got)
		}
	}
}

// TestNodePage_FewRights: what the user may not read is named, and the rest is there.
func TestNodePage_FewRights(t *testing.T) {
	lists := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		switch list.(type) {
		case *corev1.EventList, *corev1.PodList:
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("you may not"))
		}
		return c.List(ctx, list, options...)
	}}
	s := newTestServer(t, lists, builder.Node("n", builder.WithReady(corev1.ConditionTrue)))
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request(http.MethodGet, "/api/nodes/n", nil))
	var page NodePage
	if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
		t.Fatalf("%v: %s", err, answer.Body)
	}
	if page.Explanation.Name != "n" || page.Drain != nil || len(page.Notes) != 2 {
		t.Errorf("got %+v", page)
	}
}
