package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

const (
	manifestName = "krew-drover.yaml"
	krewAPI      = "krew.googlecontainertools.github.com/v1alpha2"
)

func (o options) sumsName() string { return fmt.Sprintf("kubectl-drover_%s_checksums.txt", o.version) }

// sums writes the sums as sha256sum does, which can check them.
func (o options) sums(archives []archive) error {
	var text strings.Builder
	for _, a := range archives {
		fmt.Fprintf(&text, "%s  %s\n", a.SHA256, a.Name)
	}
	//nolint:gosec // what is released is for everybody to read
	return os.WriteFile(filepath.Join(o.out, o.sumsName()), []byte(text.String()), 0o644)
}

// manifest fills in the template.
func (o options) manifest(archives []archive) error {
	form, err := template.ParseFiles(o.template)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	values := map[string]any{"Version": krewVersion(o.version), "URL": strings.TrimSuffix(o.url, "/"), "Archives": archives}
	if err := form.Option("missingkey=error").Execute(&text, values); err != nil {
		return err
	}
	//nolint:gosec // what is released is for everybody to read
	return os.WriteFile(filepath.Join(o.out, manifestName), text.Bytes(), 0o644)
}

// krewManifest is what krew reads. A field that is not here is an error: krew would not know it, either.
type krewManifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
	Files  []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

// check reads the manifest as krew does and each archive that it names, and compares.
func (o options) check(archives []archive) error {
	text, err := os.ReadFile(filepath.Join(o.out, manifestName))
	if err != nil {
		return err
	}
	var m krewManifest
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	if err := m.check(len(archives)); err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	for _, a := range archives {
		of := slices.IndexFunc(m.Spec.Platforms, func(p krewPlatform) bool {
			return p.Selector.MatchLabels["os"] == a.OS && p.Selector.MatchLabels["arch"] == a.Arch
		})
		if of < 0 {
			return fmt.Errorf("%s has no platform %s/%s", manifestName, a.OS, a.Arch)
		}
		if err := o.checkPlatform(m.Spec.Platforms[of], a); err != nil {
			return fmt.Errorf("%s/%s: %w", a.OS, a.Arch, err)
		}
	}
	return nil
}

// check looks at all but the platforms, of which there have to be so many.
func (m *krewManifest) check(platforms int) error {
	switch {
	case m.APIVersion != krewAPI || m.Kind != "Plugin" || m.Metadata.Name != "drover":
		return fmt.Errorf("it is of %s, kind %s, name %s", m.APIVersion, m.Kind, m.Metadata.Name)
	case !released.MatchString(m.Spec.Version):
		return fmt.Errorf("krew does not take the version %q", m.Spec.Version)
	case len(m.Spec.ShortDescription) == 0 || len(m.Spec.ShortDescription) > 50:
		return fmt.Errorf("the short description has %d letters, krew wants 1 to 50", len(m.Spec.ShortDescription))
	case len(m.Spec.Platforms) != platforms:
		return fmt.Errorf("it has %d platforms, there are %d archives", len(m.Spec.Platforms), platforms)
	}
	return nil
}

func (o options) checkPlatform(platform krewPlatform, a archive) error {
	name := platform.URI[strings.LastIndex(platform.URI, "/")+1:]
	if name != a.Name || !strings.HasPrefix(platform.URI, "https://") {
		return fmt.Errorf("the address is %s, the archive %s", platform.URI, a.Name)
	}
	path := filepath.Join(o.out, name)
	content, err := os.ReadFile(path) //nolint:gosec // it was written above
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != platform.SHA256 {
		return fmt.Errorf("the sum of %s is %x, the manifest says %s", name, sum, platform.SHA256)
	}
	files, err := read(path)
	if err != nil {
		return err
	}
	for _, file := range platform.Files {
		if len(files[file.From]) == 0 {
			return fmt.Errorf("%s has no %s", name, file.From)
		}
	}
	if platform.Bin != a.Binary {
		return fmt.Errorf("the program is called %s", platform.Bin)
	}
	return runsOn(files[a.Binary], a.OS, a.Arch)
}

// runsOn looks into a program for the platform that it is for.
func runsOn(program []byte, system, processor string) error {
	var have any
	reader := bytes.NewReader(program)
	switch system {
	case "linux":
		file, err := elf.NewFile(reader)
		if err != nil {
			return err
		}
		have = file.Machine
	case "darwin":
		file, err := macho.NewFile(reader)
		if err != nil {
			return err
		}
		have = file.Cpu
	case "windows":
		file, err := pe.NewFile(reader)
		if err != nil {
			return err
		}
		have = file.Machine
	}
	want := map[string]any{
		"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64, "darwin/amd64": macho.CpuAmd64, "darwin/arm64": macho.CpuArm64,
		"windows/amd64": uint16(pe.IMAGE_FILE_MACHINE_AMD64), "windows/arm64": uint16(pe.IMAGE_FILE_MACHINE_ARM64),
	}[system+"/"+processor]
	if want == nil || have != want {
		return fmt.Errorf("the program is for the processor %v, not %s", have, processor)
	}
	return nil
}
