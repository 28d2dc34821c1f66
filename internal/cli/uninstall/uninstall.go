// Package uninstall is `kubectl drover uninstall-check`: it lists the objects that cannot be deleted once Drover is gone.
package uninstall

import (
	"context"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	autoscalingplan "github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// NewCommand returns the command.
func NewCommand(o *cmdutil.Options) *cobra.Command {
	output := &cmdutil.OutputFlags{Tables: true}
	return o.Command(&cobra.Command{
		Use:   "uninstall-check",
		Short: "Check that nothing needs Drover any longer before you uninstall it",
		Long: `List the objects that need Drover before they can go: those with one of its finalizers. Without Drover you cannot delete them, their nodes
stay cordoned or keep what a NodeGroup declares, and MachineConfigPools stay paused. Of Machines, those count that are being deleted.

All finalizers but those of NodeGroups and MutexRunConfigs are those of the operators that Drover replaces. An object that such an operator
serves is listed, too: leave it to that operator.

Exit codes: 0 nothing is left, 1 the command lists what is, or cannot find out.`,
		Example: `  # Uninstall Drover if nothing needs it
  kubectl drover uninstall-check && helm uninstall drover -n drover-system`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, c client.WithWatch, _ []string) error {
		check := &view.UninstallCheck{TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "UninstallCheck"}, Items: []view.UninstallItem{}}
		if err := find(ctx, c, check); err != nil {
			return err
		}
		if err := output.Print(o, check, func(text *cmdutil.Text) { draw(text, check) }); err != nil {
			return err
		}
		if count := len(check.Items); count > 0 {
			return cmdutil.NeedsDrover(fmt.Errorf("%d objects need Drover: do not uninstall it before they are gone", count))
		}
		return nil
	}, output)
}

// find adds the objects of every kind that has a finalizer of Drover.
func find(ctx context.Context, c client.Reader, check *view.UninstallCheck) error {
	const end = "delete it, which ends the maintenance"
	for _, add := range []func() error{
		adder[*drover.NodeGroup](ctx, c, check, drover.Finalizer, "delete it, so that Drover releases its nodes"),
		adder[*medik8s.NodeMaintenance](ctx, c, check, medik8s.Finalizer, end),
		adder[*kubevirt.NodeMaintenance](ctx, c, check, medik8s.Finalizer, end),
		adder[*mutex.MutexRunConfig](ctx, c, check, mutex.Finalizer, "delete it, so that Drover restores MachineConfigPools and nodes"),
		adder[*autoscaling.MachineAutoscaler](ctx, c, check, autoscalingplan.Finalizer, "delete it, so that Drover releases its MachineSet"),
		adder[*machinev1beta1.Machine](ctx, c, check, machinev1beta1.MachineFinalizer, "wait until it is deleted"),
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

// adder returns a function that adds the objects of a kind. A kind that the cluster does not serve has none.
func adder[T client.Object](ctx context.Context, c client.Reader, check *view.UninstallCheck, finalizer, todo string) func() error {
	return func() error {
		all, err := cmdutil.List[T](ctx, c, "")
		if cmdutil.IsNotServed(err) {
			return nil
		}
		for _, object := range all {
			_, isMachine := any(object).(*machinev1beta1.Machine)
			if !slices.Contains(object.GetFinalizers(), finalizer) || isMachine && object.GetDeletionTimestamp() == nil {
				continue
			}
			item := view.UninstallItem{Object: cmdutil.NameOf(object), Namespace: object.GetNamespace(), Finalizer: finalizer, ToDo: todo}
			if object.GetDeletionTimestamp() != nil {
				item.ToDo = "wait until it is deleted"
			}
			check.Items = append(check.Items, item)
		}
		return err
	}
}

func draw(text *cmdutil.Text, check *view.UninstallCheck) {
	if len(check.Items) == 0 {
		text.Printf("No object needs Drover.\n")
		return
	}
	var rows [][]any
	for _, item := range check.Items {
		rows = append(rows, []any{item.Namespace, item.Object, item.Finalizer, item.ToDo})
	}
	text.Table(cmdutil.Columns{Always: []string{"Namespace", "Object", "Finalizer", "To-Do"}}, rows)
	text.Printf("\nAn object that an operator serves which Drover has not replaced, such as machine-api-operator, does not need Drover: " +
		"leave it to that operator.\n")
}
