package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-io/drover/app"
	"github.com/drover-io/drover/internal/cli"
)

const droverIntro = `
Look up the flags of the operator here. A flag overrides the field of the [configuration file](configuration.md) that names it there.
`

const pluginIntro = `
Look up the commands of the kubectl plugin and their flags here. [kubectl-drover.md](../kubectl-drover.md) shows how to use them, and which
permissions each of them needs.
`

// references makes the pages about command lines and the configuration file. root is the root of the repository.
func references(root string) (map[string]string, error) {
	configuration, err := configurationPage(filepath.Join(root, "api", "config", "v1alpha1", "types.go"))
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"reference/configuration.md":  configuration,
		"reference/drover.md":         droverPage(app.NewCommand()),
		"reference/kubectl-drover.md": pluginPage(cli.Command()),
	}, nil
}

func droverPage(command *cobra.Command) string {
	p := newPage("drover", droverIntro)
	fmt.Fprintf(&p.text, "\n    %s\n    drover version\n\n", command.UseLine())
	p.table([]string{"flag", "default", "meaning"}, flagRows(command.Flags()))
	return p.text.String()
}

func pluginPage(root *cobra.Command) string {
	p := newPage("kubectl drover", pluginIntro)
	for _, command := range commandsOf(root) {
		// The display name has a blank in it; cobra gives it to the root alone.
		fmt.Fprintf(&p.text, "\n## %s\n\n", command.CommandPath())
		p.text.WriteString(paragraphs(command))
		if !command.Runnable() || command == root {
			continue
		}
		fmt.Fprintf(&p.text, "\n    %s\n", command.UseLine())
		if rows := flagRows(command.LocalNonPersistentFlags()); len(rows) > 0 {
			p.text.WriteString("\n")
			p.table([]string{"flag", "default", "meaning"}, rows)
		}
		if command.Example != "" {
			fmt.Fprintf(&p.text, "\nExamples:\n\n%s\n", indented(command.Example))
		}
	}
	p.text.WriteString("\n## Flags of all commands\n\n")
	p.table([]string{"flag", "default", "meaning"}, flagRows(root.PersistentFlags()))
	return p.text.String()
}

// commandsOf lists a command and all below it that are shown, in the order of help. Cobra's own completion scripts are left out: each says
// much about shells and nothing about Drover.
func commandsOf(command *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{command}
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() && !slices.Contains([]string{"help", "bash", "zsh", "fish", "powershell"}, child.Name()) {
			all = append(all, commandsOf(child)...)
		}
	}
	return all
}

// paragraphs is the long text of a command, else the short one. What is indented there is code here.
func paragraphs(command *cobra.Command) string {
	text := command.Long
	if text == "" {
		text = command.Short + "."
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "    " + strings.TrimSpace(line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func indented(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		if line = strings.TrimPrefix(line, "  "); line != "" {
			line = "    " + line
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

func flagRows(flags *pflag.FlagSet) [][]string {
	var rows [][]string
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(flag)
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		rows = append(rows, []string{code(name), defaultOf(flag), usage})
	})
	return rows
}

// defaultOf is the default of a flag, empty where it is that nothing is given.
func defaultOf(flag *pflag.Flag) string {
	if slices.Contains([]string{"", "[]", "<nil>"}, flag.DefValue) || flag.DefValue == "false" && flag.NoOptDefVal == "true" {
		return ""
	}
	// Where kubectl keeps its caches depends on who runs this.
	if flag.Name == "cache-dir" {
		return code("$HOME/.kube/cache")
	}
	return code(flag.DefValue)
}
