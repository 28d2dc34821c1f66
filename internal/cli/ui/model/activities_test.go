package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
)

// ago returns a time before that of the tests.
func ago(length time.Duration) *metav1.Time { return &metav1.Time{Time: testTime.Add(-length)} }

// rolling returns a NodeGroup in wave 3 of 5, two of which took an hour.
func rolling(edit func(*drover.NodeGroup)) *drover.NodeGroup {
	g := group("web")
	g.Status = drover.NodeGroupStatus{
		Nodes: 100, Synced: 45, Pending: 55, Phase: drover.PhaseRolling,
		Rollout: &drover.RolloutStatus{Wave: "3/5", StartTime: ago(time.Hour + 10*time.Minute), WaveEndTime: ago(10 * time.Minute)},
		Conditions: []metav1.Condition{
			{Type: drover.ConditionProgressing, Status: metav1.ConditionTrue, Reason: "RollingOut", LastTransitionTime: *ago(time.Hour)},
		},
	}
	edit(g)
	return g
}

func TestActivities_Group(t *testing.T) {
	condition := func(reason string) func(*drover.NodeGroup) {
		return func(g *drover.NodeGroup) { g.Status.Conditions[0].Reason = reason }
	}
	phase := func(phase drover.Phase) func(*drover.NodeGroup) {
		return func(g *drover.NodeGroup) { g.Status.Phase = phase }
	}
	for name, c := range map[string]struct {
		edit  func(*drover.NodeGroup)
		state ActivityState
		// end is in how many minutes; -1 for none.
		end int
	}{
		// 40 nodes an hour, and 55 are left.
		"goes on":                       {func(*drover.NodeGroup) {}, ActivityRunning, 83},
		"pauses between waves":          {condition("Pausing"), ActivityRunning, 83},
		"waits for a window":            {phase(drover.PhaseWaiting), ActivityWaiting, -1},
		"has stopped":                   {phase(drover.PhaseStopped), ActivityStopped, -1},
		"is suspended":                  {phase(drover.PhaseSuspended), ActivitySuspended, -1},
		"is a dry run":                  {condition("DryRun"), ActivitySuspended, -1},
		"has not been observed":         {phase(""), ActivityWaiting, -1},
		"is in the first wave":          {func(g *drover.NodeGroup) { g.Status.Rollout.Wave = "1/5" }, ActivityRunning, -1},
		"has a wave that is no wave":    {func(g *drover.NodeGroup) { g.Status.Rollout.Wave = "9/5" }, ActivityRunning, 86},
		"began again with MachineSets":  {func(g *drover.NodeGroup) { g.Status.Rollout.MachineSetTime = ago(40 * time.Minute) }, ActivityRunning, 42},
		"ended a moment ago":            {ended(time.Minute), ActivityDone, -1},
		"began in the future, by clock": {func(g *drover.NodeGroup) { g.Status.Rollout.StartTime = ago(-time.Hour) }, ActivityRunning, -1},
	} {
		t.Run(name, func(t *testing.T) {
			items := compute(t, &Objects{Groups: []*drover.NodeGroup{rolling(c.edit)}}).Progress().Items
			if len(items) != 1 || items[0].State != c.state || items[0].Type != RollOut {
				t.Fatalf("got %+v", items)
			}
			want := ""
			if c.end >= 0 {
				want = testTime.Add(time.Duration(c.end) * time.Minute).Format(time.RFC3339)
			}
			if items[0].ExpectedEnd != want {
				t.Errorf("the end is expected at %q, want %q (%v an hour)", items[0].ExpectedEnd, want, items[0].PerHour)
			}
		})
	}
	if items := compute(t, &Objects{Groups: []*drover.NodeGroup{rolling(ended(2 * time.Hour))}}).Progress().Items; len(items) != 0 {
		t.Errorf("one that ended long ago: %+v", items)
	}
}

// ended ends the roll-out.
func ended(before time.Duration) func(*drover.NodeGroup) {
	return func(g *drover.NodeGroup) {
		g.Status.Phase, g.Status.Synced, g.Status.Pending = drover.PhaseIdle, 100, 0
		g.Status.Rollout.EndTime = ago(before)
	}
}

