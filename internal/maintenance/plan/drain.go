package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
)

// DrainOptions returns the options that spec.drain asks for; nil asks for the default. The error names the field that is invalid.
func DrainOptions(from *medik8s.DrainSpec) (drain.Options, error) {
	if from == nil {
		return drain.Options{}, nil
	}
	options := drain.Options{
		ByPriority: from.Order == medik8s.OrderPriority, Force: from.Force, Volumes: from.WaitForVolumes,
		ClusterAPI: slices.Contains(from.Honor, medik8s.ConventionClusterAPI), Karpenter: slices.Contains(from.Honor, medik8s.ConventionKarpenter),
		Unreachable: drain.Unreachable(from.Unreachable), Returning: drain.Returning(from.ReturningPods),
		Deadline: duration(from.Deadline), MinimumTime: duration(from.MinimumTime), VolumesTimeout: duration(from.VolumesTimeout),
	}
	for i := range from.PodRules {
		rule, err := drainRule(&from.PodRules[i])
		if err != nil {
			return drain.Options{}, fmt.Errorf("spec.drain.podRules[%d].podSelector: %w", i, err)
		}
		options.Rules = append(options.Rules, rule)
	}
	return options, nil
}

func duration(from *metav1.Duration) time.Duration {
	if from == nil {
		return 0
	}
	return from.Duration
}

func drainRule(from *medik8s.PodRule) (drain.Rule, error) {
	rule := drain.Rule{Namespaces: from.Namespaces, Behavior: drain.Behavior(from.Behavior)}
	if from.Order != nil {
		rule.Order = *from.Order
	}
	if from.PodSelector == nil {
		return rule, nil
	}
	var err error
	rule.Selector, err = metav1.LabelSelectorAsSelector(from.PodSelector)
	return rule, err
}

// Limits are what an administrator has disabled for all NodeMaintenances.
type Limits struct {
	// NoForce disables the deletion of Pods past their PodDisruptionBudgets, NoOutOfService the taint node.kubernetes.io/out-of-service.
	NoForce, NoOutOfService bool
}

// The texts name the field that asks for something and the setting that disables it.
const (
	textNoForce        = "spec.drain.force: Forbidden: maintenance.force is Off in Drover's configuration"
	textNoOutOfService = "spec.drain.unreachable: Forbidden: OutOfService is not available, since maintenance.outOfService is Off in Drover's " +
		"configuration"
)

// Denial returns why a NodeMaintenance may not ask for a drain; empty when it may.
func (l Limits) Denial(drain *medik8s.DrainSpec) string {
	switch {
	case drain == nil:
	case l.NoForce && drain.Force:
		return textNoForce
	case l.NoOutOfService && drain.Unreachable == medik8s.UnreachableOutOfService:
		return textNoOutOfService
	}
	return ""
}

// apply removes what is disabled from the options, and describes what is ignored. Without the taint, the Pods of an unreachable node are not
// removed, so the drain waits for them.
func (l Limits) apply(options *drain.Options) (ignored string) {
	var texts []string
	if l.NoForce && options.Force {
		options.Force = false
		texts = append(texts, textNoForce+"; pods are evicted within their budgets")
	}
	if l.NoOutOfService && options.Unreachable == drain.OutOfService {
		options.Unreachable = drain.Wait
		texts = append(texts, textNoOutOfService+"; the drain waits for the pods of an unreachable node")
	}
	return strings.Join(texts, "; ")
}
