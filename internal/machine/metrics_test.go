package machine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// TestMetrics_Machines: a scrape shows each Machine once, as it was last, and none that is gone.
func TestMetrics_Machines(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				line := family.GetName()
				for _, label := range metric.GetLabel() {
					line += " " + label.GetName() + "=" + label.GetValue()
				}
				got = append(got, fmt.Sprint(line, " ", metric.GetGauge().GetValue()))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	expect("mapi_machine_items 0")
	first, second := types.NamespacedName{Namespace: "n", Name: "a"}, types.NamespacedName{Namespace: "n", Name: "b"}
	m.machines.set(first, series{phase: "Provisioning", created: 5})
	m.machines.set(first, series{providerID: "x://1", node: "node-1", phase: "Running", created: 5})
	m.machines.set(second, series{phase: "Running", created: 6})
	m.forget(second)
	expect("mapi_machine_created_timestamp_seconds api_version=machine.openshift.io/v1beta1 name=a namespace=n node=node-1 phase=Running "+
		"spec_provider_id=x://1 5", "mapi_machine_items 1")
	// A label that cannot be shown fails the scrape, and does not end the process.
	m.machines.set(first, series{phase: "\xff"})
	if _, err := registry.Gather(); err == nil {
		t.Error("a series that is no UTF-8 is shown")
	}
}
