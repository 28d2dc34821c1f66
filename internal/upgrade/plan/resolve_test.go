package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

const requiredLabel = "operator.machineconfiguration.openshift.io/required-for-upgrade"

// selecting returns a selector of the nodes with a label.
func selecting(label string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}}
}

// inNumo returns the key of an object in the run's namespace.
func inNumo(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "numo", Name: name}
}

// newInput returns a valid run with one rule and one target, the MachineConfigPool infra, and the node n1 in it. The canary has the node c1.
func newInput() *Input {
	rule := newRule(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`)
	rule.Status.Conditions = []metav1.Condition{{Type: ConditionValid, Status: metav1.ConditionTrue}}
	node := func(name, label string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{label: "", "pool": ""}}}
	}
	return &Input{
		Config: &v1alpha1.MutexRunConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "run", UID: "uid"},
			Spec: v1alpha1.MutexRunConfigSpec{
				MutexRules: []v1alpha1.Reference{{Name: "db"}}, MutexTargets: []v1alpha1.Reference{{Name: "target"}},
				Canary: v1alpha1.Canary{Name: "canary"},
			},
		},
		Rules: map[types.NamespacedName]*v1alpha1.MutexRule{inNumo("db"): rule},
		Targets: map[types.NamespacedName]*v1alpha1.MutexTarget{
			inNumo("target"): {Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"infra"}}},
		},
		MCPs:  []*mcfgv1.MachineConfigPool{newMCP("infra", false, selecting("infra")), newMCP("canary", false, selecting("canary"))},
		Nodes: []*corev1.Node{node("n1", "infra"), node("c1", "canary")},
		Version: &configv1.ClusterVersion{
			Spec:   configv1.ClusterVersionSpec{DesiredUpdate: &configv1.Update{Version: "4.17.3"}},
			Status: configv1.ClusterVersionStatus{History: []configv1.UpdateHistory{{State: configv1.CompletedUpdate, Version: "4.17.3"}}},
		},
		VersionOf: func(*corev1.Node) string { return "4.17.2" }, Now: testTime,
	}
}

// TestResolve_Problems: a run does not start while something that it refers to is missing, not valid, or would keep the upgrade of the control plane
// waiting.
func TestResolve_Problems(t *testing.T) {
	const key = LabelPrefix + "db.numo"
	rule := func(in *Input) *v1alpha1.MutexRule { return in.Rules[inNumo("db")] }
	reserve := func(mcp *mcfgv1.MachineConfigPool, canary bool) {
		reservation := Reserve(mcp, inNumo("run"), "uid").WithKeys([]string{key})
		reservation.Canary = canary
		metav1.SetMetaDataAnnotation(&mcp.ObjectMeta, AnnotationReservation, reservation.Text())
	}
	refuse := func(namespace string) string {
		if namespace == "tenant" {
			return "the namespace is not allowed"
		}
		return ""
	}
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"valid":                            {func(*Input) {}, ""},
		"no such rule":                     {func(in *Input) { in.Rules = nil }, "MutexRule numo/db does not exist"},
		"a rule in a namespace of its own": {func(in *Input) { in.Config.Spec.MutexRules[0].Namespace = "other" }, "MutexRule other/db does not exist"},
		"a rule that is not validated":     {func(in *Input) { rule(in).Status.Conditions = nil }, "MutexRule numo/db: it has not been validated yet"},
		"a rule that was edited":           {func(in *Input) { rule(in).Generation = 2 }, "MutexRule numo/db: it has not been validated yet"},
		"an invalid rule": {func(in *Input) {
			rule(in).Status.Conditions[0].Status, rule(in).Status.Conditions[0].Message = metav1.ConditionFalse, "no image"
		}, "MutexRule numo/db: no image"},
		"a rule twice": {func(in *Input) {
			in.Config.Spec.MutexRules = append(in.Config.Spec.MutexRules, v1alpha1.Reference{Namespace: "numo", Name: "db"})
		}, "MutexRule numo/db: the run names it twice"},
		"a rule without a Job": {func(in *Input) { rule(in).Spec.JobSpec.Raw = nil }, "MutexRule numo/db: spec.jobSpec: it is empty"},
		"a clean-up that is empty": {func(in *Input) {
			rule(in).Spec.CleanUpJobSpec = rule(in).Spec.JobSpec.DeepCopy()
			rule(in).Spec.CleanUpJobSpec.Raw = nil
		},
			"MutexRule numo/db: spec.cleanUpJobSpec: it is empty"},
		"rule and target in a namespace that is not allowed": {func(in *Input) {
			in.Refusal = refuse
			in.Rules[types.NamespacedName{Namespace: "tenant", Name: "db"}] = rule(in)
			in.Targets[types.NamespacedName{Namespace: "tenant", Name: "target"}] = in.Targets[inNumo("target")]
			in.Config.Spec.MutexRules[0].Namespace, in.Config.Spec.MutexTargets[0].Namespace = "tenant", "tenant"
		}, "MutexRule tenant/db: the namespace is not allowed; MutexTarget tenant/target: the namespace is not allowed"},
		"no such target":            {func(in *Input) { in.Targets = nil }, "MutexTarget numo/target does not exist"},
		"no such MachineConfigPool": {func(in *Input) { in.MCPs = in.MCPs[1:] }, "MutexTarget numo/target: MachineConfigPool infra does not exist"},
		"a target for which the control plane waits": {func(in *Input) { in.MCPs[0].Labels = map[string]string{requiredLabel: ""} },
			"MutexTarget numo/target: the upgrade of the control plane waits for MachineConfigPool infra, which therefore cannot wait for it"},
		"the canary as a target": {func(in *Input) { in.Config.Spec.Canary.Name = "infra" },
			"MutexTarget numo/target: MachineConfigPool infra is the canary, to which nodes are moved"},
		"no such canary": {func(in *Input) { in.MCPs = in.MCPs[:1] }, "the canary MachineConfigPool canary does not exist"},
		"a canary for which the control plane waits": {func(in *Input) { in.MCPs[1].Labels = map[string]string{requiredLabel: ""} },
			"the upgrade of the control plane waits for the canary MachineConfigPool canary"},
		"a target that was reserved as the canary": {func(in *Input) { reserve(in.MCPs[0], true) },
			"MachineConfigPool infra has another role in the run than when it was reserved: suspend the run first"},
		"a canary that was reserved as a target": {func(in *Input) { reserve(in.MCPs[1], false) },
			"MachineConfigPool canary has another role in the run than when it was reserved: suspend the run first"},
		"an invalid selector": {func(in *Input) {
			in.MCPs[0].Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
		}, `MachineConfigPool infra: spec.nodeSelector: "Like" is not a valid label selector operator`},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput()
			c.change(in)
			if got := strings.Join(Resolve(in).Problems, "; "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestResolve_Nodes: the run works on the nodes of its targets, which are blocked while they could not become nodes of the canary.
func TestResolve_Nodes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		// nodes are the nodes of the targets with the reason why they are blocked. canary are the nodes of the canary.
		nodes, canary string
		wake          time.Duration
	}{
		"lacks the label of the canary": {func(*Input) {}, "n1[canary=]", "c1", 0},
		"lacks the label of a reserved canary": {func(in *Input) {
			reservation := Reserve(in.MCPs[1], inNumo("run"), "uid").WithKeys([]string{LabelPrefix + "db.numo"})
			reservation.Canary = true
			in.MCPs[1].Spec.NodeSelector = reservation.Open(in.MCPs[1]).NodeSelector
			metav1.SetMetaDataAnnotation(&in.MCPs[1].ObjectMeta, AnnotationReservation, reservation.Text())
		}, "n1[canary=]", "c1", 0},
		"has the label of the canary": {func(in *Input) {
			in.MCPs[1].Spec.NodeSelector = selecting("pool")
			in.MCPs[1].Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "canary", Operator: metav1.LabelSelectorOpExists}}
		}, "n1[]", "c1", 0},
		"in two MachineConfigPools": {func(in *Input) { in.MCPs = append(in.MCPs, newMCP("gpu", false, selecting("pool"))) },
			"n1[gpu and infra]", "", 0},
		"its lease is held": {func(in *Input) {
			in.MCPs[1].Spec.NodeSelector = nil
			in.LeaseOf = func(string) (string, time.Time) { return "node-maintenance", testTime.Add(time.Hour) }
		}, "n1[node-maintenance]", "", time.Hour},
		"its lease has just expired": {func(in *Input) {
			in.MCPs[1].Spec.NodeSelector = nil
			in.LeaseOf = func(string) (string, time.Time) { return "node-maintenance", testTime.Add(-time.Hour) }
		}, "n1[node-maintenance]", "", time.Second},
		"its lease is free": {func(in *Input) {
			in.MCPs[1].Spec.NodeSelector = nil
			in.LeaseOf = func(string) (string, time.Time) { return "", time.Time{} }
		}, "n1[]", "", 0},
		"no canary":                    {func(in *Input) { in.MCPs = in.MCPs[:1] }, "n1[]", "", 0},
		"selectors that are not known": {func(in *Input) { in.MCPs[0].Annotations = map[string]string{AnnotationReservation: "?"} }, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput()
			c.change(in)
			run := Resolve(in)
			var canary []string
			for _, node := range run.CanaryNodes {
				canary = append(canary, node.Name)
			}
			got := ""
			for _, node := range run.Nodes {
				got = node.Name
				_, reason, _ := strings.Cut(c.nodes, "[")
				if reason = strings.TrimSuffix(reason, "]"); strings.Contains(node.Blocked, reason) && (reason == "") == (node.Blocked == "") {
					got += fmt.Sprintf("[%s]", reason)
				} else {
					got += " is blocked: " + node.Blocked
				}
			}
			if got != c.nodes || strings.Join(canary, " ") != c.canary {
				t.Errorf("nodes %q, canary %v; want %q, %q", got, canary, c.nodes, c.canary)
			}
			if c.wake == 0 != run.Wake.IsZero() || c.wake != 0 && !run.Wake.Equal(testTime.Add(c.wake)) {
				t.Errorf("it wakes at %s", run.Wake)
			}
		})
	}
}

// TestResolve_Version: nodes may be started once the control plane has completed the update to the desired version.
func TestResolve_Version(t *testing.T) {
	update := func(desired, current string, history ...configv1.UpdateHistory) *configv1.ClusterVersion {
		version := &configv1.ClusterVersion{}
		if desired != "" {
			version.Spec.DesiredUpdate = &configv1.Update{Version: desired}
		}
		version.Status.Desired.Version, version.Status.History = current, history
		return version
	}
	completed := func(version string) configv1.UpdateHistory {
		return configv1.UpdateHistory{State: configv1.CompletedUpdate, Version: version}
	}
	partial := configv1.UpdateHistory{State: configv1.PartialUpdate, Version: "4.17.3"}
	for name, c := range map[string]struct {
		version       *configv1.ClusterVersion
		want, problem string
		completed     bool
	}{
		"none":                     {nil, "", "ClusterVersion version does not exist", false},
		"no version":               {update("", ""), "", "ClusterVersion version has no desired version", false},
		"no update":                {update("", "4.17.2", completed("4.17.2")), "4.17.2", "", true},
		"an update is requested":   {update("4.17.3", "4.17.2", completed("4.17.2")), "4.17.3", "", false},
		"an update is in progress": {update("4.17.3", "4.17.3", partial, completed("4.17.2")), "4.17.3", "", false},
		"an update is completed":   {update("4.17.3", "4.17.3", completed("4.17.3"), completed("4.17.2")), "4.17.3", "", true},
		"no history":               {update("4.17.3", "4.17.3"), "4.17.3", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput()
			in.Version = c.version
			run := Resolve(in)
			if run.Desired != c.want || run.VersionProblem != c.problem || run.Completed != c.completed {
				t.Errorf("desired %q, problem %q, completed %t", run.Desired, run.VersionProblem, run.Completed)
			}
			if waits := strings.Contains(run.Wait, "the control plane does not have version"); waits == c.completed {
				t.Errorf("it waits with %q", run.Wait)
			}
		})
	}
	in := newInput()
	in.MCPs[1].Spec.Paused = true
	if run := Resolve(in); run.Wait != "the canary MachineConfigPool canary is paused" {
		t.Errorf("with a paused canary it waits with %q", run.Wait)
	}
}

// TestTargetNodes: a MutexTarget lists the nodes of its MachineConfigPools, and none while they are not known.
func TestTargetNodes(t *testing.T) {
	target := func(mcps ...string) *v1alpha1.MutexTarget {
		return &v1alpha1.MutexTarget{Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: mcps}}
	}
	invalid := newMCP("bad", false, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}})
	for name, c := range map[string]struct {
		target        *v1alpha1.MutexTarget
		more          []*mcfgv1.MachineConfigPool
		want, problem string
	}{
		"one":                              {target("infra"), nil, "n1", ""},
		"two":                              {target("infra", "canary"), nil, "c1 n1", ""},
		"one does not exist":               {target("infra", "gpu", "edge"), nil, "", "MachineConfigPools that do not exist: gpu, edge"},
		"a MachineConfigPool is invalid":   {target("infra"), []*mcfgv1.MachineConfigPool{invalid}, "", "MachineConfigPool bad: spec.nodeSelector: "},
		"a node in two MachineConfigPools": {target("infra"), []*mcfgv1.MachineConfigPool{newMCP("gpu", false, selecting("infra"))}, "n1", ""},
	} {
		in := newInput()
		names, problem := TargetNodes(c.target, append(in.MCPs, c.more...), in.Nodes)
		if strings.Join(names, " ") != c.want || !strings.HasPrefix(problem, c.problem) || (problem == "") != (c.problem == "") {
			t.Errorf("%s: nodes %v, problem %q", name, names, problem)
		}
	}
}
