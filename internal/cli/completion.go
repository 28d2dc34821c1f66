package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// complete makes a flag complete to fixed words.
func complete(command *cobra.Command, flag string, words []string) {
	// It fails only for a flag that does not exist, which a test of any command would show.
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completePools completes the names of pools that are not on the line yet. Whatever fails, completion stays silent.
func (o *options) completePools(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return namesOf[*machinev1beta1.MachineSet](command.Context(), o, machineSets, "", args, prefix), cobra.ShellCompDirectiveNoFileComp
}

// namesOf lists the names of a kind that begin like the word being typed and are not on the line yet, with a prefix before each.
func namesOf[T client.Object](ctx context.Context, o *options, kind listed, kindPrefix string, args []string, typed string) []string {
	c, err := o.connect()
	if err != nil {
		return nil
	}
	objects, err := list[T](ctx, c, kind, o.namespace())
	if err != nil {
		return nil
	}
	var names []string
	for _, object := range objects {
		name := kindPrefix + object.GetName()
		if strings.HasPrefix(name, typed) && !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	return names
}

// completeNodes completes the names of Nodes.
func (o *options) completeNodes(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return namesOf[*corev1.Node](command.Context(), o, nodes, "", args, typed), cobra.ShellCompDirectiveNoFileComp
}

// completeMaintained completes the names of the Nodes in maintenance.
func (o *options) completeMaintained(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	c, err := o.connect()
	if err != nil {
		return nil, directive
	}
	all, err := maintenancesOf(command.Context(), c)
	if err != nil {
		return nil, directive
	}
	var names []string
	for _, m := range all {
		if name := m.spec.NodeName; strings.HasPrefix(name, typed) && !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	return slices.Compact(names), directive
}

// completeExplain completes the word node and the names of Nodes.
func (o *options) completeExplain(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 1 || len(args) == 1 && args[0] != "node" {
		return nil, directive
	}
	prefix := ""
	if strings.HasPrefix(typed, "node/") {
		prefix = "node/"
	}
	names := namesOf[*corev1.Node](command.Context(), o, nodes, prefix, args, typed)
	//nolint:gocritic // typed is the beginning of the word, not the word that of typed
	if len(args) == 0 && strings.HasPrefix("node", typed) {
		names = append(names, "node")
	}
	return names, directive
}

// completeTargets completes pools, and Machines and Nodes after machine/ and node/.
func (o *options) completeTargets(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	switch ctx := command.Context(); {
	case strings.HasPrefix(typed, "node/"):
		return namesOf[*corev1.Node](ctx, o, nodes, "node/", args, typed), directive
	case strings.HasPrefix(typed, "machine/"):
		return namesOf[*machinev1beta1.Machine](ctx, o, machines, "machine/", args, typed), directive
	}
	names, _ := o.completePools(command, args, typed)
	kinds := 0
	for _, kind := range []string{"machine/", "node/"} {
		if strings.HasPrefix(kind, typed) {
			names = append(names, kind)
			kinds++
		}
	}
	if kinds == len(names) && kinds > 0 {
		// Nothing but a kind can follow, and its name is still to be typed.
		return names, directive | cobra.ShellCompDirectiveNoSpace
	}
	return names, directive
}

// kubectlCompletion is the program that kubectl looks for to complete what follows `kubectl drover`.
const kubectlCompletion = `#!/usr/bin/env sh
# Put this on the PATH as kubectl_complete-drover and make it executable.
exec kubectl drover __complete "$@"
`

// addCompletion adds to cobra's own completion scripts, which are for the name kubectl-drover, that for kubectl drover.
func addCompletion(root *cobra.Command, out io.Writer) {
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		if command.Name() != "completion" {
			continue
		}
		command.AddCommand(&cobra.Command{
			Use:   "kubectl",
			Short: "Print the program kubectl_complete-drover, which completes kubectl drover",
			Long: `Print the program by which kubectl completes what follows "kubectl drover":

  kubectl drover completion kubectl > kubectl_complete-drover
  chmod +x kubectl_complete-drover && sudo mv kubectl_complete-drover /usr/local/bin/

It needs the completion of kubectl itself (kubectl completion --help).`,
			Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				_, err := io.WriteString(out, kubectlCompletion)
				return err
			},
		})
	}
}
