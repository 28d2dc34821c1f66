// Package spec reads the spec of a NodeMaintenance: what it asks of a drain. It is pure, so that kubectl drover can use it, too.
package spec

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/drain"
)

// DrainOptions reads spec.drain; nil is the default. The error names the field that cannot be read.
func DrainOptions(from *medik8s.DrainSpec) (drain.Options, error) {
	if from == nil {
		return drain.Options{}, nil
	}
	options := drain.Options{
		ByPriority: from.Order == medik8s.OrderPriority, Force: from.Force, Volumes: from.WaitForVolumes,
		ClusterAPI: slices.Contains(from.Honor, medik8s.ConventionClusterAPI), Karpenter: slices.Contains(from.Honor, medik8s.ConventionKarpenter),
		Unreachable: drain.Unreachable(from.Unreachable),
	}
	if from.Deadline != nil {
		options.Deadline = bounded.Duration(from.Deadline.Duration)
	}
	if from.MinimumTime != nil {
		options.MinimumTime = bounded.Duration(from.MinimumTime.Duration)
	}
	if from.VolumesTimeout != nil {
		options.VolumesTimeout = bounded.Duration(from.VolumesTimeout.Duration)
	}
	for i := range from.PodRules {
		rule, err := ruleOf(&from.PodRules[i])
		if err != nil {
			return drain.Options{}, fmt.Errorf("spec.drain.podRules[%d].podSelector: %w", i, err)
		}
		options.Rules = append(options.Rules, rule)
	}
	return options, nil
}

func ruleOf(from *medik8s.PodRule) (drain.Rule, error) {
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
