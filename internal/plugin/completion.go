package plugin

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
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
