package monitoring

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestAlerts_PromtoolAccepts(t *testing.T) {
	if output, err := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(root, "monitoring/alerts.yaml")); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, output)
	}
}

// unitTests are the files of promtool's unit tests.
func unitTests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("alerts/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no unit tests in alerts/: %v", err)
	}
	return files
}

func TestAlerts_RuleTests(t *testing.T) {
	if output, err := promtool(t, append([]string{"test", "rules"}, unitTests(t)...)...); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, output)
	}
}

// unitTest is one of promtool's, as far as it is looked at here.
type unitTest struct {
	Name        string `json:"name"`
	Expressions []struct {
		Expr    string `json:"expr"`
		Samples []any  `json:"exp_samples"`
	} `json:"promql_expr_test"`
}

func TestAlerts_TestedFiringAndSilent(t *testing.T) {
	type seen struct{ fires, silent bool }
	tested := map[string]seen{}
	name := regexp.MustCompile(`^ALERTS\{alertname="(\w+)",alertstate="firing"\}$`)
	for _, file := range unitTests(t) {
		var content struct {
			Tests []unitTest `json:"tests"`
		}
		text := readFile(t, filepath.Join("test/monitoring", file))
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range content.Tests {
			for _, expression := range test.Expressions {
				match := name.FindStringSubmatch(expression.Expr)
				if match == nil || !strings.HasPrefix(test.Name, match[1]+" ") {
					t.Errorf("%s: the test %q asks for %s", file, test.Name, expression.Expr)
					continue
				}
				so := tested[match[1]]
				so.fires, so.silent = so.fires || len(expression.Samples) > 0, so.silent || len(expression.Samples) == 0
				tested[match[1]] = so
			}
		}
	}
	for _, alert := range alerts(t) {
		if so := tested[alert.Alert]; !so.fires || !so.silent {
			t.Errorf("%s: tested to fire: %t, tested to be silent: %t", alert.Alert, so.fires, so.silent)
		}
		delete(tested, alert.Alert)
	}
	if len(tested) > 0 {
		t.Errorf("tests of alerts that do not exist: %v", tested)
	}
}

func TestAlerts_Annotations(t *testing.T) {
	var names []string
	for _, alert := range alerts(t) {
		names = append(names, alert.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, alert.Labels["severity"]) {
			t.Errorf("%s: severity %q", alert.Alert, alert.Labels["severity"])
		}
		if want := runbookBase + alert.Alert + ".md"; alert.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", alert.Alert, alert.Annotations["runbook_url"], want)
		}
		for _, annotation := range []string{"summary", "description"} {
			if text := alert.Annotations[annotation]; !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %s is %q, no sentence", alert.Alert, annotation, text)
			}
		}
		if strings.Contains(alert.Annotations["summary"], "{{") {
			t.Errorf("%s: a summary is the same for all; what is different belongs into the description", alert.Alert)
		}
	}
	slices.Sort(names)
	if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
		t.Errorf("a name stands twice in %v", names)
	}
}

// Prometheus calls the namespace of an object exported_namespace, unless its configuration has honorLabels. An alert has to work with both.
func TestAlerts_NamespaceOfObjects(t *testing.T) {
	for _, alert := range alerts(t) {
		for _, by := range groupings(alert.Expr) {
			if slices.Contains(by, "exported_namespace") && !slices.Contains(by, "namespace") {
				t.Errorf("%s groups by %v: with honorLabels there is no exported_namespace", alert.Alert, by)
			}
		}
		text := alert.Annotations["description"]
		if strings.Contains(text, "$labels.namespace") && !strings.Contains(text, "or $labels.exported_namespace $labels.namespace") {
			t.Errorf("%s: the namespace of the object may be in exported_namespace: %s", alert.Alert, text)
		}
	}
}
