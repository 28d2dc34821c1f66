package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// short is a sentence without its full stop.
var short = regexp.MustCompile(`^[A-Z][^.]*[^.\s]$`)

// eachCommand calls check for a command and all below it.
func eachCommand(command *cobra.Command, check func(*cobra.Command)) {
	check(command)
	for _, child := range command.Commands() {
		eachCommand(child, check)
	}
}

func TestHelp_OfEveryCommand(t *testing.T) {
	root := Command()
	root.InitDefaultHelpCmd()
	commands := 0
	eachCommand(root, func(command *cobra.Command) {
		if command.Name() == "help" {
			return
		}
		commands++
		t.Run(command.CommandPath(), func(t *testing.T) {
			if !short.MatchString(command.Short) {
				t.Errorf("Short is not a capitalized sentence without a full stop: %q", command.Short)
			}
			if command.Long == "" || command.Long == command.Short {
				t.Error("there is no Long")
			}
			if command.Example == "" {
				t.Error("there is no Example")
			}
			for line := range strings.Lines(command.Example) {
				if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(line, "  ") {
					t.Errorf("the line of the example is not indented: %q", text)
				}
			}
		})
	})
	if commands < 20 {
		t.Errorf("there are only %d commands", commands)
	}
}

// TestHelp_ExamplesAreCommands: every example names a command that exists, with flags that it has.
func TestHelp_ExamplesAreCommands(t *testing.T) {
	root := Command()
	call := regexp.MustCompile(`kubectl drover ([^|<>()\n]+)`)
	eachCommand(root, func(command *cobra.Command) {
		for _, match := range call.FindAllStringSubmatch(command.Example, -1) {
			found, rest, err := root.Find(strings.Fields(match[1]))
			if err != nil || found == root || !strings.HasPrefix(found.CommandPath(), command.CommandPath()) {
				t.Errorf("%s: the example %q is of %v, %v", command.CommandPath(), match[0], found, err)
				continue
			}
			for _, word := range rest {
				name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
				long, shorthand := strings.HasPrefix(word, "--"), strings.HasPrefix(word, "-") && len(name) == 1
				if long && found.Flag(name) == nil || shorthand && found.Flags().ShorthandLookup(name) == nil &&
					found.InheritedFlags().ShorthandLookup(name) == nil {
					t.Errorf("%s: the example %q has the unknown flag %s", command.CommandPath(), match[0], word)
				}
			}
		}
	})
}
