package rollout

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// term returns a term of an affinity: expressions such as "tier In gold" or "tier Exists".
func term(expressions ...string) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for _, text := range expressions {
		fields := strings.Fields(text)
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: fields[0], Operator: corev1.NodeSelectorOperator(fields[1]), Values: fields[2:],
		})
	}
	return term
}

// podWith returns a Pod on the Node n1 with a required node affinity.
func podWith(terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	if len(terms) > 0 {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	return pod
}

func changedPod(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

func TestLabelUses_Pods(t *testing.T) {
	byName := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}},
	}}
	preferred := podWith()
	preferred.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term("tier Exists")}},
	}}
	gold, both := map[string]string{"tier": "gold"}, map[string]string{"tier": "gold", "zone": "a"}
	succeeded := changedPod(podWith(term("tier Exists")), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	elsewhere := changedPod(podWith(term("tier Exists")), func(p *corev1.Pod) { p.Spec.NodeName = "n2" })
	for name, c := range map[string]struct {
		pod           *corev1.Pod
		before, after map[string]string
		want          string
	}{
		"a removed label": {podWith(term("tier In gold silver")), gold, nil, "[tier]"},
		"another value":   {podWith(term("tier In gold")), gold, map[string]string{"tier": "iron"}, "[tier]"},
		"another value that matches": {
			podWith(term("tier In gold silver")), gold, map[string]string{"tier": "silver"}, "",
		},
		"an added label":           {podWith(term("tier DoesNotExist")), nil, gold, "[tier]"},
		"a label that stays":       {podWith(term("tier Exists")), map[string]string{"tier": "gold", "a": "1"}, gold, ""},
		"another label":            {podWith(term("zone Exists")), gold, nil, ""},
		"not met before":           {podWith(term("tier In iron")), gold, nil, ""},
		"a number":                 {podWith(term("cores Gt 7")), map[string]string{"cores": "8"}, map[string]string{"cores": "4"}, "[cores]"},
		"one of two terms is met":  {podWith(term("tier Exists"), term("zone Exists")), both, map[string]string{"zone": "b"}, ""},
		"neither term is met":      {podWith(term("tier Exists"), term("zone Exists")), both, nil, "[tier zone]"},
		"one of two expressions":   {podWith(term("tier Exists", "zone Exists")), both, gold, "[zone]"},
		"only the name":            {podWith(byName), gold, nil, ""},
		"an empty term":            {podWith(corev1.NodeSelectorTerm{}), gold, nil, ""},
		"preferred":                {preferred, gold, nil, ""},
		"nothing is required":      {podWith(), gold, nil, ""},
		"an invalid operator":      {podWith(term("tier Like gold")), gold, nil, ""},
		"a Pod that has succeeded": {succeeded, gold, nil, ""},
		"a Pod of another Node":    {elsewhere, gold, nil, ""},
		"a node selector": {
			changedPod(podWith(), func(p *corev1.Pod) { p.Spec.NodeSelector = gold }),
			gold, nil, "[tier]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			for _, use := range LabelUses([]LabelChange{{Node: "n1", Before: c.before, After: c.after}}, []*corev1.Pod{c.pod}, nil) {
				got += fmt.Sprint(use.Keys)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// volumeWith returns a PersistentVolume with a required node affinity.
func volumeWith(name string, terms ...corev1.NodeSelectorTerm) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(terms) > 0 {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
	return volume
}

// userOf returns a Pod on a Node with a required node affinity.
func userOf(node, namespace, name string, terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	return changedPod(podWith(terms...), func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Namespace, pod.Name = node, namespace, name })
}

func TestLabelUses_Volumes(t *testing.T) {
	uses := LabelUses([]LabelChange{
		{Node: "n1", Before: map[string]string{"rack": "1"}}, {Node: "n2", Before: map[string]string{"rack": "2"}},
		{Node: "n3", Before: map[string]string{"rack": "1"}, After: map[string]string{"rack": "1"}},
	}, nil, []*corev1.PersistentVolume{volumeWith("local", term("rack In 1")), volumeWith("zonal", term("zone In a")), volumeWith("anywhere")})
	if len(uses) != 1 || uses[0].Node != "n1" || uses[0].Volume.Name != "local" {
		t.Errorf("got %+v", uses)
	}
}
