package plugin

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
	now           func() time.Time
	// connect makes the client; tests put their own here.
	connect func() (client.WithWatch, error)
}

func newOptions(streams genericiooptions.IOStreams) *options {
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
}

// protected is the full list of protected keys, checked.
func (o *options) protected() (ownership.Protected, error) {
	for flag, patterns := range map[string][]string{
		"protect-label": o.protect.Labels, "protect-annotation": o.protect.Annotations, "protect-taint": o.protect.Taints,
	} {
		for _, pattern := range patterns {
			if err := ownership.ValidatePattern(pattern); err != nil {
				return ownership.Protected{}, usageError("--%s %q: %w", flag, pattern, err)
			}
		}
	}
	return ownership.DefaultProtected().And(o.protect), nil
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
