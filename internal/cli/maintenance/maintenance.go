// Package maintenance is `kubectl drover maintenance` and `kubectl drover drain-status`.
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// NewCommand returns the command maintenance.
func NewCommand(o *cmdutil.Options) *cobra.Command {
	command := cmdutil.NewGroup(&cobra.Command{
		Use:     "maintenance",
		Aliases: []string{"nm"},
		Short:   "Take nodes into maintenance and restore them",
		Long: `Take nodes out of service for maintenance, list them, and restore them.

A node in maintenance is cordoned and drained as long as its NodeMaintenance exists. When the NodeMaintenance is deleted, Drover restores the
node as it was before.`,
		Example: `  # Take a node into maintenance, and wait until it is drained
  kubectl drover maintenance start worker-1 --reason "new disks" --wait

  # List the nodes in maintenance
  kubectl drover maintenance list

  # Restore the node
  kubectl drover maintenance end worker-1`,
	})
	command.AddCommand(newStartCommand(o), newEndCommand(o), newListCommand(o))
	return command
}

// options are what start and end take.
type options struct {
	*cmdutil.Options
	cmdutil.WaitFlags
	cmdutil.DryRunFlag
	selector string
	start    startFlags
	// existing are the NodeMaintenances that have been read.
	existing []*medik8s.NodeMaintenance
}

// startFlags are what start alone takes.
type startFlags struct {
	reason   string
	deadline time.Duration
	force    bool
}

// AddFlags adds the flags to a command.
func (s *startFlags) AddFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&s.reason, "reason", "", "The reason to show to users who find the node cordoned")
	flags.DurationVar(&s.deadline, "deadline", 0, "The length of time that the drain may take; zero means that it is not limited")
	flags.BoolVar(&s.force, "force", false, "If true, delete pods that would outlast the --deadline, without regard to PodDisruptionBudgets")
}

// Validate checks the flags.
func (s *startFlags) Validate() error {
	switch {
	case s.deadline < 0:
		return cmdutil.UsageError("--deadline %s: cannot be negative", s.deadline)
	case s.force && s.deadline == 0:
		return cmdutil.UsageError("--force requires --deadline")
	}
	return nil
}

// complete adds what both commands have.
func (o *options) complete(command *cobra.Command, each func(ctx context.Context, c client.Client, node string) error,
	finished func(all []*medik8s.NodeMaintenance, nodes []string) (text string, done bool, err error), flags ...cmdutil.FlagGroup,
) *cobra.Command {
	command.Flags().StringVarP(&o.selector, "selector", "l", "", "Selector (label query) of nodes, instead of their names")
	return o.Command(command, func(ctx context.Context, c client.WithWatch, args []string) error {
		nodes, err := o.nodes(ctx, c, args)
		if err != nil {
			return err
		}
		var failures []error
		for _, node := range nodes {
			failures = append(failures, each(ctx, c, node))
		}
		if err := errors.Join(failures...); err != nil || !o.Wait || o.Enabled() {
			return err
		}
		last := ""
		return o.Follow(ctx, o.WaitFlags, func(ctx context.Context) (bool, error) {
			all, err := list(ctx, c)
			if err != nil {
				return false, err
			}
			text, done, err := finished(all, nodes)
			if err != nil || text == last {
				return done, err
			}
			last = text
			_, err = io.WriteString(o.Out, text)
			return done, err
		})
	}, append(flags, &o.DryRunFlag, &o.WaitFlags)...)
}

// nodes returns the names of the nodes that the arguments or --selector choose, each once. Only the latter are looked up.
func (o *options) nodes(ctx context.Context, c client.Client, args []string) ([]string, error) {
	switch {
	case o.selector == "" && len(args) == 0:
		return nil, cmdutil.UsageError("name the nodes, or select them with --selector")
	case o.selector != "" && len(args) > 0:
		return nil, cmdutil.UsageError("use either names of nodes or --selector")
	}
	if o.selector == "" {
		return o.NodeNames(args)
	}
	var names []string
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, cmdutil.UsageError("--selector: %w", err)
	}
	selected, err := cmdutil.List[*corev1.Node](ctx, c, "", client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, err
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("--selector %s: no node matches", o.selector)
	}
	for _, node := range selected {
		names = append(names, node.Name)
	}
	return names, nil
}

func newStartCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared}
	o.Until = "the nodes are drained"
	return o.complete(&cobra.Command{
		Use:        "start (NODE... | --selector LABELS)",
		SuggestFor: []string{"begin", "cordon", "drain"},
		Short:      "Take nodes into maintenance",
		Long: `Cordon and drain nodes, by creating a NodeMaintenance with the name of each.

Before, kubectl drover plan --maintenance NODE shows which pods it would evict and which would block it.`,
		Example: `  # Take a node into maintenance, and wait until it is drained
  kubectl drover maintenance start worker-1 --reason "new disks" --wait

  # Take the nodes of a rack into maintenance; delete the pods that are still there after 30 minutes
  kubectl drover maintenance start -l rack=7 --deadline 30m --force`,
		ValidArgsFunction: shared.Complete(cmdutil.NodeKind),
	}, o.create, drained, &o.start)
}

