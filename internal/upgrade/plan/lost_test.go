package plan

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// What a run has changed and does not know any more is found, and said; what it has not changed is nobody's loss.
func TestLostClaims(t *testing.T) {
	key := LabelPrefix + "a.numo"
	name := types.NamespacedName{Namespace: "numo", Name: "run"}
	broken := func(text string) func(infra, canary *mcfgv1.MachineConfigPool) {
		return func(infra, _ *mcfgv1.MachineConfigPool) { infra.Annotations[AnnotationClaim] = text }
	}
	for what, c := range map[string]struct {
		change      func(infra, canary *mcfgv1.MachineConfigPool)
		unmarked    bool
		lost, fault string
	}{
		"all is well":                  {func(_, _ *mcfgv1.MachineConfigPool) {}, false, "", ""},
		"cannot be read":               {broken("?"), false, "infra: annotation upgrade.drover.dev/claim", "invalid character"},
		"names no run":                 {broken("{}"), false, "it names no run", "it names no run"},
		"is of a run that has nothing": {broken("?"), true, "", "invalid character"},
		"names the run":                {broken(`{"uid":"uid-of-run"`), true, "infra: annotation", "unexpected end"},
		"is gone": {
			func(infra, _ *mcfgv1.MachineConfigPool) { delete(infra.Annotations, AnnotationClaim) }, false,
			"infra: its selector asks for labels of rules", "infra: its selector asks for labels of rules",
		},
		"the canary's is gone": {
			func(_, canary *mcfgv1.MachineConfigPool) { delete(canary.Annotations, AnnotationClaim) }, true,
			"canary: its selector asks", "canary: its selector asks",
		},
		"is gone, and so is what it was for": {func(infra, _ *mcfgv1.MachineConfigPool) {
			delete(infra.Annotations, AnnotationClaim)
			infra.Spec.NodeSelector.MatchExpressions = nil
		}, false, "", ""},
		"of a pool that is no more the run's": {func(infra, _ *mcfgv1.MachineConfigPool) {
			infra.Name = "elsewhere"
			delete(infra.Annotations, AnnotationClaim)
		}, false, "elsewhere: its selector asks", "infra is not there"},
	} {
		infra := pool("infra", false, &metav1.LabelSelector{MatchLabels: map[string]string{"infra": ""}})
		canary := pool("canary", false, &metav1.LabelSelector{MatchLabels: map[string]string{"canary": ""}})
		claim := Take(infra, name, "uid-of-run").With([]string{key})
		apply(t, infra, claim.Held())
		claim = Take(canary, name, "uid-of-run").With([]string{key})
		claim.Canary = true
		apply(t, canary, claim.Open(canary))
		c.change(infra, canary)
		node := marked(map[string]string{"infra": "", LabelRun: "uid-of-run", key: ""}, nil)
		if c.unmarked {
			delete(node.Labels, LabelRun)
		}
		s := Survey(&World{
			Run: &v1alpha1.MutexRunConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "run", UID: "uid-of-run"},
				Spec: v1alpha1.MutexRunConfigSpec{
					Canary: v1alpha1.Canary{Name: "canary"}, MutexTargets: []v1alpha1.Reference{{Name: "target"}},
				},
			},
			Targets: map[types.NamespacedName]*v1alpha1.MutexTarget{
				{Namespace: "numo", Name: "target"}: {Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"infra"}}},
			},
			Pools: []*mcfgv1.MachineConfigPool{infra, canary}, Nodes: []*corev1.Node{node},
			VersionOf: func(*corev1.Node) string { return "4.17.2" }, Now: start,
		})
		lost, faults := strings.Join(s.Lost(), "; "), strings.Join(s.Faults, "; ")
		if !strings.Contains(lost, c.lost) || (c.lost == "") != (lost == "") {
			t.Errorf("%s: lost is %q, want %q", what, lost, c.lost)
		}
		if !strings.Contains(faults, c.fault) || (c.fault == "") != (faults == "") {
			t.Errorf("%s: the faults are %q, want %q", what, faults, c.fault)
		}
	}
}