// TestActivities_Replacement: the speed is that of the Machines that were created since the replacement began.
func TestActivities_Replacement(t *testing.T) {
	objects := &Objects{}
	g := rolling(func(g *drover.NodeGroup) {
		g.Status.Outdated, g.Status.Nodes, g.Status.Synced, g.Status.Pending, g.Status.Rollout = 3, 6, 6, 0, nil
		g.Status.Conditions[0].Reason = "Replacing"
	})
	objects.Groups = append(objects.Groups, g)
	for i, created := range []time.Duration{200 * time.Hour, 200 * time.Hour, 200 * time.Hour, 50 * time.Minute, 30 * time.Minute, 10 * time.Minute} {
		name := fmt.Sprint("n-", i)
		objects.Nodes = append(objects.Nodes, readyNode(name, builder.WithNodeLabels(map[string]string{"pool": "web"})))
		objects.Machines = append(objects.Machines, builder.Machine("ns", name, builder.WithNode(name), func(m *machinev1beta1.Machine) {
			m.CreationTimestamp = *ago(created)
		}))
	}
	var found []Activity
	for _, item := range compute(t, objects).Progress().Items {
		if item.Type == Replacement {
			found = append(found, item)
		}
	}
	if len(found) != 1 || found[0].PerHour != 3 || found[0].Total != 6 || found[0].Done != 3 || found[0].Unit != UnitMachines {
		t.Errorf("got %+v", found)
	}
}

func TestActivities_Drain(t *testing.T) {
	for reason, want := range map[string]ActivityState{
		"Draining": ActivityRunning, "Blocked": ActivityStopped, "WaitingForBudget": ActivityWaiting, "Paused": ActivitySuspended,
	} {
		m := maintenance("n", reason)
		m.CreationTimestamp, m.Status.DrainProgress = *ago(30 * time.Minute), 25
		m.Spec.Reason = "\x1b[31m" + strings.Repeat("r", 1<<20)
		item := compute(t, &Objects{Maintenances: []*medik8s.NodeMaintenance{m}}).Progress().Items[0]
		if item.State != want || item.Node != "n" || item.Done != 25 || item.PerHour != 50 || (item.ExpectedEnd != "") != (want == ActivityRunning) {
			t.Errorf("%s: got %+v", reason, item)
		}
		if text := item.Maintenance.Reason; len(text) > maxMessage+16 || strings.Contains(text, "\x1b") {
			t.Errorf("the reason is neither cut nor escaped: %.80q", text)
		}
	}
}

func TestActivities_Upgrade(t *testing.T) {
	run := &mutex.MutexRunConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "run"}}
	run.Status = mutex.MutexRunConfigStatus{
		Phase: mutex.PhaseRunning, Total: 20, Done: 8, Failed: 1, Started: ago(2 * time.Hour),
		Nodes: []mutex.NodeStatus{{Name: "a", Phase: mutex.NodeUpgrading}, {Name: "b", Phase: mutex.NodeFailed}, {Name: "c", Phase: mutex.NodeReleased}},
	}
	item := compute(t, &Objects{Runs: []*mutex.MutexRunConfig{run}}).Progress().Items[0]
	if item.State != ActivityRunning || item.Waiting != 9 || item.PerHour != 4 || len(item.Upgrade.Nodes) != 3 {
		t.Errorf("got %+v", item)
	}
	if want := testTime.Add(2*time.Hour + 46*time.Minute).Format(time.RFC3339); item.ExpectedEnd != want {
		t.Errorf("the end is expected at %s, want %s", item.ExpectedEnd, want)
	}
}

// TestActivities_Many: the list is bounded, and the worst are in it.
func TestActivities_Many(t *testing.T) {
	objects := &Objects{Maintenances: []*medik8s.NodeMaintenance{maintenance("blocked", "Blocked")}}
	for i := range maxActivities + 9 {
		objects.Maintenances = append(objects.Maintenances, maintenance(fmt.Sprint("n-", i), "Draining"))
	}
	progress := compute(t, objects).Progress()
	if len(progress.Items) != maxActivities || progress.Omitted != 10 || progress.Items[0].Node != "blocked" {
		t.Errorf("%d activities, %d omitted, first %+v", len(progress.Items), progress.Omitted, progress.Items[0])
	}
}

