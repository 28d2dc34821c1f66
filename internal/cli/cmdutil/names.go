package cmdutil

import (
	"context"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
)

// The names of kinds that may stand before the name of an object, as kubectl takes them: kind/name.
var (
	NodeKind       = []string{"node", "nodes", "no"}
	MachineKind    = []string{"machine", "machines", "machine.machine.openshift.io", "machines.machine.openshift.io"}
	MachineSetKind = []string{"machineset", "machinesets", "machineset.machine.openshift.io", "machinesets.machine.openshift.io", "pool"}
	NodeGroupKind  = []string{"nodegroup", "nodegroups", "ng", "nodegroup.drover.dev", "nodegroups.drover.dev"}
)

// CutKind returns the name without the kind before it, and whether one of the kinds was there.
func CutKind(arg string, kinds []string) (name string, found bool) {
	if kind, name, ok := strings.Cut(arg, "/"); ok && slices.Contains(kinds, kind) {
		return name, true
	}
	return arg, false
}

// Completion completes arguments from names that depend on what has been typed of the word. If it cannot get them, it completes nothing.
func (o *Options) Completion(names func(ctx context.Context, c client.Client, typed string) ([]string, error)) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		c, err := o.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := names(command.Context(), c, typed)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, typed) || slices.Contains(args, name) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(all) > 0 && !slices.ContainsFunc(all, func(name string) bool { return !strings.HasSuffix(name, "/") }) {
			// After a kind comes a name, without a space.
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return all, directive
	}
}

// CompleteMachineSets completes the names of MachineSets.
func (o *Options) CompleteMachineSets() cobra.CompletionFunc {
	return o.Completion(func(ctx context.Context, c client.Client, _ string) ([]string, error) {
		return names[*machinev1beta1.MachineSet](ctx, c, o.Namespace())
	})
}

// CompleteNodes completes the names of Nodes, and node/NAME.
func (o *Options) CompleteNodes() cobra.CompletionFunc { return o.Completion(NodeNames) }

// NodeNames returns the names of all Nodes; as node/NAME if that is how the word begins.
func NodeNames(ctx context.Context, c client.Client, typed string) ([]string, error) {
	all, err := names[*corev1.Node](ctx, c, "")
	return withKind(all, typed, "node/"), err
}

// CompleteTargets completes names of MachineSets, machine/NAME and node/NAME.
func (o *Options) CompleteTargets() cobra.CompletionFunc {
	return o.Completion(func(ctx context.Context, c client.Client, typed string) ([]string, error) {
		switch {
		case strings.HasPrefix(typed, "node/"):
			return NodeNames(ctx, c, typed)
		case strings.HasPrefix(typed, "machine/"):
			all, err := names[*machinev1beta1.Machine](ctx, c, o.Namespace())
			return withKind(all, typed, "machine/"), err
		}
		all, err := names[*machinev1beta1.MachineSet](ctx, c, o.Namespace())
		return append(all, "machine/", "node/"), err
	})
}

// CompleteGroups completes names of MachineSets, and nodegroup/NAME.
func (o *Options) CompleteGroups() cobra.CompletionFunc {
	return o.Completion(func(ctx context.Context, c client.Client, typed string) ([]string, error) {
		for _, kind := range []string{"nodegroup/", "ng/"} {
			if strings.HasPrefix(typed, kind) {
				all, err := names[*drover.NodeGroup](ctx, c, "")
				return withKind(all, typed, kind), err
			}
		}
		// Where there is no Machine API, there are NodeGroups still.
		all, _ := names[*machinev1beta1.MachineSet](ctx, c, o.Namespace())
		return append(all, "nodegroup/"), nil
	})
}

func withKind(names []string, typed, kind string) []string {
	if strings.HasPrefix(typed, kind) {
		for i := range names {
			names[i] = kind + names[i]
		}
	}
	return names
}
