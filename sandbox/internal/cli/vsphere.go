package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/vcenter"
)

func newVSphere(s *settings) *cobra.Command {
	command := &cobra.Command{
		Use:   "vsphere",
		Short: "Play a vCenter whose virtual machines become nodes",
		Long: `Play a vCenter whose virtual machines become nodes.

A process called ` + cluster.VCenter + ` is the vCenter: govmomi's simulator, with one cluster, a template, tags and a VM group.
A virtual machine that is powered on gets an address, and after its boot delay a Node, which kwok plays. One that is powered off turns NotReady.`,
		Example: `  drover-sandbox vsphere up --boot-delay 2s
  drover-sandbox vsphere machineset workers --replicas 3 | drover-sandbox kubectl apply -f -
  drover-sandbox vsphere power-off workers-x7k2p
  drover-sandbox vsphere behave --clone-fault NoDiskSpace
  drover-sandbox vsphere down`,
	}
	command.AddCommand(newVSphereUp(s), newVSphereDown(s), newVSphereMachineSet(s), newVSpherePowerOff(s), newVSphereBehave(s))
	return command
}

func newVSphereUp(s *settings) *cobra.Command {
	options := cluster.VCenterOptions{}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a vCenter, and write its credentials and configuration to the cluster",
		Long: `Start a vCenter, and write its credentials and configuration to the cluster: the Secrets vsphere-cloud-credentials and worker-user-data,
and the ConfigMap kube-cloud-config. A second call starts an empty vCenter anew.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := c.StopSimulator(cluster.VCenter); err != nil {
				return err
			}
			ctx, cancel := withLimit(command)
			defer cancel()
			site, err := c.StartVCenter(ctx, options)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "vCenter %s:%s runs; Drover serves its Machines with --providers='*,vsphere'\n", site.Host, site.Port)
			return err
		},
	}
	flags := command.Flags()
	flags.DurationVar(&options.CloneDelay, "clone-delay", 0, "how long a clone takes")
	flags.DurationVar(&options.BootDelay, "boot-delay", 0, "how long it takes from power on until the node registers")
	flags.StringVar(&options.ClusterID, "cluster-id", "sandbox", "`name` of the cluster that the vCenter has a tag of")
	return command
}

func newVSphereDown(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the vCenter; its virtual machines are gone then",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			return c.StopSimulator(cluster.VCenter)
		},
	}
}

func newVSphereMachineSet(s *settings) *cobra.Command {
	var replicas int32
	command := &cobra.Command{
		Use:   "machineset NAME",
		Short: "Print a MachineSet whose Machines are virtual machines of the vCenter",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			site, err := s.vCenter(command)
			if err != nil {
				return err
			}
			return printMachineSet(command.OutOrStdout(), site, args[0], replicas)
		},
	}
	command.Flags().Int32Var(&replicas, "replicas", 3, "number of Machines")
	return command
}

// vCenter returns where the vCenter is that was started last.
func (s *settings) vCenter(command *cobra.Command) (*vcenter.Site, error) {
	c, err := s.open(command.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	return c.VCenterSite()
}

func newVSpherePowerOff(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "power-off NAME",
		Short: "Power a virtual machine off, as a failure does: its node turns NotReady",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			site, err := s.vCenter(command)
			if err != nil {
				return err
			}
			ctx, cancel := withLimit(command)
			defer cancel()
			return site.PowerOff(ctx, args[0])
		},
	}
}

func newVSphereBehave(s *settings) *cobra.Command {
	behavior, endSessions := vcenter.Behavior{}, false
	command := &cobra.Command{
		Use:   "behave",
		Short: "Have the vCenter fail or be slow from now on; without flags, work as usual again",
		Long: `Have the vCenter fail or be slow from now on. Without flags it works as usual again: a call replaces what an earlier one has asked for.

Faults are ` + strings.Join(vcenter.Faults(), ", ") + `.`,
		Example: `  # No datastore has space.
  drover-sandbox vsphere behave --clone-fault NoDiskSpace
  # Clones take a minute, the tags cannot be read, and all who have logged in must do so again.
  drover-sandbox vsphere behave --clone-delay 1m --rest-status 503 --end-sessions
  # The next power on fails.
  drover-sandbox vsphere behave --call PowerOnMultiVM_Task=InsufficientResources
  drover-sandbox vsphere behave`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			site, err := s.vCenter(command)
			if err != nil {
				return err
			}
			ctx, cancel := withLimit(command)
			defer cancel()
			if err := site.SetBehavior(ctx, behavior); err != nil || !endSessions {
				return err
			}
			return site.EndSessions(ctx)
		},
	}
	flags := command.Flags()
	flags.DurationVar(&behavior.CloneDelay, "clone-delay", 0, "how long a clone takes")
	flags.StringVar(&behavior.CloneFault, "clone-fault", "", "`fault` that clones end with")
	flags.IntVar(&behavior.REST, "rest-status", 0, "HTTP `status` that the REST API answers with, which has the tags")
	flags.StringVar(&behavior.Password, "password", "", "the only `password` that is accepted; empty for the usual one")
	flags.StringToStringVar(&behavior.Calls, "call", nil, "`METHOD=FAULT` that the next call of a SOAP method ends with")
	flags.BoolVar(&endSessions, "end-sessions", false, "end all sessions now")
	return command
}

func printMachineSet(out io.Writer, site *vcenter.Site, name string, replicas int32) error {
	raw, err := json.Marshal(site.ProviderSpec())
	if err != nil {
		return fmt.Errorf("writing the providerSpec: %w", err)
	}
	set := builder.MachineSet(cluster.MachineNamespace, name, replicas, func(set *machinev1beta1.MachineSet) {
		set.TypeMeta = metav1.TypeMeta{APIVersion: machinev1beta1.GroupVersion.String(), Kind: "MachineSet"}
		set.UID = "" // the API server gives it one
		set.Spec.Template.Spec.ProviderSpec = builder.RawProviderSpec(string(raw))
	})
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(set); err != nil {
		return fmt.Errorf("printing the MachineSet: %w", err)
	}
	return nil
}
