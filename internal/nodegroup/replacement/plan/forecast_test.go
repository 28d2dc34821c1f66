package plan

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

func TestNewForecast(t *testing.T) {
	old := newSet(3, newOld("a", inZone("b")), newOld("b", aged(2*time.Hour)), newOld("c"), newNew("d"))
	for name, c := range map[string]struct {
		sets   []Set
		change func(*Input)
		// want is the names of the Machines with the limits, and counts the Machines that are being deleted or excluded.
		want, counts, reason string
	}{
		"nothing is outdated":              {[]Set{newSet(1, newNew("a"))}, nil, "[] 1 1", "0 0", ""},
		"by zone, the oldest first":        {[]Set{old}, nil, "[b c a] 1 1", "0 0", ""},
		"percentages are of the replicas":  {[]Set{old}, settings("50%", "100%", nil), "[b c a] 2 3", "0 0", ""},
		"the failed and the unready first": {[]Set{newSet(3, newOld("a"), newOld("b", notReady), newOld("c", failed))}, nil, "[c b a] 1 1", "0 0", ""},
		"some stay, one is being deleted": {
			[]Set{newSet(3, newOld("a", skipped), newOld("b", deleting), newOld("c"))}, nil, "[c] 1 1", "1 1", "",
		},
		"a paused MachineSet": {[]Set{{Name: "set", Replicas: 2, Paused: true, Machines: old.Machines}}, nil, "[] 1 1", "0 3", ""},
		"a window is closed": {
			[]Set{old}, func(in *Input) { in.Window = disruptionplan.Window{Closed: true, Reason: "WindowClosed"} }, "[b c a] 1 1", "0 0", "WindowClosed",
		},
		"suspended":                  {[]Set{old}, func(in *Input) { in.Group.Spec.Suspend = true }, "[b c a] 1 1", "0 0", ""},
		"a new one has failed":       {[]Set{newSet(2, newOld("a"), newNew("b", failed))}, nil, "[a] 1 1", "0 0", ReasonNewMachineFailed},
		"machine-api-operator's":     {[]Set{old}, func(in *Input) { in.Others = true }, "[b c a] 0 1", "0 0", ReasonSurgeUnavailable},
		"no replacement":             {[]Set{old}, func(in *Input) { in.Group.Spec.Replacement = nil }, "[] 0 0", "0 0", ""},
		"type None":                  {[]Set{old}, settings("1", "1", func(r *v1alpha1.Replacement) { r.Type = "None" }), "[] 0 0", "0 0", ""},
		"the group is being deleted": {[]Set{old}, func(in *Input) { in.Group.DeletionTimestamp = &metav1.Time{Time: now} }, "[] 0 0", "0 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput(c.sets...)
			if c.change != nil {
				c.change(in)
			}
			f := NewForecast(in)
			names := []string{}
			for i := range f.Machines {
				names = append(names, f.Machines[i].Name)
			}
			got, counts := fmt.Sprint(names, f.MaxSurge, f.MaxInFlight), fmt.Sprint(f.Deleting, f.Excluded)
			if got != c.want || counts != c.counts || f.Report.Reason != c.reason {
				t.Errorf("got %s, counts %s, reason %q", got, counts, f.Report.Reason)
			}
		})
	}
}
