package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/test/cluster"
)

// upLimit is how long a start may take on a busy machine before it is given up.
const upLimit = 5 * time.Minute

func newUp(s *settings) *cobra.Command {
	opts := cluster.Options{Detach: true}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start the sandbox in the background, or what is missing of it",
		Long: `Start the sandbox in the background, or what is missing of it, and return when it is ready.

The last line of the standard output is the command that makes kubectl and other clients use it, as its administrator.
A sandbox that was there before goes on with its data and, without --components, its components.`,
		Example: `  eval "$(drover-sandbox up)"`,
		Args:    cobra.NoArgs,
	}
	flags := command.Flags()
	flags.StringSliceVar(&opts.Components, "components", nil,
		"what runs in addition to etcd and kube-apiserver (default "+strings.Join(cluster.Components()[2:], ",")+")")
	flags.BoolVar(&opts.UnsafeNoFsync, "unsafe-no-fsync", false,
		"do not wait for the disk: faster, and loses data when the machine goes down; for a new sandbox")
	flags.BoolVar(&opts.MigrationCRDs, "migration-crds", false,
		"install the CRDs with the authoritativeAPI fields; for a new sandbox")
	flags.BoolVar(&opts.NoNodeLeases, "no-node-leases", false, "let kwok renew no leases of nodes; for a new sandbox")
	command.RunE = func(command *cobra.Command, _ []string) error {
		dir, err := s.folder()
		if err != nil {
			return err
		}
		opts.Dir, opts.Log = dir, command.ErrOrStderr()
		opts.Components, err = chooseComponents(dir, opts.Components, flags.Changed("components"))
		if err != nil {
			return err
		}
		return up(command, opts)
	}
	_ = command.RegisterFlagCompletionFunc("components", completeComponents)
	return command
}

// chooseComponents returns the components to run: those named, or all in a new sandbox, or nil in an old one.
func chooseComponents(dir string, named []string, changed bool) ([]string, error) {
	if changed {
		if named == nil {
			named = []string{}
		}
		return named, nil
	}
	_, err := cluster.Open(dir, cluster.Options{})
	if errors.Is(err, os.ErrNotExist) {
		return cluster.Components(), nil
	}
	return nil, nil // Start finds any other error again
}

func up(command *cobra.Command, opts cluster.Options) error {
	ctx, cancel := withLimit(command)
	defer cancel()
	c, err := cluster.Start(ctx, opts)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(command.OutOrStdout(), "export KUBECONFIG=%s\n", shellQuote(c.AdminKubeconfig()))
	return err
}

// shellQuote quotes a word for a POSIX shell where that is necessary.
func shellQuote(word string) string {
	plain := strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%,") == ""
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
