package plugin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

type statusCommand struct {
	*options
	output    output
	noHeaders bool
	protected ownership.Protected
}

func newStatusCommand(o *options) *cobra.Command {
	s := &statusCommand{options: o}
	command := &cobra.Command{
		Use:               "status [POOL...]",
		Short:             "Show how far each pool is",
		RunE:              run(s.run),
		ValidArgsFunction: o.completePools,
	}
	s.output.addFlags(command)
	command.Flags().BoolVar(&s.noHeaders, "no-headers", false, "Leave out the headers of the table")
	o.addAllNamespaces(command)
	o.addProtect(command)
	return command
}

func (s *statusCommand) run(ctx context.Context, names []string) (err error) {
	if err := s.output.validate(); err != nil {
		return err
	}
	if s.protected, err = s.options.protected(); err != nil {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return err
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
	if err := s.table(list.Items, s.noHeaders); err != nil {
		return err
	}
	for _, note := range list.Notes {
		if _, err := fmt.Fprintln(s.ErrOut, "note: "+note); err != nil {
			return err
		}
	}
	return nil
}

func (s *statusCommand) table(pools []PoolStatus, noHeaders bool) error {
	options := printers.PrintOptions{Wide: s.output.wide(), NoHeaders: noHeaders}
	return drawStatus(s.Out, pools, s.now(), options, s.allNamespaces)
}
