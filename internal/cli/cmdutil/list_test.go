package cmdutil

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/undecodable"
)

// TestTolerantClient_ListUndecodable: an object that cannot be decoded keeps no other one from being listed, and is named in a warning.
func TestTolerantClient_ListUndecodable(t *testing.T) {
	set := func(name, taints string) string {
		return fmt.Sprintf(`{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineSet","metadata":{"name":%q,"namespace":"n"},`+
			`"spec":{"template":{"spec":{"taints":[%s]}}}}`, name, taints)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineSetList","metadata":{"resourceVersion":"7"},"items":[`+
			set("a", "")+","+set("b", `{"key":"k","effect":"NoSchedule","timeAdded":"2020-01-01t00:00:00z"}`)+`]}`)
	}))
	defer server.Close()
	var warnings bytes.Buffer
	tolerant, err := newTolerantClient(&rest.Config{Host: server.URL}, &warnings)
	if err != nil {
		t.Fatal(err)
	}
	sets, err := List[*machinev1beta1.MachineSet](t.Context(), tolerant, "n")
	if err != nil || len(sets) != 2 || sets[1].Name != "b" || len(sets[1].Spec.Template.Spec.Taints) != 1 {
		t.Fatalf("%v, %v", sets, err)
	}
	if !strings.HasPrefix(warnings.String(), "warning: MachineSet n/b cannot be decoded: spec.template.spec.taints[0].timeAdded: ") {
		t.Error(warnings.String())
	}
}

// TestTolerantClient_WatchUndecodable: an object that cannot be decoded does not end the watch of the others.
func TestTolerantClient_WatchUndecodable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/machine.openshift.io/v1beta1/namespaces/n/machinesets" || r.URL.Query().Get("resourceVersion") != "7" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		for name, field := range map[string]string{"a": "", "b": `,"spec":{"replicas":1e9999}`, "c": ""} {
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineSet",`+
				`"metadata":{"name":"`+name+`","namespace":"n","resourceVersion":"8"}`+field+`}}`+"\n")
		}
	}))
	defer server.Close()
	tolerant, err := newTolerantClient(&rest.Config{Host: server.URL}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	events, err := tolerant.Watch(t.Context(), &machinev1beta1.MachineSetList{}, client.InNamespace("n"),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "7"}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for range 3 {
		event := <-events.ResultChan()
		set, ok := event.Object.(*machinev1beta1.MachineSet)
		if !ok {
			t.Fatalf("got %+v", event)
		}
		if problem := undecodable.Check(set); (problem != nil) != (set.Name == "b") {
			t.Errorf("%s: %v", set.Name, problem)
		}
	}
}
