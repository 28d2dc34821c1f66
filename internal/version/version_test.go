package version

import (
	"regexp"
	"runtime"
	"testing"
)

func TestVersionOfABuildFromAWorkingTree(t *testing.T) {
	if Version() != "devel" || Commit() == "" {
		t.Errorf("version %q, commit %q", Version(), Commit())
	}
	want := `^drover devel \(commit \S+, ` + regexp.QuoteMeta(runtime.Version()) + `, \w+/\w+\)$`
	if line := String("drover"); !regexp.MustCompile(want).MatchString(line) {
		t.Errorf("%q does not match %s", line, want)
	}
}

func TestVersionOfARelease(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	version, commit = "v1.2.3", "0123abc"
	if Version() != "v1.2.3" || Commit() != "0123abc" {
		t.Errorf("version %q, commit %q", Version(), Commit())
	}
}
