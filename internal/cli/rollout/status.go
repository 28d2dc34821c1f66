package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/rollout/history"
)

// status is `rollout status`.
type status struct {
	*cmdutil.Options

	wait     cmdutil.WaitFlags
	protect  cmdutil.ProtectFlags
	revision int64
	// shown is what was printed last. failed is since when the roll-out has failed for a reason that Drover checks again; zero if it has not.
	shown  string
	failed time.Time
}

func newStatusCommand(o *cmdutil.Options) *cobra.Command {
	s := &status{Options: o}
	return command(o, &cobra.Command{
		Use:   "status " + arguments,
		Short: "Show the status of roll-outs until they are complete",
		Long: `Show where a roll-out is: the wave, and what it waits for. The command waits until the roll-out is complete, unless you set --watch=false.

That of a MachineSet includes the replacement of its Machines, if a NodeGroup replaces them. Whether its waves have stopped
(metadata.rollout of the operator's configuration), the event MetadataRolloutStopped says: the command waits on.

Exit codes: 0 the roll-out is complete, or --watch=false; 1 it has stopped, cannot be completed as it is declared, or --timeout is over.`,
		Example: `  # Wait until the nodes carry what their NodeGroup declares
  kubectl drover rollout status nodegroup/batch --timeout=2h

  # Only look
  kubectl drover rollout status nodegroup/batch --watch=false`,
	}, kinds, s.follow, s, cmdutil.DroverNamespaceFlag{Options: o}, &s.protect)
}

// AddFlags adds the flags to a command.
func (s *status) AddFlags(command *cobra.Command) {
	command.Flags().BoolVarP(&s.wait.Wait, "watch", "w", true, "If true, wait until the roll-out is complete")
	command.Flags().DurationVar(&s.wait.Timeout, "timeout", 0, "The length of time to wait before giving up; zero means to wait forever")
	command.Flags().Int64Var(&s.revision, "revision", 0, "Fail unless this revision is declared; 0 is whatever is declared")
}

// recheckPatience is how long a failure that Drover checks again must last before it counts: a user may have just relaxed a PodDisruptionBudget,
// which Drover notices within seconds.
const recheckPatience = 5 * time.Second

// Validate checks the flags.
func (s *status) Validate() error {
	switch {
	case s.revision < 0:
		return cmdutil.UsageError("--revision %d: a revision is a positive number", s.revision)
	case s.wait.Timeout < 0:
		return cmdutil.UsageError("--timeout %s: a time to wait cannot be negative", s.wait.Timeout)
	}
	return nil
}

// follow prints where a roll-out is, as it changes.
func (s *status) follow(ctx context.Context, c client.WithWatch, target client.Object) error {
	if err := s.checkRevision(ctx, c, target); err != nil {
		return err
	}
	s.shown, s.failed = "", time.Time{}
	err := s.Follow(ctx, s.wait, func(ctx context.Context) (done bool, err error) {
		rollout, err := s.observe(ctx, c, target)
		if err != nil {
			return false, err
		}
		return s.show(&rollout)
	})
	if cmdutil.IsStopped(err) && s.shown != "" {
		return fmt.Errorf("%w: %s", err, s.shown)
	}
	return err
}

// show prints a status that has changed, and reports whether there is nothing more to wait for.
func (s *status) show(rollout *view.Rollout) (done bool, err error) {
	if !rollout.Rechecked {
		s.failed = time.Time{}
	} else if s.failed.IsZero() {
		s.failed = s.Now()
	}
	switch {
	case rollout.Rechecked && s.wait.Wait && s.Now().Sub(s.failed) < recheckPatience:
		return false, nil
	case rollout.Failed:
		return true, errors.New(rollout.Message)
	case rollout.Message != s.shown:
		s.shown = rollout.Message
		if _, err := fmt.Fprintln(s.Out, rollout.Message); err != nil {
			return true, err
		}
	}
	return rollout.Done || !s.wait.Wait, nil
}

// observe returns where the roll-out of an object is.
func (s *status) observe(ctx context.Context, c client.Reader, target client.Object) (view.Rollout, error) {
	now, err := readAgain(ctx, c, target)
	if err != nil {
		return view.Rollout{}, err
	}
	if now.GetUID() != target.GetUID() {
		return view.Rollout{}, fmt.Errorf("%s has been deleted and created again", cmdutil.NameOf(target))
	}
	switch now := now.(type) {
	case *v1alpha1.NodeGroup:
		return view.RolloutOfGroup(now), nil
	case *machinev1beta1.MachineSet:
		return s.observeMachineSet(ctx, c, now)
	}
	return view.Rollout{}, fmt.Errorf("%T has no roll-outs", target)
}

func (s *status) observeMachineSet(ctx context.Context, c client.Reader, set *machinev1beta1.MachineSet) (view.Rollout, error) {
	snapshot, err := s.Read(ctx, c, false)
	if err == nil {
		err = snapshot.Missing([]string{set.Name}, nil)
	}
	if err == nil && snapshot.NoGroups != nil && !cmdutil.IsNotServed(snapshot.NoGroups) {
		err = snapshot.NoGroups
	}
	if err != nil {
		return view.Rollout{}, err
	}
	survey, err := s.Survey(ctx, snapshot, &s.protect, []string{set.Name})
	if err != nil {
		return view.Rollout{}, err
	}
	list, group := view.NewStatusList(snapshot.Sets, survey), (*v1alpha1.NodeGroup)(nil)
	if found := snapshot.Membership(ctx).OfSet(set); found != nil {
		group = found.NodeGroup
	}
	return view.RolloutOfMachineSet(&list.Items[0], view.NewReplacement(group, set, snapshot.Machines)), nil
}

// checkRevision fails if another revision than --revision is declared.
func (s *status) checkRevision(ctx context.Context, c client.Reader, target client.Object) error {
	if s.revision == 0 {
		return nil
	}
	found, err := subjectOf(ctx, s.Options, c, target)
	if err != nil {
		return err
	}
	wanted, err := found.target(s.revision)
	switch {
	case err != nil:
		return err
	case !history.Holds(wanted, found.data):
		return fmt.Errorf("%s does not declare revision %d", cmdutil.NameOf(target), s.revision)
	}
	return nil
}
