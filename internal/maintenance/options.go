package maintenance

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
)

// DrainOptions reads spec.drain; nil is the default. The error names the field that cannot be read.
func DrainOptions(spec *medik8s.DrainSpec) (drain.Options, error) {
	if spec == nil {
		return drain.Options{}, nil
	}
	options := drain.Options{
		ByPriority: spec.Order == medik8s.OrderPriority, Force: spec.Force, Volumes: spec.WaitForVolumes,
		ClusterAPI: slices.Contains(spec.Honor, medik8s.ConventionClusterAPI), Karpenter: slices.Contains(spec.Honor, medik8s.ConventionKarpenter),
		Unreachable: drain.Unreachable(spec.Unreachable),
	}
	if spec.Deadline != nil {
		options.Deadline = spec.Deadline.Duration
	}
	if spec.MinimumTime != nil {
		options.MinimumTime = spec.MinimumTime.Duration
	}
	if spec.VolumesTimeout != nil {
		options.VolumesTimeout = spec.VolumesTimeout.Duration
	}
	for i := range spec.PodRules {
		rule := &spec.PodRules[i]
		made := drain.Rule{Namespaces: rule.Namespaces, Behavior: drain.Behavior(rule.Behavior)}
		if rule.Order != nil {
			made.Order = *rule.Order
		}
		if rule.PodSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(rule.PodSelector)
			if err != nil {
				return drain.Options{}, fmt.Errorf("spec.drain.podRules[%d].podSelector: %w", i, err)
			}
			made.Selector = selector
		}
		options.Rules = append(options.Rules, made)
	}
	return options, nil
}
