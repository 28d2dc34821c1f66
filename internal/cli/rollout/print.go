package rollout

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
)

// printFlags are the flags of kubectl for what a command has changed: its name with what was done, or the object with -o.
type printFlags struct {
	*genericclioptions.PrintFlags
	cmdutil.DryRunFlag
}

func newPrintFlags() printFlags {
	return printFlags{PrintFlags: genericclioptions.NewPrintFlags("").WithTypeSetter(cmdutil.Scheme)}
}

// addFlags adds the flags to a command.
func (f *printFlags) addFlags(command *cobra.Command) {
	f.PrintFlags.AddFlags(command)
	f.DryRunFlag.AddFlag(command)
}

// Validate checks the flags.
func (f *printFlags) Validate() error {
	if _, err := f.ToPrinter(); err != nil {
		return cmdutil.AsUsageError(err)
	}
	return f.DryRunFlag.Validate()
}

// print prints an object, or its name and what was done with it.
func (f *printFlags) print(o *cmdutil.Options, object client.Object, done string) error {
	f.NamePrintFlags.Operation = done + f.Note()
	printer, err := f.ToPrinter()
	if err != nil {
		return err
	}
	out := o.Out
	if f.OutputFlagSpecified() {
		// Documents are not escaped.
		out = cmdutil.Raw(out)
	}
	return printer.PrintObj(object, out)
}
