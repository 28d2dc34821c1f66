package ownership

import (
	"testing"
	"time"
)

func TestRestricted(t *testing.T) {
	for key, want := range map[string]bool{
		"node-role.kubernetes.io/master": true, "node-restriction.kubernetes.io/a": true, "team.node-restriction.kubernetes.io/a": true,
		"kubernetes.io/anything": true, "x.k8s.io/a": true, "k8s.io/a": true,
		"kubernetes.io/hostname": false, "topology.kubernetes.io/zone": false, "node.kubernetes.io/a": false, "x.node.kubernetes.io/a": false,
		"kubelet.kubernetes.io/a": false, "example.com/a": false, "mykubernetes.io/a": false, "a": false, "kubernetes.io": false,
	} {
		if got := NodeRestricted(Label, key); got != want {
			t.Errorf("label %s: %t", key, got)
		}
	}
	if !NodeRestricted(Taint, "a:NoSchedule") || NodeRestricted(Annotation, "node-role.kubernetes.io/master") {
		t.Error("a taint is restricted, an annotation is not")
	}
}

// TestMerge_UnconfirmedIsNotOverwritten: a kubelet writes the record on its Node, and another writer the taint that keeps Pods away from it.
func TestMerge_UnconfirmedIsNotOverwritten(t *testing.T) {
	const key = "dedicated:NoSchedule"
	now := time.Unix(1_700_000_000, 0)
	forged := map[string]Input{
		"owned":                {Owned: NewKeys(key)},
		"removed a moment ago": {Released: map[string]Release{key: {Value: "quarantine", At: now.Unix()}}},
	}
	for name, in := range forged {
		for _, unconfirmed := range []bool{true, false} {
			in.Desired, in.Live, in.Now = map[string]string{key: "db"}, map[string]string{key: "quarantine"}, now
			in.NeedsConfirmation = func(string) bool { return unconfirmed }
			result := Merge(in)
			if overwritten := len(result.Set) > 0; overwritten == unconfirmed || unconfirmed != (len(result.Conflicts) == 1) {
				t.Errorf("%s, unconfirmed %t: set %v, conflicts %v", name, unconfirmed, result.Set, result.Conflicts)
			}
		}
	}
}
