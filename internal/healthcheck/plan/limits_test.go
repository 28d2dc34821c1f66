package plan

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/bounded"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
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
		"all":                       {map[string]string{MaxInFlightAnnotation: "100%"}, "<nil>", time.Minute, ""},
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
func newGroup(targets []Target, replicas int) *Group {
	group := &Group{Selected: len(targets), Machines: targets, ControllerStart: start.Add(-24 * time.Hour)}
	if replicas >= 0 {
		set := builder.MachineSet("machines", "set", bounded.Int32(replicas))
		set.Status.Replicas = *set.Spec.Replicas
		group.Sets = append(group.Sets, *set)
	} else {
		for i := range targets {
			targets[i].Machine.OwnerReferences[0].Kind = "ControlPlaneMachineSet"
		}
	}
	return group
}

func withMax(text string) Limits { return Limits{MaxInFlight: new(intstr.Parse(text))} }

// startables lists which remediations may start, and which exceed a limit; first is the first that exceeds a limit.
func startables(check *machinev1beta1.MachineHealthCheck, group *Group, limits Limits, now time.Time) (startable, limited string, first Blocked) {
	d := Decide(&Input{Check: check, Targets: group.Machines, Limits: limits, Now: now})
	d.PrepareLimits(group)
	may, rest := d.WithinLimits(nil)
	var starts, waits []string
	for _, r := range may {
		starts = append(starts, r.Machine.Name)
	}
	for _, b := range rest {
		waits = append(waits, b.Machine.Name)
	}
	return strings.Join(starts, " "), strings.Join(waits, " "), append(rest, Blocked{})[0]
}

func TestWithinLimits_MaxInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		machines           string
		replicas           int
		max                string
		startable, limited string
	}{
		"none in flight: as many as may":         {"uuuuwwww", 8, "2", "m0 m1", "m2 m3"},
		"unhealthy Machines do not count":        {"uuuu", 4, "4", "m0 m1 m2 m3", ""},
		"a percentage is rounded up":             {"uuuww", 5, "21%", "m0 m1", "m2"},
		"20% of five, one of them missing":       {"uduuw", 5, "20%", "", "m0 m2 m3"},
		"40% of five, one of them missing":       {"uduuw", 5, "40%", "m0", "m2 m3"},
		"20% of five, one of them replaced":      {"uduuwy", 5, "20%", "", "m0 m2 m3"},
		"20% of five, replacement Ready":         {"uduuww", 5, "20%", "m0", "m2 m3"},
		"1% is one":                              {"uuw", 3, "1%", "m0", "m1"},
		"zero is none":                           {"uuw", 3, "0", "", "m0 m1"},
		"100% of Machines that never had a Node": {"nnn", 3, "100%", "m0 m1 m2", ""},
		"more than there are":                    {"uuw", 3, "10", "m0 m1", ""},
		"deleted, replacement not created":       {"uduw", 4, "1", "", "m0 m2"},
		"deleted and gone, not created":          {"uuw", 4, "1", "", "m0 m1"},
		"deleted, replacement starts":            {"uduwy", 4, "2", "m0", "m2"},
		"gone, Node of replacement registers":    {"uuwp", 4, "1", "", "m0 m1"},
		"deleted and drained, replacement Ready": {"duuww", 4, "1", "m1", "m2"},
		"replicas have shrunk":                   {"uuwd", 3, "1", "m0", "m1"},
		"a MachineSet that grows":                {"uugg", 4, "1", "m0", "m1"},
		"two are missing, one starts":            {"uuy", 5, "4", "m0", "m1"},
		// A replacement that fails to start is in flight already: it can be replaced again, and nothing else can.
		"replacement fails to start": {"uoww", 4, "1", "m1", "m0"},
		"replacement is Failed":      {"uFww", 4, "1", "m1", "m0"},
		"too many in flight already": {"ouyyy", 5, "2", "", "m0 m1"},
		// Later than the deadline it counts as any other.
		"a start that has taken too long":    {"unww", 4, "1", "m1", "m0"},
		"no MachineSet: each counts":         {"uduy", -1, "3", "m0", "m2"},
		"no MachineSet: gone, not created":   {"uuw", -1, "1", "m0", "m1"},
		"no MachineSet: replacement started": {"udw", -1, "1", "", "m0"},
	} {
		t.Run(name, func(t *testing.T) {
			startable, limited, _ := startables(newCheck("c"), newGroup(newTargets(c.machines), c.replicas), withMax(c.max), start)
			if startable != c.startable || limited != c.limited {
				t.Errorf("startable %q, limited %q; want %q, %q", startable, limited, c.startable, c.limited)
			}
		})
	}
}

