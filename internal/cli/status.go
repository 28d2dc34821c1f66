package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

const statusLong = `Show how far each pool (MachineSet) is: how many of its Machines and Nodes carry what it declares.

Every Machine is counted once: as synced, pending (something is still to be written, or it has no Node yet), in conflict
(somebody else holds a declared key), refused (a declared entry is the system's or invalid; all others are as declared), or held
(paused, or two Machines claim the Node). PAUSED are those of HELD that somebody paused.

With --watch the table is printed again as it changes. With --wait the command ends when nothing is pending in the chosen pools:
exit code 0; 1 after --timeout.`

const statusExample = `  # All pools
  kubectl drover status

  # Follow a roll-out
  kubectl drover status --watch

  # In a script: wait until a pool has what it declares
  kubectl drover status workers --wait --timeout 5m`

type statusCommand struct {
	*options
	output      output
	noHeaders   bool
	watch, wait bool
	timeout     time.Duration
	protected   ownership.Protected
}

func newStatusCommand(o *options) *cobra.Command {
	s := &statusCommand{options: o}
	command := &cobra.Command{
		Use:               "status [POOL...]",
		Short:             "Show how far each pool is",
		Long:              statusLong,
		Example:           statusExample,
		RunE:              run(s.run),
		ValidArgsFunction: o.completePools,
	}
	s.output.addFlags(command)
	flags := command.Flags()
	flags.BoolVar(&s.noHeaders, "no-headers", false, "Leave out the headers of the table")
	flags.BoolVarP(&s.watch, "watch", "w", false, "Print the table again whenever it changes, until ctrl-c")
	flags.BoolVar(&s.wait, "wait", false, "End when nothing is pending in the chosen pools")
	flags.DurationVar(&s.timeout, "timeout", 0, "How long to --wait; 0 for ever")
	o.addAllNamespaces(command)
	o.addProtect(command)
	return command
}

func (s *statusCommand) validate() (err error) {
	switch {
	case s.timeout < 0:
		return usageError("--timeout %s: a time to wait cannot be negative", s.timeout)
	case s.timeout > 0 && !s.wait:
		return usageError("--timeout belongs to --wait")
	}
	if err := s.output.validate(); err != nil {
		return err
	}
	s.protected, err = s.options.protected()
	return err
}

func (s *statusCommand) run(ctx context.Context, names []string) error {
	if err := s.validate(); err != nil {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	if s.watch || s.wait {
		return s.follow(ctx, c, names)
	}
	objects, err := fetch(ctx, c, s.namespace())
	if err != nil {
		return err
	}
	list, err := s.look(objects, names)
	if err != nil {
		return err
	}
	return s.show(list)
}

// look makes the status of the chosen pools.
func (s *statusCommand) look(objects plan.Objects, names []string) (PoolStatusList, error) {
	survey, err := choose(plan.SurveyOf(objects, s.protected, s.now()), names, s.where())
	if err != nil {
		return PoolStatusList{}, err
	}
	return statusOf(survey, createdAt(objects)), nil
}

func (s *statusCommand) show(list PoolStatusList) error {
	if !s.output.table() {
		return s.output.print(s.Out, &list)
	}
	if len(list.Items) == 0 {
		_, err := fmt.Fprintf(s.ErrOut, "No pools found in %s.\n", s.where())
		return err
	}
	if err := s.table(s.Out, list.Items, s.noHeaders); err != nil {
		return err
	}
	for _, note := range list.Notes {
		if err := printf(s.ErrOut, "note: %s\n", note); err != nil {
			return err
		}
	}
	return nil
}

func (s *statusCommand) table(out io.Writer, pools []PoolStatus, noHeaders bool) error {
	options := printers.PrintOptions{Wide: s.output.wide(), NoHeaders: noHeaders}
	return drawStatus(out, pools, s.now(), options, s.allNamespaces)
}
