package cmdutil

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

// ErrChanges ends `plan` when something would change. It is not a failure, and is not printed.
var ErrChanges = errors.New("something would change")

// usageError is an error in what was typed; a hint to --help follows it.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// UsageError returns an error in what was typed.
func UsageError(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// AsUsageError marks an error as one in what was typed.
func AsUsageError(err error) error { return usageError{err} }

// IsUsageError reports whether an error is one in what was typed.
func IsUsageError(err error) bool { return errors.As(err, &usageError{}) }

// installs is what to do about kinds that the cluster does not serve, by API group.
var installs = map[string]string{
	machinev1beta1.GroupName:    "OpenShift has the Machine API; elsewhere install its CRDs (kubectl apply -k config/crd)",
	medik8s.GroupVersion.Group:  "install Drover's CRDs (kubectl apply -k config/crd/nodemaintenance)",
	kubevirt.GroupVersion.Group: "install Drover's CRDs (kubectl apply -k config/crd/nodemaintenance)",
	mutex.GroupVersion.Group:    "install the CRDs of the upgrade gate (kubectl apply -k config/crd/mutex)",
	drover.GroupVersion.Group:   "install the CRD of NodeGroups (kubectl apply -k config/crd/nodegroup)",
}

// permissions is where users find the rights that they need.
const permissions = "kubectl drover check shows which rights you lack; docs/kubectl-drover.md lists those that each command needs"

// Explain adds to an error of the API server what is wrong and what to do about it. The action is what was tried with the resource.
func Explain(err error, action string, resource schema.GroupResource) error {
	install := installs[resource.Group]
	switch {
	case err == nil:
		return nil
	case IsNotServed(err) && install != "":
		return fmt.Errorf("%s: the cluster does not serve %s; %s or choose another cluster with --context: %w", action, resource, install, err)
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission webhook"):
		return fmt.Errorf("%s: %w\n%s", action, err, permissions)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the cluster does not accept the credentials of the kubeconfig; log in again: %w", action, err)
	case apierrors.IsResourceExpired(err):
		return fmt.Errorf("%s: the answers of the cluster took longer than the API server keeps what it began with; run the command again: %w", action, err)
	case utilnet.IsConnectionRefused(err):
		return fmt.Errorf("%s: nothing answers at the address of the kubeconfig; check --context, --kubeconfig and that the cluster runs: %w", action, err)
	}
	return fmt.Errorf("%s: %w", action, err)
}

// IsNotServed reports whether the API server does not know the resource, which it says with a 404 that names no object.
func IsNotServed(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// TheCluster is where objects without a namespace are.
const TheCluster = "the cluster"

// NotFound says that there is no such object, and suggests names.
func NotFound(kind, name, where string, known []string) error {
	text := fmt.Sprintf("%s %q not found in %s", kind, name, where)
	switch similar := similarNames(name, known); {
	case len(similar) > 0:
		text += "; did you mean " + strings.Join(similar, ", ") + "?"
	case len(known) == 0 && where == TheCluster:
		text += fmt.Sprintf("; there are no %ss in it", kind)
	case len(known) == 0:
		text += fmt.Sprintf("; there are no %ss in it; choose another with -n or --all-namespaces", kind)
	case len(known) <= 10:
		text += "; there are " + strings.Join(known, ", ")
	default:
		text += fmt.Sprintf("; there are %d others, which kubectl drover status lists", len(known))
	}
	return errors.New(text)
}

// similarNames returns at most three names that differ from the given one by a typo or two, or contain it. cobra knows the first for the
// names of commands.
func similarNames(name string, known []string) []string {
	if name == "" {
		return nil
	}
	names := &cobra.Command{SuggestionsMinimumDistance: max(2, len(name)/4)}
	for _, other := range known {
		names.AddCommand(&cobra.Command{Use: other, Run: func(*cobra.Command, []string) {}})
	}
	similar := names.SuggestionsFor(name)
	for _, other := range known {
		if strings.Contains(other, name) && !slices.Contains(similar, other) {
			similar = append(similar, other)
		}
	}
	return similar[:min(3, len(similar))]
}

// NewGroup makes a command that only has subcommands: alone it prints its help.
func NewGroup(command *cobra.Command) *cobra.Command {
	command.SuggestionsMinimumDistance = 2
	command.Args = func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return UsageError("unknown command %q%s", args[0], suggestion(command, args[0]))
	}
	command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	return command
}

// suggestion says which subcommands, also of subcommands, a mistyped one may stand for; of few subcommands it names all.
func suggestion(command *cobra.Command, typed string) string {
	direct := command.SuggestionsFor(typed)
	similar, all := direct, []string{}
	for _, child := range command.Commands() {
		for _, name := range child.SuggestionsFor(typed) {
			if len(direct) == 0 {
				similar = append(similar, child.Name()+" "+name)
			}
		}
		if child.IsAvailableCommand() {
			all = append(all, child.Name())
		}
	}
	switch {
	case len(similar) > 0:
		return `; did you mean "` + strings.Join(similar[:min(3, len(similar))], `" or "`) + `"?`
	case command.HasParent():
		return "; there are " + strings.Join(all, ", ")
	}
	return ""
}
