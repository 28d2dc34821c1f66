package ownership

import (
	"slices"
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

// TestKeys_NodeRestricted: of what a record names, the part that the kubelet cannot have set is that which NodeRestriction keeps from it.
func TestKeys_NodeRestricted(t *testing.T) {
	recorded := map[Kind]string{
		Label:      "node-role.kubernetes.io/infra example.com/team kubernetes.io/hostname k8s.io/a",
		Annotation: "node-role.kubernetes.io/infra example.com/team",
		Taint:      "dedicated:NoSchedule node.kubernetes.io/a:NoExecute",
	}
	for kind, want := range map[Kind]string{
		Label:      "node-role.kubernetes.io/infra k8s.io/a",
		Annotation: "",
		Taint:      "dedicated:NoSchedule node.kubernetes.io/a:NoExecute",
	} {
		before := keys(recorded[kind])
		if got := before.NodeRestricted(kind); !got.Equal(keys(want)) || !before.Equal(keys(recorded[kind])) {
			t.Errorf("%s: %v of %v are restricted, want %s", kind, got.Sorted(), before.Sorted(), want)
		}
	}
}

// TestMerge_UnconfirmedIsNotRemoved: an owned key that is no longer declared stays, owned and reported, where nothing confirms the record.
func TestMerge_UnconfirmedIsNotRemoved(t *testing.T) {
	in := Input{Owned: keys("a b gone"), Live: entries("a=1 b=1"), Now: clock, NeedsConfirmation: only("a gone")}
	result := Merge(in)
	if got, want := describe(result), "remove b; own a; released b=1 0s ago"; got != want {
		t.Errorf("got:  %s\nwant: %s", got, want)
	}
	if !slices.Equal(result.Unconfirmed, []string{"a"}) {
		t.Errorf("unconfirmed are %v, want a alone: what the Node does not have needs no confirmation", result.Unconfirmed)
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
