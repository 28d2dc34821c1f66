package plan

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/machineapi"
)

func TestLimitsOf(t *testing.T) {
	defaults := Limits{MaxInFlight: new(intstr.FromInt32(3)), MinInterval: time.Minute}
	for name, c := range map[string]struct {
		annotations map[string]string
		max         string
		interval    time.Duration
		fails       string
	}{
		"none: the defaults":        {nil, "3", time.Minute, ""},
		"a number":                  {map[string]string{MaxInFlightAnnotation: "1"}, "1", time.Minute, ""},
		"a percentage":              {map[string]string{MaxInFlightAnnotation: "20%"}, "20%", time.Minute, ""},
		"zero":                      {map[string]string{MaxInFlightAnnotation: "0"}, "0", time.Minute, ""},
		"an interval":               {map[string]string{IntervalAnnotation: "5m"}, "3", 5 * time.Minute, ""},
		"no interval":               {map[string]string{IntervalAnnotation: "0s"}, "3", 0, ""},
		"empty":                     {map[string]string{MaxInFlightAnnotation: ""}, "", 0, MaxInFlightAnnotation},
		"neither":                   {map[string]string{MaxInFlightAnnotation: "some"}, "", 0, `"some" is neither`},
		"negative":                  {map[string]string{MaxInFlightAnnotation: "-1"}, "", 0, MaxInFlightAnnotation},
		"negative percentage":       {map[string]string{MaxInFlightAnnotation: "-1%"}, "", 0, MaxInFlightAnnotation},
		"an interval without unit":  {map[string]string{IntervalAnnotation: "5"}, "", 0, `"5" is not a duration`},
		"an interval that is empty": {map[string]string{IntervalAnnotation: ""}, "", 0, IntervalAnnotation},
		"a negative interval":       {map[string]string{IntervalAnnotation: "-1s"}, "", 0, IntervalAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			check := newCheck("c")
			check.Annotations = c.annotations
			limits, err := limitsOf(check, defaults)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("error %v, want one with %q", err, c.fails)
				}
				d := Decide(&Input{Check: check, Targets: newTargets("u"), Now: start})
				condition := d.allowedCondition(check)
				if d.Allowed || len(d.Remediations) > 0 || condition.Reason != ReasonInvalidLimits || condition.Message != err.Error() {
					t.Errorf("allowed %t, %d remediations, %s: %s", d.Allowed, len(d.Remediations), condition.Reason, condition.Message)
				}
				return
			}
			if err != nil || limits.MaxInFlight.String() != c.max || limits.MinInterval != c.interval {
				t.Errorf("%v, %s, %v", limits.MaxInFlight, limits.MinInterval, err)
			}
		})
	}
	if limits, err := limitsOf(newCheck("c"), Limits{}); err != nil || limits.Any() {
		t.Errorf("%v, %v", limits, err)
	}
}

// newGroup returns the group of some targets: a MachineSet that wants so many Machines, -1 for an owner that is no MachineSet.
func newGroup(targets []Target, replicas int, limits Limits) Group {
	group := Group{Limits: limits, Selected: len(targets), Machines: targets, Replicas: map[types.UID]int{}, ControllerStart: start.Add(-24 * time.Hour)}
	if replicas >= 0 {
		group.Replicas[owner] = replicas
	}
	return group
}

func withMax(text string) Limits { return Limits{MaxInFlight: new(intstr.Parse(text))} }

// withCondition sets why a Machine is not Ready.
func withCondition(machine *machinev1beta1.Machine, reason string) {
	machine.Status.Conditions = []machinev1beta1.Condition{{Type: machineapi.ConditionReady, Status: corev1.ConditionFalse, Reason: reason}}
}

// startables lists which remediations may start, and which exceed a limit.
func startables(d *Decision) (startable, limited string) {
	first, rest := d.Startable(nil)
	var starts, waits []string
	for _, r := range first {
		starts = append(starts, r.Machine.Name)
	}
	for _, b := range rest {
		waits = append(waits, b.Machine.Name)
	}
	return strings.Join(starts, " "), strings.Join(waits, " ")
}

