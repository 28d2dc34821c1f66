package cmdutil

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machineapi/machinejson"
)

// TestList_Machines: a stream of Machines that ends too early is followed by pages, with each Machine once; one that is refused is not.
func TestList_Machines(t *testing.T) {
	const (
		start = `{"apiVersion":"machine.openshift.io/v1beta1","items":[`
		end   = `],"kind":"MachineList","metadata":{"resourceVersion":"7"}}`
	)
	machine := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine","metadata":{"name":%q}}`, name)
	}
	for name, c := range map[string]struct {
		code   int
		stream string
		want   []string
		asked  int
	}{
		"whole":   {http.StatusOK, start + machine("a") + "," + machine("b") + end, []string{"a", "b"}, 1},
		"cut off": {http.StatusOK, start + machine("a") + ",", []string{"a", "b", "c"}, 2},
		"refused": {http.StatusForbidden, `{"apiVersion":"v1","kind":"Status","reason":"Forbidden","code":403}`, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Query().Has("limit") {
					_, _ = io.WriteString(w, start+machine("a")+","+machine("b")+","+machine("c")+end)
					return
				}
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.stream)
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL}
			plain, err := client.NewWithWatch(config, client.Options{Scheme: Scheme, Mapper: Mapper()})
			if err != nil {
				t.Fatal(err)
			}
			machines, err := machinejson.Client(config, serializer.NewCodecFactory(Scheme))
			if err != nil {
				t.Fatal(err)
			}
			all, err := List[*machinev1beta1.Machine](t.Context(), &machineClient{WithWatch: plain, machines: machines}, "n")
			if (err == nil) != (c.want != nil) {
				t.Errorf("error %v", err)
			}
			var names []string
			for _, one := range all {
				names = append(names, one.Name)
			}
			if diff := cmp.Diff(c.want, names); diff != "" || asked != c.asked {
				t.Errorf("%d requests, want %d; Machines: %s", asked, c.asked, diff)
			}
		})
	}
}

// TestMachineClient_ListUndecodable: an object that cannot be decoded keeps no other one from being listed, and is named in a warning.
func TestMachineClient_ListUndecodable(t *testing.T) {
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
	plain, err := client.NewWithWatch(&rest.Config{Host: server.URL}, client.Options{Scheme: Scheme, Mapper: Mapper()})
	if err != nil {
		t.Fatal(err)
	}
	var warnings bytes.Buffer
	c := &machineClient{WithWatch: plain, warnings: &warnings}
	sets, err := List[*machinev1beta1.MachineSet](t.Context(), c, "n")
	if err != nil || len(sets) != 2 || sets[1].Name != "b" || len(sets[1].Spec.Template.Spec.Taints) != 1 {
		t.Fatalf("%v, %v", sets, err)
	}
	if !strings.HasPrefix(warnings.String(), "warning: MachineSet n/b cannot be decoded: spec.template.spec.taints[0].timeAdded: ") {
		t.Error(warnings.String())
	}
	// The page of kubectl drover ui lists again and again.
	if _, err := List[*machinev1beta1.MachineSet](t.Context(), c, "n"); err != nil || strings.Count(warnings.String(), "\n") != 1 {
		t.Errorf("%v, after another list: %s", err, warnings.String())
	}
}
