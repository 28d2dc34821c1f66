package members

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

// TestAssignment_Owned: a kubelet can claim keys, since it can write its Node's record. A key that the kubelet may not write is the NodeGroup's only
// with the value that the NodeGroup declares: otherwise a MachineSet would overwrite an administrator's value.
func TestAssignment_Owned(t *testing.T) {
	const restricted = "pool.node-restriction.kubernetes.io/team"
	group := newGroup("g", v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{restricted: "blue"}}}).NodeGroup
	group.Spec.Metadata = &v1alpha1.Metadata{
		Labels: map[string]v1alpha1.LabelValue{"tier": "batch", restricted: "blue"},
		Taints: []v1alpha1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}},
	}
	group.Status.OwnedKeys = []string{"label/" + restricted, "label/tier", "taint/dedicated:NoSchedule"}
	record := ownership.Record{Source: "g", Section: ownership.Section{
		Labels: ownership.NewKeys(restricted, "tier", "foreign"), Taints: ownership.NewKeys("dedicated:NoSchedule"),
	}}
	for name, c := range map[string]struct {
		team, dedicated string
		labels, taints  int
	}{
		"as declared":                    {"blue", "batch", 2, 1},
		"an administrator's label":       {"theirs", "batch", 1, 1},
		"an administrator's taint":       {"blue", "theirs", 2, 0},
		"the label is not there, either": {"", "batch", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: "n", Labels: map[string]string{"tier": "other"}, Annotations: map[string]string{ownership.AnnotationGroupRecord: record.Format()},
			}}
			if c.team != "" {
				node.Labels[restricted] = c.team
			}
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: c.dedicated, Effect: corev1.TaintEffectNoSchedule}}
			assignment := Assignment{Node: node, Recorded: Parse(group)}
			owned := assignment.GroupLayer(nil).Owned
			if owned.Labels.Len() != c.labels || owned.Taints.Len() != c.taints || owned.Labels.Has("foreign") {
				t.Errorf("owned are %v and %v", owned.Labels.Sorted(), owned.Taints.Sorted())
			}
		})
	}
}
