package maintenance

import (
	"strings"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance/spec"
)

// DrainOptions reads spec.drain; nil is the default. The error names the field that cannot be read.
func DrainOptions(from *medik8s.DrainSpec) (drain.Options, error) { return spec.DrainOptions(from) }

// Limits are what an administrator has switched off for all NodeMaintenances.
type Limits struct {
	// NoForce has no drain delete Pods past their PodDisruptionBudgets, NoOutOfService no node get the taint node.kubernetes.io/out-of-service.
	NoForce, NoOutOfService bool
}

// What is switched off, by the field that asks for it and the setting.
const (
	textNoForce        = "spec.drain.force: Forbidden: maintenance.force is Off in Drover's configuration"
	textNoOutOfService = "spec.drain.unreachable: Forbidden: OutOfService is not available, since maintenance.outOfService is Off in Drover's " +
		"configuration"
)

// Denial says why a NodeMaintenance may not ask for a drain; empty when it may.
func (l Limits) Denial(asked *medik8s.DrainSpec) string {
	switch {
	case asked == nil:
	case l.NoForce && asked.Force:
		return textNoForce
	case l.NoOutOfService && asked.Unreachable == medik8s.UnreachableOutOfService:
		return textNoOutOfService
	}
	return ""
}

// apply takes what is switched off out of the options, and says what has no effect. Without the taint nothing has the Pods of a node that does not
// answer removed, so they are waited for.
func (l Limits) apply(options *drain.Options) (ignored string) {
	var texts []string
	if l.NoForce && options.Force {
		options.Force = false
		texts = append(texts, textNoForce+"; pods are evicted within their budgets")
	}
	if l.NoOutOfService && options.Unreachable == drain.OutOfService {
		options.Unreachable = drain.Wait
		texts = append(texts, textNoOutOfService+"; the pods of a node that does not answer are waited for")
	}
	return strings.Join(texts, "; ")
}
