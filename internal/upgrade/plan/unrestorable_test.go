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

// TestRun_Unrestorable checks which MachineConfigPools the run has changed and cannot restore.
func TestRun_Unrestorable(t *testing.T) {
	key := LabelPrefix + "a.numo"
	name := types.NamespacedName{Namespace: "numo", Name: "run"}
	broken := func(text string) func(infra, canary *mcfgv1.MachineConfigPool) {
		return func(infra, _ *mcfgv1.MachineConfigPool) { infra.Annotations[AnnotationReservation] = text }
	}
	for what, c := range map[string]struct {
		change        func(infra, canary *mcfgv1.MachineConfigPool)
		unlabeled     bool
		want, problem string
	}{
		"valid":                                {func(_, _ *mcfgv1.MachineConfigPool) {}, false, "", ""},
		"invalid JSON":                         {broken("?"), false, "infra: annotation upgrade.drover.dev/claim", "invalid character"},
		"names no run":                         {broken("{}"), false, "it names no run", "it names no run"},
		"invalid JSON, the run has no nodes":   {broken("?"), true, "", "invalid character"},
		"invalid JSON with the UID of the run": {broken(`{"uid":"uid-of-run"`), true, "infra: annotation", "unexpected end"},
		"removed from a target": {
			func(infra, _ *mcfgv1.MachineConfigPool) { delete(infra.Annotations, AnnotationReservation) }, false,
			"infra: its selector requires labels of rules", "infra: its selector requires labels of rules",
		},
		"removed from the canary": {
			func(_, canary *mcfgv1.MachineConfigPool) { delete(canary.Annotations, AnnotationReservation) }, true,
			"canary: its selector requires", "canary: its selector requires",
		},
		"removed, the selector is restored": {func(infra, _ *mcfgv1.MachineConfigPool) {
			delete(infra.Annotations, AnnotationReservation)
			infra.Spec.NodeSelector.MatchExpressions = nil
		}, false, "", ""},
		"removed from a MachineConfigPool that is no longer a target": {func(infra, _ *mcfgv1.MachineConfigPool) {
			infra.Name = "elsewhere"
			delete(infra.Annotations, AnnotationReservation)
		}, false, "elsewhere: its selector requires", "infra does not exist"},
	} {
		infra := newMCP("infra", false, &metav1.LabelSelector{MatchLabels: map[string]string{"infra": ""}})
		canary := newMCP("canary", false, &metav1.LabelSelector{MatchLabels: map[string]string{"canary": ""}})
		reservation := Reserve(infra, name, "uid-of-run").WithKeys([]string{key})
		applyState(t, infra, reservation.Gated())
		reservation = Reserve(canary, name, "uid-of-run").WithKeys([]string{key})
		reservation.Canary = true
		applyState(t, canary, reservation.Open(canary))
		c.change(infra, canary)
		node := nodeWith(map[string]string{"infra": "", LabelRun: "uid-of-run", key: ""}, nil)
		if c.unlabeled {
			delete(node.Labels, LabelRun)
		}
		run := Resolve(&Input{
			Config: &v1alpha1.MutexRunConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "run", UID: "uid-of-run"},
				Spec: v1alpha1.MutexRunConfigSpec{
					Canary: v1alpha1.Canary{Name: "canary"}, MutexTargets: []v1alpha1.Reference{{Name: "target"}},
				},
			},
			Targets: map[types.NamespacedName]*v1alpha1.MutexTarget{
				{Namespace: "numo", Name: "target"}: {Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"infra"}}},
			},
			MCPs: []*mcfgv1.MachineConfigPool{infra, canary}, Nodes: []*corev1.Node{node},
			VersionOf: func(*corev1.Node) string { return "4.17.2" }, Now: testTime,
		})
		got, problems := strings.Join(run.unrestorable(), "; "), strings.Join(run.Problems, "; ")
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: unrestorable is %q, want %q", what, got, c.want)
		}
		if !strings.Contains(problems, c.problem) || (c.problem == "") != (problems == "") {
			t.Errorf("%s: the problems are %q, want %q", what, problems, c.problem)
		}
	}
}
