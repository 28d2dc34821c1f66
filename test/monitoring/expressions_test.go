package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// expression is PromQL, with where it stands.
type expression struct{ where, query string }

// expressions returns the expressions of all alerts and dashboards, with Grafana's variables filled in.
func expressions(t *testing.T) []expression {
	t.Helper()
	var all []expression
	for _, alert := range alerts(t) {
		all = append(all, expression{alert.Alert, alert.Expr})
	}
	return append(all, dashboardExpressions(t)...)
}

// selector is what an expression asks Prometheus for.
type selector struct {
	metric   string
	matchers map[string]matcher
}

type matcher struct{ operator, value string }

// mark is a label that promtool adds to every selector, so that they are found by Prometheus' own parser.
const mark = "__drover_test__"

var (
	selectorPattern = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[^{}"]|"(?:[^"\\]|\\.)*")*)\}`)
	matcherPattern  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"`)
)

// selectors lists what each expression selects.
func selectors(t *testing.T, all []expression) map[expression][]selector {
	t.Helper()
	found := map[expression][]selector{}
	for _, e := range all {
		output, err := promtool(t, "--experimental", "promql", "label-matchers", "set", e.query, mark, "yes")
		if err != nil {
			t.Errorf("%s: %v\n%s\n%s", e.where, err, e.query, output)
			continue
		}
		for _, match := range selectorPattern.FindAllStringSubmatch(output, -1) {
			s := selector{metric: match[1], matchers: map[string]matcher{}}
			for _, m := range matcherPattern.FindAllStringSubmatch(match[2], -1) {
				s.matchers[m[1]] = matcher{m[2], m[3]}
			}
			if _, marked := s.matchers[mark]; !marked {
				t.Errorf("%s: %s is no selector", e.where, match[0])
			}
			delete(s.matchers, mark)
			found[e] = append(found[e], s)
		}
		if marks := strings.Count(output, mark); marks != len(found[e]) || marks == 0 {
			t.Errorf("%s: promtool finds %d selectors, this test %d, in %s", e.where, marks, len(found[e]), output)
		}
	}
	return found
}

var by = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)

// groupings returns the label lists of an expression's grouping and matching clauses.
func groupings(query string) [][]string {
	var all [][]string
	for _, match := range by.FindAllStringSubmatch(query, -1) {
		all = append(all, strings.FieldsFunc(match[1], func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }))
	}
	return all
}

// elsewhere are metrics that are not Drover's, with their labels: of Prometheus itself, and one of kube-state-metrics without which the
// alert works, too.
var elsewhere = map[string][]string{
	"up":                                 nil,
	"ALERTS":                             {"alertname", "alertstate"},
	"kube_pod_container_resource_limits": {"container", "resource"},
}

// ofTarget are the labels that Prometheus gives to everything it scrapes, and le, which histograms have.
var ofTarget = []string{"job", "cluster", "namespace", "exported_namespace", "pod", "instance", "le"}

// labelsOf returns the labels of a metric; a histogram is asked for by the names of its parts.
func labelsOf(metric string, known map[string][]string) ([]string, bool) {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		name, has := strings.CutSuffix(metric, suffix)
		for _, from := range []map[string][]string{known, elsewhere} {
			if labels, found := from[name]; has && found {
				return labels, true
			}
		}
	}
	return nil, false
}

func TestExpressions_UseExistingMetricsAndLabels(t *testing.T) {
	known, fixed := exposed(t), values()
	for e, asked := range selectors(t, expressions(t)) {
		labels := slices.Clone(ofTarget)
		for _, s := range asked {
			of, found := labelsOf(s.metric, known)
			if !found {
				t.Errorf("%s asks for %s, which the operator does not expose", e.where, s.metric)
				continue
			}
			labels = append(labels, of...)
			for label, m := range s.matchers {
				if !slices.Contains(of, label) && !slices.Contains(ofTarget, label) {
					t.Errorf("%s asks for %s with a label %s; it has %v", e.where, s.metric, label, of)
				}
				checkValue(t, e, s.metric, label, m, fixed)
			}
		}
		for _, grouping := range groupings(e.query) {
			for _, label := range grouping {
				if !slices.Contains(labels, label) {
					t.Errorf("%s groups by %s, which none of its metrics has", e.where, label)
				}
			}
		}
	}
}

