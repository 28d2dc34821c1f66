package maintenance

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// observeDrain reads a node and what decides about its drain.
func observeDrain(ctx context.Context, c client.Client, name string) (*view.Drain, error) {
	node, err := cmdutil.GetNode(ctx, c, name)
	if err != nil {
		return nil, err
	}
	d := &view.Drain{Node: node, DaemonSets: map[types.NamespacedName]bool{}}
	if d.Pods, err = cmdutil.List[*corev1.Pod](ctx, c, "", client.MatchingFields{"spec.nodeName": name}); err != nil {
		return nil, err
	}
	namespaces := sets.Set[string]{}
	for _, pod := range d.Pods {
		namespaces.Insert(pod.Namespace)
	}
	for _, namespace := range sets.List(namespaces) {
		budgets, err := cmdutil.List[*policyv1.PodDisruptionBudget](ctx, c, namespace)
		if err != nil {
			return nil, err
		}
		daemons, err := cmdutil.List[*appsv1.DaemonSet](ctx, c, namespace)
		if err != nil {
			return nil, err
		}
		d.Budgets = append(d.Budgets, budgets...)
		for _, daemon := range daemons {
			d.DaemonSets[client.ObjectKeyFromObject(daemon)] = true
		}
	}
	all, err := list(ctx, c)
	if err != nil && !cmdutil.IsNotServed(err) {
		return nil, err
	}
	if found := ofNode(all, name); len(found) > 0 {
		d.Maintenance = found[0]
	}
	return d, nil
}

// DrainStatus returns the status of the drain of a node.
func DrainStatus(ctx context.Context, c client.Client, name string, now time.Time) (*view.DrainStatus, error) {
	drain, err := observeDrain(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return drain.Status(now)
}

// NewDrainStatusCommand returns the command drain-status.
func NewDrainStatusCommand(o *cmdutil.Options) *cobra.Command {
	output, watch := &cmdutil.OutputFlags{}, false
	command := o.Command(&cobra.Command{
		Use:   "drain-status NODE",
		Short: "Show which pods still have to leave a node, and why",
		Long: `Find out why a node is not drained yet: which pods still have to leave, and for each whether it waits for its PodDisruptionBudget, a
finalizer, its grace period or its turn.

The command decides with the operator's own code from the objects of the cluster. On a node that is not in maintenance, it shows what a
maintenance would encounter. With --watch, it checks every second and prints what has changed, until no pod is left.`,
		Example: `  # Show which pods still have to leave a node
  kubectl drover drain-status worker-1

  # Follow a drain until no pod is left
  kubectl drover drain-status worker-1 --watch`,
		ValidArgsFunction: o.Complete(cmdutil.NodeKind),
	}, func(ctx context.Context, c client.WithWatch, args []string) error {
		name, err := o.OneNode(args...)
		if err != nil {
			return err
		}
		return output.Follow(ctx, o, cmdutil.WaitFlags{}, func(ctx context.Context) (any, func(*cmdutil.Text), bool, error) {
			status, err := DrainStatus(ctx, c, name, o.Now())
			if err != nil {
				return nil, nil, false, err
			}
			return status, func(text *cmdutil.Text) { drawDrainStatus(text, status, o.Now()) }, !watch || len(status.Pods) == 0, nil
		})
	}, output)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "If true, print the status again when it changes, until no pod is left")
	return command
}

// drawState writes where the maintenance of a node is.
func drawState(text *cmdutil.Text, status *view.DrainStatus, now time.Time) {
	state, leave, alone := status.Maintenance+", "+status.Phase, "still", ""
	if status.Maintenance == "" {
		state, leave = "not in maintenance; a maintenance would encounter this", "would"
	}
	if status.Reason != "" {
		state += " (" + status.Reason + ")"
	}
	if status.Alone != "" {
		alone = ", " + status.Alone
	}
	text.Printf("Node %s: %s\nPods: %d of %d %s have to leave%s\n", status.Node, state, len(status.Pods), status.Total, leave, alone)
	switch {
	case status.Cordoned != nil && status.Deadline != nil:
		text.Printf("Cordoned %s ago, deadline %s\n", cmdutil.Age(now, *status.Cordoned), remaining(*status.Deadline, now))
	case status.Cordoned != nil:
		text.Printf("Cordoned %s ago\n", cmdutil.Age(now, *status.Cordoned))
	case status.Unschedulable && status.Maintenance == "":
		text.Printf("The node is already cordoned, and stays so afterwards.\n")
	}
	for _, owner := range status.MayReturn {
		text.Printf("! pods of %s tolerate the cordon and could come back; they stay on the node then, unless spec.drain.returningPods is Wait\n", owner)
	}
	if status.Message != "" {
		text.Printf("Drover reports: %s\n", status.Message)
	}
}

func drawDrainStatus(text *cmdutil.Text, status *view.DrainStatus, now time.Time) {
	drawState(text, status, now)
	if len(status.Pods) > 0 {
		text.Printf("\n")
		var rows [][]any
		for _, pod := range status.Pods {
			left := ""
			if pod.Until != nil {
				left = remaining(*pod.Until, now)
			}
			rows = append(rows, []any{pod.Namespace, pod.Name, pod.Reason, left, pod.Detail})
		}
		text.Table(cmdutil.Columns{Always: []string{"Namespace", "Pod", "Reason", "Left", "Detail"}}, rows)
	}
	if len(status.Budgets) > 0 {
		text.Printf("\n")
		var rows [][]any
		for _, b := range status.Budgets {
			rows = append(rows, []any{b.Name, b.Needs, b.Has, b.Allowed, b.Here})
		}
		text.Table(cmdutil.Columns{Always: []string{"PodDisruptionBudget", "Needs", "Has", "Allowed", "Pods-Here"}}, rows)
	}
}

func remaining(until, now time.Time) string {
	if until.Before(now) {
		return cmdutil.Age(now, until) + " ago"
	}
	return "in " + duration.HumanDuration(until.Sub(now))
}

// Plan prints what a maintenance of a node would do.
func Plan(ctx context.Context, o *cmdutil.Options, c client.Client, output *cmdutil.OutputFlags, node string) error {
	name, err := o.OneNode(node)
	if err != nil {
		return err
	}
	status, err := DrainStatus(ctx, c, name, o.Now())
	if err != nil {
		return err
	}
	err = output.Print(o, status, func(text *cmdutil.Text) { drawDrainStatus(text, status, o.Now()) })
	if err == nil && len(status.Pods) > 0 {
		return cmdutil.ErrChanges
	}
	return err
}
