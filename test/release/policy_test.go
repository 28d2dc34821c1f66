package release

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// writers are the jobs that may write, and what. Everything else may only read.
var writers = map[string][]string{
	"release.yml/publish":     {"attestations", "id-token", "packages"},
	"release.yml/release":     {"contents"},
	"scorecard.yml/scorecard": {"id-token"},
}

var (
	pinned = regexp.MustCompile(`^((actions|github)/[a-z-]+(/[a-z-]+)?|ossf/scorecard-action)@[0-9a-f]{40}$`)
	// tests matches commands that run code of the repository, including code of unreviewed changes.
	tests = regexp.MustCompile(`\bmake\b|\bgo (test|run|generate|build)\b|\bhack/(release|test-node|verify|lint|build|images)\.sh`)
)

// violations are what a workflow does that none may do.
func violations(name string, w workflow) (found []string) {
	report := func(format string, args ...any) { found = append(found, name+": "+fmt.Sprintf(format, args...)) }
	if w.Permissions == nil || len(w.Permissions) > 0 {
		report("permissions are %v, want {}: each job says what it may", w.Permissions)
	}
	for _, trigger := range []string{"pull_request_target", "workflow_run", "issue_comment"} {
		if _, ok := w.On[trigger]; ok {
			report("%s runs with the rights of the repository what others wrote", trigger)
		}
	}
	for id, j := range w.Jobs {
		for _, text := range jobViolations(name+"/"+id, j) {
			report("%s: %s", id, text)
		}
	}
	slices.Sort(found)
	return found
}

func jobViolations(path string, j job) (found []string) {
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if j.TimeoutMinutes == 0 || j.TimeoutMinutes > 180 {
		report("timeout-minutes is %d", j.TimeoutMinutes)
	}
	if strings.HasSuffix(j.RunsOn, "-latest") || strings.Contains(j.RunsOn, "self-hosted") {
		report("it runs on %s", j.RunsOn)
	}
	if j.Permissions == nil {
		report("it has no permissions of its own")
	}
	writes := false
	for permission, access := range j.Permissions {
		switch {
		case access == "read" && permission == "contents":
		case access == "write" && slices.Contains(writers[path], permission):
			writes = true
		default:
			report("it may %s %s", access, permission)
		}
	}
	for _, s := range j.Steps {
		for _, text := range stepViolations(s) {
			report("%s", text)
		}
		if writes && tests.MatchString(s.Run) {
			report("it may write, and runs %s", s.Run)
		}
		if (writes || strings.HasPrefix(path, "release.yml/")) && takesCache(s) {
			report("it takes from a cache what a pull request could have put there")
		}
	}
	return found
}

func stepViolations(s step) (found []string) {
	if s.Uses != "" && !pinned.MatchString(s.Uses) {
		found = append(found, s.Uses+" is not pinned to a commit, or is not of actions, github or ossf")
	}
	if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
		found = append(found, "the token stays on the disk")
	}
	// What a branch or a pull request is called must not become a command. An environment variable does not become one.
	if strings.Contains(s.Run, "${{") {
		found = append(found, "an expression in a script: "+s.Run)
	}
	if regexp.MustCompile(`curl|wget|@latest`).MatchString(s.Run) {
		found = append(found, "it fetches what nothing pins: "+s.Run)
	}
	return found
}

func takesCache(s step) bool {
	return strings.HasPrefix(s.Uses, "actions/cache@") || strings.HasPrefix(s.Uses, "actions/setup-go@") && s.With["cache"] != false
}

func TestWorkflows_KeepThePolicy(t *testing.T) {
	for name, w := range workflows(t) {
		for _, text := range violations(name, w) {
			t.Error(text)
		}
	}
}

