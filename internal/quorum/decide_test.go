package quorum

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/internal/drain"
)

// members returns a control-plane node for each letter: r is ready, n is not, u is unknown, - has no condition, c is ready and cordoned; the node of
// a capital letter is in maintenance. The name of a node is the position of its letter.
func members(states string) []corev1.Node {
	nodes := make([]corev1.Node, len(states))
	for i, state := range strings.ToLower(states) {
		nodes[i].Name = fmt.Sprint(i)
		status, ok := map[rune]corev1.ConditionStatus{
			'r': corev1.ConditionTrue, 'c': corev1.ConditionTrue, 'n': corev1.ConditionFalse, 'u': corev1.ConditionUnknown,
		}[state]
		if ok {
			nodes[i].Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: status},
			}
		}
		nodes[i].Spec.Unschedulable = strings.ContainsAny(states[i:i+1], "cC")
		if states[i] >= 'A' && states[i] <= 'Z' {
			nodes[i].Annotations = map[string]string{drain.AnnotationCordon: `{"by":"a test"}`}
		}
	}
	return nodes
}

func TestDecideNodes(t *testing.T) {
	const enough = ""
	for _, c := range []struct {
		states string // the first one is checked
		want   string
	}{
		{"", enough},
		{"r", "without node 0, 0 of 1 control-plane nodes would be ready, and 1 are needed"},
		{"n", enough},
		{"rr", "without node 0, 1 of 2 control-plane nodes would be ready, and 2 are needed"},
		{"nr", enough},
		{"rn", "0 of 2 control-plane nodes would be ready"},
		{"rrr", enough},
		{"rrn", "without node 0, 1 of 3 control-plane nodes would be ready, and 2 are needed"},
		{"rru", "1 of 3"},
		{"rr-", "1 of 3"},
		{"nrr", enough},
		{"urr", enough},
		{"-rr", enough},
		{"nrn", enough},
		{"rrR", "node 0 has to wait until control-plane node 2 is out of maintenance"},
		{"nrR", "node 0 has to wait until control-plane node 2 is out of maintenance"},
		{"rNr", "node 0 has to wait until control-plane node 1 is out of maintenance"},
		// Its own cordon record is no obstacle.
		{"Rrr", enough},
		{"rrrr", enough},
		{"rrrn", "2 of 4 control-plane nodes would be ready, and 3 are needed"},
		{"rrrrr", enough},
		{"rrrrn", enough},
		{"rrrnn", "2 of 5 control-plane nodes would be ready, and 3 are needed"},
		{"nrrrR", "has to wait"},
		{"rrrrrrr", enough},
		{"rrrrrnn", enough},
		{"rrrrnnn", "3 of 7"},
		{"rrc", "without node 0, 1 of 3 control-plane nodes would be ready and schedulable, and 2 are needed; cordoned: 2"},
		{"rcc", "0 of 3 control-plane nodes would be ready and schedulable, and 2 are needed; cordoned: 1, 2"},
		{"crr", enough},
		{"crc", "cordoned: 2"},
		{"nrc", enough},
		{"rrrrc", enough},
		{"rrrnc", "2 of 5"},
	} {
		got := decideNodes("0", members(c.states), nil)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.states, got, c.want)
		}
	}
	// The Node object is gone.
	for states, want := range map[string]string{
		"": enough, "r": "without node gone, 1 of 2 control-plane nodes would be ready", "rr": enough, "rn": "1 of 3", "rR": "until control-plane node 1",
	} {
		if got := decideNodes("gone", members(states), nil); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("gone, of %s: %q, want %q", states, got, want)
		}
	}
}

// TestDecideNodes_Unconfirmed: nodes that only have the label count as members that do not work.
func TestDecideNodes_Unconfirmed(t *testing.T) {
	for _, c := range []struct {
		node, states string
		unconfirmed  []string
		want         string
	}{
		{"0", "rrr", nil, ""},
		{"0", "rrrrr", []string{"3", "4"}, "without node 0, 2 of 5 control-plane nodes would be ready, and 3 are needed; 2 do not count because"},
		{"0", "rrnrrrrr", []string{"3", "4", "5", "6", "7"}, "1 of 8 control-plane nodes would be ready, and 5 are needed; 5 do not count because"},
		{"0", "rrnrrrrrr", []string{"3", "4", "5", "6", "7", "8"}, "etcd: 3, 4, 5, 6, 7; if they do not belong"},
		// It is checked like any other.
		{"3", "rrrr", []string{"3"}, ""},
		{"3", "rrnr", []string{"3"}, "2 of 4 control-plane nodes would be ready, and 3 are needed"},
		{"3", "rrRr", []string{"3"}, "has to wait"},
		{"3", "rrRn", []string{"3"}, "has to wait"},
		{"0", "nrrr", []string{"3"}, ""},
	} {
		got := decideNodes(c.node, members(c.states), sets.New(c.unconfirmed...))
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s of %s without %s: %q, want %q", c.node, c.states, c.unconfirmed, got, c.want)
		}
	}
}

