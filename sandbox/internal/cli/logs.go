package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/test/cluster"
)

// auditName is what logs calls the API server's audit log.
const auditName = "audit"

func newLogs(s *settings) *cobra.Command {
	var follow bool
	command := &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "Print the log of a component, or of all requests to the API server (" + auditName + ")",
		Args:  cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append(cluster.Components(), cluster.MachineConfig, auditName), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(command *cobra.Command, args []string) error {
			if names := append(cluster.Components(), cluster.MachineConfig, auditName); !slices.Contains(names, args[0]) {
				return fmt.Errorf("no log of %q; there are %v", args[0], names)
			}
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			return printLog(command.Context(), command.OutOrStdout(), c.LogFile(args[0]), follow)
		},
	}
	command.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	return command
}

// printLog copies a log, and what is added to it until the context ends if it is followed.
func printLog(ctx context.Context, output io.Writer, path string, follow bool) error {
	file, err := os.Open(filepath.Clean(path))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no log %s: the component was never started", path)
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := io.Copy(output, file); err != nil || !follow {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