// What libraries expose may change with them: it is on a list that live/ compares with a running operator.
func TestExpressions_LibraryMetricsListed(t *testing.T) {
	var listed struct {
		Served map[string][]string `json:"served"`
		Later  map[string]string   `json:"later"`
	}
	read(t, "test/monitoring/standard.yaml", &listed)
	asked := map[string]bool{}
	for e, all := range selectors(t, expressions(t)) {
		for _, s := range all {
			if _, other := elsewhere[s.metric]; other || isOwn(s.metric) {
				continue
			}
			asked[s.metric] = true
			labels, served := listed.Served[s.metric]
			for label := range s.matchers {
				if served && !slices.Contains(labels, label) && !slices.Contains(ofTarget, label) {
					t.Errorf("%s asks for %s with %s, which standard.yaml does not say", e.where, s.metric, label)
				}
			}
			if later := listed.Later[s.metric]; served == (later != "") {
				t.Errorf("%s asks for %s; in standard.yaml it is served: %t, served later: %q", e.where, s.metric, served, later)
			}
		}
	}
	for metric := range listed.Served {
		if !asked[metric] {
			t.Errorf("standard.yaml has %s, which nothing asks for", metric)
		}
	}
}

// isOwn reports whether a metric is Drover's.
func isOwn(metric string) bool {
	return slices.ContainsFunc([]string{"drover_", "mapi_", "mnmo_"}, func(prefix string) bool { return strings.HasPrefix(metric, prefix) })
}

// checkValue fails when a matcher asks for a value that the label never has.
func checkValue(t *testing.T, e expression, metric, label string, m matcher, fixed map[[2]string][]string) {
	t.Helper()
	allowed, known := fixed[[2]string{metric, label}]
	if !known {
		return
	}
	for word := range strings.SplitSeq(m.value, "|") {
		if !slices.Contains(allowed, word) {
			t.Errorf("%s asks for %s with %s %q; it is one of %q", e.where, metric, label, word, allowed)
		}
	}
}

// Without the job, the same metric of another program would be taken for Drover's.
func TestAlerts_SelectOnlyDrover(t *testing.T) {
	var all []expression
	for _, alert := range alerts(t) {
		all = append(all, expression{alert.Alert, alert.Expr})
	}
	for e, asked := range selectors(t, all) {
		for _, s := range asked {
			if _, other := elsewhere[s.metric]; other && s.metric != "up" {
				continue
			}
			if want := (matcher{"=", "drover-metrics"}); s.matchers["job"] != want {
				t.Errorf("%s asks for %s of the job %v", e.where, s.metric, s.matchers["job"])
			}
		}
	}
}

// Each metric that is documented stands in a dashboard, or is named as not shown, with the reason.
func TestDashboards_ShowEveryMetric(t *testing.T) {
	var notShown map[string]string
	read(t, "test/monitoring/not-shown.yaml", &notShown)
	shown := map[string]bool{}
	for _, asked := range selectors(t, dashboardExpressions(t)) {
		for _, s := range asked {
			shown[s.metric] = true
		}
	}
	for name := range exposed(t) {
		if !isOwn(name) {
			continue
		}
		here := shown[name] || shown[name+"_bucket"] || shown[name+"_sum"] || shown[name+"_count"]
		reason, listed := notShown[name]
		if here == listed || listed && reason == "" {
			t.Errorf("%s: in a dashboard: %t, in not-shown.yaml: %t (%q)", name, here, listed, reason)
		}
		delete(notShown, name)
	}
	if len(notShown) > 0 {
		t.Errorf("not-shown.yaml names metrics that do not exist: %v", notShown)
	}
}

// promtool has a linter for rules alone, so the expressions of the dashboards are given to it as rules.
func TestDashboards_PromtoolAccepts(t *testing.T) {
	var rules []rule
	names := map[string]string{}
	for i, e := range dashboardExpressions(t) {
		name := "panel:" + strings.Repeat("i", i+1)
		names[name] = e.where
		rules = append(rules, rule{Record: name, Expr: e.query})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := promtool(t, "check", "rules", file); err != nil {
		t.Errorf("%v\n%s\nwhere %v", err, output, names)
	}
}
