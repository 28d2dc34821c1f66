package ownership

import "testing"

func TestRestricted(t *testing.T) {
	for key, want := range map[string]bool{
		"node-role.kubernetes.io/master": true, "node-restriction.kubernetes.io/a": true, "team.node-restriction.kubernetes.io/a": true,
		"kubernetes.io/anything": true, "x.k8s.io/a": true, "k8s.io/a": true,
		"kubernetes.io/hostname": false, "topology.kubernetes.io/zone": false, "node.kubernetes.io/a": false, "x.node.kubernetes.io/a": false,
		"kubelet.kubernetes.io/a": false, "example.com/a": false, "mykubernetes.io/a": false, "a": false, "kubernetes.io": false,
	} {
		if got := Restricted(Label, key); got != want {
			t.Errorf("label %s: %t", key, got)
		}
	}
	if !Restricted(Taint, "a:NoSchedule") || Restricted(Annotation, "node-role.kubernetes.io/master") {
		t.Error("a taint is restricted, an annotation is not")
	}
}
