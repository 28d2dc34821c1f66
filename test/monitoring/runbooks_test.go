package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-io/drover/internal/cli"
)

// readFile reads a file of the repository.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRunbooks_OnePerAlert(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "docs/runbooks"))
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, entry := range entries {
		have = append(have, entry.Name())
	}
	for _, alert := range alerts(t) {
		want = append(want, alert.Alert+".md")
	}
	slices.Sort(want)
	for _, name := range want {
		if !slices.Contains(have, name) {
			t.Errorf("docs/runbooks/%s is missing", name)
		}
	}
	for _, name := range have {
		if !slices.Contains(want, name) {
			t.Errorf("docs/runbooks/%s is of no alert", name)
		}
	}
}

func TestRunbooks_Sections(t *testing.T) {
	parts := []string{"Meaning", "Impact", "Diagnosis", "Mitigation", "Escalation"}
	for _, alert := range alerts(t) {
		text := readFile(t, "docs/runbooks/"+alert.Alert+".md")
		if !strings.HasPrefix(text, "# "+alert.Alert+"\n") {
			t.Errorf("%s: the title is another", alert.Alert)
		}
		var found []string
		for _, section := range strings.Split(text, "\n## ")[1:] {
			title, body, _ := strings.Cut(section, "\n")
			found = append(found, title)
			if strings.TrimSpace(body) == "" {
				t.Errorf("%s: %q is empty", alert.Alert, title)
			}
			if title == "Diagnosis" && !strings.Contains(body, "\n    kubectl ") {
				t.Errorf("%s: there is no command", alert.Alert)
			}
		}
		if !slices.Equal(found, parts) {
			t.Errorf("%s has the parts %q, want %q", alert.Alert, found, parts)
		}
	}
}

// Drover emits every event that a runbook looks for.
func TestRunbooks_EventsExist(t *testing.T) {
	known := readFile(t, "docs/events.md")
	field := regexp.MustCompile(`--field-selector reason=(\w+)`)
	for _, alert := range alerts(t) {
		for _, match := range field.FindAllStringSubmatch(readFile(t, "docs/runbooks/"+alert.Alert+".md"), -1) {
			if !strings.Contains(known, "| `"+match[1]+"` |") {
				t.Errorf("%s looks for events %s, which docs/events.md does not have", alert.Alert, match[1])
			}
		}
	}
}

// The plugin accepts every call that a page shows.
func TestOperationsPages_CommandsExist(t *testing.T) {
	pages, found := []string{"docs/operations.md"}, 0
	for _, alert := range alerts(t) {
		pages = append(pages, "docs/runbooks/"+alert.Alert+".md")
	}
	call := regexp.MustCompile("kubectl drover ([^`|>;,()\n]+)")
	for _, page := range pages {
		for _, match := range call.FindAllStringSubmatch(readFile(t, page), -1) {
			root := cli.Command()
			command, rest, err := root.Find(strings.Fields(match[1]))
			if err != nil || command == root {
				t.Errorf("%s: there is no %q: %v", page, match[0], err)
				continue
			}
			found++
			for _, word := range rest {
				name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
				long, short := strings.HasPrefix(word, "--"), strings.HasPrefix(word, "-") && len(name) == 1
				if long && command.Flag(name) == nil || short && command.Flags().ShorthandLookup(name) == nil &&
					command.InheritedFlags().ShorthandLookup(name) == nil {
					t.Errorf("%s: %s has no %s", page, command.CommandPath(), word)
				}
			}
		}
	}
	if found == 0 {
		t.Error("the pages do not call the plugin at all")
	}
}
