package machineconfig

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/drover-io/drover/test/openshift"
)

// AddFlags adds a flag for each option that a command line can give.
func AddFlags(flags *pflag.FlagSet, o *openshift.Options) {
	flags.DurationVar(&o.ControlPlane, "control-plane-delay", o.ControlPlane, "time from a new desired version until the masters start")
	flags.DurationVar(&o.Completion, "completion-delay", o.Completion, "time from the end of the masters until the history says Completed")
	flags.Var((*text[openshift.Moment])(&o.WorkersAt), "workers-at",
		fmt.Sprintf("when all other pools get the new version: %s (default), %s or %s",
			openshift.BeforeCompleted, openshift.WithMasters, openshift.AfterCompleted))
	flags.DurationVar(&o.Drain, "drain-delay", o.Drain, "least time of a node's drain")
	flags.DurationVar(&o.Config, "config-delay", o.Config, "time in which a node applies its configuration")
	flags.DurationVar(&o.Reboot, "reboot-delay", o.Reboot, "time in which a node is NotReady")
	flags.BoolVar(&o.CordonOnly, "cordon-only", o.CordonOnly, "evict no pods")
	flags.DurationVar(&o.EvictionRetry, "eviction-retry", o.EvictionRetry, "time after a refused eviction (default 1s)")
	flags.Var((*text[openshift.RebootMethod])(&o.RebootBy), "reboot-by",
		fmt.Sprintf("how nodes turn NotReady: %s (default; by kwok where kwok plays the node), %s (by their status) or %s (not at all)",
			openshift.RebootAuto, openshift.RebootStatus, openshift.RebootSkip))
	flags.BoolVar(&o.NoVersionLabel, "no-version-label", o.NoVersionLabel, "leave the label "+openshift.VersionKey+" of the nodes alone")
	flags.StringToStringVar(&o.Degrade, "degrade", o.Degrade, "`node=reason`: the node fails when it applies its configuration")
	flags.StringToStringVar(&o.Hang, "hang", o.Hang, "`node=step`: the node never gets out of the step, one of drain, config, reboot, boot")
	flags.IntVar(&o.Parallel, "parallel", o.Parallel, "number of nodes that are worked on at once (default 24)")
}

// text is a flag of a type that is a string.
type text[T ~string] string

// String returns the value.
func (t *text[T]) String() string { return string(*t) }

// Set takes any value; Validate finds the wrong ones.
func (t *text[T]) Set(value string) error {
	*t = text[T](value)
	return nil
}

// Type names the flag's value in the help.
func (t *text[T]) Type() string { return "word" }
