package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/test/cluster"
)

func newPool(s *settings) *cobra.Command {
	command := &cobra.Command{Use: "pool", Short: "Make and delete pools of machines with their nodes"}
	command.AddCommand(newPoolCreate(s), newPoolDelete(s))
	return command
}

func newPoolCreate(s *settings) *cobra.Command {
	opts := cluster.PoolOptions{}
	var taints, nodeTaints []string
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a MachineSet with Machines that are running and linked to Nodes, which kwok plays",
		Long: `Make a MachineSet with Machines that are running and linked to Nodes, which kwok plays.

What is there already stays as it is, so a second call completes what a first one began.`,
		Example: `  drover-sandbox pool create workers --machines 50 --label tier=gold --taint dedicated=batch:NoSchedule`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			if opts.Taints, err = parseTaints(taints); err != nil {
				return err
			}
			if opts.NodeTaints, err = parseTaints(nodeTaints); err != nil {
				return err
			}
			opts.Name, opts.Log = args[0], command.OutOrStdout()
			return cluster.CreatePool(command.Context(), c.Admin(), opts)
		},
	}
	flags := command.Flags()
	flags.IntVar(&opts.Machines, "machines", 3, "number of machines")
	flags.IntVar(&opts.FirstIndex, "first-index", 0, "number of the first machine")
	flags.IntVar(&opts.RunningPods, "running-pods", 0, "number of pods on each node")
	flags.StringVar(&opts.Namespace, "namespace", cluster.MachineNamespace, "namespace of the MachineSet and Machines")
	flags.StringToStringVar(&opts.Labels, "label", nil, "label `key=value` that the MachineSet's template declares")
	flags.StringToStringVar(&opts.Annotations, "annotation", nil, "annotation `key=value` that the template declares")
	flags.StringSliceVar(&taints, "taint", nil, "taint `key=value:effect` that the template declares")
	flags.BoolVar(&opts.CopyToNodes, "copy-to-nodes", false, "give the template's labels and taints to the nodes too")
	flags.StringToStringVar(&opts.NodeLabels, "node-label", nil, "additional label `key=value` of the nodes")
	flags.StringSliceVar(&nodeTaints, "node-taint", nil, "additional taint `key=value:effect` of the nodes")
	return command
}

func newPoolDelete(s *settings) *cobra.Command {
	opts := cluster.PoolOptions{}
	command := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a pool with its machines, nodes and pods",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			opts.Name, opts.Log = args[0], command.OutOrStdout()
			return cluster.DeletePool(command.Context(), c.Admin(), opts)
		},
	}
	command.Flags().StringVar(&opts.Namespace, "namespace", cluster.MachineNamespace, "namespace of the MachineSet")
	return command
}

// parseTaints reads taints as kubectl writes them: key:effect or key=value:effect.
func parseTaints(texts []string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for _, text := range texts {
		pair, effect, found := strings.Cut(text, ":")
		key, value, _ := strings.Cut(pair, "=")
		if !found || key == "" || effect == "" {
			return nil, fmt.Errorf("taint %q: write it as key=value:effect, as in dedicated=batch:NoSchedule", text)
		}
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints, nil
}
