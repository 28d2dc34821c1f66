package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/sandbox/internal/machineconfig"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/openshift"
)

func newOpenShift(s *settings) *cobra.Command {
	command := &cobra.Command{
		Use:   "openshift",
		Short: "Play the upgrade of an OpenShift cluster and its nodes",
		Long: `Play the upgrade of an OpenShift cluster and its nodes.

A process called ` + cluster.MachineConfig + ` stands in for the cluster-version-operator and the machine-config-operator: it follows
MachineConfigPools and the ClusterVersion as they do, and walks the nodes through their updates, with cordon, drain and reboot. Nothing is
installed on any node. It is killed, started and logged like every component.`,
		Example: `  drover-sandbox openshift init --masters 3 --workers 6 --pool infra
  drover-sandbox openshift upgrade --to 4.17.3 --wait
  drover-sandbox openshift status`,
	}
	command.AddCommand(newOpenShiftInit(s), newOpenShiftUpgrade(s), newOpenShiftStatus(s))
	return command
}

func newOpenShiftInit(s *settings) *cobra.Command {
	opts, playing := cluster.OpenShiftOptions{}, openshift.Options{}
	command := &cobra.Command{
		Use:   "init",
		Short: "Make pools, a ClusterVersion and nodes, and start what plays the upgrades",
		Long: `Make pools, a ClusterVersion and nodes, and start what plays the upgrades.

What is there already stays as it is. A second call gives the process that plays the upgrades other options. Nodes with the label
node-role.kubernetes.io/NAME are in the custom pool NAME. The annotation ` + openshift.AnnotationDegrade + `=REASON makes a node fail
when it applies its configuration, ` + openshift.AnnotationHang + `=STEP makes it stay in a step, until the annotation goes.`,
		Example: `  drover-sandbox openshift init --masters 3 --workers 6 --pool infra --reboot-delay 10s`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := playing.Validate(); err != nil {
				return err
			}
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, cancel := withLimit(command)
			defer cancel()
			if err := c.InstallOpenShift(ctx, opts); err != nil {
				return err
			}
			if err := c.StopSimulator(cluster.MachineConfig); err != nil {
				return err
			}
			return c.StartMachineConfig(ctx, playing)
		},
	}
	flags := command.Flags()
	flags.StringVar(&opts.Version, "from", openshift.DefaultVersion, "`version` of the cluster")
	flags.IntVar(&opts.Masters, "masters", 3, "number of nodes of the control plane")
	flags.IntVar(&opts.Workers, "workers", 3, "number of machines of the pool worker; drover-sandbox pool create makes more")
	flags.StringSliceVar(&opts.CustomPools, "pool", nil, "`name` of a custom pool")
	machineconfig.AddFlags(flags, &playing)
	return command
}

func newOpenShiftUpgrade(s *settings) *cobra.Command {
	var to string
	var wait bool
	var limit time.Duration
	command := &cobra.Command{
		Use:   "upgrade --to VERSION",
		Short: "Send the cluster to a version, also back to an earlier one and while another upgrade goes on",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return s.withOpenShift(command, func(ctx context.Context, c client.Client) error {
				if err := openshift.Upgrade(ctx, c, to); err != nil || !wait {
					return err
				}
				ctx, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				return machineconfig.Await(ctx, c, to, command.OutOrStdout())
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&to, "to", "", "`version` to go to, as in 4.17.3")
	flags.BoolVar(&wait, "wait", false, "wait until every node of every pool runs it, also while a pool is paused, and print the progress")
	flags.DurationVar(&limit, "timeout", 30*time.Minute, "how long to wait")
	_ = command.MarkFlagRequired("to")
	return command
}

func newOpenShiftStatus(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the cluster's version, its pools and its nodes",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return s.withOpenShift(command, func(ctx context.Context, c client.Client) error {
				return describe(ctx, c, command.OutOrStdout())
			})
		},
	}
}

func describe(ctx context.Context, reader client.Client, output io.Writer) error {
	report, err := machineconfig.Describe(ctx, reader)
	if err != nil {
		return err
	}
	return report.Write(output)
}

// withOpenShift calls a function with a client of the sandbox's administrator, and says what to do where init was never called.
func (s *settings) withOpenShift(command *cobra.Command, call func(context.Context, client.Client) error) error {
	c, err := s.open(command.ErrOrStderr())
	if err != nil {
		return err
	}
	made, err := openshift.NewClient(c.Admin())
	if err != nil {
		return err
	}
	err = call(command.Context(), made)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return fmt.Errorf("%w; make what it needs with drover-sandbox openshift init", err)
	}
	runs := slices.ContainsFunc(c.Status(command.Context()), func(status cluster.Status) bool {
		return status.Component == cluster.MachineConfig && status.State == "running"
	})
	if err == nil && !runs {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "%s does not run: nothing will happen until drover-sandbox start %s\n",
			cluster.MachineConfig, cluster.MachineConfig)
	}
	return err
}
