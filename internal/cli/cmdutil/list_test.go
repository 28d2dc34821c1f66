package cmdutil

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
