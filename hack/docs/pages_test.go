package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/controller"
)

func TestCommittedPagesAreGenerated(t *testing.T) {
	all, err := references(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	sections, err := readSections(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	generated, err := pages(sections)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, generated)
	for name, want := range all {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("docs/%s is not what the code says; run make generate (-code +page):\n%s", name, diff)
		}
	}
}

func TestPages(t *testing.T) {
	got, err := pages([]section{{
		Name:       "herd",
		Metrics:    []metric{{Name: "herd_size", Type: "gauge", Help: "Sheep | goats.", Labels: []string{"field", "kind"}}},
		Events:     []event{{Reason: "HerdGrew", Type: "Normal", On: "Field", When: "one more is there"}},
		Conditions: []condition{{On: "Herd", Type: "Fed", Reason: "Hay", When: "there is hay"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for page, line := range map[string]string{
		"metrics.md": "## Capability herd\n\n| metric | type | labels | what it counts or measures |\n|---|---|---|---|\n" +
			"| `herd_size` | gauge | `field`, `kind` | Sheep \\| goats. |\n",
		"events.md": "## Capability herd\n\n| reason | type | on | when |\n|---|---|---|---|\n" +
			"| `HerdGrew` | Normal | Field | one more is there |\n",
		"conditions.md": "## Capability herd\n\n| on | condition | reason | when |\n|---|---|---|---|\n| Herd | `Fed` | `Hay` | there is hay |\n",
	} {
		if !strings.HasPrefix(got[page], "# ") || !strings.Contains(got[page], notice) || !strings.HasSuffix(got[page], "\n"+line) {
			t.Errorf("%s is\n%s", page, got[page])
		}
	}
}

// TestMetrics_AreSentences: without a sentence, a reader does not know how to read a series.
func TestMetrics_AreSentences(t *testing.T) {
	all, err := readSections(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, m := range s.Metrics {
			if !strings.HasSuffix(m.Help, ".") {
				t.Errorf("the help of the metric %s is not a sentence: %q", m.Name, m.Help)
			}
		}
	}
}

func TestMetricsOf(t *testing.T) {
	got, err := metricsOf([]register{registers(func(registry prometheus.Registerer) (*controller.Collectors, error) {
		c := controller.NewCollectors(registry)
		c.Gauge("gauge", `Sheep "and" goats.`)
		c.GaugeVec("gauge_vec", "Sheep.", "field", "kind")
		c.Counter("counter", "Sheep.")
		c.CounterVec("counter_vec", "Sheep.", "field")
		c.Histogram("histogram", "Sheep.", 1)
		c.HistogramVec("histogram_vec", "Sheep.", []float64{1}, "field")
		return c, c.Err()
	})})
	if err != nil {
		t.Fatal(err)
	}
	want := []metric{
		{"gauge", "gauge", `Sheep "and" goats.`, nil},
		{"gauge_vec", "gauge", "Sheep.", []string{"field", "kind"}},
		{"counter", "counter", "Sheep.", nil},
		{"counter_vec", "counter", "Sheep.", []string{"field"}},
		{"histogram", "histogram", "Sheep.", nil},
		{"histogram_vec", "histogram", "Sheep.", []string{"field"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wanted (-) and got (+):\n%s", diff)
	}
}
