package model

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/schedule"
	upgradeplan "github.com/drover-io/drover/internal/upgrade/plan"
)

// The bounds of budgets and of the calendar.
const (
	maxHolders   = 100
	maxRows      = 200
	maxIntervals = 200
	calendarDays = 7
)

// updateBudgets computes the budgets of changed NodeGroups.
func (t *Tracker) updateBudgets(d *dirty, now time.Time) {
	changed := false
	for ref := range d.refs {
		if ref.Resource != ResourceGroups {
			continue
		}
		changed = true
		if group, ok := t.objects[ref].(*drover.NodeGroup); ok && group.Spec.Disruption != nil {
			t.budgets[ref.Name] = budgetOf(group, now)
		} else {
			delete(t.budgets, ref.Name)
		}
	}
	if !changed {
		return
	}
	all := slices.Collect(maps.Values(t.budgets))
	slices.SortFunc(all, func(a, b Budget) int { return strings.Compare(a.NodeGroup, b.NodeGroup) })
	omitted := max(0, len(all)-maxBudgets)
	t.Budgets.Replace(all[:len(all)-omitted], omitted)
}

// budgetOf returns the budget of a NodeGroup as its status has it.
func budgetOf(group *drover.NodeGroup, now time.Time) Budget {
	spec, status := group.Spec.Disruption, &group.Status
	b := Budget{
		NodeGroup: group.Name, MaxUnavailable: "1", Limit: status.Budget, Nodes: status.Nodes, Unavailable: status.Unavailable, Holders: []Holder{},
	}
	if spec.MaxUnavailable != nil {
		b.MaxUnavailable = spec.MaxUnavailable.String()
	}
	holding := sets.Set[string]{}
	for i := range status.Reservations {
		r := &status.Reservations[i]
		holding.Insert(r.Node)
		b.Holders = append(b.Holders, Holder{
			Node: Text(r.Node, maxName), Capability: string(r.Capability), Object: Text(r.Object, maxName), Since: Stamp(r.Time.Time),
		})
	}
	b.Omitted = max(0, len(b.Holders)-maxHolders)
	b.Holders = b.Holders[:len(b.Holders)-b.Omitted]
	b.Others = max(0, status.Unavailable-int32(min(holding.Len(), int(status.Unavailable)))) //nolint:gosec // at most status.Unavailable
	window := groupplan.WindowOf(group, now)
	b.Open, b.Closed, b.Changes = !window.Closed, Text(window.Message, maxMessage), Stamp(window.Changes)
	return b
}

// Calendar returns when disruptions may begin.
func (t *Tracker) Calendar() *Calendar {
	return t.calendar.Load()
}

// updateCalendar computes the rows of changed objects. With each hour the calendar begins an hour later.
func (t *Tracker) updateCalendar(d *dirty, now time.Time) {
	from := now.UTC().Truncate(time.Hour)
	to := from.AddDate(0, 0, calendarDays)
	refs := maps.Clone(d.refs)
	changed := t.Calendar().From != Stamp(from)
	if changed {
		for _, resource := range []string{ResourceGroups, ResourceRuns} {
			for ref := range t.byResource[resource] {
				refs[ref] = true
			}
		}
	}
	for ref := range refs {
		row := rowOf(t.objects[ref], from, to)
		before, known := t.rows[ref]
		switch {
		case row == nil && known:
			delete(t.rows, ref)
			changed = true
		case row != nil && (!known || !reflect.DeepEqual(before, *row)):
			t.rows[ref] = *row
			changed = true
		}
	}
	if !changed {
		return
	}
	next := &Calendar{From: Stamp(from), To: Stamp(to), Rows: slices.AppendSeq([]CalendarRow{}, maps.Values(t.rows))}
	slices.SortFunc(next.Rows, func(a, b CalendarRow) int {
		return cmp.Or(strings.Compare(b.Kind, a.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	next.Omitted = max(0, len(next.Rows)-maxRows)
	next.Rows = next.Rows[:len(next.Rows)-next.Omitted]
	t.calendar.Store(next)
}

// rowOf returns the row of an object; nil for one without windows and freezes.
func rowOf(object client.Object, from, to time.Time) *CalendarRow {
	var row *CalendarRow
	var calendar *schedule.Calendar
	var err error
	switch object := object.(type) {
	case *drover.NodeGroup:
		spec := object.Spec.Disruption
		if spec == nil || len(spec.Windows)+len(spec.Freezes) == 0 {
			return nil
		}
		row = &CalendarRow{Kind: kindNodeGroup, Name: object.Name, Freezes: freezesOf(spec, from, to)}
		calendar, err = groupplan.CalendarOf(spec)
	case *mutex.MutexRunConfig:
		if len(object.Spec.Windows) == 0 {
			return nil
		}
		row = &CalendarRow{Kind: kindRun, Namespace: object.Namespace, Name: object.Name}
		calendar, err = upgradeplan.CalendarOf(object)
	default:
		return nil
	}
	row.Open = []Interval{}
	if err != nil {
		row.Error = Text(err.Error(), maxMessage)
		return row
	}
	open, until := calendar.Open(from, to, maxIntervals)
	for _, interval := range open {
		row.Open = append(row.Open, Interval{From: Stamp(interval.From), To: Stamp(interval.To)})
	}
	if until.Before(to) {
		row.Until = Stamp(until)
	}
	return row
}

// freezesOf returns the freezes that concern a time.
func freezesOf(spec *drover.Disruption, from, to time.Time) (freezes []Interval) {
	for i := range spec.Freezes {
		freeze := &spec.Freezes[i]
		if freeze.From.Time.Before(to) && freeze.To.After(from) {
			freezes = append(freezes, Interval{Stamp(freeze.From.Time), Stamp(freeze.To.Time), Text(freeze.Reason, maxMessage)})
		}
	}
	return freezes
}