func TestDecide_InFlight(t *testing.T) {
	for name, c := range map[string]struct {
		machines           string
		replicas           int
		max                string
		count              int
		startable, limited string
	}{
		"none in flight: as many as may":         {"uuuuwwww", 8, "2", 0, "m0 m1", "m2 m3"},
		"unhealthy Machines do not count":        {"uuuu", 4, "4", 0, "m0 m1 m2 m3", ""},
		"a percentage is rounded up":             {"uuuww", 5, "21%", 0, "m0 m1", "m2"},
		"20% of five, one of them missing":       {"uduuw", 5, "20%", 1, "", "m0 m2 m3"},
		"20% of five, one of them replaced":      {"uduuwy", 5, "20%", 1, "", "m0 m2 m3"},
		"20% of five, replacement Ready":         {"uduuww", 5, "20%", 0, "m0", "m2 m3"},
		"1% is one":                              {"uuw", 3, "1%", 0, "m0", "m1"},
		"zero is none":                           {"uuw", 3, "0", 0, "", "m0 m1"},
		"more than there are":                    {"uuw", 3, "10", 0, "m0 m1", ""},
		"deleted, replacement not created":       {"uduw", 4, "1", 1, "", "m0 m2"},
		"deleted and gone, not created":          {"uuw", 4, "1", 1, "", "m0 m1"},
		"deleted, replacement starts":            {"uduwy", 4, "2", 1, "m0", "m2"},
		"gone, replacement starts":               {"uuwy", 4, "1", 1, "", "m0 m1"},
		"gone, Node of replacement registers":    {"uuwp", 4, "1", 1, "", "m0 m1"},
		"gone, Node of replacement not shown":    {"uuwP", 4, "1", 1, "m3", "m0 m1"},
		"gone, replacement Ready":                {"uuww", 4, "1", 0, "m0", "m1"},
		"deleted and drained, replacement Ready": {"duuww", 4, "1", 0, "m1", "m2"},
		"replicas have shrunk":                   {"uuwd", 3, "1", 0, "m0", "m1"},
		"two are missing, one starts":            {"uuy", 5, "4", 3, "m0", "m1"},
		// A replacement that fails to start is in flight already: it can be replaced again, and nothing else can.
		"replacement fails to start": {"uoww", 4, "1", 1, "m1", "m0"},
		"replacement is Failed":      {"uFww", 4, "1", 1, "m1", "m0"},
		"too many in flight already": {"ouyyy", 5, "2", 4, "", "m0 m1"},
		// Later than the deadline it counts as any other.
		"a start that has taken too long":    {"unww", 4, "1", 0, "m1", "m0"},
		"a Node that is not Ready any more":  {"uqww", 4, "1", 0, "m0", ""},
		"no MachineSet: each counts":         {"uduy", -1, "3", 2, "m0", "m2"},
		"no MachineSet: gone, not created":   {"uuw", -1, "1", 0, "m0", "m1"},
		"no MachineSet: replacement started": {"udw", -1, "1", 1, "", "m0"},
	} {
		t.Run(name, func(t *testing.T) {
			targets := newTargets(c.machines)
			in := Input{Check: newCheck("c"), Targets: targets, Groups: []Group{newGroup(targets, c.replicas, withMax(c.max))}, Now: start}
			d := Decide(&in)
			startable, limited := startables(&d)
			if d.InFlight[0].Count != c.count || startable != c.startable || limited != c.limited {
				t.Errorf("%d in flight, startable %q, limited %q; want %d, %q, %q", d.InFlight[0].Count, startable, limited,
					c.count, c.startable, c.limited)
			}
		})
	}
}

func TestDecide_InFlightUntil(t *testing.T) {
	targets := newTargets("uywp")
	targets[1].Machine.CreationTimestamp = metav1.NewTime(start.Add(-20 * time.Minute))
	in := Input{Check: newCheck("c"), Targets: targets, Groups: []Group{newGroup(targets, 4, withMax("1"))}, Now: start}
	in.Check.Spec.NodeStartupTimeout = &metav1.Duration{Duration: time.Hour}
	d := Decide(&in)
	_, limited := d.Startable(nil)
	if want := "2 remediations are in flight, and at most 1 may be"; limited[0].Message != want || limited[0].Reason != ReasonLimited {
		t.Errorf("%s: %s, want %s", limited[0].Reason, limited[0].Message, want)
	}
	if !d.InFlight[0].Until.Equal(start.Add(10*time.Minute)) || !limited[0].Until.Equal(start.Add(recheckInFlight)) {
		t.Errorf("until %s, rechecked at %s", d.InFlight[0].Until, limited[0].Until)
	}
	// One after the other ends at its deadline.
	for _, c := range []struct {
		after time.Duration
		count int
	}{{10*time.Minute - time.Second, 2}, {10 * time.Minute, 1}, {30 * time.Minute, 0}} {
		in.Now = start.Add(c.after)
		if d := Decide(&in); d.InFlight[0].Count != c.count {
			t.Errorf("after %s %d are in flight, want %d", c.after, d.InFlight[0].Count, c.count)
		}
	}
}