// TestPolicy_FindsViolations breaks the policy in every way that it knows.
func TestPolicy_FindsViolations(t *testing.T) {
	const commit = "@0123456789012345678901234567890123456789"
	const good = `
on: {push: {}}
permissions: {}
jobs:
  a:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {contents: read}
    steps:
    - uses: actions/checkout` + commit + `
      with: {persist-credentials: false}
    - run: make test
`
	if found := violations("a.yml", parseWorkflow(t, "a.yml", good)); len(found) > 0 {
		t.Fatalf("nothing is wrong, and it finds %v", found)
	}
	for name, c := range map[string]struct{ file, old, new, want string }{
		"no permissions at the top": {old: "\npermissions: {}\n", new: "\n", want: "permissions are map[], want {}: each job says what it may"},
		"permissions at the top": {
			old: "\npermissions: {}\n", new: "\npermissions: {contents: read}\n",
			want: "permissions are map[contents:read], want {}: each job says what it may",
		},
		"none of the job": {old: "    permissions: {contents: read}\n", want: "a: it has no permissions of its own"},
		"writes":          {old: "{contents: read}", new: "{contents: write}", want: "a: it may write contents"},
		"reads more":      {old: "{contents: read}", new: "{actions: read}", want: "a: it may read actions"},
		"code of others with our rights": {
			old: "{push: {}}", new: "{pull_request_target: {}}",
			want: "pull_request_target runs with the rights of the repository what others wrote",
		},
		"no timeout":     {old: "    timeout-minutes: 5\n", want: "a: timeout-minutes is 0"},
		"a moving image": {old: "ubuntu-24.04", new: "ubuntu-latest", want: "a: it runs on ubuntu-latest"},
		"a tag": {
			old: "checkout" + commit, new: "checkout@v5",
			want: "a: actions/checkout@v5 is not pinned to a commit, or is not of actions, github or ossf",
		},
		"an action of an unknown owner": {
			old: "actions/checkout", new: "some/checkout",
			want: "a: some/checkout" + commit + " is not pinned to a commit, or is not of actions, github or ossf",
		},
		"the token on the disk": {old: "persist-credentials: false", new: "fetch-depth: 0", want: "a: the token stays on the disk"},
		"a name that becomes a command": {
			old: "make test", new: "echo ${{ github.event.pull_request.title }}",
			want: "a: an expression in a script: echo ${{ github.event.pull_request.title }}",
		},
		"a script from elsewhere": {
			old: "make test", new: "curl https://example.com", want: "a: it fetches what nothing pins: curl https://example.com",
		},
		"a cache in a release": {
			file: "release.yml", old: "actions/checkout", new: "actions/setup-go",
			want: "a: it takes from a cache what a pull request could have put there",
		},
		"a write of another job": {file: "release.yml", old: "{contents: read}", new: "{packages: write}", want: "a: it may write packages"},
	} {
		t.Run(name, func(t *testing.T) {
			file := max(c.file, "a.yml")
			if !strings.Contains(good, c.old) {
				t.Fatalf("there is no %q", c.old)
			}
			found := violations(file, parseWorkflow(t, file, strings.Replace(good, c.old, c.new, 1)))
			if diff := cmp.Diff([]string{file + ": " + c.want}, found); diff != "" {
				t.Error(diff)
			}
		})
	}
	publishing := strings.NewReplacer("  a:", "  publish:", "{contents: read}", "{packages: write}").Replace(good)
	want := []string{"release.yml: publish: it may write, and runs make test"}
	if diff := cmp.Diff(want, violations("release.yml", parseWorkflow(t, "release.yml", publishing))); diff != "" {
		t.Error(diff)
	}
}

// TestDependabot_CoversEveryModule: a module that is missing there gets no updates.
func TestDependabot_CoversEveryModule(t *testing.T) {
	var d struct {
		Version int `json:"version"`
		Updates []struct {
			Ecosystem   string         `json:"package-ecosystem"`
			Directory   string         `json:"directory"`
			Directories []string       `json:"directories"`
			Schedule    map[string]any `json:"schedule"`
			Groups      map[string]any `json:"groups"`
		} `json:"updates"`
	}
	if err := yaml.UnmarshalStrict([]byte(readFile(t, ".github/dependabot.yml")), &d); err != nil {
		t.Fatal(err)
	}
	var patterns []string
	ecosystems := map[string]bool{}
	for _, u := range d.Updates {
		ecosystems[u.Ecosystem] = true
		if u.Schedule["interval"] == nil {
			t.Errorf("%s %v has no schedule", u.Ecosystem, u.Directories)
		}
		if u.Ecosystem == "gomod" {
			patterns = append(patterns, u.Directories...)
		}
	}
	if want := map[string]bool{"gomod": true, "github-actions": true}; !maps.Equal(ecosystems, want) {
		t.Errorf("it looks after %v, want %v", ecosystems, want)
	}
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod", "*/*/*/go.mod"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			folder, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			folder = strings.TrimSuffix("/"+folder, "/.")
			if !slices.ContainsFunc(patterns, func(pattern string) bool {
				matched, _ := filepath.Match(pattern, max(folder, "/"))
				return matched
			}) && !strings.HasPrefix(folder, "/bin") && folder != "/sandbox/versions" { // that stays at the versions which are tested
				t.Errorf("Dependabot does not update the modules of %s/go.mod", folder)
			}
		}
	}
}

// TestCodeowners_NamesWhatIsThere: a line about a path that is gone protects nothing.
func TestCodeowners_NamesWhatIsThere(t *testing.T) {
	for line := range strings.SplitSeq(readFile(t, ".github/CODEOWNERS"), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") || fields[0] == "*" {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, fields[0])); err != nil {
			t.Error(err)
		}
		if len(fields) < 2 {
			t.Errorf("%s has no owner", fields[0])
		}
	}
}

// TestSecurityPolicy_SaysWhatTheReleaseDoes: the commands to verify a release name what the workflow signs with.
func TestSecurityPolicy_SaysWhatTheReleaseDoes(t *testing.T) {
	text := readFile(t, "SECURITY.md")
	for _, want := range []string{
		".github/workflows/release.yml@refs/tags/", "https://token.actions.githubusercontent.com", "cosign verify ", "cosign verify-attestation ",
		"cosign verify-blob ", "gh attestation verify ", "SHA256SUMS", "## Supported versions", "## Report a vulnerability",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("SECURITY.md does not say %q", want)
		}
	}
}
