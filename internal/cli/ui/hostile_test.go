package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/drain"
)

// pageOf returns the document of a node, after everything has been read.
func pageOf(t *testing.T, name string, functions interceptor.Funcs, objects ...client.Object) (page NodePage, size int) {
	t.Helper()
	s := newTestServer(t, functions, objects...)
	until(openStream(t, s), "cluster", func(c Cluster) bool { return c.Complete })
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request(http.MethodGet, "/api/nodes/"+name, nil))
	if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %.200s", answer.Code, err, answer.Body)
	}
	return page, answer.Body.Len()
}

// lateText is a time that Kubernetes accepts and whose year in UTC is 10000, which JSON cannot have.
const lateText = "9999-12-31T23:59:59-14:00"

// TestNodePage_LateTimes: a kubelet cannot hide what its node waits for by times that JSON cannot have.
func TestNodePage_LateTimes(t *testing.T) {
	late, err := time.Parse(time.RFC3339, lateText)
	if err != nil {
		t.Fatal(err)
	}
	node := builder.Node("n", builder.WithReady(corev1.ConditionTrue))
	node.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"x","object":"x","since":"` + lateText + `"}`}
	managed := []metav1.ManagedFieldsEntry{{
		Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, Time: new(metav1.NewTime(late)), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + drain.AnnotationCordon + `":{}}}}`),
	}}
	m := builder.NodeMaintenance("disk", "n")
	m.Spec.Drain = &medik8s.DrainSpec{Deadline: &metav1.Duration{Duration: time.Hour}}
	gets := interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
	) error {
		err := c.Get(ctx, key, object, options...)
		object.SetManagedFields(managed)
		return err
	}}
	page, _ := pageOf(t, "n", gets, node, m)
	if page.Drain == nil || page.Drain.Maintenance == "" || page.Drain.Deadline != nil {
		t.Errorf("got %+v", page.Drain)
	}
}

// TestNodePage_ForgedEvents: a tenant's events in a namespace of its own are about no Node, whatever they name. They take no place of real ones.
func TestNodePage_ForgedEvents(t *testing.T) {
	objects := []client.Object{builder.Node("n", builder.WithReady(corev1.ConditionTrue))}
	for namespace, reference := range map[string]corev1.ObjectReference{
		"default": {Kind: "Node", Name: "n"},
		"tenant":  {Kind: "Node", Name: "n", Namespace: "tenant"},
	} {
		objects = append(objects, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "n.1"}, InvolvedObject: reference, Reason: namespace, LastTimestamp: metav1.Now(),
		})
	}
	page, _ := pageOf(t, "n", interceptor.Funcs{}, objects...)
	if len(page.Events) != 1 || page.Events[0].Reason != "default" {
		t.Errorf("got %+v", page.Events)
	}
}

// TestNodePage_ManyConditions: the conditions of Machines are bounded, however many Machines say that they have the node.
func TestNodePage_ManyConditions(t *testing.T) {
	objects := []client.Object{builder.Node("n", builder.WithReady(corev1.ConditionTrue))}
	for _, name := range []string{"a", "b"} {
		machine := builder.Machine("machines", name, builder.WithNode("n"))
		for i := range 2000 {
			machine.Status.Conditions = append(machine.Status.Conditions, machinev1beta1.Condition{
				Type: machinev1beta1.ConditionType(fmt.Sprint("C", i)), Message: strings.Repeat("x", 300),
			})
		}
		objects = append(objects, machine)
	}
	page, size := pageOf(t, "n", interceptor.Funcs{}, objects...)
	if len(page.MachineConditions) != maxConditions || size > 64<<10 {
		t.Errorf("%d conditions in %d bytes", len(page.MachineConditions), size)
	}
}

// TestNodePage_ManyMachines: Machines that all name a node do not displace what happened on it.
func TestNodePage_ManyMachines(t *testing.T) {
	objects := []client.Object{builder.Node("n", builder.WithReady(corev1.ConditionTrue)), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n.1"}, InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n"},
		Reason: "Rebooted", LastTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)),
	}}
	for i := range 2 * maxMoments {
		machine := builder.Machine("tenant", fmt.Sprint("m-", i), builder.WithNode("n"))
		machine.CreationTimestamp = metav1.Now()
		objects = append(objects, machine)
	}
	page, _ := pageOf(t, "n", interceptor.Funcs{}, objects...)
	if !slices.ContainsFunc(page.Timeline, func(m Moment) bool { return m.Reason == "Rebooted" }) {
		t.Errorf("%d moments without the event of the Node", len(page.Timeline))
	}
}
