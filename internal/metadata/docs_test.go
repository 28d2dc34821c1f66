package metadata

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-io/drover/internal/metadata/plan"
)

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
