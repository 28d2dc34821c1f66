package attacks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository, from here.
const root = "../.."

// threats are the rows of the tables in docs/security/threats-*.md, as cells.
func threats(t *testing.T) (rows [][]string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs/security/threats-*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| attacker |") {
				continue
			}
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// testsOf are the tests of a package, by name.
func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				found[f.Name.Name] = true
			}
		}
	}
	return found
}

// TestThreats_NameEachAttack: the tables in docs/security/threats-*.md have a row for each attack here, and each row a test that there is.
func TestThreats_NameEachAttack(t *testing.T) {
	holds := regexp.MustCompile("`([a-z0-9/]+) (Test[A-Za-z0-9_]+)`")
	tests, named := map[string]map[string]bool{}, map[string]bool{}
	rows := threats(t)
	if len(rows) < 40 {
		t.Fatalf("docs/security has %d threats", len(rows))
	}
	for _, cells := range rows {
		row := strings.Join(cells, " | ")
		if len(cells) != 5 {
			t.Errorf("it has %d cells, want attacker, what they try, what stops them, what is left and the test: %s", len(cells), row)
			continue
		}
		matches := holds.FindAllStringSubmatch(cells[4], -1)
		if slices.Contains(cells[:3], "") || len(matches) == 0 {
			t.Errorf("it does not say who tries what, what stops them, or which test holds it: %s", row)
		}
		for _, match := range matches {
			folder, name := match[1], match[2]
			if tests[folder] == nil {
				tests[folder] = testsOf(t, folder)
			}
			if !tests[folder][name] {
				t.Errorf("there is no %s in %s: %s", name, folder, row)
			}
			named[folder+" "+name] = true
		}
	}
	for name := range testsOf(t, "test/attacks") {
		if !named["test/attacks "+name] && name != t.Name() {
			t.Errorf("no threat in docs/security names `test/attacks %s`: add a row", name)
		}
	}
}
