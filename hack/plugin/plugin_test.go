package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// smallProgram builds a program for this platform that does nothing. The test's own is a hundred times its size, and is packed many times.
var smallProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "drover-plugin-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "program"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building a program: %w\n%s", err, output)
	}
	return os.ReadFile(filepath.Join(dir, "program"))
})

// staged has a small program as the plugin of some platforms.
func staged(t *testing.T, platforms ...string) options {
	t.Helper()
	program, err := smallProgram()
	if err != nil {
		t.Fatal(err)
	}
	o := options{
		stage: t.TempDir(), out: t.TempDir(), version: "v1.2.3", url: "https://example.com/v1.2.3/", license: filepath.Join("..", "..", "LICENSE"),
		template: filepath.Join("..", "..", "plugin", "krew", "drover.yaml"), epoch: 1700000000, platforms: platforms,
	}
	put(t, filepath.Join(o.stage, "kubectl_complete-drover"), []byte("#!/bin/sh\n"))
	for _, platform := range platforms {
		name := "kubectl-drover"
		if strings.HasPrefix(platform, "windows/") {
			name += ".exe"
		}
		put(t, filepath.Join(o.stage, strings.ReplaceAll(platform, "/", "_"), name), program)
	}
	return o
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// here is the platform of this test.
const here = runtime.GOOS + "/" + runtime.GOARCH

// archiveHere is the name of its archive.
const archiveHere = "kubectl-drover_v1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"

func TestWhatIsPackedIsChecked(t *testing.T) {
	o := staged(t, here)
	if err := o.run(); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(o.out, "kubectl-drover_v1.2.3_checksums.txt"))
	if err != nil || !strings.HasSuffix(string(sums), "  "+archiveHere+"\n") {
		t.Errorf("%q, %v", sums, err)
	}
	manifest := filepath.Join(o.out, manifestName)
	right, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	packed := []archive{{OS: runtime.GOOS, Arch: runtime.GOARCH, Name: archiveHere, Binary: "kubectl-drover"}}
	for why, wrong := range map[string]string{
		"no such field":     strings.Replace(string(right), "homepage:", "website:", 1),
		"another version":   strings.Replace(string(right), "version: v1.2.3", "version: 1.2.3", 1),
		"a text too long":   strings.Replace(string(right), "shortDescription: ", "shortDescription: "+strings.Repeat("x", 50), 1),
		"another sum":       strings.Replace(string(right), "sha256: ", "sha256: 00", 1),
		"another archive":   strings.Replace(string(right), "uri: https://example.com/v1.2.3/", "uri: https://example.com/v1.2.3/x", 1),
		"another platform":  strings.Replace(string(right), "os: "+runtime.GOOS, "os: plan9", 1),
		"another program":   strings.Replace(string(right), "bin: kubectl-drover", "bin: drover", 1),
		"a file that isn't": strings.Replace(string(right), "from: LICENSE", "from: NOTICE", 1),
	} {
		if wrong == string(right) {
			t.Fatalf("%s: the manifest is the same", why)
		}
		put(t, manifest, []byte(wrong))
		if err := o.check(packed); err == nil {
			t.Errorf("%s: nothing is said of it", why)
		}
	}
	put(t, manifest, right)
	if err := o.check(packed); err != nil {
		t.Errorf("the right one: %v", err)
	}
	put(t, filepath.Join(o.out, archiveHere), []byte("something else"))
	if err := o.check(packed); err == nil {
		t.Error("another archive: nothing is said of it")
	}
}

func TestAProgramForAnotherPlatformIsNotPacked(t *testing.T) {
	for _, platform := range []string{"linux/arm64", "linux/amd64", "darwin/arm64", "windows/amd64"} {
		if platform == here {
			continue
		}
		if err := staged(t, platform).run(); err == nil {
			t.Errorf("a program for %s went into the archive for %s", here, platform)
		}
	}
	for _, platforms := range [][]string{nil, {"linux"}, {here, "linux"}} {
		if err := staged(t, platforms...).run(); err == nil {
			t.Errorf("%v: no error", platforms)
		}
	}
}

func TestArchivesAreTheSameEachTime(t *testing.T) {
	for _, platform := range []string{"linux/amd64", "windows/arm64"} {
		o := staged(t, platform)
		first, err := o.pack(platform)
		if err != nil {
			t.Fatal(err)
		}
		second, err := o.pack(platform)
		if err != nil || first != second {
			t.Errorf("%s: %+v, then %+v, %v", platform, first, second, err)
		}
		files, err := read(filepath.Join(o.out, first.Name))
		if err != nil || len(files[first.Binary]) == 0 || !strings.Contains(string(files["LICENSE"]), "Apache License") {
			t.Errorf("%s: %d files in it, %v", platform, len(files), err)
		}
		if _, script := files["kubectl_complete-drover"]; script == strings.HasPrefix(platform, "windows/") {
			t.Errorf("%s: the program for kubectl's completion is in it: %t", platform, script)
		}
	}
}

func TestKrewVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "abc1234-dirty": "v0.0.0-abc1234-dirty", "v1.2": "v0.0.0-v1.2", "a/b": "v0.0.0-a-b",
		"v1.2.3-4-gabc1234": "v1.2.3-4-gabc1234",
	} {
		if got := krewVersion(version); got != want || !released.MatchString(got) {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
