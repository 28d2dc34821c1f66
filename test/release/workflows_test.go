package release

import (
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
	RunsOn         string            `json:"runs-on"`
	TimeoutMinutes int               `json:"timeout-minutes"`
	Permissions    map[string]string `json:"permissions"`
	Env            map[string]string `json:"env"`
	Steps          []step            `json:"steps"`
}

type step struct {
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

// workflows reads all, by file.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	all := map[string]workflow{}
	for _, name := range []string{"ci.yml", "release.yml"} {
		// "on" is a boolean to some readers of YAML.
		text := strings.Replace(readFile(t, ".github/workflows/"+name), "\non:", "\n\"on\":", 1)
		var w workflow
		if err := yaml.UnmarshalStrict([]byte(text), &w); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = w
	}
	entries, err := os.ReadDir(filepath.Join(root, ".github/workflows"))
	if err != nil || len(entries) != len(all) {
		t.Fatalf("there are %d workflows, this test knows %d (%v)", len(entries), len(all), err)
	}
	return all
}

func TestWorkflowsCallWhatIsThere(t *testing.T) {
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
					if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode()&0o111 == 0 {
						t.Errorf("%s calls %s, which cannot be run: %v", name, path, err)
					}
				}
			}
		}
	}
	for name, wanted := range map[string][]string{
		"ci.yml": {"verify", "test", "test-node", "images", "chart", "bundle", "plugin"}, "release.yml": {"images", "chart", "bundle", "plugin", "push"},
	} {
		for _, target := range wanted {
			if !slices.Contains(called[name], target) {
				t.Errorf("%s does not call make %s; it calls %v", name, target, called[name])
			}
		}
	}
}

// An action that is named by a tag is whatever its owner makes of the tag tomorrow.
func TestWorkflowsArePinnedAndMayLittle(t *testing.T) {
	pinned := regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	for name, w := range workflows(t) {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s may %v; a job that needs more says so itself", name, w.Permissions)
		}
		for id, j := range w.Jobs {
			if j.TimeoutMinutes == 0 || strings.HasSuffix(j.RunsOn, "-latest") {
				t.Errorf("%s, %s: at most %d minutes on %s", name, id, j.TimeoutMinutes, j.RunsOn)
			}
			for permission, access := range j.Permissions {
				if name != "release.yml" || access != "write" || !slices.Contains([]string{"contents", "packages"}, permission) {
					t.Errorf("%s, %s: may %s %s", name, id, access, permission)
				}
			}
			for _, s := range j.Steps {
				if s.Uses != "" && !pinned.MatchString(s.Uses) {
					t.Errorf("%s, %s: %s is not pinned to a commit", name, id, s.Uses)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s, %s: the token stays on the disk", name, id)
				}
				// What a pull request is called must not become a command.
				if strings.Contains(s.Run, "${{") {
					t.Errorf("%s, %s: an expression in a script: %s", name, id, s.Run)
				}
				if name == "release.yml" && strings.HasPrefix(s.Uses, "actions/cache@") {
					t.Errorf("%s, %s: takes something from a cache", name, id)
				}
			}
		}
		if _, target := w.On["pull_request_target"]; target {
			t.Errorf("%s runs others' code with our permissions", name)
		}
	}
}

// The comment behind a pin says which version it is; without it nobody can tell whether it is an old one.
func TestPinsSayTheirVersion(t *testing.T) {
	for name := range workflows(t) {
		for line := range strings.SplitSeq(readFile(t, ".github/workflows/"+name), "\n") {
			if strings.Contains(line, "uses:") && !regexp.MustCompile(`@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
