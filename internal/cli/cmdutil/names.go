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

// Kind is a kind of the objects that arguments name.
type Kind struct {
	// names may stand before the name of an object, as kubectl takes them: kind/name.
	names      []string
	namespaced bool
	empty      func() client.Object
	list       func(ctx context.Context, c client.Reader, namespace string) ([]string, error)
}

// The kinds that arguments name.
var (
	NodeKind       = kindOf[corev1.Node](false, "node", "nodes", "no")
	MachineKind    = kindOf[machinev1beta1.Machine](true, "machine", "machines", "machine.machine.openshift.io", "machines.machine.openshift.io")
	MachineSetKind = kindOf[machinev1beta1.MachineSet](true,
		"machineset", "machinesets", "machineset.machine.openshift.io", "machinesets.machine.openshift.io", "pool")
	NodeGroupKind = kindOf[drover.NodeGroup](false, "nodegroup", "nodegroups", "ng", "nodegroup.drover.dev", "nodegroups.drover.dev")
)

func kindOf[T any, P interface {
	*T
	client.Object
}](namespaced bool, names ...string) Kind {
	return Kind{names: names, namespaced: namespaced, empty: func() client.Object { return P(new(T)) }, list: namesOf[P]}
}

// Targets returns the objects that arguments name, as kubectl takes them: KIND/NAME, or a kind before names. Without a kind they are of the first
// kind. An object has its namespace and name only.
func (o *Options) Targets(args []string, kinds ...Kind) ([]client.Object, error) {
	kind := ""
	if len(args) > 1 && slices.ContainsFunc(kinds, func(k Kind) bool { return slices.Contains(k.names, args[0]) }) {
		kind, args = args[0]+"/", args[1:]
	}
	targets := make([]client.Object, 0, len(args))
	for _, arg := range args {
		of, name := kinds[0], kind+arg
		for _, candidate := range kinds {
			if typed, rest, found := strings.Cut(name, "/"); found && slices.Contains(candidate.names, typed) {
				of, name = candidate, rest
				break
			}
		}
		if name == "" || strings.Contains(name, "/") {
			return nil, UsageError("%q is not a %s", arg, UsageOf(kinds))
		}
		target := of.empty()
		target.SetName(name)
		if of.namespaced {
			target.SetNamespace(o.Namespace())
		}
		targets = append(targets, target)
	}
	return targets, nil
}

// UsageOf says how objects of some kinds are named.
func UsageOf(kinds []Kind) string {
	text := strings.ToUpper(kinds[0].names[0])
	for i, kind := range kinds[1:] {
		separator := ", "
		if i+2 == len(kinds) {
			separator = " or "
		}
		text += separator + kind.names[0] + "/NAME"
	}
	return text
}

// SetsAndGroups returns the names of the MachineSets and NodeGroups that arguments name.
func (o *Options) SetsAndGroups(args []string) (sets, groups []string, err error) {
	targets, err := o.Targets(args, MachineSetKind, NodeGroupKind)
	for _, target := range targets {
		if _, isGroup := target.(*drover.NodeGroup); isGroup {
			groups = append(groups, target.GetName())
		} else {
			sets = append(sets, target.GetName())
		}
	}
	return sets, groups, err
}

// NodeNames returns the names of the Nodes that arguments name, each once.
func (o *Options) NodeNames(args []string) (names []string, err error) {
	targets, err := o.Targets(args, NodeKind)
	for _, target := range targets {
		if name := target.GetName(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// OneNode returns the name of the only Node that arguments name.
func (o *Options) OneNode(args ...string) (string, error) {
	names, err := o.NodeNames(args)
	if err == nil && len(names) != 1 {
		err = UsageError("name one node, not %d", len(names))
	}
	if err != nil {
		return "", err
	}
	return names[0], nil
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

// Complete completes names of the first kind, and KIND/NAME of all kinds.
func (o *Options) Complete(kinds ...Kind) cobra.CompletionFunc {
	return o.Completion(func(ctx context.Context, c client.Client, typed string) ([]string, error) {
		word, _, found := strings.Cut(typed, "/")
		for _, kind := range kinds {
			if found && slices.Contains(kind.names, word) {
				all, err := kind.list(ctx, c, o.Namespace())
				for i := range all {
					all[i] = word + "/" + all[i]
				}
				return all, err
			}
		}
		// Where the cluster does not serve the first kind, the others remain.
		all, err := kinds[0].list(ctx, c, o.Namespace())
		for _, kind := range kinds[1:] {
			all, err = append(all, kind.names[0]+"/"), nil
		}
		return all, err
	})
}

// namesOf returns the names of all objects of a kind.
func namesOf[T client.Object](ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	all, err := List[T](ctx, c, namespace)
	out := make([]string, 0, len(all))
	for _, object := range all {
		out = append(out, object.GetName())
	}
	return out, err
}