func TestDecide_ExternalInFlight(t *testing.T) {
	at := func(ago time.Duration) string { return start.Add(-ago).Format(time.RFC3339) }
	annotated := func(requested string) func(*Target) {
		return func(t *Target) {
			t.Machine.Annotations = map[string]string{ExternalAnnotation: "", RequestedAnnotation: requested}
		}
	}
	for name, c := range map[string]struct {
		change func(*Target)
		count  int
	}{
		"annotated":                  {annotated(at(time.Minute)), 1},
		"annotated too long ago":     {annotated(at(progressDeadline)), 0},
		"annotated by a user":        {annotated(""), 0},
		"annotation has gone":        {func(t *Target) { t.Machine.Annotations = map[string]string{RequestedAnnotation: at(0)} }, 0},
		"just annotated":             {func(t *Target) { t.Stale = true }, 1},
		"requested":                  {func(t *Target) { t.Requested, t.RequestedAt = true, start.Add(-time.Minute) }, 1},
		"requested too long ago":     {func(t *Target) { t.Requested, t.RequestedAt = true, start.Add(-progressDeadline) }, 0},
		"requested, and deleted":     {func(t *Target) { t.Requested, t.RequestedAt, t.Deleted = true, start, true }, 1},
		"requested, and never Ready": {func(t *Target) { t.Requested, t.RequestedAt, t.Node, t.Machine.Status.NodeRef = true, start, nil, nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			targets := newTargets("uuw")
			c.change(&targets[0])
			check := newCheck("c")
			check.Annotations = map[string]string{StrategyAnnotation: BareMetalStrategy}
			d := Decide(&Input{Check: check, Targets: targets, Groups: []Group{newGroup(targets, 3, withMax("1"))}, Now: start})
			if d.InFlight[0].Count != c.count {
				t.Errorf("%d in flight, want %d", d.InFlight[0].Count, c.count)
			}
		})
	}
}

func TestDecide_Interval(t *testing.T) {
	for name, c := range map[string]struct {
		last, controllerStart time.Duration
		change                func([]Target)
		wait                  time.Duration
	}{
		"no remediation yet":     {0, 2 * time.Hour, nil, 0},
		"the last one is over":   {5 * time.Minute, 2 * time.Hour, nil, 0},
		"the last one is recent": {2 * time.Minute, 2 * time.Hour, nil, 3 * time.Minute},
		"another leader deleted one": {0, time.Minute, func(targets []Target) {
			targets[2].Machine.DeletionTimestamp = &metav1.Time{Time: start.Add(-2 * time.Minute)}
		}, 3 * time.Minute},
		"another leader's replacement": {0, time.Minute, func(targets []Target) {
			targets[2].Machine.CreationTimestamp = metav1.NewTime(start.Add(-2 * time.Minute))
		}, 3 * time.Minute},
		"another leader requested one": {0, time.Minute, func(targets []Target) {
			targets[2].Requested, targets[2].RequestedAt = true, start.Add(-2*time.Minute)
		}, 3 * time.Minute},
		"a user's own since then": {0, time.Hour, func(targets []Target) {
			targets[2].Machine.CreationTimestamp = metav1.NewTime(start.Add(-2 * time.Minute))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			targets := newTargets("uuw")
			if c.change != nil {
				c.change(targets)
			}
			group := newGroup(targets, 3, Limits{MinInterval: 5 * time.Minute})
			group.ControllerStart = start.Add(-c.controllerStart)
			if c.last > 0 {
				group.LastStart = start.Add(-c.last)
			}
			d := Decide(&Input{Check: newCheck("c"), Targets: targets, Groups: []Group{group}, Now: start})
			startable, limited := d.Startable(nil)
			if c.wait == 0 {
				if len(startable) != 2 || len(limited) != 0 {
					t.Errorf("%d may start, %d wait", len(startable), len(limited))
				}
				return
			}
			if len(limited) != 2 || !limited[0].Until.Equal(start.Add(c.wait)) ||
				!strings.Contains(limited[0].Message, "the next one may at 2026-07-01T12:03:00Z") {
				t.Errorf("%v", limited)
			}
		})
	}
}

// A MachineSet may have deleted what is too many while the cache does not show that yet: what Drover has deleted itself counts in any case.
func TestDecide_InFlightNotShown(t *testing.T) {
	targets := newTargets("uuuw")
	targets[0].Deleted = true
	d := Decide(&Input{Check: newCheck("c"), Targets: targets, Groups: []Group{newGroup(targets, 2, withMax("1"))}, Now: start})
	if startable, limited := startables(&d); d.InFlight[0].Count != 1 || startable != "" || limited != "m1 m2" {
		t.Errorf("%d in flight, startable %q, limited %q", d.InFlight[0].Count, startable, limited)
	}
}

// The limits of every group apply: the MachineHealthCheck's, and another one's that is narrower for some of the Machines.
func TestDecide_Groups(t *testing.T) {
	targets := newTargets("uuuuw")
	in := Input{Check: newCheck("c"), Targets: targets, Now: start, Groups: []Group{
		newGroup(targets, 5, withMax("2")), newGroup(targets, 6, withMax("2")),
	}}
	d := Decide(&in)
	if startable, limited := startables(&d); startable != "m0" || limited != "m1 m2 m3" {
		t.Errorf("startable %q, limited %q", startable, limited)
	}
}

// One that was tried, and that something else blocks, leaves its place to the next one.
func TestStartable_TriedLeavesItsPlace(t *testing.T) {
	targets := newTargets("uuuw")
	d := Decide(&Input{Check: newCheck("c"), Targets: targets, Groups: []Group{newGroup(targets, 4, withMax("1"))}, Now: start})
	startable, limited := d.Startable(map[types.UID]bool{targets[0].Machine.UID: true})
	if len(startable) != 1 || startable[0].Machine.Name != "m1" || len(limited) != 1 {
		t.Errorf("%d startable, %d limited", len(startable), len(limited))
	}
}
