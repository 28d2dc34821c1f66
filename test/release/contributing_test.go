package release

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repositoryPath is a file or folder of the repository in CONTRIBUTING.md: `internal/drain/options.go`.
var repositoryPath = regexp.MustCompile(
	"`((?:api|app|cmd|internal|provider|config|charts|docs|hack|monitoring|test)/[A-Za-z0-9_./-]+|\\.golangci\\.yml)`",
)

// contributingSection returns the text of CONTRIBUTING.md below a heading of the second level.
func contributingSection(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(readFile(t, "CONTRIBUTING.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("CONTRIBUTING.md has no section %q", heading)
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	return section
}

// goFilesWith returns the files below folder, without tests and generated ones, whose text has a pattern.
func goFilesWith(t *testing.T, pattern *regexp.Regexp, folders ...string) []string {
	t.Helper()
	var files []string
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			name := entry.Name()
			if err != nil || entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_") {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err == nil && pattern.MatchString(readFile(t, relative)) {
				files = append(files, relative)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no file below %q has %s", folders, pattern)
	}
	return files
}

func TestContributing_NamesFilesThatExist(t *testing.T) {
	for _, heading := range []string{"Add a condition", "Add a command", "Add an option of drains", "Add a capability"} {
		paths := repositoryPath.FindAllStringSubmatch(contributingSection(t, heading), -1)
		if len(paths) < 5 {
			t.Errorf("%s: it names %d files", heading, len(paths))
		}
		for _, path := range paths {
			if strings.Contains(path[1], "NAME") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, path[1])); err != nil {
				t.Errorf("%s: %v", heading, err)
			}
		}
	}
}

// TestContributing_NamesEveryFileOfTheTask: what exists of each task today is in the files that the section names.
func TestContributing_NamesEveryFileOfTheTask(t *testing.T) {
	for heading, files := range map[string][]string{
		"Add a condition": goFilesWith(t, regexp.MustCompile(`(?m)^\t// Reason\w+ \([A-Z]\w+(=\w+)?\): `), "internal"),
		"Add a command":   goFilesWith(t, regexp.MustCompile(`(?m)^func newRootCommand\(`), "internal"),
		// An option that goes all the way stands for all of them.
		"Add an option of drains": goFilesWith(t, regexp.MustCompile(`\bWaitForVolumes\b`), "api", "internal"),
	} {
		section := contributingSection(t, heading)
		for _, file := range files {
			if !strings.Contains(section, "`"+file+"`") {
				t.Errorf("%s: it does not name %s", heading, file)
			}
		}
	}
}

// TestContributing_ShowsWhatNodeEventsConcern: the table has each controller that watches Nodes, with a function that it has.
func TestContributing_ShowsWhatNodeEventsConcern(t *testing.T) {
	_, table, _ := strings.Cut(contributingSection(t, "Find the code"), "### Find what an event puts into the queue\n")
	var shown, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(internal/[a-z/]+)` \\| (?:`([A-Za-z]+)`)? *\\|").FindAllStringSubmatch(table, -1) {
		shown = append(shown, row[1])
		if row[2] != "" && !strings.Contains(readFile(t, row[1]+"/watches.go"), ") "+row[2]+"(") {
			t.Errorf("%s/watches.go has no function %s", row[1], row[2])
		}
	}
	for _, file := range goFilesWith(t, regexp.MustCompile(`(?m)cache, &corev1\.Node\{\}, `), "internal") {
		want = append(want, filepath.Dir(file))
	}
	slices.Sort(shown)
	slices.Sort(want)
	if !slices.Equal(shown, want) {
		t.Errorf("CONTRIBUTING.md shows the controllers %q, %q watch Nodes", shown, want)
	}
}

// TestContributing_ShowsEveryPackage: the tree has a line for each folder of internal, and none for another one.
func TestContributing_ShowsEveryPackage(t *testing.T) {
	_, tree, _ := strings.Cut(contributingSection(t, "Find the code"), "    internal/\n")
	tree, _, _ = strings.Cut(tree, "\n    provider/")
	var shown, want []string
	for _, match := range regexp.MustCompile(`(?m)^      ([a-z]+)/ `).FindAllStringSubmatch(tree, -1) {
		shown = append(shown, match[1])
	}
	entries, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			want = append(want, entry.Name())
		}
	}
	slices.Sort(shown)
	if !slices.Equal(shown, want) {
		t.Errorf("CONTRIBUTING.md shows the packages %q of internal, there are %q", shown, want)
	}
}
