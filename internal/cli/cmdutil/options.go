// Package cmdutil is what the commands of kubectl drover share: flags, the client, lists, output and errors.
package cmdutil

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/ownership"
)

// DefaultNamespace is where OpenShift keeps its MachineSets. The namespace of the kubeconfig's context is not used: people run their
// applications in it, and there are no Machines in it.
const DefaultNamespace = "openshift-machine-api"

// defaultDroverNamespace is where the manifests install Drover.
const defaultDroverNamespace = "drover-system"

// Options are what all commands share.
type Options struct {
	genericiooptions.IOStreams
	Config        *genericclioptions.ConfigFlags
	AllNamespaces bool
	// DroverNamespace is where Drover is installed.
	DroverNamespace string
	Now             func() time.Time
	// Connect returns a client of the cluster. Tests replace it.
	Connect func() (client.WithWatch, error)
	// Get reads a path of the API server that is no object. The body is there with the error, too. Tests replace it.
	Get func(ctx context.Context, path string) ([]byte, error)
}

// NewOptions returns options for streams, which then escape what they write.
func NewOptions(streams genericiooptions.IOStreams) *Options {
	streams.Out, streams.ErrOut = &escaped{out: streams.Out}, &escaped{out: streams.ErrOut}
	o := &Options{IOStreams: streams, Config: genericclioptions.NewConfigFlags(true), DroverNamespace: defaultDroverNamespace, Now: time.Now}
	o.Connect, o.Get = o.connect, o.get
	return o
}

// AddFlags adds kubectl's flags for the cluster and the user.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Config.AddFlags(flags)
	flags.Lookup("namespace").Usage = fmt.Sprintf(
		"Namespace of the MachineSets and Machines (default %q); for upgrade commands, of the runs (default all namespaces)", DefaultNamespace)
}

// AddAllNamespaces adds --all-namespaces.
func (o *Options) AddAllNamespaces(command *cobra.Command) {
	command.Flags().BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "If true, use the MachineSets and Machines of all namespaces")
}

// GivenNamespace returns the namespace of --namespace, empty without it.
func (o *Options) GivenNamespace() string {
	if o.Config.Namespace == nil {
		return ""
	}
	return *o.Config.Namespace
}

// Namespace returns the namespace of MachineSets and Machines, empty for all.
func (o *Options) Namespace() string {
	switch {
	case o.AllNamespaces:
		return ""
	case o.GivenNamespace() != "":
		return o.GivenNamespace()
	}
	return DefaultNamespace
}

// Where names the namespace in messages.
func (o *Options) Where() string {
	if namespace := o.Namespace(); namespace != "" {
		return fmt.Sprintf("namespace %q", namespace)
	}
	return "any namespace"
}

// FlagGroup is flags that are added to a command and checked together.
type FlagGroup interface {
	AddFlags(command *cobra.Command)
	Validate() error
}

// Command completes a command: it adds flags and, when it runs, checks them, connects to the cluster and calls run.
func (o *Options) Command(
	command *cobra.Command, run func(ctx context.Context, c client.WithWatch, args []string) error, flags ...FlagGroup,
) *cobra.Command {
	for _, group := range flags {
		group.AddFlags(command)
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		for _, group := range flags {
			if err := group.Validate(); err != nil {
				return err
			}
		}
		c, err := o.Connect()
		if err != nil {
			return err
		}
		return run(command.Context(), c, args)
	}
	return command
}

// ProtectFlags are the keys that the operator's configuration adds to and removes from the built-in list of protected keys.
type ProtectFlags struct{ protect, unprotect ownership.Protected }

func (p *ProtectFlags) each(visit func(kind ownership.Kind, protect, unprotect *[]string)) {
	visit(ownership.Label, &p.protect.Labels, &p.unprotect.Labels)
	visit(ownership.Annotation, &p.protect.Annotations, &p.unprotect.Annotations)
	visit(ownership.Taint, &p.protect.Taints, &p.unprotect.Taints)
}

// AddFlags adds --protect-label and its like.
func (p *ProtectFlags) AddFlags(command *cobra.Command) {
	flags := command.Flags()
	p.each(func(kind ownership.Kind, protect, unprotect *[]string) {
		flags.StringSliceVar(protect, "protect-"+string(kind), nil, fmt.Sprintf(
			"Pattern of %s keys that belong to the system, in addition to the built-in ones, as in the operator's configuration; "+
				"* matches any text; can be repeated", kind))
		flags.StringSliceVar(unprotect, "unprotect-"+string(kind), nil, fmt.Sprintf(
			"Built-in pattern of %s keys that do not belong to the system, as in the operator's configuration; can be repeated", kind))
	})
}

// Validate checks the flags.
func (p *ProtectFlags) Validate() (err error) {
	p.each(func(kind ownership.Kind, protect, unprotect *[]string) {
		for _, pattern := range *protect {
			if failure := ownership.ValidatePattern(pattern); failure != nil && err == nil {
				err = UsageError("--protect-%s %q: %w", kind, pattern, failure)
			}
		}
		for _, pattern := range *unprotect {
			if failure := ownership.ValidateRemoved(kind, pattern); failure != nil && err == nil {
				err = UsageError("--unprotect-%s %q: %w", kind, pattern, failure)
			}
		}
	})
	return err
}

// Protected returns all protected keys.
func (p *ProtectFlags) Protected() ownership.Protected {
	return ownership.NewProtected(p.protect, p.unprotect)
}
