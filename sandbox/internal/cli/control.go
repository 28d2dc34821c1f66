package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/drover-io/drover/test/cluster"
)

// withLimit bounds a command that waits for components.
func withLimit(command *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(command.Context(), upLimit)
}

func newDown(s *settings) *cobra.Command {
	var purge bool
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop the sandbox; its data stays unless --purge is given",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.open(command.ErrOrStderr())
			if errors.Is(err, os.ErrNotExist) {
				// Down twice is as good as once.
				_, err = fmt.Fprintln(command.ErrOrStderr(), "nothing to stop:", err)
				return err
			}
			if err != nil {
				return err
			}
			if purge {
				return c.Purge()
			}
			return c.Stop()
		},
	}
	command.Flags().BoolVar(&purge, "purge", false, "remove the data folder")
	return command
}

func newStatus(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how every component is; the exit code is 1 unless all that belong to the sandbox run",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.open(nil)
			if err != nil {
				return err
			}
			var bad []string
			table := tabwriter.NewWriter(command.OutOrStdout(), 0, 0, 3, ' ', 0)
			_, _ = fmt.Fprintln(table, "COMPONENT\tSTATE\tPID\tPORT\tMEMORY")
			for _, status := range c.Status(command.Context()) {
				_, _ = fmt.Fprintln(table, statusRow(status))
				if status.State == "stopped" || status.State == "unhealthy" {
					bad = append(bad, status.Component)
				}
			}
			if err := table.Flush(); err != nil {
				return err
			}
			if len(bad) > 0 {
				return fmt.Errorf("not running as they should: %s; see drover-sandbox logs COMPONENT, and start them with "+
					"drover-sandbox up", strings.Join(bad, ", "))
			}
			return nil
		},
	}
}

func statusRow(status cluster.Status) string {
	number := func(value int) string {
		if value == 0 {
			return "-"
		}
		return strconv.Itoa(value)
	}
	memory := "-"
	if status.Memory > 0 {
		memory = strconv.FormatInt(status.Memory>>20, 10) + "Mi"
	}
	return strings.Join([]string{status.Component, status.State, number(status.PID), number(status.Port), memory}, "\t")
}

func newKill(s *settings) *cobra.Command {
	var name string
	command := &cobra.Command{
		Use:               "kill COMPONENT",
		Short:             "Send a signal to a component, SIGKILL unless another is named",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeComponents,
		RunE: func(command *cobra.Command, args []string) error {
			sig, err := parseSignal(name)
			if err != nil {
				return err
			}
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			err = c.Kill(args[0], sig)
			if errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("%s does not run; start it with drover-sandbox start %s", args[0], args[0])
			}
			return err
		},
	}
	command.Flags().StringVar(&name, "signal", "KILL", "`name` or number of the signal, as in TERM, STOP, CONT")
	return command
}

// parseSignal reads the name of a signal, with or without SIG, or its number.
func parseSignal(name string) (syscall.Signal, error) {
	if number, err := strconv.Atoi(name); err == nil && unix.SignalName(syscall.Signal(number)) != "" {
		return syscall.Signal(number), nil
	}
	full := "SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if sig := unix.SignalNum(full); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("no signal %q; name one as kill -l lists them", name)
}

func newStart(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:               "start COMPONENT",
		Short:             "Start a component that ended, with its data and on its port, and wait until it is ready",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeComponents,
		RunE: func(command *cobra.Command, args []string) error {
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, cancel := withLimit(command)
			defer cancel()
			return c.StartComponent(ctx, args[0])
		},
	}
}
