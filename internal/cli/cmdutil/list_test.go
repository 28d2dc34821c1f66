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
	"k8s.io/client-go/rest"
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
