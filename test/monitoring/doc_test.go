// Package monitoring holds the alerts, dashboards and runbooks to what the operator exposes. Prometheus' own promtool says whether they can
// be used; live/ in it compares with a running operator.
package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/test/harness"
)

// root is the repository, from here.
const root = "../.."

// runbookBase is where the alerts say that their runbooks are.
const runbookBase = "https://github.com/drover-io/drover/blob/main/docs/runbooks/"

// ruleFile is a file of Prometheus rules.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

// rule is one alert, or for promtool one recorded expression.
type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// alerts reads all alerts, in order.
func alerts(t *testing.T) []rule {
	t.Helper()
	var file ruleFile
	read(t, "monitoring/alerts.yaml", &file)
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("monitoring/alerts.yaml has no rules")
	}
	return all
}

// read decodes a YAML or JSON file of the repository; a field that is not known is an error.
func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// promtool runs Prometheus' tool and returns what it printed.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	harness.TestAllOnly(t, "promtool takes minutes to build")
	program, err := filepath.Abs(filepath.Join(root, "bin", "tools", "promtool"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("bin/tools/promtool is missing; make tools builds it: %v", err)
	}
	output, err := exec.Command(program, args...).CombinedOutput()
	return strings.TrimSpace(string(output)), err
}
