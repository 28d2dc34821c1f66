package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/paused"
)

var machinePrefixes = []string{"machine/", "machines/", "machine.machine.openshift.io/", "machines.machine.openshift.io/"}

type pauseCommand struct {
	*options
	pause  bool
	reason string
	dryRun string
}

func newPauseCommand(o *options) *cobra.Command {
	p := &pauseCommand{options: o, pause: true}
	command := &cobra.Command{
		Use:   "pause (POOL | machine/NAME | node/NAME)...",
		Short: "Stop Drover at a pool, a Machine or a Node",
		Long: `Stop Drover at a pool (MachineSet), a Machine or a Node, by the annotation ` + plan.AnnotationPaused + `.

A paused pool gets no writes to its Machines and Nodes, a paused Machine none to it and its Node, a paused Node none to it and its Machine.
What was written before stays. Pausing what is paused changes nothing.`,
		Example: `  kubectl drover pause workers --reason "until the move is over"
  kubectl drover pause node/worker-1 machine/worker-2`,
		RunE:              run(p.run),
		ValidArgsFunction: o.completeTargets,
	}
	command.Flags().StringVar(&p.reason, "reason", "", "Why, for the people who find it paused; kept in the annotation "+plan.AnnotationPausedReason)
	addDryRun(command, &p.dryRun)
	return command
}

func newResumeCommand(o *options) *cobra.Command {
	p := &pauseCommand{options: o}
	command := &cobra.Command{
		Use:   "resume (POOL | machine/NAME | node/NAME)...",
		Short: "Let Drover go on at a pool, a Machine or a Node",
		Long: `Let Drover go on at a pool (MachineSet), a Machine or a Node, by taking away the annotation ` + plan.AnnotationPaused + `.

Drover then writes at once what has been declared in the meantime; kubectl drover plan shows it before. Resuming what is not paused
changes nothing.`,
		Example:           `  kubectl drover resume workers node/worker-1`,
		RunE:              run(p.run),
		ValidArgsFunction: o.completeTargets,
	}
	addDryRun(command, &p.dryRun)
	return command
}

func addDryRun(command *cobra.Command, value *string) {
	command.Flags().StringVar(value, "dry-run", "none", `Must be "none", "client" or "server": send nothing, or send it without keeping it`)
	command.Flags().Lookup("dry-run").NoOptDefVal = "client"
	complete(command, "dry-run", []string{"none", "client", "server"})
}

func validateDryRun(value string) error {
	switch value {
	case "none", "client", "server":
		return nil
	}
	return usageError("--dry-run %q: must be none, client or server", value)
}

func (p *pauseCommand) run(ctx context.Context, args []string) error {
	targets, err := p.targets(args)
	if err != nil {
		return err
	}
	if err := validateDryRun(p.dryRun); err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	var failures []error
	for _, target := range targets {
		done, err := p.change(ctx, c, target)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if _, err := io.WriteString(p.Out, target.String()+" "+done+"\n"); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}

// target is an object to pause or resume.
type target struct {
	listed
	// display is how kubectl writes the kind.
	display string
	name    string
	object  client.Object
}

// String names the object as kubectl does.
func (t target) String() string { return t.display + "/" + t.name }

// targets reads names as kubectl does: kind/name, or a kind before names; without a kind they are pools.
func (p *pauseCommand) targets(args []string) ([]target, error) {
	if len(args) > 1 {
		for _, prefixes := range [][]string{nodePrefixes, machinePrefixes, poolPrefixes} {
			if prefix, ok := kindWord(args[0], prefixes); ok {
				args = prefixed(prefix, args[1:])
				break
			}
		}
	}
	if len(args) == 0 {
		return nil, usageError("name at least one pool, machine/NAME or node/NAME")
	}
	var targets []target
	for _, arg := range args {
		found, err := targetOf(arg)
		if err != nil {
			return nil, err
		}
		targets = append(targets, found)
	}
	return targets, nil
}

func kindWord(word string, prefixes []string) (string, bool) {
	for _, prefix := range prefixes {
		if word+"/" == prefix {
			return prefix, true
		}
	}
	return "", false
}

func prefixed(prefix string, names []string) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		all = append(all, prefix+name)
	}
	return all
}

