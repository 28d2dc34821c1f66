package plan

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMembership(t *testing.T) {
	byRole := func(role string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" + role: ""}}
	}
	reserved := newMCP("reserved", false, byRole("reserved"))
	reservation := Reserve(reserved, types.NamespacedName{Namespace: "numo", Name: "run"}, "uid").WithKeys([]string{LabelPrefix + "a.numo"})
	reserved.Spec.NodeSelector = reservation.Gated().NodeSelector
	metav1.SetMetaDataAnnotation(&reserved.ObjectMeta, AnnotationReservation, reservation.Text())
	membership, err := NewMembership([]*mcfgv1.MachineConfigPool{
		newMCP("worker", false, byRole("worker")), newMCP("master", false, byRole("master")), newMCP("infra", false, byRole("infra")), reserved,
		newMCP("empty", false, &metav1.LabelSelector{}), newMCP("none", false, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	for roles, want := range map[string]string{
		"worker": "worker", "master": "master", "master,worker": "master", "infra,worker": "infra", "infra": "infra", "master,infra": "master",
		"infra,reserved,worker": "infra reserved", "reserved,worker": "reserved", "other": "",
	} {
		labels := map[string]string{}
		for role := range strings.SplitSeq(roles, ",") {
			labels["node-role.kubernetes.io/"+role] = ""
		}
		if got := strings.Join(membership.MCPsOf(nodeWith(labels, nil)), " "); got != want {
			t.Errorf("%s: %q, want %q", roles, got, want)
		}
	}
	bad := newMCP("bad", false, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}})
	if _, err := NewMembership([]*mcfgv1.MachineConfigPool{bad}); err == nil {
		t.Error("an invalid selector is accepted")
	}
}
