package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
)

func TestDrainOptions(t *testing.T) {
	seconds := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Second} }
	for _, c := range []struct {
		name string
		from *medik8s.DrainSpec
		want drain.Options
	}{
		{"no section", nil, drain.Options{}},
		{"an empty section", &medik8s.DrainSpec{}, drain.Options{}},
		{"everything", &medik8s.DrainSpec{
			Deadline: seconds(60), Force: true, Order: medik8s.OrderPriority, MinimumTime: seconds(5), Unreachable: medik8s.UnreachableOutOfService,
			WaitForVolumes: true, VolumesTimeout: seconds(7), Honor: []medik8s.Convention{medik8s.ConventionKarpenter, medik8s.ConventionClusterAPI},
			PodRules: []medik8s.PodRule{
				{Namespaces: []string{"a"}, Behavior: medik8s.BehaviorSkip},
				{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}, Order: new(int32(3))},
			},
		}, drain.Options{
			Deadline: time.Minute, Force: true, ByPriority: true, MinimumTime: 5 * time.Second, Unreachable: drain.OutOfService, Volumes: true,
			VolumesTimeout: 7 * time.Second, Karpenter: true, ClusterAPI: true,
			Rules: []drain.Rule{{Namespaces: []string{"a"}, Behavior: drain.Skip}, {Selector: labels.SelectorFromSet(labels.Set{"x": "y"}), Order: 3}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DrainOptions(c.from)
			equal := cmp.Comparer(func(a, b labels.Selector) bool {
				return (a == nil) == (b == nil) && (a == nil || a.String() == b.String())
			})
			if diff := cmp.Diff(c.want, got, equal); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	bad := &medik8s.DrainSpec{PodRules: []medik8s.PodRule{{}, {PodSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
	}}}}
	if _, err := DrainOptions(bad); err == nil || !strings.Contains(err.Error(), "spec.drain.podRules[1].podSelector: ") {
		t.Errorf("%v", err)
	}
}
