package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// program is a module with a program that needs nothing.
func program(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module example.com/hello\n\ngo 1.26.0\n", "cmd/hello/main.go": "package main\n\nfunc main() { println(\"hello\") }\n",
	} {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// built builds the program and returns its layout.
func built(t *testing.T, module string) string {
	t.Helper()
	layout := filepath.Join(t.TempDir(), "layout")
	err := run(t.Context(), []string{
		"build", "--module", module, "--package", "./cmd/hello", "--layout", layout, "--sbom-dir", layout + "-sbom",
		"--version", "v1.2.3", "--commit", "abc", "--created", "1700000000",
	})
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

func digestOf(t *testing.T, layout string) string {
	t.Helper()
	index, err := read(layout)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestAnImageForTwoPlatforms(t *testing.T) {
	module := program(t)
	first := built(t, module)
	if second := built(t, module); digestOf(t, first) != digestOf(t, second) {
		t.Errorf("two builds have the digests %s and %s", digestOf(t, first), digestOf(t, second))
	}
	index, err := read(first)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, entry := range manifest.Manifests {
		platforms = append(platforms, entry.Platform.String())
		image, err := index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != nonRoot || config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" || len(config.Config.Entrypoint) != 1 {
			t.Errorf("%s: the configuration is %+v", entry.Platform, config.Config)
		}
	}
	if strings.Join(platforms, " ") != "linux/amd64 linux/arm64" {
		t.Errorf("it is for %v", platforms)
	}
	lists, err := filepath.Glob(first + "-sbom/*.spdx.json")
	if err != nil || len(lists) == 0 {
		t.Errorf("there are no lists of what went into it: %v", err)
	}
	if err := run(t.Context(), []string{"build", "--module", module, "--package", "./cmd/hello", "--layout", first}); err == nil {
		t.Error("a layout that is there was written over")
	}
}

func TestPush(t *testing.T) {
	layout := built(t, program(t))
	plain := registry.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "robot" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		plain.ServeHTTP(w, r)
	}))
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/drover-io/drover"
	push := []string{"push", "--layout", layout, "--to", to, "--tag", "v1.2.3"}
	t.Setenv(userEnv, "robot")
	if err := run(t.Context(), push); err == nil || !strings.Contains(err.Error(), tokenEnv) {
		t.Errorf("without %s the error is %v", tokenEnv, err)
	}
	t.Setenv(tokenEnv, "wrong")
	if err := run(t.Context(), push); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with a wrong token the error is %v", err)
	}
	t.Setenv(tokenEnv, "secret")
	if err := run(t.Context(), push); err != nil {
		t.Fatal(err)
	}
	open := httptest.NewServer(plain)
	defer open.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(open.URL, "http://") + "/drover-io/drover:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := pushed.Digest(); err != nil || digest.String() != digestOf(t, layout) {
		t.Errorf("the registry has %s, the layout %s: %v", digest, digestOf(t, layout), err)
	}
}

func TestArchives(t *testing.T) {
	layout, out := built(t, program(t)), filepath.Join(t.TempDir(), "image.tar")
	if err := run(t.Context(), []string{"archive", "--layout", layout, "--out", out, "--ref", "example.com/hello:1"}); err != nil {
		t.Fatal(err)
	}
	if config := configOf(t, out, "example.com/hello:1"); config.Architecture != runtime.GOARCH {
		t.Errorf("the image is for %s", config.Architecture)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for range 2 {
		packed := filepath.Join(t.TempDir(), "packed.tar")
		err := run(t.Context(), []string{
			"pack", "--out", packed, "--ref", "example.com/packed:1", "--entrypoint", "/bin/sleep,1", "--file", "/bin/busybox=" + self,
			"--link", "/bin/sleep=/bin/busybox",
		})
		if err != nil {
			t.Fatal(err)
		}
		config := configOf(t, packed, "example.com/packed:1")
		if strings.Join(config.Config.Entrypoint, " ") != "/bin/sleep 1" || config.Config.User != nonRoot {
			t.Errorf("the configuration is %+v", config.Config)
		}
		text, err := os.ReadFile(filepath.Clean(packed))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if texts[0] != texts[1] {
		t.Error("the same files give two archives")
	}
}

func configOf(t *testing.T, archive, ref string) *v1.ConfigFile {
	t.Helper()
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for _, c := range []struct{ args, text string }{
		{"", "build, pack"},
		{"bake", "build, pack"},
		{"build", "--package and --layout"},
		{"push --layout nowhere --to example.com/x --tag 1", "no OCI layout in nowhere"},
		{"pack --out x --ref y --entrypoint z --file nothing", "not KEY=VALUE"},
		{"digest --layout x y", "takes no arguments"},
	} {
		if err := run(t.Context(), strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("images %s: the error is %v, want one with %q", c.args, err, c.text)
		}
	}
}
