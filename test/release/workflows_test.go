package release

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is one of GitHub's, with all that is used here. A field that is not here is an error: it may be a misspelt one.
type workflow struct {
	Name        string            `json:"name"`
	On          map[string]any    `json:"on"`
	Permissions map[string]string `json:"permissions"`
	Concurrency map[string]any    `json:"concurrency"`
	Defaults    map[string]any    `json:"defaults"`
	Jobs        map[string]job    `json:"jobs"`
}

type job struct {
	Needs          []string          `json:"needs"`
	RunsOn         string            `json:"runs-on"`
	TimeoutMinutes int               `json:"timeout-minutes"`
	Environment    string            `json:"environment"`
	Permissions    map[string]string `json:"permissions"`
	Strategy       strategy          `json:"strategy"`
	Env            map[string]string `json:"env"`
	Steps          []step            `json:"steps"`
}

// strategy runs a job once for each value of the matrix.
type strategy struct {
	FailFast bool                `json:"fail-fast"`
	Matrix   map[string][]string `json:"matrix"`
}

type step struct {
	ID   string            `json:"id"`
	Name string            `json:"name"`
	Uses string            `json:"uses"`
	With map[string]any    `json:"with"`
	Run  string            `json:"run"`
	Env  map[string]string `json:"env"`
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parseWorkflow reads a workflow.
func parseWorkflow(t *testing.T, name, text string) workflow {
	t.Helper()
	var w workflow
	// "on" is a boolean to some readers of YAML.
	if err := yaml.UnmarshalStrict([]byte(strings.Replace("\n"+text, "\non:", "\n\"on\":", 1)), &w); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return w
}

// workflows reads all, by file.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, ".github/workflows"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]workflow{}
	for _, entry := range entries {
		all[entry.Name()] = parseWorkflow(t, entry.Name(), readFile(t, ".github/workflows/"+entry.Name()))
	}
	want := []string{"ci.yml", "nightly.yml", "release.yml", "scorecard.yml", "vulnerabilities.yml"}
	if !slices.Equal(slices.Sorted(maps.Keys(all)), want) {
		t.Fatalf("the workflows are %v, want %v", slices.Sorted(maps.Keys(all)), want)
	}
	return all
}

func TestWorkflows_CallWhatIsThere(t *testing.T) {
	targets := regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(readFile(t, "Makefile"), -1)
	known := func(target string) bool {
		return slices.ContainsFunc(targets, func(match []string) bool { return match[1] == target })
	}
	call, script := regexp.MustCompile(`\bmake ([a-z-]+)`), regexp.MustCompile(`\bhack/[a-z-]+\.sh`)
	called := map[string][]string{}
	for name, w := range workflows(t) {
		for _, j := range w.Jobs {
			for _, s := range j.Steps {
				for _, match := range call.FindAllStringSubmatch(s.Run, -1) {
					called[name] = append(called[name], match[1])
					if !known(match[1]) {
						t.Errorf("%s calls make %s, which the Makefile does not have", name, match[1])
					}
				}
				for _, path := range script.FindAllString(s.Run, -1) {
					called[name] = append(called[name], path)
					if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode()&0o111 == 0 {
						t.Errorf("%s calls %s, which cannot be run: %v", name, path, err)
					}
				}
			}
		}
	}
	for name, wanted := range map[string][]string{
		"ci.yml":              {"verify", "test", "images", "chart", "bundle", "plugin"},
		"nightly.yml":         {"test-all"},
		"release.yml":         {"verify", "test-all", "vulncheck", "hack/release.sh", "hack/publish.sh"},
		"vulnerabilities.yml": {"vulncheck"},
	} {
		for _, target := range wanted {
			if !slices.Contains(called[name], target) {
				t.Errorf("%s does not call %s; it calls %v", name, target, called[name])
			}
		}
	}
}

// TestWorkflows_PinsSayTheirVersion: without the comment behind a pin a reader does not see whether it is an old one, and Dependabot leaves it.
func TestWorkflows_PinsSayTheirVersion(t *testing.T) {
	pins := map[string]string{}
	for name := range workflows(t) {
		for line := range strings.SplitSeq(readFile(t, ".github/workflows/"+name), "\n") {
			if !strings.Contains(line, "uses:") {
				continue
			}
			match := regexp.MustCompile(`uses: ([^@ ]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)$`).FindStringSubmatch(line)
			if match == nil {
				t.Errorf("%s: %s", name, line)
				continue
			}
			if pin := pins[match[1]]; pin != "" && pin != match[2] {
				t.Errorf("%s: %s is pinned as %s, and elsewhere as %s", name, match[1], match[2], pin)
			}
			pins[match[1]] = match[2]
		}
	}
}

// TestWorkflows_Release: what is published was built by a job that may not publish, after all tests, from a tag.
func TestWorkflows_Release(t *testing.T) {
	w := workflows(t)["release.yml"]
	if push, ok := w.On["push"].(map[string]any); !ok || len(w.On) != 1 || len(push) != 1 || push["tags"] == nil {
		t.Errorf("it begins on %v, want a tag and nothing else", w.On)
	}
	for id, needs := range map[string][]string{"test": nil, "build": nil, "publish": {"test", "build"}, "release": {"publish"}} {
		if j, ok := w.Jobs[id]; !ok || !slices.Equal(j.Needs, needs) {
			t.Errorf("job %s: there: %t, it needs %v, want %v", id, ok, j.Needs, needs)
		}
	}
	if len(w.Jobs) != 4 {
		t.Errorf("there are %d jobs, this test knows 4", len(w.Jobs))
	}
	provenance := 0
	for _, s := range w.Jobs["publish"].Steps {
		if !strings.HasPrefix(s.Uses, "actions/attest-build-provenance@") {
			continue
		}
		provenance++
		image := s.With["subject-digest"] == "${{ steps.publish.outputs.digest }}" && s.With["push-to-registry"] == true
		if files := s.With["subject-checksums"] == "dist/release/SHA256SUMS"; image == files {
			t.Errorf("provenance of %v: want that of the image by its digest, or that of the files", s.With)
		}
	}
	if provenance != 2 {
		t.Errorf("%d steps attest provenance, want one for the image and one for the files", provenance)
	}
	if w.Jobs["publish"].Environment == "" {
		t.Error("publish belongs to no environment, so that no approval can be required")
	}
	for _, s := range w.Jobs["release"].Steps {
		if strings.HasPrefix(s.Uses, "actions/checkout@") || strings.Contains(s.Run, "hack/") {
			t.Errorf("the job that may write to the repository runs code of it: %s%s", s.Uses, s.Run)
		}
	}
}
