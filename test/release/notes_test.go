package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notes runs the script on a changelog.
func notes(t *testing.T, changelog string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(filepath.Join(root, "hack/release-notes.sh"), args...)
	if changelog != "" {
		file := filepath.Join(t.TempDir(), "CHANGELOG.md")
		if err := os.WriteFile(file, []byte(changelog), 0o600); err != nil {
			t.Fatal(err)
		}
		command.Env = append(os.Environ(), "CHANGELOG="+file)
	}
	output, err := command.CombinedOutput()
	return string(output), err
}

const someChangelog = `# Changelog

## [Unreleased]

## [1.2.0] - 2026-02-03

Two words.

### Fixed

- One.

## [1.2.0-rc.1] - 2026-01-01

- Another.

[1.2.0]: https://example.com
`

func TestReleaseNotes_Extracted(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"v1.2.0"}, "Two words.\n\n### Fixed\n\n- One.\n"},
		{[]string{"1.2.0"}, "Two words.\n\n### Fixed\n\n- One.\n"},
		{[]string{"v1.2.0-rc.1"}, "- Another.\n"},
	} {
		if got, err := notes(t, someChangelog, c.args...); err != nil || got != c.want {
			t.Errorf("%v: %q, %v; want %q", c.args, got, err, c.want)
		}
	}
	for _, args := range [][]string{nil, {"v1.3.0"}, {"v1.2"}, {"v1x2x0"}} {
		if got, err := notes(t, someChangelog, args...); err == nil {
			t.Errorf("%v: %q, want an error: there are no notes", args, got)
		}
	}
}

// Every section can be released. Just after a release, the Unreleased section is empty.
func TestReleaseNotes_ChangelogReleasable(t *testing.T) {
	text := readFile(t, "CHANGELOG.md")
	sections := regexp.MustCompile(`(?m)^## \[([^\]]+)\]`).FindAllStringSubmatch(text, -1)
	if len(sections) == 0 || sections[0][1] != "Unreleased" {
		t.Fatalf("the first section of CHANGELOG.md is not [Unreleased]: %v", sections)
	}
	for i, section := range sections {
		got, err := notes(t, "", section[1])
		if err != nil && (i > 0 || len(sections) == 1) {
			t.Errorf("%s: %v\n%s", section[1], err, got)
		}
		if !strings.Contains(text, "\n["+section[1]+"]: https://") {
			t.Errorf("%s has no address at the end", section[1])
		}
	}
}
