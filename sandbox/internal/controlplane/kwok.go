package controlplane

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"

	"github.com/drover-io/drover/sandbox/internal/kubelet"
)

// runKwok starts kwok's controller. Its configuration flags are read before the command's own, as kwok itself does.
func runKwok() int {
	// cobra gives every command the flags of the whole program, and the --version of the Kubernetes programs linked
	// into this one is not the bool that it takes a flag of that name for.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		fmt.Fprintf(os.Stderr, "kwok: reading the configuration: %v\n", err)
		return 1
	}
	command := cmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	command.PreRunE = func(command *cobra.Command, _ []string) error {
		return startReadinessReports(ctx, command.Flags().Lookup("kubeconfig"))
	}
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "kwok: %v\n", err)
		return 1
	}
	return 0
}

// startReadinessReports starts what kwok's stages cannot do, beside kwok in its process. A kwok without --kubeconfig is not the sandbox's.
func startReadinessReports(ctx context.Context, kubeconfig *pflag.Flag) error {
	if !kubeconfig.Changed {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig.Value.String())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig.Value, err)
	}
	config.QPS = -1
	go func() {
		if err := kubelet.ReportReadiness(ctx, config); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "kwok: reporting Pods as Ready again: %v\n", err)
		}
	}()
	return nil
}
