package metadata

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/status"
)

// docs/metrics.md is generated from MetricDocs: it must list what is served.
func TestMetricDocs_AreServed(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	// Series of a vector appear with their first use.
	m.writes.WithLabelValues("node", "ok").Inc()
	m.failures.WithLabelValues("n1").Inc()
	m.setNodes(named("a"), plan.Synced, 1)
	m.setStopped(named("a"), &v1alpha1.RolloutStatus{})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]status.MetricDoc{}
	for _, family := range families {
		doc := status.MetricDoc{Name: family.GetName(), Type: strings.ToLower(family.GetType().String()), Help: family.GetHelp()}
		for _, pair := range family.GetMetric()[0].GetLabel() {
			doc.Labels = append(doc.Labels, pair.GetName())
		}
		served[doc.Name] = doc
	}
	if len(served) != len(MetricDocs) {
		t.Errorf("%d metrics are served, %d documented", len(served), len(MetricDocs))
	}
	for _, doc := range MetricDocs {
		if !strings.HasSuffix(doc.Help, ".") {
			t.Errorf("%s: the help is not a sentence: %q", doc.Name, doc.Help)
		}
		doc.Labels = slices.Sorted(slices.Values(doc.Labels))
		if diff := cmp.Diff(doc, served[doc.Name], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("documented (-) and served (+):\n%s", diff)
		}
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the same names can be registered twice")
	}
}

// docs/events.md is generated from Events: it must list every reason in the code, and no other.
func TestEvents_AreDocumented(t *testing.T) {
	declared := eventConstants(t)
	var documented []string
	for _, doc := range Events {
		documented = append(documented, doc.Reason)
		if doc.Type != "Normal" && doc.Type != "Warning" || doc.On == "" || doc.When == "" {
			t.Errorf("incomplete: %+v", doc)
		}
	}
	if slices.Sort(documented); !slices.Equal(declared, documented) {
		t.Errorf("in the code %v\ndocumented  %v", declared, documented)
	}
	for reason, event := range problemEvents {
		if !slices.Contains(declared, event) {
			t.Errorf("problem %s is reported by %q, which is no event", reason, event)
		}
	}
	for _, reason := range []plan.Reason{plan.Invalid, plan.Duplicate, plan.Refused, plan.InConflict, plan.BadRecord} {
		if problemEvents[reason] == "" {
			t.Errorf("no event reports a problem of reason %s", reason)
		}
	}
}

// eventConstants reads the values of all Event constants from the source.
func eventConstants(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Event") || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, value)
		}
		return true
	})
	slices.Sort(found)
	return found
}
