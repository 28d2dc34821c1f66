// Package pause is `kubectl drover pause` and `kubectl drover resume`.
package pause

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/paused"
)

type options struct {
	*cmdutil.Options
	cmdutil.DryRunFlag
	pause  bool
	reason string
}

// NewPauseCommand returns the command pause.
func NewPauseCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared, pause: true}
	command := &cobra.Command{
		Use:   "pause (MACHINESET | machine/NAME | node/NAME)...",
		Short: "Pause Drover on MachineSets, Machines and Nodes",
		Long: `Stop Drover from changing a MachineSet's Machines and Nodes, one Machine or one Node, with the annotation ` + plan.AnnotationPaused + `.

If you pause a MachineSet, Drover does not write to its Machines and Nodes; if you pause a Machine or its Node, it writes to neither of them.
What Drover wrote before stays. Pausing what is paused changes nothing.`,
		Example: `  # Pause a MachineSet, and say why
  kubectl drover pause workers --reason "until the move is over"

  # Pause a Node and a Machine
  kubectl drover pause node/worker-1 machine/worker-2`,
	}
	command.Flags().StringVar(&o.reason, "reason", "", "The reason to show to other users; kept in the annotation "+plan.AnnotationPausedReason)
	return o.complete(command)
}

// NewResumeCommand returns the command resume.
func NewResumeCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared}
	return o.complete(&cobra.Command{
		Use:   "resume (MACHINESET | machine/NAME | node/NAME)...",
		Short: "Resume Drover on MachineSets, Machines and Nodes",
		Long: `Let Drover change a paused MachineSet, Machine or Node again, by removing the annotation ` + plan.AnnotationPaused + `.

Drover then writes at once what was declared in the meantime; kubectl drover plan previews it. Resuming what is not paused changes nothing.`,
		Example: `  # Resume a MachineSet and a Node
  kubectl drover resume workers node/worker-1`,
	})
}

// complete adds what both commands have.
func (o *options) complete(command *cobra.Command) *cobra.Command {
	command.RunE = o.RunE(o.run, &o.DryRunFlag)
	command.ValidArgsFunction = o.CompleteTargets()
	o.AddFlag(command)
	return command
}

func (o *options) run(ctx context.Context, c client.WithWatch, args []string) error {
	targets, err := o.targets(args)
	if err != nil {
		return err
	}
	var failures []error
	for _, target := range targets {
		done, err := o.change(ctx, c, target)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if _, err := fmt.Fprintf(o.Out, "%s %s\n", cmdutil.NameOf(target), done); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}

// targets returns the objects that the arguments name as kubectl takes them: KIND/NAME, or a kind before names. Without a kind they are
// MachineSets.
func (o *options) targets(args []string) ([]client.Object, error) {
	kind := ""
	kinds := slices.Concat(cmdutil.NodeKind, cmdutil.MachineKind, cmdutil.MachineSetKind, cmdutil.NodeGroupKind)
	if len(args) > 1 && slices.Contains(kinds, args[0]) {
		kind, args = args[0]+"/", args[1:]
	}
	if len(args) == 0 {
		return nil, cmdutil.UsageError("name at least one MACHINESET, machine/NAME or node/NAME")
	}
	targets := make([]client.Object, 0, len(args))
	for _, arg := range args {
		if group, found := cmdutil.CutKind(kind+arg, cmdutil.NodeGroupKind); found {
			return nil, cmdutil.UsageError("pause and resume a NodeGroup with kubectl drover rollout pause|resume nodegroup/%s", group)
		}
		var target client.Object = &machinev1beta1.MachineSet{}
		name, found := cmdutil.CutKind(kind+arg, cmdutil.NodeKind)
		if found {
			target = &corev1.Node{}
		} else if name, found = cmdutil.CutKind(kind+arg, cmdutil.MachineKind); found {
			target = &machinev1beta1.Machine{}
		} else {
			name, _ = cmdutil.CutKind(kind+arg, cmdutil.MachineSetKind)
		}
		if name == "" || strings.Contains(name, "/") {
			return nil, cmdutil.UsageError("%q is not a MACHINESET, machine/NAME or node/NAME", arg)
		}
		target.SetName(name)
		targets = append(targets, target)
	}
	return targets, nil
}

// change pauses or resumes one object and says what it did.
func (o *options) change(ctx context.Context, c client.Client, target client.Object) (string, error) {
	key, where := client.ObjectKey{Name: target.GetName()}, cmdutil.TheCluster
	if _, clusterScoped := target.(*corev1.Node); !clusterScoped {
		key.Namespace, where = o.Namespace(), o.Where()
	}
	name := cmdutil.NameOf(target)
	resource, _ := meta.UnsafeGuessKindToResource(target.GetObjectKind().GroupVersionKind())
	if err := get(ctx, c, key, where, target); err != nil {
		return "", err
	}
	change, done := Decide(target.GetAnnotations(), o.pause, o.reason)
	if change == nil {
		return done, nil
	}
	err := o.Patch(ctx, c, target, map[string]any{"metadata": map[string]any{"annotations": change}})
	switch {
	case apierrors.IsConflict(err):
		return "", fmt.Errorf("%s was created again in the meantime; check it and run the command again: %w", name, err)
	case err != nil:
		return "", cmdutil.Explain(err, "patching "+name, resource.GroupResource())
	}
	return done + o.Note(), nil
}

// get reads an object. The error for one that does not exist suggests names.
func get(ctx context.Context, c client.Client, key client.ObjectKey, where string, target client.Object) error {
	switch target := target.(type) {
	case *corev1.Node:
		return cmdutil.Get(ctx, c, key.Namespace, key.Name, where, target)
	case *machinev1beta1.Machine:
		return cmdutil.Get(ctx, c, key.Namespace, key.Name, where, target)
	case *machinev1beta1.MachineSet:
		return cmdutil.SuggestGroup(ctx, c, cmdutil.Get(ctx, c, key.Namespace, key.Name, where, target), key.Name)
	}
	return fmt.Errorf("%T cannot be paused", target)
}

// Decide returns the annotations to change on an object that is to be paused or resumed, with nil for those to remove, and what was done then. The
// change is nil if there is nothing to change.
func Decide(live map[string]string, pause bool, reason string) (change map[string]any, done string) {
	isPaused := paused.Is(live)
	hasReason := metav1.HasAnnotation(metav1.ObjectMeta{Annotations: live}, plan.AnnotationPausedReason)
	switch {
	case pause && isPaused && (reason == "" || reason == live[plan.AnnotationPausedReason]):
		return nil, "already paused"
	case pause:
		change = map[string]any{plan.AnnotationPaused: "true"}
		if reason != "" {
			change[plan.AnnotationPausedReason] = reason
		} else if hasReason {
			// It is the reason of an earlier pause.
			change[plan.AnnotationPausedReason] = nil
		}
		if isPaused {
			return change, "already paused, reason changed"
		}
		return change, "paused"
	case !hasReason && !metav1.HasAnnotation(metav1.ObjectMeta{Annotations: live}, plan.AnnotationPaused):
		return nil, "not paused"
	}
	change = map[string]any{plan.AnnotationPaused: nil, plan.AnnotationPausedReason: nil}
	if !isPaused {
		return change, "not paused, annotation removed"
	}
	return change, "resumed"
}
