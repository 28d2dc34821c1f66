package install

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
)

// kubectl runs kubectl as the administrator; it must succeed.
func kubectl(t testing.TB, input io.Reader, args ...string) string {
	t.Helper()
	output, err := harness.Kubectl(t.Context(), env, input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// TestPlainYAML_Installs: what hack/chart.sh writes is what config/ has, is accepted, and goes again as it says itself.
func TestPlainYAML_Installs(t *testing.T) {
	script, err := harness.Folder("hack/chart.sh")
	if err != nil {
		t.Fatal(err)
	}
	dist := t.TempDir()
	run := exec.CommandContext(t.Context(), script)
	run.Env = append(os.Environ(), "DIST="+dist, "VERSION=v1.2.3")
	if output, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if _, err := os.Stat(filepath.Join(dist, "drover-1.2.3.tgz")); err != nil {
		t.Error(err)
	}
	file := filepath.Join(dist, "install-kubernetes.yaml")
	for name, folder := range map[string]string{"install.yaml": "config/default", "install-kubernetes.yaml": "config/kubernetes"} {
		text, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Fatal(err)
		}
		const image = "ghcr.io/drover-io/drover:"
		if !strings.Contains(string(text), image+"v1.2.3") {
			t.Errorf("%s does not name the image of its version", name)
		}
		helm.Parse(t, strings.ReplaceAll(string(text), image+"v1.2.3", image+"latest")).Equal(t, helm.Kustomize(t, env, folder), configKey)
	}

	// For real, and back. The namespace refuses Pods that are not restricted.
	w := harness.NewWorld(t, env)
	w.Site().AddNodes(2)
	if output := kubectl(t, nil, "apply", "-f", file); strings.Contains(output, "Warning") {
		t.Error(output)
	}
	running(w, 2)
	kubectl(t, nil, "delete", "-f", file, "-l", "app.kubernetes.io/name=drover", "--timeout=90s")
	if output := kubectl(t, nil, "get", "-f", file, "--ignore-not-found", "-o", "name"); len(strings.Fields(output)) != len(crds)-gateCRDs+2 {
		t.Errorf("the CRDs and two namespaces were to be left, not\n%s", output)
	}
	if err := clear(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestKustomize_OverlaysAccepted(t *testing.T) {
	w := harness.NewWorld(t, env)
	restrictedNamespace(w)
	for _, name := range []string{machines, leases} {
		kubectl(t, nil, "create", "--save-config", "namespace", name)
	}
	for _, name := range []string{"metadata", "node-groups", "maintenance", "machines", "autoscaling", "upgrade"} {
		folder, err := harness.Folder("config/overlays/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if output := kubectl(t, nil, "apply", "-k", folder, "--dry-run=server"); strings.Contains(output, "Warning") {
			t.Errorf("%s: %s", name, output)
		}
	}
	if err := clear(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestExamples_ClusterAutoscalerAccepted: the manifests of docs/autoscaling.md, whose Pod meets the restricted Pod Security Standard.
func TestExamples_ClusterAutoscalerAccepted(t *testing.T) {
	harness.NewWorld(t, env)
	kubectl(t, nil, "create", "namespace", machines)
	kubectl(t, nil, "label", "namespace", machines, "pod-security.kubernetes.io/warn=restricted")
	folder, err := harness.Folder("examples/cluster-autoscaler")
	if err != nil {
		t.Fatal(err)
	}
	if output := kubectl(t, nil, "apply", "-f", folder, "--dry-run=server"); strings.Contains(output, "Warning") {
		t.Error(output)
	}
	if err := clear(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The namespaces of machines and of leases.
const (
	machines = "openshift-machine-api"
	leases   = "medik8s-leases"
)