func TestInMaintenance(t *testing.T) {
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "other"}, {Key: key, Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"nothing":            {func(*corev1.Node) {}, false},
		"cordon record":      {func(n *corev1.Node) { n.Annotations = map[string]string{"drover.dev/cordon": "{}"} }, true},
		"taint of medik8s":   {taint("medik8s.io/drain"), true},
		"taint of kubevirt":  {taint("kubevirt.io/drain"), true},
		"another taint":      {taint("node.kubernetes.io/unschedulable"), false},
		"cordoned by a user": {func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		"another annotation": {func(n *corev1.Node) { n.Annotations = map[string]string{"drover.dev/other": "{}"} }, false},
	} {
		node := &corev1.Node{}
		c.change(node)
		if got := inMaintenance(node); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestGuard_Applies(t *testing.T) {
	for _, c := range []struct {
		labels map[string]string
		want   bool
	}{
		{nil, false},
		{map[string]string{"node-role.kubernetes.io/worker": ""}, false},
		{map[string]string{"node-role.kubernetes.io/master": ""}, true},
		{map[string]string{"node-role.kubernetes.io/control-plane": "false"}, true},
		{map[string]string{"node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": ""}, true},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}}
		if got := (&Guard{}).Applies(node); got != c.want {
			t.Errorf("%v: %t", c.labels, got)
		}
	}
}

func budget(allowed int32, selector *metav1.LabelSelector) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: etcdNamespace, Name: "etcd-guard-pdb"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestDecideBudget(t *testing.T) {
	for name, c := range map[string]struct {
		budgets []policyv1.PodDisruptionBudget
		denial  string
		decided bool
	}{
		"none":           {nil, "there is no PodDisruptionBudget in namespace openshift-etcd", true},
		"two":            {[]policyv1.PodDisruptionBudget{budget(1, nil), budget(1, nil)}, "there are 2 PodDisruptionBudgets", true},
		"allows one":     {[]policyv1.PodDisruptionBudget{budget(1, nil)}, "", true},
		"allows several": {[]policyv1.PodDisruptionBudget{budget(3, nil)}, "", true},
		"allows none":    {[]policyv1.PodDisruptionBudget{budget(0, nil)}, "", false},
	} {
		denial, decided := decideBudget("m0", c.budgets)
		if decided != c.decided || !strings.Contains(denial, c.denial) || (denial == "") != (c.denial == "") {
			t.Errorf("%s: %q, %t", name, denial, decided)
		}
	}
}

func TestGuardSelector(t *testing.T) {
	guard := labels.Set{"app": "guard", "tier": "etcd"}
	expression := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		want     bool
	}{
		"no selector: all pods":    {nil, true},
		"empty selector: all pods": {&metav1.LabelSelector{}, true},
		"labels":                   {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "guard"}}, true},
		"other labels":             {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "etcd"}}, false},
		"In one":                   {expression("app", metav1.LabelSelectorOpIn, "guard"), true},
		"In several":               {expression("app", metav1.LabelSelectorOpIn, "x", "guard"), true},
		"NotIn":                    {expression("app", metav1.LabelSelectorOpNotIn, "guard"), false},
		"Exists":                   {expression("tier", metav1.LabelSelectorOpExists), true},
		"DoesNotExist":             {expression("tier", metav1.LabelSelectorOpDoesNotExist), false},
		"DoesNotExist, and not":    {expression("x", metav1.LabelSelectorOpDoesNotExist), true},
	} {
		b := budget(0, c.selector)
		selector, err := guardSelector(&b)
		if err != nil || selector.Matches(guard) != c.want {
			t.Errorf("%s: %v, %v", name, selector, err)
		}
	}
	b := budget(0, expression("app", "Sounds", "x"))
	if _, err := guardSelector(&b); err == nil || !strings.Contains(err.Error(), "openshift-etcd/etcd-guard-pdb") {
		t.Errorf("invalid selector: %v", err)
	}
}

func TestDecideGuards(t *testing.T) {
	pod := func(node string, conditions ...corev1.PodCondition) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: etcdNamespace, Name: "etcd-guard-" + node},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Conditions: conditions},
		}
	}
	ready := func(status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReady, Status: status}
	}
	other := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	for name, c := range map[string]struct {
		guards []corev1.Pod
		denied bool
	}{
		"no guard pods":                {nil, false},
		"no guard pod on this node":    {[]corev1.Pod{pod("m1", ready(corev1.ConditionTrue))}, false},
		"ready":                        {[]corev1.Pod{pod("m1", ready(corev1.ConditionFalse)), pod("m0", other, ready(corev1.ConditionTrue))}, true},
		"unknown":                      {[]corev1.Pod{pod("m0", ready(corev1.ConditionUnknown))}, true},
		"not ready: already disrupted": {[]corev1.Pod{pod("m0", ready(corev1.ConditionFalse)), pod("m1", ready(corev1.ConditionTrue))}, false},
		"without a Ready condition":    {[]corev1.Pod{pod("m0", other)}, false},
		"one of two is ready":          {[]corev1.Pod{pod("m0", ready(corev1.ConditionFalse)), pod("m0", ready(corev1.ConditionTrue))}, true},
	} {
		denial := decideGuards("m0", c.guards)
		if (denial != "") != c.denied || c.denied && !strings.Contains(denial, "node m0: no disruption of etcd is allowed now") {
			t.Errorf("%s: %q", name, denial)
		}
	}
}
