package plan

import (
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func older(c *machinev1beta1.MachineHealthCheck) {
	c.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
}

func TestCompareAge(t *testing.T) {
	a, b := newCheck("a"), newCheck("b")
	if compareAge(a, b) >= 0 || compareAge(b, a) <= 0 || compareAge(newCheck("z", older), a) >= 0 {
		t.Error("the older one comes first, and of two created in the same second the one whose name does")
	}
}

func TestOverlaps_OldestRemediates(t *testing.T) {
	in := &Input{Check: newCheck("c"), Targets: newTargets("uw"), Now: start}
	in.Targets[1].Machine.Labels["zone"] = "z"
	inZone := func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.Selector.MatchLabels = map[string]string{"zone": "z"}
	}
	in.Checks = []machinev1beta1.MachineHealthCheck{*newCheck("d"), *in.Check, *newCheck("b"), *newCheck("old", older, inZone)}
	overlaps, olderChecks := in.overlaps()
	if want := []Overlap{{Name: "old", Older: true}, {Name: "b", Older: true}, {Name: "d"}}; !slices.Equal(overlaps, want) {
		t.Errorf("overlaps %v, want %v", overlaps, want)
	}
	if want := []string{"b", "old"}; !slices.Equal(olderChecks, want) {
		t.Errorf("older %q, want %q", olderChecks, want)
	}
}
