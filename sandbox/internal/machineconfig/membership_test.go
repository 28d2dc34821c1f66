package machineconfig

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMembership(t *testing.T) {
	cases := []struct {
		name  string
		roles []string
		want  string
	}{
		{"a worker", []string{"worker"}, "worker"},
		{"a master", []string{"master"}, "master"},
		{"a master that is a worker too", []string{"master", "worker"}, "master"},
		{"a custom role beside worker", []string{"infra", "worker"}, "infra"},
		{"a custom role alone", []string{"infra"}, "infra"},
		{"a custom role of a master", []string{"infra", "master", "worker"}, "master"},
		{"no role", nil, ""},
		{"a role without a pool", []string{"storage"}, ""},
	}
	membership := NewMembership(pools("worker", "infra", "master", "canary"))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got, err := membership.Of(newNode("n", "c", c.roles...).Labels); err != nil || got != c.want {
				t.Errorf("it is in %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestMembership_SeveralCustomPools(t *testing.T) {
	membership := NewMembership(pools("worker", "infra", "master", "canary"))
	for _, roles := range [][]string{{"infra", "canary"}, {"infra", "canary", "worker"}, {"infra", "canary", "master"}} {
		got, err := membership.Of(newNode("n", "c", roles...).Labels)
		var conflict *ConflictError
		if !errors.As(err, &conflict) || got != "" || !slices.Equal(conflict.Pools, []string{"canary", "infra"}) {
			t.Errorf("%v: it is in %q (%v)", roles, got, err)
		}
	}
}

func TestMembership_SelectorsWithExpressions(t *testing.T) {
	const held = "gate/held"
	expression := func(operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: held, Operator: operator}}}
	}
	all := pools("worker", "target", "canary")
	all[1].Spec.NodeSelector, all[2].Spec.NodeSelector = expression(metav1.LabelSelectorOpExists), expression(metav1.LabelSelectorOpDoesNotExist)
	membership := NewMembership(all)
	node := newNode("n", "c", "worker")
	if got, _ := membership.Of(node.Labels); got != "canary" {
		t.Errorf("without the label it is in %q", got)
	}
	node.Labels[held] = ""
	if got, _ := membership.Of(node.Labels); got != "target" {
		t.Errorf("with the label it is in %q", got)
	}
}

func TestMembership_PoolsThatSelectNothing(t *testing.T) {
	all := pools("worker", "empty", "none", "broken")
	all[1].Spec.NodeSelector = &metav1.LabelSelector{}
	all[2].Spec.NodeSelector = nil
	all[3].Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	if got, err := NewMembership(all).Of(newNode("n", "c", "worker").Labels); got != "worker" || err != nil {
		t.Errorf("it is in %q (%v)", got, err)
	}
}
