package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// link is a Markdown link to something that is not a web page.
var link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)]*))?\)`)

// markdownPages returns the paths of all pages in docs and in the root.
func markdownPages(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 50 {
		t.Fatalf("there are %d pages", len(pages))
	}
	return pages
}

// TestLinks: each link between pages leads to a file and, if it names one, to a heading; and some page leads to each page.
func TestLinks(t *testing.T) {
	all, linked := markdownPages(t), map[string]bool{}
	for _, page := range all {
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := page
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(page), match[1])
				linked[target] = true
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: a link to %s leads nowhere", page, match[1])
				continue
			}
			if anchor := match[2]; anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading #%s, only %q", page, target, anchor, anchors(read(t, target)))
			}
		}
	}
	for _, page := range all {
		// Alerts lead to the runbooks.
		if !linked[page] && strings.Contains(page, "docs/") && !strings.Contains(page, "/runbooks/") {
			t.Errorf("no page leads to %s", page)
		}
	}
}

// anchors returns the names under which GitHub finds the headings of a page.
func anchors(text string) []string {
	var all []string
	drop := regexp.MustCompile(`[^a-z0-9 _-]`)
	for line := range strings.SplitSeq(text, "\n") {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			all = append(all, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-"))
		}
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
