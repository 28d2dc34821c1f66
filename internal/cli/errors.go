package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Exit codes.
const (
	exitOK = 0
	// exitError: bad input, or the cluster could not be asked.
	exitError = 1
	// exitChanges: `plan` found something that would change.
	exitChanges = 2
)

// errChanges ends `plan` when something would change. It is no failure and is not printed.
var errChanges = errors.New("something would change")

// usage is an error in what was typed; the hint to --help is printed after it.
type usage struct{ error }

// Unwrap gives the error itself.
func (u usage) Unwrap() error { return u.error }

func usageError(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

// explained adds to an error of the API server what is wrong and what to do about it. The action is what was tried.
func explained(err error, action, resource string) error {
	switch {
	case err == nil:
		return nil
	case missing(err) && (resource == "machinesets" || resource == "machines"):
		return fmt.Errorf("%s: the cluster does not serve %s.machine.openshift.io/v1beta1. "+
			"OpenShift brings the Machine API; elsewhere install its CRDs (kubectl apply -k config/crd) or choose another cluster with --context: %w",
			action, resource, err)
	case missing(err) && strings.HasPrefix(resource, "mutex"):
		return fmt.Errorf("%s: the cluster does not serve %s; install the CRDs of the upgrade gate (kubectl apply -k config/crd/mutex): %w",
			action, resource, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w\nplan, status and explain need get and list (with --watch or --wait also watch) on machinesets and machines "+
			"of the namespace and on nodes; "+
			"pause and resume need get and patch on what they are given", action, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the cluster does not accept the credentials of the kubeconfig; log in again: %w", action, err)
	case utilnet.IsConnectionRefused(err):
		return fmt.Errorf("%s: nothing answers at the address of the kubeconfig; check --context, --kubeconfig and that the cluster runs: %w", action, err)
	}
	return fmt.Errorf("%s: %w", action, err)
}

// missing tells that the API server does not know the resource at all, which it says with a 404 that names no object.
func missing(err error) bool {
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

// notFound says that there is no such pool, and which ones have a name like it.
func notFound(what, name, where string, known []string) error {
	text := fmt.Sprintf("%s %q not found in %s", what, name, where)
	switch near := nearest(name, known); {
	case len(near) > 0:
		text += "; did you mean " + strings.Join(near, ", ") + "?"
	case len(known) == 0:
		text += fmt.Sprintf("; there are no %ss in it; choose another with -n or --all-namespaces", what)
	case len(known) <= 10:
		text += "; there are " + strings.Join(known, ", ")
	default:
		text += fmt.Sprintf("; there are %d others, which kubectl drover status lists", len(known))
	}
	return errors.New(text)
}

// nearest lists at most three names that differ from the given one by a typo or two, or contain it, the closest first.
func nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var candidates []candidate
	for _, other := range known {
		distance := editDistance(name, other)
		if name != "" && strings.Contains(other, name) {
			distance = min(distance, 2)
		}
		if distance <= max(2, len(name)/4) {
			candidates = append(candidates, candidate{other, distance})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range candidates[:min(3, len(candidates))] {
		names = append(names, c.name)
	}
	return names
}

// editDistance is the number of bytes to insert, delete or replace to make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