func targetOf(arg string) (target, error) {
	var found target
	if name, ok := trimPrefixes(arg, nodePrefixes); ok {
		found = target{nodes, "node", name, &corev1.Node{}}
	} else if name, ok := trimPrefixes(arg, machinePrefixes); ok {
		found = target{machines, "machine.machine.openshift.io", name, &machinev1beta1.Machine{}}
	} else {
		name, _ := trimPrefixes(arg, poolPrefixes)
		found = target{machineSets, "machineset.machine.openshift.io", name, &machinev1beta1.MachineSet{}}
	}
	if found.name == "" || strings.Contains(found.name, "/") {
		return target{}, usageError("%q is none of POOL, machine/NAME and node/NAME", arg)
	}
	return found, nil
}

// change pauses or resumes one object and says what it did.
func (p *pauseCommand) change(ctx context.Context, c client.Client, t target) (string, error) {
	key := types.NamespacedName{Name: t.name}
	where := "the cluster"
	if t.namespaced {
		key.Namespace, where = p.namespace(), p.where()
	}
	if err := c.Get(ctx, key, t.object); apierrors.IsNotFound(err) && !missing(err) {
		return "", fmt.Errorf("%s not found in %s; -n chooses another namespace, kubectl drover status lists the pools", t, where)
	} else if err != nil {
		return "", explained(err, "reading "+t.String(), t.resource)
	}
	annotations, word := p.annotations(t.object.GetAnnotations())
	if annotations == nil {
		return word, nil
	}
	if err := p.patch(ctx, c, t, annotations); err != nil {
		return "", err
	}
	return word + map[string]string{"client": " (dry run)", "server": " (server dry run)"}[p.dryRun], nil
}

// annotations are the annotations to change, nil values to be removed; nil when there is nothing to change.
func (p *pauseCommand) annotations(live map[string]string) (change map[string]any, done string) {
	isPaused := paused.Is(live)
	_, marked := live[plan.AnnotationPaused]
	_, explained := live[plan.AnnotationPausedReason]
	switch {
	case p.pause && isPaused && (p.reason == "" || p.reason == live[plan.AnnotationPausedReason]):
		return nil, "already paused"
	case p.pause:
		change = map[string]any{plan.AnnotationPaused: "true"}
		if p.reason != "" {
			change[plan.AnnotationPausedReason] = p.reason
		} else if explained {
			// An old reason would be taken for that of this pause.
			change[plan.AnnotationPausedReason] = nil
		}
		if isPaused {
			return change, "already paused, reason changed"
		}
		return change, "paused"
	case !marked && !explained:
		return nil, "not paused"
	}
	change = map[string]any{plan.AnnotationPaused: nil, plan.AnnotationPausedReason: nil}
	if !isPaused {
		return change, "not paused, annotation cleared"
	}
	return change, "resumed"
}

// patch changes only these annotations, and only of the object that was read: one made anew under the same name is not meant.
func (p *pauseCommand) patch(ctx context.Context, c client.Client, t target, annotations map[string]any) error {
	if p.dryRun == "client" {
		return nil
	}
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": t.object.GetUID(), "annotations": annotations}})
	if err != nil {
		return fmt.Errorf("rendering the patch of %s: %w", t, err)
	}
	options := []client.PatchOption{client.FieldOwner("kubectl-drover")}
	if p.dryRun == "server" {
		options = append(options, client.DryRunAll)
	}
	err = c.Patch(ctx, t.object, client.RawPatch(types.MergePatchType, content), options...)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%s was made anew in the meantime; look at it and run the command again: %w", t, err)
	}
	return explained(err, "patching "+t.String(), t.resource)
}
