package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// TestMetrics_NameNodes: the nodes of NodeMaintenances that have not succeeded are named, no more of them than maxNamed, and no name is longer than
// that of a Node can be.
func TestMetrics_NameNodes(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	group := Medik8s()
	named := func() (lines []string) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "drover_maintenance_nodes" {
					lines = append(lines, fmt.Sprint(metric.GetLabel()[1].GetValue(), " ", metric.GetLabel()[2].GetValue(), " ", metric.GetGauge().GetValue()))
				}
			}
		}
		return lines
	}
	expect := func(lines ...string) {
		t.Helper()
		if got := named(); !slices.Equal(got, lines) {
			t.Errorf("%q, want %q", got, lines)
		}
	}
	m.observe(group, "one", "a", medik8s.PhaseRunning)
	m.observe(group, "same-node", "a", medik8s.PhaseRunning)
	m.observe(group, "two", "b", medik8s.PhaseFailed)
	expect("a Running 1", "b Failed 1")
	m.observe(group, "one", "a", medik8s.PhaseSucceeded)
	m.forget(group, "two")
	expect("a Running 1")
	m.forget(group, "one")
	m.observe(group, "same-node", strings.Repeat("x", 300), medik8s.PhaseRunning)
	expect("(300 bytes, of which at most 253 are read) Running 1")
	m.forget(group, "same-node")
	for i := range 2 * maxNamed {
		m.observe(group, fmt.Sprint(i), fmt.Sprintf("node-%02d", i), medik8s.PhaseFailed)
	}
	if got := len(named()); got != maxNamed {
		t.Errorf("%d nodes are named", got)
	}
	for i := range maxNamed + 1 {
		m.forget(group, fmt.Sprint(i))
	}
	if got := len(named()); got != maxNamed-1 {
		t.Errorf("%d nodes are named after others are gone", got)
	}
	for i := maxNamed + 1; i < 2*maxNamed; i++ {
		m.forget(group, fmt.Sprint(i))
	}
	expect()
	if len(m.known) != 0 || len(m.series) != 0 {
		t.Errorf("%v and %v are kept", m.known, m.series)
	}
}
