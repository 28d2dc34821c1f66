package machineset

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
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

// docs/events.md is written from Events: every reason in the code has to be there, and no other.
func TestEvents_Documented(t *testing.T) {
	declared := eventConstants(t)
	var documented []string
	for _, doc := range Events {
		documented = append(documented, doc.Reason)
		if doc.Type != "Normal" && doc.Type != "Warning" || doc.On != "MachineSet" || doc.When == "" {
			t.Errorf("incomplete: %+v", doc)
		}
	}
	if slices.Sort(documented); !slices.Equal(declared, documented) {
		t.Errorf("in the code %v\ndocumented  %v", declared, documented)
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
