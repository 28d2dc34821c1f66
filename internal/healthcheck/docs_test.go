package healthcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

func TestMetrics_Forget(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	// A series appears with its first use.
	key := types.NamespacedName{Namespace: "n", Name: "c"}
	m.observe(key, 1, true)
	m.wait(key, nil, map[string]int{plan.ReasonLease: 1})
	m.attempts.WithLabelValues(string(plan.ByDeletion), string(status.OK)).Inc()
	m.forget(key)
	families, err := registry.Gather()
	if err != nil || len(families) != 2 {
		t.Errorf("%d families are left of a MachineHealthCheck that is gone, %v", len(families), err)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the same names can be registered twice")
	}
}

// constants returns the values of the constants of a file whose names begin with one of some words. Reasons that are constants of the
// API are not literals, and are added by the tests.
func constants(t *testing.T, file string, words ...string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(spec.Names[0].Name, w) }) {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[value] = true
		}
		return true
	})
	return slices.Sorted(maps.Keys(found))
}

func TestEvents_Documented(t *testing.T) {
	var documented []string
	for _, doc := range Events {
		documented = append(documented, doc.Reason)
		if doc.Type != "Normal" && doc.Type != "Warning" || doc.On == "" || doc.When == "" {
			t.Errorf("incomplete: %+v", doc)
		}
	}
	slices.Sort(documented)
	if declared := constants(t, "events.go", "Event"); !slices.Equal(declared, documented) {
		t.Errorf("in the code %v\ndocumented  %v", declared, documented)
	}
	for reason, event := range blockedEvents {
		if !slices.Contains(documented, event) || !slices.Contains(plan.BlockedReasons, reason) {
			t.Errorf("%s has the event %s", reason, event)
		}
	}
}

func TestConditions_Documented(t *testing.T) {
	found := map[string]bool{}
	for _, doc := range plan.ConditionDocs() {
		found[doc.Reason] = true
		if doc.Type == "" || doc.When == "" {
			t.Errorf("incomplete: %+v", doc)
		}
	}
	declared := append(constants(t, "plan/conditions.go", "Reason"), plan.ReasonTooMany, plan.ReasonNoTemplate, plan.ReasonNoRequest)
	slices.Sort(declared)
	if documented := slices.Sorted(maps.Keys(found)); !slices.Equal(declared, documented) {
		t.Errorf("in the code %v\ndocumented  %v", declared, documented)
	}
	for _, reason := range plan.BlockedReasons {
		if !found[reason] {
			t.Errorf("the reason %s is not documented", reason)
		}
	}
}

// The names that users of machine-api-operator rely on.
func TestNames_OfReplacedOperator(t *testing.T) {
	for got, want := range map[string]string{
		EventRestricted: "RemediationRestricted", EventDetected: "DetectedUnhealthy", EventNoController: "SkippedNoController",
		EventDeleted: "MachineDeleted", EventDeletionFailed: "MachineDeletionFailed", EventAnnotationAdded: "ExternalAnnotationAdded",
		EventAnnotationFailed:       "ExternalAnnotationFailed",
		paused.ClusterAPIAnnotation: "cluster.x-k8s.io/paused", plan.StrategyAnnotation: "machine.openshift.io/remediation-strategy",
		plan.ExternalAnnotation: "host.metal3.io/external-remediation", plan.BareMetalStrategy: "external-baremetal",
		plan.SkipAnnotation: "drover.dev/skip-remediation", plan.ClusterAPISkipAnnotation: "cluster.x-k8s.io/skip-remediation",
		plan.ReasonTooMany: "TooManyUnhealthy", plan.ReasonNoTemplate: "ExternalRemediationTemplateNotFound",
		plan.ReasonNoRequest: "ExternalRemediationRequestCreationFailed",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
