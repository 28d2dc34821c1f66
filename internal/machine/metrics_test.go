package machine

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

// TestMetrics_Machines: a scrape shows each Machine once, as it was last, and none that is gone.
func TestMetrics_Machines(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), createdDoc.Name, itemsDoc.Name); err != nil {
			t.Error(err)
		}
	}
	const items = "# HELP mapi_machine_items Number of Machines.\n# TYPE mapi_machine_items gauge\nmapi_machine_items "
	expect(items + "0\n")
	first, second := types.NamespacedName{Namespace: "n", Name: "a"}, types.NamespacedName{Namespace: "n", Name: "b"}
	m.machines.set(first, series{phase: "Provisioning", created: 5})
	m.machines.set(first, series{providerID: "x://1", node: "node-1", phase: "Running", created: 5})
	m.machines.set(second, series{phase: "Running", created: 6})
	m.forget(second)
	expect(`# HELP mapi_machine_created_timestamp_seconds When the Machine was created, in seconds since 1970.
# TYPE mapi_machine_created_timestamp_seconds gauge
mapi_machine_created_timestamp_seconds{api_version="machine.openshift.io/v1beta1",name="a",namespace="n",node="node-1",phase="Running",` +
		`spec_provider_id="x://1"} 5
` + items + "1\n")
	// A label that cannot be shown fails the scrape, and does not end the process.
	m.machines.set(first, series{phase: "\xff"})
	if _, err := registry.Gather(); err == nil {
		t.Error("a series that is no UTF-8 is shown")
	}
}