// withWindows returns a NodeGroup with a budget and windows: one is valid, one cannot be read, and one opens more often than is shown.
func withWindows(name string, windows ...drover.Window) *drover.NodeGroup {
	g := group(name)
	g.Spec.Disruption = &drover.Disruption{Windows: windows}
	return g
}

func newBudgets(t *testing.T) *Tracker {
	t.Helper()
	web := withWindows("web", drover.Window{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: time.Hour}})
	web.Spec.Disruption.Freezes = []drover.Freeze{{From: *ago(-24 * time.Hour), To: *ago(-48 * time.Hour), Reason: "<b>sale</b>"}}
	web.Status.Budget, web.Status.Unavailable = new(int32(10)), 5
	for i := range 2 {
		web.Status.Reservations = append(web.Status.Reservations, drover.Reservation{Node: fmt.Sprint("n-", i), UID: types.UID("u"), Capability: "Upgrade"})
	}
	return compute(t, &Objects{Groups: []*drover.NodeGroup{
		web, withWindows("broken", drover.Window{Schedule: "* * * * *", TimeZone: "Mars", Duration: metav1.Duration{Duration: time.Hour}}),
		withWindows("often", drover.Window{Schedule: "*/2 * * * *", Duration: metav1.Duration{Duration: time.Minute}}),
	}})
}

func TestBudgets(t *testing.T) {
	tracker := newBudgets(t)
	budgets := tracker.Progress().Budgets
	if len(budgets) != 3 {
		t.Fatalf("got %+v", budgets)
	}
	budget := budgets[2]
	if *budget.Limit != 10 || len(budget.Holders) != 2 || budget.Others != 3 || budget.Open || budget.Changes == "" || budget.Closed == "" {
		t.Errorf("got %+v", budget)
	}
	gone := []Event{{Ref: Ref{ResourceGroups, types.NamespacedName{Name: "broken"}}}}
	tracker.Update(t.Context(), gone, nil, testTime.Add(time.Hour))
	if progress := tracker.Progress(); len(progress.Budgets) != 2 || len(progress.Calendar.Rows) != 2 {
		t.Errorf("a group that is gone is still in %+v", progress.Budgets)
	}
}

// TestBudgets_Many: the list is bounded, says so, and has another budget when one of it is gone.
func TestBudgets_Many(t *testing.T) {
	objects := &Objects{}
	for i := range maxBudgets + 2 {
		objects.Groups = append(objects.Groups, withWindows(fmt.Sprintf("group-%04d", i)))
	}
	tracker := compute(t, objects)
	if progress := tracker.Progress(); len(progress.Budgets) != maxBudgets || progress.OmittedBudgets != 2 {
		t.Errorf("%d budgets, %d omitted", len(progress.Budgets), progress.OmittedBudgets)
	}
	tracker.Update(t.Context(), []Event{{Ref: Ref{ResourceGroups, types.NamespacedName{Name: "group-0000"}}}}, nil, testTime)
	progress := tracker.Progress()
	if len(progress.Budgets) != maxBudgets || progress.OmittedBudgets != 1 || progress.Budgets[maxBudgets-1].NodeGroup != "group-0500" {
		t.Errorf("after one has gone: %d budgets, %d omitted", len(progress.Budgets), progress.OmittedBudgets)
	}
}

func TestCalendar(t *testing.T) {
	tracker := newBudgets(t)
	rows := tracker.Calendar().Rows
	if len(rows) != 3 || rows[0].Name != "broken" || !strings.Contains(rows[0].Error, "Mars") || len(rows[0].Open) != 0 {
		t.Fatalf("a window that cannot be read: %+v", rows)
	}
	if len(rows[1].Open) != maxIntervals || rows[1].Until == "" {
		t.Errorf("%d intervals, known until %q", len(rows[1].Open), rows[1].Until)
	}
	// Of seven nights one is frozen.
	if len(rows[2].Open) != 6 || len(rows[2].Freezes) != 1 || rows[2].Freezes[0].Reason != "<b>sale</b>" || rows[2].Until != "" {
		t.Errorf("got %+v", rows[2])
	}
	tracker.Refresh(t.Context(), testTime.Add(time.Hour))
	if later := tracker.Calendar(); later.From != testTime.Add(time.Hour).Format(time.RFC3339) || len(later.Rows) != 3 {
		t.Errorf("an hour later: from %s, %d rows", later.From, len(later.Rows))
	}
}