func TestWithinLimits_Deadline(t *testing.T) {
	targets := newTargets("uuywp")
	targets[2].Machine.CreationTimestamp = metav1.NewTime(start.Add(-20 * time.Minute))
	check := newCheck("c")
	check.Spec.NodeStartupTimeout = &metav1.Duration{Duration: time.Hour}
	for after, want := range map[time.Duration]string{0: "m0 m1", 10*time.Minute - time.Second: "m0 m1", 10 * time.Minute: "m1"} {
		_, limited, first := startables(check, newGroup(targets, 5), withMax("2"), start.Add(after))
		if limited != want || first.Message != "2 remediations are in flight, and maxInFlight is 2" || first.Reason != ReasonLimited {
			t.Errorf("after %s %q wait: %s: %s", after, limited, first.Reason, first.Message)
		}
	}
}

func TestWithinLimits_External(t *testing.T) {
	at := func(ago time.Duration) string { return start.Add(-ago).Format(time.RFC3339) }
	annotated := func(requested string) func(*Target, *Group) {
		return func(t *Target, _ *Group) {
			t.Machine.Annotations = map[string]string{ExternalAnnotation: "", machineapi.RequestedAnnotation: requested}
		}
	}
	requested := func(ago time.Duration, changes ...func(*Target)) func(*Target, *Group) {
		return func(t *Target, group *Group) {
			group.Requested = []disruptionplan.Requested{{
				Machine: types.NamespacedName{Namespace: "machines", Name: "m0"}, UID: t.Machine.UID, Node: "n-m0", Since: start.Add(-ago),
			}}
			for _, change := range changes {
				change(t)
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(*Target, *Group)
		limited string
	}{
		"annotated":              {annotated(at(time.Minute)), "m1"},
		"annotated too long ago": {annotated(at(progressDeadline)), ""},
		"annotated by a user":    {annotated(""), ""},
		"annotated from 2999 on": {annotated("2999-01-01T00:00:00Z"), ""},
		"annotation has gone": {func(t *Target, _ *Group) {
			t.Machine.Annotations = map[string]string{machineapi.RequestedAnnotation: at(0), SkipAnnotation: ""}
		}, ""},
		"just annotated":         {func(t *Target, _ *Group) { t.Stale = true }, "m1"},
		"requested":              {requested(time.Minute, func(t *Target) { t.Requested = true }), "m1"},
		"requested by others":    {requested(time.Minute), "m1"},
		"requested too long ago": {requested(progressDeadline, func(t *Target) { t.Requested = true }), "m1"},
		"requested and deleted":  {requested(0, func(t *Target) { t.Deleted = true }), "m1"},
	} {
		t.Run(name, func(t *testing.T) {
			group := newGroup(newTargets("uuw"), 3)
			c.change(&group.Machines[0], group)
			check := newCheck("c")
			check.Annotations = map[string]string{StrategyAnnotation: BareMetalStrategy}
			if _, limited, _ := startables(check, group, withMax("1"), start); limited != c.limited {
				t.Errorf("%q wait, want %q", limited, c.limited)
			}
		})
	}
}

func TestWithinLimits_Interval(t *testing.T) {
	for name, c := range map[string]struct {
		last, controllerStart time.Duration
		change                func(*Group)
		limited               string
	}{
		"no remediation yet":     {0, 2 * time.Hour, nil, "m1"},
		"the last one is over":   {5 * time.Minute, 2 * time.Hour, nil, "m1"},
		"the last one is recent": {2 * time.Minute, 2 * time.Hour, nil, "m0 m1"},
		"another leader deleted one": {0, time.Minute, func(g *Group) {
			g.Machines[2].Machine.DeletionTimestamp = &metav1.Time{Time: start.Add(-2 * time.Minute)}
		}, "m0 m1"},
		"another leader's replacement": {0, time.Minute, func(g *Group) {
			g.Machines[2].Machine.CreationTimestamp = metav1.NewTime(start.Add(-2 * time.Minute))
		}, "m0 m1"},
		"another leader requested one": {0, time.Minute, func(g *Group) {
			g.Requested = []disruptionplan.Requested{{UID: g.Machines[2].Machine.UID, Since: start.Add(-2 * time.Minute)}}
		}, "m0 m1"},
		"a Machine of a user since then": {0, time.Hour, func(g *Group) {
			g.Machines[2].Machine.CreationTimestamp = metav1.NewTime(start.Add(-2 * time.Minute))
		}, "m1"},
		"its own replacement starts": {5 * time.Minute, 2 * time.Hour, func(g *Group) { g.Machines[2] = newTargets("uuy")[2] }, "m1"},
	} {
		t.Run(name, func(t *testing.T) {
			group := newGroup(newTargets("uuw"), 3)
			if c.change != nil {
				c.change(group)
			}
			group.ControllerStart = start.Add(-c.controllerStart)
			if c.last > 0 {
				group.Starts = map[types.UID]time.Time{owner: start.Add(-c.last), "another": start.Add(-time.Hour)}
			}
			_, limited, first := startables(newCheck("c"), group, Limits{MinInterval: 5 * time.Minute}, start)
			if limited != c.limited {
				t.Errorf("%q wait, want %q", limited, c.limited)
			}
			const message = "the last remediation began at 2026-07-01T11:58:00Z, and minInterval is 5m0s"
			if c.limited == "m0 m1" && (first.Message != message || !first.Until.After(start)) {
				t.Errorf("%+v", first)
			}
		})
	}
}

// What owns a Machine is a MachineSet only if the namespace has that, and it is not being deleted.
func TestWithinLimits_OwnerIsNoMachineSet(t *testing.T) {
	for name, change := range map[string]func(*Group){
		"of another API group": func(g *Group) {
			g.Sets = nil
			for i := range g.Machines {
				g.Machines[i].Machine.OwnerReferences[0].APIVersion = "cluster.x-k8s.io/v1beta1"
			}
		},
		"gone":          func(g *Group) { g.Sets = nil },
		"another one":   func(g *Group) { g.Sets[0].UID = "another" },
		"being deleted": func(g *Group) { g.Sets[0].DeletionTimestamp = &metav1.Time{Time: start} },
	} {
		t.Run(name, func(t *testing.T) {
			group := newGroup(newTargets("uduw"), 4)
			change(group)
			if startable, limited, _ := startables(newCheck("c"), group, withMax("1"), start); startable != "" || limited != "m0 m2" {
				t.Errorf("startable %q, limited %q", startable, limited)
			}
		})
	}
}

// A MachineSet may have deleted what is too many while the cache does not show that yet: what Drover has deleted itself counts in any case.
func TestWithinLimits_DeletionNotShown(t *testing.T) {
	targets := newTargets("uuuw")
	targets[0].Deleted = true
	if startable, limited, _ := startables(newCheck("c"), newGroup(targets, 2), withMax("1"), start); startable != "" || limited != "m1 m2" {
		t.Errorf("startable %q, limited %q", startable, limited)
	}
}

// If a remediation was tried, and something else blocks it, it leaves its place to the next one.
func TestWithinLimits_TriedLeavesItsPlace(t *testing.T) {
	targets := newTargets("uuuw")
	d := Decide(&Input{Check: newCheck("c"), Targets: targets, Limits: withMax("1"), Now: start})
	d.PrepareLimits(newGroup(targets, 4))
	startable, limited := d.WithinLimits(map[types.UID]bool{targets[0].Machine.UID: true})
	if len(startable) != 1 || startable[0].Machine.Name != "m1" || len(limited) != 1 {
		t.Errorf("%d startable, %d limited", len(startable), len(limited))
	}
}
