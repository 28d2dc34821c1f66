package cli

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

// DefaultNamespace is where OpenShift keeps its MachineSets. The namespace of the kubeconfig's context is not used: it is where
// people run their applications, and there are no Machines in it.
const DefaultNamespace = "openshift-machine-api"

// options are what every subcommand shares.
type options struct {
	genericiooptions.IOStreams
	config        *genericclioptions.ConfigFlags
	allNamespaces bool
	protect       ownership.Protected
	unprotect     ownership.Protected
	now           func() time.Time
	// connect makes the client; tests put their own here.
	connect func() (client.WithWatch, error)
}

func newOptions(streams genericiooptions.IOStreams) *options {
	streams.Out, streams.ErrOut = &escaped{out: streams.Out}, &escaped{out: streams.ErrOut}
	o := &options{IOStreams: streams, config: genericclioptions.NewConfigFlags(true), now: time.Now}
	o.connect = o.dial
	return o
}

// addFlags adds the usual flags of kubectl.
func (o *options) addFlags(flags *pflag.FlagSet) {
	o.config.AddFlags(flags)
	flag := flags.Lookup("namespace")
	flag.Usage = fmt.Sprintf("The namespace of the MachineSets and Machines (default %q)", DefaultNamespace)
}

func (o *options) addAllNamespaces(command *cobra.Command) {
	command.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Look at the MachineSets and Machines of all namespaces")
}

// addProtect adds the flags for keys that the operator's configuration protects on top of the built-in ones.
func (o *options) addProtect(command *cobra.Command) {
	flags := command.Flags()
	const usage = "Pattern of %s that belong to the system, on top of the built-in ones, as in the operator's configuration; " +
		"* stands for any text; may be repeated"
	flags.StringSliceVar(&o.protect.Labels, "protect-label", nil, fmt.Sprintf(usage, "label keys"))
	flags.StringSliceVar(&o.protect.Annotations, "protect-annotation", nil, fmt.Sprintf(usage, "annotation keys"))
	flags.StringSliceVar(&o.protect.Taints, "protect-taint", nil, fmt.Sprintf(usage, "taint keys"))
	const removal = "Built-in pattern of %s that do not belong to the system, as in the operator's configuration; may be repeated"
	flags.StringSliceVar(&o.unprotect.Labels, "unprotect-label", nil, fmt.Sprintf(removal, "label keys"))
	flags.StringSliceVar(&o.unprotect.Annotations, "unprotect-annotation", nil, fmt.Sprintf(removal, "annotation keys"))
	flags.StringSliceVar(&o.unprotect.Taints, "unprotect-taint", nil, fmt.Sprintf(removal, "taint keys"))
}

// protected is the full list of protected keys, checked.
func (o *options) protected() (ownership.Protected, error) {
	for _, flags := range []struct {
		kind               ownership.Kind
		suffix             string
		protect, unprotect []string
	}{
		{ownership.Label, "label", o.protect.Labels, o.unprotect.Labels},
		{ownership.Annotation, "annotation", o.protect.Annotations, o.unprotect.Annotations},
		{ownership.Taint, "taint", o.protect.Taints, o.unprotect.Taints},
	} {
		for _, pattern := range flags.protect {
			if err := ownership.ValidatePattern(pattern); err != nil {
				return ownership.Protected{}, usageError("--protect-%s %q: %w", flags.suffix, pattern, err)
			}
		}
		for _, pattern := range flags.unprotect {
			if err := ownership.ValidateRemoved(flags.kind, pattern); err != nil {
				return ownership.Protected{}, usageError("--unprotect-%s %q: %w", flags.suffix, pattern, err)
			}
		}
	}
	return ownership.NewProtected(o.protect, o.unprotect), nil
}

// namespace is where to look, empty for everywhere.
func (o *options) namespace() string {
	switch {
	case o.allNamespaces:
		return ""
	case o.config.Namespace != nil && *o.config.Namespace != "":
		return *o.config.Namespace
	}
	return DefaultNamespace
}

// where names the place that was looked at, for messages.
func (o *options) where() string {
	if namespace := o.namespace(); namespace != "" {
		return fmt.Sprintf("namespace %q", namespace)
	}
	return "any namespace"
}

type runner func(ctx context.Context, args []string) error

// run adapts a runner to cobra.
func run(r runner) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error { return r(command.Context(), args) }
}
