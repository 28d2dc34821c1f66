package machineapi

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
)

func TestCreatedFor(t *testing.T) {
	for value, want := range map[string]struct {
		reason CreationReason
		uid    types.UID
	}{
		"growth": {CreatedForGrowth, ""}, "deleted": {CreatedForDeleted, ""}, "deleted/a-b": {CreatedForDeleted, "a-b"},
		"outdated/a-b": {CreatedForOutdated, "a-b"}, "growth/a-b": {CreatedForGrowth, "a-b"},
		"": {}, "other": {}, "growth/": {}, "deleted/": {}, "outdated": {}, "outdated/": {}, "Deleted/a": {},
	} {
		machine := &machinev1beta1.Machine{}
		machine.Annotations = map[string]string{CreatedForAnnotation: value}
		reason, uid := CreatedFor(machine)
		if reason != want.reason || uid != want.uid {
			t.Errorf("%q: %q, %q", value, reason, uid)
		}
		if reason != "" && CreatedForValue(reason, uid) != value {
			t.Errorf("%q becomes %q", value, CreatedForValue(reason, uid))
		}
	}
	if reason, uid := CreatedFor(&machinev1beta1.Machine{}); reason != "" || uid != "" {
		t.Errorf("without an annotation: %q, %q", reason, uid)
	}
}

func TestReachedReplicas(t *testing.T) {
	for value, want := range map[string]int{"3": 3, "0": 0, "": 0, "-1": 0, "many": 0, "99999999999": 0} {
		set := &machinev1beta1.MachineSet{}
		set.Annotations = map[string]string{ReachedReplicasAnnotation: value}
		if got := ReachedReplicas(set); got != want {
			t.Errorf("%q: %d", value, got)
		}
	}
}
