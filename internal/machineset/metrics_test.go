package machineset

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics_Reset(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.creates.WithLabelValues("ok").Inc()
	m.deletes.WithLabelValues("ok").Inc()
	set := setOf(1)
	m.observe(named("machines", "web").NamespacedName, set, &set.Status)
	m.reset()
	families, err := registry.Gather()
	if err != nil || len(families) != 3 {
		t.Errorf("error %v, %d families are left beside the two counters and the number of sets", err, len(families))
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the same names can be registered twice")
	}
}
