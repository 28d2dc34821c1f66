package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/nodegroup/policy"
	"github.com/drover-io/drover/test/harness"
)

// TestUninstall_Documented: docs/install.md names what an uninstall leaves, and its command removes all CRDs except the CRDs of the Machine API.
func TestUninstall_Documented(t *testing.T) {
	path, err := harness.Folder("docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(text), "    kubectl delete --ignore-not-found ")
	command, rest, _ := strings.Cut(command, "\n\n")
	for _, name := range []string{"namespace/drover-system", "namespace/medik8s-leases"} {
		if !strings.Contains(command, name) {
			t.Errorf("the command does not remove %s", name)
		}
	}
	for _, folder := range []string{"nodegroup", "nodemaintenance", "mutex"} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "..", "config", "crd", folder, "*_*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no CRDs of %s: %v", folder, err)
		}
		for _, file := range files {
			group, plural, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
			if !strings.Contains(command, "crd/"+plural+"."+group) {
				t.Errorf("the command does not remove the CRD %s.%s", plural, group)
			}
		}
	}
	for _, name := range []string{metadata.ConfigMapName, policy.ConfigMapName, "ControllerRevisions", "Secret `drover-webhook`", "lease `drover`"} {
		if !strings.Contains(rest, name) {
			t.Errorf("the table does not name %s", name)
		}
	}
}
