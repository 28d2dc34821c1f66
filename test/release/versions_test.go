package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersions_Documented: docs/install.md lists each version of Kubernetes that there are requirements of. make test-all tests all of them.
func TestVersions_Documented(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "sandbox/versions/v*.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no requirements of versions: %v", err)
	}
	page := readFile(t, "docs/install.md")
	for _, file := range files {
		version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "v"), ".mod")
		if !strings.Contains(page, "| "+version+" |") {
			t.Errorf("docs/install.md does not say what was run on Kubernetes %s", version)
		}
	}
}

// TestBuild_OtherVersions builds two other versions of Kubernetes: each has its own folder and builds in the cache, and none takes the place of
// drover-sandbox.
func TestBuild_OtherVersions(t *testing.T) {
	c := newCheckout(t)
	c.write("release", "")
	c.write("sandbox/versions/cmd/drover-sandbox-kubernetes/main.go", "")
	c.start("", "sandbox").ends(0)
	for _, change := range []string{"first", "second", "third"} {
		for _, version := range []string{"1.2.1", "1.2.2"} {
			c.write("sandbox/versions/v"+version+".mod", change)
			c.write("sandbox/versions/v"+version+".sum", change)
			t.Setenv("K8S", version)
			c.start("", "kubernetes").ends(0)
			c.start("", "--check", "kubernetes").ends(0)
			folder := "bin/kubernetes/v" + version
			for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
				if c.read(folder+"/"+name) == "" {
					t.Errorf("%s has no %s", folder, name)
				}
			}
		}
	}
	for pattern, want := range map[string]int{"sandbox-kubernetes-v1.2.1-*": 2, "sandbox-kubernetes-v1.2.2-*": 2, "sandbox-[0-9a-f]*": 1} {
		files, err := filepath.Glob(filepath.Join(c.folder, "bin/cache/drover-"+pattern))
		if err != nil || len(files) != want {
			t.Errorf("%v in the cache, want %d: %v", files, want, err)
		}
	}
	c.start("", "--check", "sandbox").ends(0)
	t.Setenv("K8S", "1.2.3")
	unknown := c.start("", "kubernetes")
	unknown.ends(2)
	if want := "sandbox/versions has no v1.2.3.mod, only v1.2.1.mod v1.2.2.mod"; !strings.Contains(unknown.output.String(), want) {
		t.Errorf("it does not say %q: %q", want, unknown.output.String())
	}
	if err := os.RemoveAll(filepath.Join(c.folder, "bin/kubernetes")); err != nil {
		t.Fatal(err)
	}
	c.leavesNothing()
}