// check refuses a node that does not exist or is in maintenance, which a cluster without Drover's webhook does not. What the user may not read is
// left to the API server.
func (o *options) check(ctx context.Context, c client.Client, node string) error {
	if o.selector == "" {
		if _, err := cmdutil.GetNode(ctx, c, node); err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	all, err := o.maintenances(ctx, c)
	if err != nil && !apierrors.IsForbidden(err) && !cmdutil.IsNotServed(err) {
		return err
	}
	if found := ofNode(all, node); len(found) > 0 {
		return alreadyExists(node, view.NameOf(found[0]))
	}
	return nil
}

// maintenances returns all NodeMaintenances, which are read once.
func (o *options) maintenances(ctx context.Context, c client.Client) (all []*medik8s.NodeMaintenance, err error) {
	if o.existing == nil {
		o.existing, err = list(ctx, c)
	}
	return o.existing, err
}

func alreadyExists(node, name string) error {
	return fmt.Errorf("node %s: %s already exists; kubectl drover drain-status %[1]s shows its progress", node, name)
}

// create creates a NodeMaintenance: of the older group, which has no drain options, only if the newer one is not served.
func (o *options) create(ctx context.Context, c client.Client, node string) error {
	if err := o.check(ctx, c, node); err != nil {
		return err
	}
	object := &medik8s.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: medik8s.NodeMaintenanceSpec{NodeName: node, Reason: o.start.reason},
	}
	if o.start.deadline > 0 {
		object.Spec.Drain = &medik8s.DrainSpec{Deadline: &metav1.Duration{Duration: o.start.deadline}, Force: o.start.force}
	}
	var created client.Object = object
	send := func(c client.Client) error { return c.Create(ctx, created, cmdutil.FieldManager) }
	err := o.Send(c, send)
	if cmdutil.IsNotServed(err) && object.Spec.Drain == nil {
		created = &kubevirt.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: kubevirt.NodeMaintenanceSpec{NodeName: node, Reason: o.start.reason},
		}
		err = o.Send(c, send)
	}
	if apierrors.IsAlreadyExists(err) {
		return alreadyExists(node, cmdutil.NameOf(created))
	}
	if err != nil {
		return cmdutil.Explain(err, "taking node "+node+" into maintenance", resource)
	}
	_, err = fmt.Fprintf(o.Out, "%s created%s\n", cmdutil.NameOf(created), o.Note())
	return err
}

// drained returns the progress of each node, and whether all are drained.
func drained(all []*medik8s.NodeMaintenance, nodes []string) (text string, done bool, err error) {
	done = true
	for _, node := range nodes {
		found := ofNode(all, node)
		switch {
		case len(found) == 0:
			return "", false, fmt.Errorf("node %s: its NodeMaintenance is gone", node)
		case found[0].Status.Phase == medik8s.PhaseFailed:
			return "", false, fmt.Errorf("node %s: %s", node, found[0].Status.LastError)
		case view.Drained(found[0]):
			text += fmt.Sprintf("node %s is drained\n", node)
		default:
			done = false
			text += fmt.Sprintf("node %s: %d%%, %s\n", node, found[0].Status.DrainProgress, view.WaitsFor(found[0]))
		}
	}
	return text, done, nil
}

func newEndCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared}
	o.Until = "the nodes are restored"
	return o.complete(&cobra.Command{
		Use:        "end (NODE... | --selector LABELS)",
		SuggestFor: []string{"stop", "uncordon", "undrain", "finish"},
		Short:      "End the maintenance of nodes and restore them",
		Long: `Restore nodes as they were before their maintenance, by deleting their NodeMaintenances, of any name and group.

With --selector, the command skips nodes that are not in maintenance.`,
		Example: `  # End the maintenance of a node, and wait until it is restored
  kubectl drover maintenance end worker-1 --wait

  # End the maintenance of the nodes of a rack
  kubectl drover maintenance end -l rack=7`,
		ValidArgsFunction: shared.Completion(func(ctx context.Context, c client.Client, _ string) ([]string, error) {
			all, err := list(ctx, c)
			var names []string
			for _, m := range all {
				names = append(names, m.Spec.NodeName)
			}
			return slices.Compact(names), err
		}),
	}, o.delete, restored)
}

// delete deletes exactly the NodeMaintenances that it has read.
func (o *options) delete(ctx context.Context, c client.Client, node string) error {
	all, err := o.maintenances(ctx, c)
	if err != nil {
		return err
	}
	found := ofNode(all, node)
	if len(found) == 0 && o.selector == "" {
		return fmt.Errorf("node %s is not in maintenance", node)
	}
	for _, m := range found {
		object := &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
		err := o.Send(c, func(c client.Client) error { return c.Delete(ctx, object, client.Preconditions{UID: &m.UID}) })
		if client.IgnoreNotFound(err) != nil {
			return cmdutil.Explain(err, "ending the maintenance of node "+node, resource)
		}
		if _, err := fmt.Fprintf(o.Out, "%s deleted%s\n", view.NameOf(m), o.Note()); err != nil {
			return err
		}
	}
	return nil
}

// restored reports whether the nodes are no longer in maintenance.
func restored(all []*medik8s.NodeMaintenance, nodes []string) (text string, done bool, err error) {
	if slices.ContainsFunc(nodes, func(node string) bool { return len(ofNode(all, node)) > 0 }) {
		return "", false, nil
	}
	return "restored\n", true, nil
}
