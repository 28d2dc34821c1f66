// Package app is Drover's entry point. cmd/drover is a call of Main; a program that adds something of its own makes the same call with
// options.
package app

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/operator"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/provider"
)

// Option changes what NewCommand builds.
type Option func(*settings)

type settings struct {
	client    []func(*rest.Config)
	providers []provider.Provider
}

// WithProvider adds a provider of machines: Drover makes the instances of Machines whose spec.providerSpec.value is of one of its kinds.
func WithProvider(p provider.Provider) Option {
	return func(s *settings) { s.providers = append(s.providers, p) }
}

// WithClientConfig changes the configuration of the connection to the API server before it is used, for example to wrap its transport.
func WithClientConfig(change func(*rest.Config)) Option {
	return func(s *settings) { s.client = append(s.client, change) }
}

// Main runs the operator with the process's arguments until it is signalled to stop, and returns the exit code: 0 after a stop that was
// asked for, 1 after an error, which is printed.
func Main(options ...Option) int {
	if err := NewCommand(options...).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "drover:", err)
		return 1
	}
	return 0
}

// NewCommand makes the command line of the operator.
func NewCommand(options ...Option) *cobra.Command {
	chosen := &settings{}
	for _, option := range options {
		option(chosen)
	}
	command := &cobra.Command{
		Use:   "drover",
		Short: "One operator for the whole life of a Kubernetes node",
		Long: "Drover carries labels, annotations and taints from MachineSets to the Machines and Nodes that exist already.\n" +
			"It runs in a Pod with its service account, or anywhere with --kubeconfig.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := config.AddFlags(command.Flags())
	kubeconfig := command.Flags().String("kubeconfig", "", "kubeconfig file (default $KUBECONFIG, then the Pod's service account)")
	command.RunE = func(command *cobra.Command, _ []string) error {
		configuration, err := flags.Resolve(operator.CapabilityNames())
		if err != nil {
			return err
		}
		logger := operator.NewLogger(configuration.Log, os.Stderr)
		ctrl.SetLogger(logger)
		klog.SetLogger(logger)
		cluster, err := clusterConfig(*kubeconfig)
		if err != nil {
			return err
		}
		for _, change := range chosen.client {
			change(cluster)
		}
		return operator.Run(log.IntoContext(command.Context(), logger), cluster, configuration, chosen.providers...)
	}
	command.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version and end", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(command.OutOrStdout(), version.String("drover"))
			return err
		},
	})
	return command
}

// clusterConfig finds the cluster: the file named, $KUBECONFIG, or the Pod's service account.
func clusterConfig(path string) (*rest.Config, error) {
	if path == "" {
		path = os.Getenv("KUBECONFIG")
	}
	if path == "" {
		cluster, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no cluster to work on: this is no Pod (%w); give --kubeconfig FILE or set KUBECONFIG", err)
		}
		return cluster, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: []string{path}}
	cluster, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return cluster, nil
}
