package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/rollout/history"
)

// undo is `rollout undo`.
type undo struct {
	*cmdutil.Options

	print    cmdutil.PrintFlags
	revision int64
}

func newUndoCommand(o *cmdutil.Options) *cobra.Command {
	s := &undo{Options: o}
	return command(o, &cobra.Command{
		Use:   "undo " + arguments,
		Short: "Write back what a NodeGroup or a MachineSet declared before",
		Long: `Go back to an earlier revision: write it to spec.metadata of a NodeGroup, or to spec.template of a MachineSet. What follows is a roll-out
like any other, in waves.

Without --to-revision the command takes the newest revision that is not declared now. Drover keeps spec.revisionHistoryLimit revisions of what it has
rolled out. kubectl drover plan previews what nodes would get.`,
		Example: `  # Go back to what was declared before
  kubectl drover rollout undo nodegroup/batch

  # Go back to revision 3, without keeping the change
  kubectl drover rollout undo nodegroup/batch --to-revision=3 --dry-run=server`,
	}, kinds, s.undo, &s.print, cmdutil.DroverNamespaceFlag{Options: o}, s)
}

// AddFlags adds the flags to a command.
func (s *undo) AddFlags(command *cobra.Command) {
	command.Flags().Int64Var(&s.revision, "to-revision", 0, "The revision to go back to; 0 is the newest that is not declared now")
}

// Validate checks the flags.
func (s *undo) Validate() error {
	if s.revision < 0 {
		return cmdutil.UsageError("--to-revision %d: a revision is a positive number", s.revision)
	}
	return nil
}

// undo writes a revision back.
func (s *undo) undo(ctx context.Context, c client.WithWatch, target client.Object) error {
	before, err := subjectOf(ctx, s.Options, c, target)
	if err != nil {
		return err
	}
	revision, err := before.target(s.revision)
	if err != nil {
		return err
	}
	if history.Holds(revision, before.data) {
		return s.print.Print(s.Options, target, fmt.Sprintf("skipped rollback (it declares revision %d already)", revision.Revision))
	}
	name, applier := cmdutil.NameOf(target), applierOf(target)
	if err := s.warn(target, applier); err != nil {
		return err
	}
	after, err := s.write(ctx, c, before, revision, applier)
	if err != nil {
		return cmdutil.ExplainWrite(err, "rolling back "+name, target)
	}
	return s.print.Print(s.Options, after, "rolled back")
}

// warn says that the next apply of an object undoes the rollback.
func (s *undo) warn(target client.Object, applier string) error {
	switch name := cmdutil.NameOf(target); {
	case applier != "":
		return s.Warn("%s is applied by %s (server-side apply), whose next apply undoes the rollback: change what it applies, too", name, applier)
	case isApplied(target):
		return s.Warn("%s was written by kubectl apply: the next kubectl apply of the same file undoes the rollback", name)
	}
	return nil
}

// maxAttempts bounds how often a conflict is tried again.
const maxAttempts = 10

// write writes a revision back, and returns the object after that. The operator writes the status of the object often: what counts is that the object
// still declares what it did when the revision was chosen.
func (s *undo) write(
	ctx context.Context, c client.Client, before *subject, revision *appsv1.ControllerRevision, applier string,
) (client.Object, error) {
	current, manager := before.Object, cmdutil.FieldManager
	if applier != "" {
		manager = rollbackManager
	}
	for attempt := 1; ; attempt++ {
		next, err := restored(current, revision)
		if err != nil {
			return nil, err
		}
		err = s.print.Send(c, func(c client.Client) error {
			return c.Patch(ctx, next, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}), manager)
		})
		switch {
		case err == nil && applier != "" && !s.print.Enabled():
			return next, handOver(ctx, c, next, applier)
		case !apierrors.IsConflict(err) || attempt == maxAttempts:
			return next, err
		}
		if current, err = unchanged(ctx, c, before); err != nil {
			return nil, err
		}
	}
}

// unchanged reads an object again, and fails if more than its status has changed meanwhile.
func unchanged(ctx context.Context, c client.Client, before *subject) (client.Object, error) {
	again, err := readAgain(ctx, c, before.Object)
	if err != nil {
		return nil, err
	}
	data, err := dataOf(again)
	if err != nil {
		return nil, err
	}
	if again.GetUID() != before.GetUID() || !bytes.Equal(data, before.data) {
		return nil, errors.New("another user has changed it meanwhile; check it and run the command again")
	}
	return again, nil
}
