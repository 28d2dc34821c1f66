package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere"
)

func TestCommittedPagesAreGenerated(t *testing.T) {
	all, err := references(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	generated, err := pages(capabilities)
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
	got, err := pages([]capability{{
		Name:       "herd",
		Metrics:    []status.MetricDoc{{Name: "herd_size", Type: "gauge", Help: "Sheep | goats.", Labels: []string{"field", "kind"}}},
		Events:     []status.EventDoc{{Reason: "HerdGrew", Type: "Normal", On: "Field", When: "one more is there"}},
		Conditions: []status.ConditionDoc{{On: "Herd", Type: "Fed", Reason: "Hay", When: "there is hay"}},
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

// TestEveryMetricHasAType: without a type, a reader does not know how to read a series.
func TestEveryMetricHasAType(t *testing.T) {
	for _, c := range capabilities {
		for _, doc := range c.Metrics {
			if !slices.Contains([]string{"counter", "gauge", "histogram"}, doc.Type) || doc.Help == "" {
				t.Errorf("metric %s of %s is a %q: %s", doc.Name, c.Name, doc.Type, doc.Help)
			}
		}
	}
}

// TestProviderMetrics_AreRegistered: the provider vsphere registers the metrics that the page has.
func TestProviderMetrics_AreRegistered(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := vsphere.Provider().New(provider.Environment{Config: &rest.Config{}, Metrics: registry}); err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 10)
	registry.Describe(descriptions)
	close(descriptions)
	var have, want []string
	for description := range descriptions {
		// There is no other way to the name and the labels.
		name, text, _ := strings.Cut(strings.TrimPrefix(description.String(), `Desc{fqName: "`), `"`)
		_, labels, _ := strings.Cut(text, "variableLabels: ")
		have = append(have, name+strings.TrimSuffix(labels, "}"))
	}
	for _, doc := range providerMetrics {
		want = append(want, doc.Name+"{"+strings.Join(doc.Labels, ",")+"}")
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("documented (-) and registered (+):\n%s", diff)
	}
}
