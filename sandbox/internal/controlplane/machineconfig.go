package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"

	"github.com/drover-io/drover/sandbox/internal/machineconfig"
	"github.com/drover-io/drover/test/openshift"
)

// runMachineConfig plays OpenShift's cluster-version-operator and machine-config-operator.
func runMachineConfig() int {
	// cobra gives every command the flags of the whole program, which include the flags of all components.
	pflag.CommandLine = pflag.NewFlagSet("machine-config", pflag.ContinueOnError)
	var kubeconfig, file, ready string
	given := openshift.Options{Log: os.Stdout}
	command := &cobra.Command{
		Use: "machine-config", Short: "Plays OpenShift's cluster-version-operator and machine-config-operator", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := readOptions(file, &given); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return playMachineConfig(ctx, kubeconfig, given, ready)
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file`")
	flags.StringVar(&file, "options", "", "`file` of options, as JSON, which go before those of the flags")
	flags.StringVar(&ready, "ready-file", "", "`file` to make once everything is watched")
	machineconfig.AddFlags(flags, &given)
	return cli.Run(command)
}

// readOptions reads a file of options, which override the flags.
func readOptions(file string, options *openshift.Options) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("reading the options: %w", err)
	}
	if err := json.Unmarshal(text, options); err != nil {
		return fmt.Errorf("reading the options %s: %w", file, err)
	}
	return nil
}

func playMachineConfig(ctx context.Context, kubeconfig string, options openshift.Options, ready string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.UserAgent = -1, "machine-config"
	options.Started = func() {
		if ready == "" {
			return
		}
		if err := os.WriteFile(filepath.Clean(ready), nil, 0o600); err != nil {
			fmt.Fprintf(os.Stderr, "machine-config: %v\n", err)
		}
	}
	return machineconfig.Run(ctx, config, options)
}
