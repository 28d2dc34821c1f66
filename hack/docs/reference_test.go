package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/drover-io/drover/app"
	"github.com/drover-io/drover/internal/cli"
)

// reference makes one page.
func reference(t *testing.T, name string) string {
	t.Helper()
	all, err := references(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	text, found := all["reference/"+name]
	if !found {
		t.Fatalf("there is no %s", name)
	}
	return text
}

func TestEveryFlagOfTheOperatorIsDescribed(t *testing.T) {
	drover, configuration := reference(t, "drover.md"), reference(t, "configuration.md")
	app.NewCommand().Flags().VisitAll(func(flag *pflag.Flag) {
		if !strings.Contains(drover, "--"+flag.Name+" ") && !strings.Contains(drover, "--"+flag.Name+"`") {
			t.Errorf("drover.md does not have --%s", flag.Name)
		}
		if flag.Name == "config" || flag.Name == "kubeconfig" {
			return
		}
		if !strings.Contains(configuration, "`--"+flag.Name+"`") {
			t.Errorf("configuration.md does not say which field --%s overrides", flag.Name)
		}
	})
}

func TestConfigurationHasTypeDefaultAndMeaning(t *testing.T) {
	text := reference(t, "configuration.md")
	for _, line := range []string{
		"| `controllers` | list of strings | `[\\\"*\\\"]` | `--controllers` | ",
		"| `metadata.writesPerSecond` | number | `100` | `--metadata-writes-per-second` | ",
		"| `leaderElection.leaseDuration` | duration | `15s` | `--leader-elect-lease-duration` | ",
		"| `metadata.protected.labels` | list of strings |  |  | ",
		"\n## webhook\n\nWebhook configures the admission webhook. ",
	} {
		if line = strings.ReplaceAll(line, `\"`, `"`); !strings.Contains(text, line) {
			t.Errorf("there is no %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "| ? |") {
		t.Error("a field has an unknown type")
	}
}

func TestEveryCommandOfThePluginIsDescribed(t *testing.T) {
	text := reference(t, "kubectl-drover.md")
	for _, command := range commandsOf(cli.Command()) {
		if !strings.Contains(text, "\n## "+command.CommandPath()+"\n") {
			t.Errorf("%s has no section", command.CommandPath())
		}
	}
	for _, want := range []string{"\n## kubectl drover maintenance start\n", "\n## kubectl drover completion kubectl\n", "`--context string`"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" && strings.Contains(text, home) {
		t.Errorf("the page names %s, which is another one elsewhere", home)
	}
}

func TestManuals(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	folder := t.TempDir()
	if err := writeManuals(folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "kubectl-drover-maintenance-start.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Jan 1970"`, "NAME", "SYNOPSIS", "deadline"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if err := writeManuals(folder); err == nil {
		t.Error("manuals without a date")
	}
}
