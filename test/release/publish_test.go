package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/test/install/helm"
)

// stubTool is a tool as hack/publish.sh calls it: it writes down what it is asked for, and answers as the images tool about a layout.
const stubTool = `#!/usr/bin/env bash
set -euo pipefail
name="$(basename "$0")"
[[ "$name" != push.sh ]] || echo "push BUILT=${BUILT:-} IMG=${IMG:-}" >>calls
if [[ "$name ${1:-}" == "images digest" ]]; then
	printf 'sha256:%064d\n  linux/amd64 sha256:%064d\n  linux/arm64 sha256:%064d\n' 0 1 2
	exit
fi
[[ "$name" == push.sh ]] || echo "$name $*" >>calls
[[ "$*" != *"--password-stdin"* ]] || echo "password: $(cat)" >>calls
while (($# > 0)); do
	[[ "$1" != --bundle || -e "$2" ]] || echo signature >"$2"
	shift
done
`

const stubToolScript = "#!/usr/bin/env bash\necho \"$PWD/bin/$1\"\n"

// published is a checkout with what hack/release.sh leaves in dist.
func published(t *testing.T, image string) *checkout {
	t.Helper()
	c := &checkout{t, t.TempDir()}
	repository, digest, _ := strings.Cut(image, "@")
	yaml := "kind: Deployment\n        image: " + image + "\n"
	for name, content := range map[string]string{
		"hack/publish.sh": readFile(t, "hack/publish.sh"), "hack/pinned.sh": readFile(t, "hack/pinned.sh"),
		"hack/tool.sh": stubToolScript, "hack/push.sh": stubTool, "bin/images": stubTool, "bin/cosign": stubTool,
		"dist/install.yaml": yaml, "dist/install-kubernetes.yaml": yaml,
		"dist/bundle/manifests/drover.clusterserviceversion.yaml": "    containerImage: " + image + "\n  - image: " + image + "\n",
		"dist/images/sbom/drover-linux-amd64.spdx.json":           "{}", "dist/images/sbom/drover-linux-arm64.spdx.json": "{}",
		"dist/release/install.yaml": yaml,
		"dist/release/SHA256SUMS":   fmt.Sprintf("%x  install.yaml\n", sha256.Sum256([]byte(yaml))),
	} {
		c.write(name, content)
	}
	archive(t, filepath.Join(c.folder, "dist/drover-1.2.3.tgz"), map[string]string{
		"drover/Chart.yaml":  "annotations:\n  drover.dev/image-digest: " + digest + "\n",
		"drover/values.yaml": "image:\n  repository: " + repository + "\n",
	})
	return c
}

// archive writes an archive of texts.
func archive(t *testing.T, path string, files map[string]string) {
	t.Helper()
	buffer := &bytes.Buffer{}
	zipped := gzip.NewWriter(buffer)
	w := tar.NewWriter(zipped)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for _, closer := range []interface{ Close() error }{w, zipped} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, buffer.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// publish runs hack/publish.sh, and returns what it said.
func (c *checkout) publish() (string, error) {
	c.Helper()
	run := exec.CommandContext(c.Context(), filepath.Join(c.folder, "hack/publish.sh"))
	run.Env = append(os.Environ(), "VERSION=v1.2.3", "IMAGE_REPOSITORY=registry.example.com:5000/a/drover", "REGISTRY_USER=me", "REGISTRY_TOKEN=secret",
		"IDENTITY=https://example.com/release.yml@refs/tags/v1.2.3", "GITHUB_OUTPUT="+filepath.Join(c.folder, "output"))
	output, err := run.CombinedOutput()
	return string(output), err
}

// TestPublish_SignsWhatItPushes: the image by its digest, the contents of each platform's, and each file.
func TestPublish_SignsWhatItPushes(t *testing.T) {
	digest := func(n int) string { return fmt.Sprintf("registry.example.com:5000/a/drover@sha256:%064d", n) }
	c := published(t, digest(0))
	output, err := c.publish()
	if err != nil {
		t.Fatal(err, output)
	}
	const identity = "--certificate-identity https://example.com/release.yml@refs/tags/v1.2.3 " +
		"--certificate-oidc-issuer https://token.actions.githubusercontent.com"
	want := []string{
		"cosign login registry.example.com:5000 --username me --password-stdin", "password: secret",
		"push BUILT=y IMG=registry.example.com:5000/a/drover",
		"cosign sign --yes --recursive " + digest(0),
	}
	for i, platform := range []string{"amd64", "arm64"} {
		want = append(want,
			"cosign attest --yes --type spdxjson --predicate dist/images/sbom/drover-linux-"+platform+".spdx.json "+digest(i+1),
			"cosign verify-attestation --type spdxjson "+identity+" "+digest(i+1))
	}
	want = append(want, "cosign verify "+identity+" "+digest(0))
	for _, file := range []string{"SHA256SUMS", "install.yaml"} {
		file = "dist/release/" + file
		want = append(want, "cosign sign-blob --yes --bundle "+file+".sigstore.json "+file,
			"cosign verify-blob --bundle "+file+".sigstore.json "+identity+" "+file)
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(c.read("calls")), "\n")); diff != "" {
		t.Error(diff)
	}
	if got := c.read("output"); got != fmt.Sprintf("digest=sha256:%064d\n", 0) {
		t.Errorf("the workflow is given %q", got)
	}
	if strings.Contains(output, "secret") {
		t.Errorf("the token is printed:\n%s", output)
	}
}

