package release

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// pack runs hack/plugin.sh for this machine's platform and returns the folder that it wrote.
func pack(t *testing.T, version string) string {
	t.Helper()
	out := t.TempDir()
	command := exec.Command("hack/plugin.sh")
	command.Dir = root
	command.Env = append(os.Environ(), "PLUGIN_PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH, "PLUGIN_OUT="+out, "VERSION="+version,
		"COMMIT=0123456789abcdef", "SOURCE_DATE_EPOCH=1700000000")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("hack/plugin.sh: %v\n%s", err, output)
	}
	return out
}

// contents are the files below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // the test's own folder
		name, _ := filepath.Rel(folder, path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPlugin_Reproducible(t *testing.T) {
	harness.TestAllOnly(t, "it builds the plugin twice, with goreleaser")
	const version = "v1.2.3-rc.1"
	archive := "kubectl-drover_" + version + "_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	out := pack(t, version)
	first, second := contents(t, out), contents(t, pack(t, version))
	for name, text := range first {
		if second[name] != text {
			t.Errorf("two runs write another %s", name)
		}
	}
	if len(first) != len(second) {
		t.Errorf("two runs write %d and %d files", len(first), len(second))
	}
	// The sums are such that the usual tool takes them.
	check := exec.Command("sha256sum", "--check", "--strict", "kubectl-drover_"+version+"_checksums.txt")
	check.Dir = out
	if output, err := check.CombinedOutput(); err != nil || !strings.Contains(string(output), archive+": OK") {
		t.Errorf("sha256sum: %v\n%s", err, output)
	}
	for _, want := range []string{
		"version: " + version + "\n", "uri: https://github.com/drover-io/drover/releases/download/" + version + "/" + archive + "\n",
	} {
		if !strings.Contains(first["krew-drover.yaml"], want) {
			t.Errorf("krew's manifest has no %q:\n%s", want, first["krew-drover.yaml"])
		}
	}
	sum, _, _ := strings.Cut(first["kubectl-drover_"+version+"_checksums.txt"], " ")
	if len(sum) != 64 || !strings.Contains(first["krew-drover.yaml"], "sha256: "+sum+"\n") {
		t.Errorf("krew's manifest does not have the checksum %q:\n%s", sum, first["krew-drover.yaml"])
	}
	if !strings.Contains(first["man/kubectl-drover-plan.1"], `"Nov 2023" "Drover `) {
		t.Errorf("the manual pages are %v", slices.Sorted(maps.Keys(first)))
	}
	unpacked := unpack(t, filepath.Join(out, archive))
	// Without a cluster a warning goes to standard error.
	if output, err := exec.Command(filepath.Join(unpacked, "kubectl-drover"), "version").Output(); err != nil ||
		!strings.HasPrefix(string(output), "kubectl-drover "+version+" (commit 0123456789abcdef,") {
		t.Errorf("the program says %s, %v", output, err)
	}
	if license, err := os.ReadFile(filepath.Join(unpacked, "LICENSE")); err != nil || string(license) != readFile(t, "LICENSE") {
		t.Errorf("the licence is not in the archive: %v", err)
	}
	t.Run("completion", func(t *testing.T) { completes(t, unpacked) })
}

func unpack(t *testing.T, archive string) string {
	t.Helper()
	folder := t.TempDir()
	if output, err := exec.Command("tar", "-xzf", archive, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, output)
	}
	return folder
}

// completes asks kubectl itself, as a shell does when a user presses the tabulator, with the unpacked archive on the PATH.
func completes(t *testing.T, unpacked string) {
	t.Helper()
	pool := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: cluster.MachineNamespace}}
	env, err := cluster.Start(t.Context(), cluster.Options{UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := harness.NewWorld(t, env)
	if err := w.Client.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Client.Delete(context.WithoutCancel(t.Context()), pool); err != nil {
			t.Error(err)
		}
	})
	kubectl, err := cluster.KubectlCommand()
	if err != nil {
		t.Fatal(err)
	}
	// The sandbox has kubectl in it; the script of the archive looks for one on the PATH.
	wrapper := "#!/bin/sh\nexec '" + strings.Join(kubectl, "' '") + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(unpacked, "kubectl"), []byte(wrapper), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"ma"}, "maintenance"},
		{[]string{"maintenance", "s"}, "start"},
		{[]string{"plan", "w"}, "workers"},
		{[]string{"status", "--out"}, "--output"},
	} {
		command := exec.Command(filepath.Join(unpacked, "kubectl"), append([]string{"__complete", "drover"}, c.words...)...)
		command.Env = append(os.Environ(), "KUBECONFIG="+env.AdminKubeconfig(), "PATH="+unpacked+string(os.PathListSeparator)+os.Getenv("PATH"))
		output, err := command.Output()
		offered := slices.ContainsFunc(strings.Split(string(output), "\n"), func(line string) bool {
			word, _, _ := strings.Cut(line, "\t")
			return word == c.want
		})
		if err != nil || !offered {
			t.Errorf("kubectl drover %s<TAB> offers %q, want %s among it (%v)", strings.Join(c.words, " "), output, c.want, err)
		}
	}
}
