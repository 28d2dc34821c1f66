package healthcheck

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// refusing is an indexer that takes no index.
type refusing struct{ err error }

func (r refusing) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return r.err
}

// The pages of docs/ are written from these lists: they must say what is really served.
func TestMetricsAreAsDocumented(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	// Series of a vector appear with their first use.
	key := types.NamespacedName{Namespace: "n", Name: "c"}
	m.observe(key, 1, true)
	m.wait(key, nil, map[string]int{reasonLease: 1})
	m.attempts.WithLabelValues(string(byDeletion), string(status.OK)).Inc()
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
	if len(served) != len(MetricDocs()) {
		t.Errorf("%d metrics are served, %d documented", len(served), len(MetricDocs()))
	}
	for _, doc := range MetricDocs() {
		if !strings.HasSuffix(doc.Help, ".") {
			t.Errorf("%s: the help is no sentence: %q", doc.Name, doc.Help)
		}
		doc.Labels = slices.Sorted(slices.Values(doc.Labels))
		if diff := cmp.Diff(doc, served[doc.Name], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("documented (-) and served (+):\n%s", diff)
		}
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the same names can be registered twice")
	}
	m.forget(key)
	if families, err = registry.Gather(); err != nil || len(families) != 2 {
		t.Errorf("of a MachineHealthCheck that is gone %d families are left, %v", len(families), err)
	}
}

// constants reads the values of the constants of a file whose names begin with one of some words. Reasons that are the API's own
// constants are not literals, and are added by the tests.
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

func TestEventsAreAsDocumented(t *testing.T) {
	var documented []string
	for _, doc := range EventDocs() {
		documented = append(documented, doc.Reason)
		if doc.Type != "Normal" && doc.Type != "Warning" || doc.On == "" || doc.When == "" {
			t.Errorf("incomplete: %+v", doc)
		}
	}
	slices.Sort(documented)
	if declared := constants(t, "events.go", "Event"); !slices.Equal(declared, documented) {
		t.Errorf("in the code %v\ndocumented  %v", declared, documented)
	}
	for reason, event := range eventsOfObstacles {
		if !slices.Contains(documented, event) || !slices.Contains(rankOfObstacles, reason) {
			t.Errorf("%s is told by %s", reason, event)
		}
	}
}

func TestConditionsAreAsDocumented(t *testing.T) {
	found := map[string]bool{}
	for _, doc := range ConditionDocs() {
		found[doc.Reason] = true
		if doc.Type == "" || doc.When == "" {
			t.Errorf("incomplete: %+v", doc)
		}
	}
	declared := append(constants(t, "conditions.go", "reason"), reasonTooMany, reasonNoTemplate, reasonNoRequest)
	slices.Sort(declared)
	if documented := slices.Sorted(maps.Keys(found)); !slices.Equal(declared, documented) {
		t.Errorf("in the code %v\ndocumented  %v", declared, documented)
	}
	for _, reason := range rankOfObstacles {
		if !found[reason] {
			t.Errorf("the obstacle %s is not documented", reason)
		}
	}
}

// The names that other programs look for (spec 13).
func TestNamesOfTheWire(t *testing.T) {
	for got, want := range map[string]string{
		EventRestricted: "RemediationRestricted", EventDetected: "DetectedUnhealthy", EventNoController: "SkippedNoController",
		EventDeleted: "MachineDeleted", EventDeletionFailed: "MachineDeletionFailed", EventAnnotationAdded: "ExternalAnnotationAdded",
		EventAnnotationFailed:       "ExternalAnnotationFailed",
		paused.ClusterAPIAnnotation: "cluster.x-k8s.io/paused", AnnotationStrategy: "machine.openshift.io/remediation-strategy",
		AnnotationExternal: "host.metal3.io/external-remediation", StrategyBareMetal: "external-baremetal",
		AnnotationSkip: "drover.dev/skip-remediation", AnnotationSkipUpstream: "cluster.x-k8s.io/skip-remediation",
		reasonTooMany: "TooManyUnhealthy", reasonNoTemplate: "ExternalRemediationTemplateNotFound",
		reasonNoRequest: "ExternalRemediationRequestCreationFailed",
		coveredDoc.Name: "mapi_machinehealthcheck_nodes_covered", remediatedDoc.Name: "mapi_machinehealthcheck_remediation_success_total",
		shortCircuitDoc.Name: "mapi_machinehealthcheck_short_circuit",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTextOfTheLimit(t *testing.T) {
	for want, value := range map[string]*intstr.IntOrString{
		"100%": nil, "40%": new(intstr.FromString("40%")), "4": new(intstr.FromInt32(4)), "nonsense": new(intstr.FromString("nonsense")),
	} {
		if got := textOfLimit(value); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestConditionsMoveOnlyWhenTheySaySomethingElse(t *testing.T) {
	const a, b = machinev1beta1.ConditionType("A"), machinev1beta1.ConditionType("B")
	warning := machinev1beta1.ConditionSeverityWarning
	list := setCondition(nil, b, met("", ""), start)
	list = setCondition(list, a, unmet(warning, "R", "m"), start.Add(1500*time.Millisecond))
	if len(list) != 2 || list[0].Type != a || list[0].LastTransitionTime != metav1.NewTime(start.Add(time.Second)) {
		t.Fatalf("%+v", list)
	}
	later := start.Add(time.Minute)
	for name, c := range map[string]struct {
		state state
		moves bool
	}{
		"the same":         {unmet(warning, "R", "m"), false},
		"another reason":   {unmet(warning, "S", "m"), true},
		"another message":  {unmet(warning, "R", "n"), true},
		"another severity": {unmet(machinev1beta1.ConditionSeverityInfo, "R", "m"), true},
		"another status":   {met("R", "m"), true},
	} {
		after := setCondition(slices.Clone(list), a, c.state, later)
		if moved := after[0].LastTransitionTime.Time.Equal(later); moved != c.moves || findState(after, a) != c.state {
			t.Errorf("%s: %+v", name, after)
		}
	}
	if list = setCondition(list, a, state{}, later); len(list) != 1 || findState(list, a) != (state{}) {
		t.Errorf("%+v", list)
	}
}