// TestPublish_RefusesWhatIsNotPinned: nothing is pushed when a file has changed since, or names another image.
func TestPublish_RefusesWhatIsNotPinned(t *testing.T) {
	image := fmt.Sprintf("registry.example.com:5000/a/drover@sha256:%064d", 0)
	for name, c := range map[string]struct{ file, content, says string }{
		"a file that was changed":  {"dist/release/install.yaml", "image: evil\n", "WARNING: 1 computed checksum did NOT match"},
		"an image by its tag":      {"dist/install.yaml", "image: registry.example.com:5000/a/drover:v1.2.3\n", "pinned: dist/install.yaml names"},
		"one image more":           {"dist/install-kubernetes.yaml", "- image: " + image + "\n- image: evil\n", "dist/install-kubernetes.yaml names"},
		"no image in the bundle":   {"dist/bundle/manifests/drover.clusterserviceversion.yaml", "kind: x\n", "and should name only"},
		"a chart without a digest": {"dist/drover-1.2.3.tgz", "", "pinned: dist/drover-1.2.3.tgz does not name"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := published(t, image)
			if c.content == "" {
				archive(t, filepath.Join(tree.folder, c.file), map[string]string{"drover/Chart.yaml": "", "drover/values.yaml": ""})
			} else {
				tree.write(c.file, c.content)
			}
			output, err := tree.publish()
			if err == nil || !strings.Contains(output, c.says) {
				t.Errorf("%v, want it to fail with %q:\n%s", err, c.says, output)
			}
			if calls := tree.read("calls"); calls != "" {
				t.Errorf("it has already done\n%s", calls)
			}
		})
	}
}

// TestRelease_NeedsAVersion: what is no release is not built as one.
func TestRelease_NeedsAVersion(t *testing.T) {
	for _, version := range []string{"", "main", "v1.2", "v1.2.3;id", "v1.2.3 "} {
		c := &checkout{t, t.TempDir()}
		c.write("hack/release.sh", readFile(t, "hack/release.sh"))
		run := exec.CommandContext(t.Context(), filepath.Join(c.folder, "hack/release.sh"))
		run.Env = append(os.Environ(), "VERSION="+version)
		if output, err := run.CombinedOutput(); err == nil || !strings.Contains(string(output), "is no release") {
			t.Errorf("VERSION=%q: %v\n%s", version, err, output)
		}
	}
}

// TestRelease_NamesItsImageByDigest: chart, plain YAML and bundle, and only where there is a digest. Users with an image of their own give its tag.
func TestRelease_NamesItsImageByDigest(t *testing.T) {
	const repository = "registry.example.com:5000/a/drover"
	image := repository + "@sha256:" + strings.Repeat("5", 64)
	dist := t.TempDir()
	run := func(script string, env ...string) (string, error) {
		path, err := filepath.Abs(filepath.Join(root, script))
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), path, dist, image)
		command.Env = append(os.Environ(), append(env, "DIST="+dist, "VERSION=v1.2.3", "IMAGE_REPOSITORY="+repository)...)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	digest := "IMAGE_DIGEST=" + strings.TrimPrefix(image, repository+"@")
	for _, script := range []string{"hack/chart.sh", "hack/bundle.sh"} {
		if output, err := run(script, digest); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, output)
		}
	}
	if output, err := run("hack/pinned.sh"); err != nil {
		t.Error(err, output)
	}
	h := helm.New(t, nil)
	h.Chart = filepath.Join(dist, "drover-1.2.3.tgz")
	for set, want := range map[string]string{
		"": image, "image.tag=mine": repository + ":mine", "image.repository=mirror.example.com/drover": "mirror.example.com/drover@" + digest[13:],
		"image.digest=sha256:" + strings.Repeat("6", 64): repository + "@sha256:" + strings.Repeat("6", 64),
	} {
		var args []string
		if set != "" {
			args = []string{"--set", set}
		}
		deployment := h.Template(args...)["Deployment drover-system/drover"].Object
		if text := fmt.Sprint(deployment); !strings.Contains(text, "image:"+want+" ") {
			t.Errorf("with %q it is not %s:\n%s", set, want, text)
		}
	}

	if output, err := run("hack/chart.sh"); err != nil {
		t.Fatal(err, output)
	}
	if output, err := run("hack/pinned.sh"); err == nil || !strings.Contains(output, repository+":v1.2.3") {
		t.Errorf("without a digest: %v\n%s", err, output)
	}
	if output, err := run("hack/chart.sh", "IMAGE_DIGEST=sha256:1|e id"); err == nil || !strings.Contains(output, "is no digest") {
		t.Errorf("with what is no digest: %v\n%s", err, output)
	}
}
