package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/test/cluster"
)

func syncAudit(t *testing.T) cluster.AuditMark {
	t.Helper()
	mark, err := env.Audit().Sync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

func byUser(user string) func(*cluster.AuditEvent) bool {
	return func(e *cluster.AuditEvent) bool { return e.User == user }
}

// eventsOf returns the requests of a user after a mark.
func eventsOf(t *testing.T, user string, mark cluster.AuditMark) []cluster.AuditEvent {
	t.Helper()
	all, err := env.Audit().Since(mark)
	if err != nil {
		t.Fatal(err)
	}
	var events []cluster.AuditEvent
	for _, event := range all {
		if byUser(user)(&event) {
			events = append(events, event)
		}
	}
	return events
}

// auditUser returns a client of a user that only one test uses and that may do everything.
func auditUser(t *testing.T, name string, groups ...string) kubernetes.Interface {
	t.Helper()
	cfg, err := env.As(name, groups...)
	if err == nil {
		cfg.UserAgent = "audit-test/" + name
	}
	return clientFor(t, cfg, err)
}

func TestAudit_RecordsEveryRequest(t *testing.T) {
	clients := auditUser(t, "auditor", "system:masters")
	mark, before := syncAudit(t), time.Now()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "audited"}}
	if _, err := clients.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watch, err := clients.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	syncAudit(t)
	var created *cluster.AuditEvent
	watches := 0
	for _, event := range eventsOf(t, "auditor", mark) {
		switch event.Verb {
		case "create":
			created = &event
		case "watch":
			watches++
		default:
			t.Errorf("unexpected request %+v", event)
		}
	}
	if watches != 1 {
		t.Errorf("%d watches, want 1", watches)
	}
	if created == nil {
		t.Fatal("the log does not have the create request")
	}
	if !created.Write() || created.Code != 201 || created.Resource != "configmaps" || created.Group != "" ||
		created.Namespace != "default" || created.Name != "audited" || created.UserAgent != "audit-test/auditor" ||
		!strings.HasPrefix(created.URI, "/api/v1/namespaces/default/configmaps") {
		t.Errorf("create request is %+v", *created)
	}
	if created.Received.Before(before.Add(-time.Second)) || created.Answered.Before(created.Received) {
		t.Errorf("create request received %v, answered %v, made after %v", created.Received, created.Answered, before)
	}
}

func TestAudit_RecordsRefusedRequests(t *testing.T) {
	clients := auditUser(t, "reader")
	mark := syncAudit(t)
	if _, err := clients.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("listing secrets gave %v, want forbidden", err)
	}
	if _, err := clientFor(t, env.Anonymous(), nil).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Fatal("an anonymous request was answered")
	}
	syncAudit(t)
	counts, err := env.Audit().Counts(mark, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := cluster.AuditKey{User: "reader", Verb: "list", Resource: "secrets", Code: 403}
	if counts[key] != 1 {
		t.Errorf("%d refused requests, want 1, in\n%s", counts[key], counts)
	}
	unauthorized := counts.Total(func(k cluster.AuditKey) bool { return k.Code == 401 && k.Resource == "pods" })
	if unauthorized != 1 {
		t.Errorf("%d anonymous requests, want 1, in\n%s", unauthorized, counts)
	}
}

func TestAudit_Counts(t *testing.T) {
	clients := auditUser(t, "counter", "system:masters")
	mark := syncAudit(t)
	for range 7 {
		if _, err := clients.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := []byte(`{"metadata":{"labels":{"counted":"yes"}}}`)
	_, err := clients.CoreV1().Namespaces().Patch(t.Context(), "default", "application/merge-patch+json", patch,
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	end := syncAudit(t)
	counts, err := env.Audit().Counts(mark, byUser("counter"))
	if err != nil {
		t.Fatal(err)
	}
	if got := counts.Total(nil); got != 8 {
		t.Errorf("%d requests, want 8, in\n%s", got, counts)
	}
	if got := counts.Total(cluster.AuditKey.Write); got != 1 {
		t.Errorf("%d writes, want 1, in\n%s", got, counts)
	}
	if text := counts.String(); !strings.Contains(text, "counter   get     namespaces   200    7") {
		t.Errorf("table is\n%s", text)
	}
	rest, err := env.Audit().Counts(end, byUser("counter"))
	if err != nil || len(rest) != 0 {
		t.Errorf("after the end there are %v, %v", rest, err)
	}
}

func TestAuditSync_ContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := env.Audit().Sync(ctx); err == nil {
		t.Error("a sync with a finished context succeeded")
	}
}

func TestAudit_EndingNamespace(t *testing.T) {
	clients := auditUser(t, "late-comer", "system:masters")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}}
	if _, err := clients.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"drover.dev/held"}}}
	maps := clients.CoreV1().ConfigMaps("ending")
	if _, err := maps.Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := clients.CoreV1().Namespaces().Delete(t.Context(), "ending", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	mark := syncAudit(t)
	late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
	if _, err := maps.Create(t.Context(), late, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("creating in a namespace that is being deleted gave %v, want forbidden", err)
	}
	syncAudit(t)
	if events := eventsOf(t, "late-comer", mark); len(events) != 1 || !events[0].InEndingNamespace() {
		t.Errorf("the log has %+v, want one request that was refused for its namespace", events)
	}
	if _, err := maps.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
