package install

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
)

// TestPermissions_Documented: the tables in docs/security/permissions.md say what the roles say, for each capability.
func TestPermissions_Documented(t *testing.T) {
	path, err := harness.Folder("docs/security/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	documented := tables(t, string(text))
	granted := map[string]map[string]bool{}
	installed := helm.Kustomize(t, env, "config/kubernetes")
	maps.Copy(installed, helm.Kustomize(t, env, "config/default"))
	for key, object := range installed {
		capability := object.GetLabels()["drover.dev/capability"]
		if capability == "" {
			continue
		}
		if granted[capability] == nil {
			granted[capability] = map[string]bool{}
		}
		where := object.GetNamespace()
		if where == "" {
			where = "cluster"
		}
		for grant := range (helm.Objects{key: object}).Grants(t, object.GetNamespace()) {
			granted[capability][where+": "+grant] = true
		}
	}
	if len(granted) < 6 {
		t.Fatalf("there are roles of %v only", slices.Collect(maps.Keys(granted)))
	}
	for _, capability := range slices.Sorted(maps.Keys(granted)) {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(granted[capability])), slices.Sorted(maps.Keys(documented[capability]))); diff != "" {
			t.Errorf("docs/security/permissions.md, %s (- the roles, + the document): %s", capability, diff)
		}
	}
}

// tables reads the tables below the headings of capabilities. A row without a reason belongs to the one above it.
func tables(t *testing.T, text string) map[string]map[string]bool {
	t.Helper()
	documented, capability, reason := map[string]map[string]bool{}, "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if heading, found := strings.CutPrefix(line, "#"); found {
			capability, reason = strings.TrimSpace(strings.TrimLeft(heading, "#")), ""
			documented[capability] = map[string]bool{}
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 || !strings.HasPrefix(line, "| ") || strings.TrimSpace(cells[0]) == "where" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[3] != "" {
			reason = cells[3]
		}
		if reason == "" {
			t.Errorf("%s: no reason", line)
		}
		for verb := range strings.SplitSeq(cells[2], ",") {
			documented[capability][cells[0]+": "+strings.TrimSpace(verb)+" "+cells[1]] = true
		}
	}
	return documented
}

// TestInstallGuide_AdvisesNothingThatLeavesAHole: no command or value in docs/install.md turns off what keeps tenants and kubelets out, or names an
// image that another user can replace.
func TestInstallGuide_AdvisesNothingThatLeavesAHole(t *testing.T) {
	path, err := harness.Folder("docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	holes := regexp.MustCompile(`(?i)admissionPolicies\.enabled=false|networkPolicy\.enabled=false|webhook\.enabled=false|failurePolicy|insecure|` +
		`cluster-admin|system:masters|pod-security\.kubernetes\.io/enforce[=:] ?(privileged|baseline)|image\.tag|newTag|drover:v?[0-9]|:latest|` +
		`controlPlaneGuard=Off|enforce-|--disable-admission|delete validating`)
	commands := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "    ") {
			continue
		}
		commands++
		if hole := holes.FindString(line); hole != "" {
			t.Errorf("%q is advised: %s", hole, strings.TrimSpace(line))
		}
	}
	if commands < 20 {
		t.Errorf("only %d lines are commands", commands)
	}
	// A bundle cannot bring them: they are applied before Drover is.
	_, olm, _ := strings.Cut(string(text), "\n## Operator Lifecycle Manager\n")
	before, _, _ := strings.Cut(olm, "kind: Subscription")
	for _, file := range []string{
		"config/rbac/admission.yaml", "config/maintenance/admission.yaml", "config/manager/network_policy.yaml", "config/manager/namespace.yaml",
	} {
		if !strings.Contains(before, file) {
			t.Errorf("%s is not applied before the Subscription", file)
		}
	}
}
