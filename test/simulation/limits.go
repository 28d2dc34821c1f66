package simulation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
)

// limit is the budget of a NodeGroup: a number of Nodes, or a percentage of them.
type limit struct{ nodes, percent int }

// limits are the limits that users choose from.
var limits = []limit{{nodes: 1}, {nodes: 2}, {percent: 20}, {percent: 34}, {percent: 50}}

// of returns how many of so many Nodes may be unavailable.
func (l limit) of(nodes int) int { return l.nodes + (l.percent*nodes+99)/100 }

// value is the limit as a NodeGroup has it.
func (l limit) value() *intstr.IntOrString {
	if l.percent > 0 {
		return new(intstr.FromString(fmt.Sprintf("%d%%", l.percent)))
	}
	return new(intstr.FromInt(l.nodes))
}

// more is a larger limit.
func (l limit) more() limit {
	if l.percent > 0 {
		return limit{percent: min(l.percent+50, 100)}
	}
	return limit{nodes: l.nodes + 1}
}

// timetable is when disruptions of a NodeGroup may begin. The zero value is at any time.
type timetable struct {
	// A window opens every period; the last of it is only for what has begun. Zero is one without end.
	period, open, last time.Duration
	// from and to bound a freeze.
	from, to time.Time
}

// isOpen reports whether disruptions may begin at a time, which is rounded down to seconds.
func (t timetable) isOpen(at time.Time) bool {
	if !at.Before(t.from) && at.Before(t.to) {
		return false
	}
	elapsed := at.Sub(at.Truncate(max(t.period, 1)))
	return t.period == 0 || elapsed < t.open && elapsed <= t.open-t.last
}

// apply writes a timetable into a NodeGroup.
func (t timetable) apply(spec *v1alpha1.Disruption) {
	spec.Windows, spec.Freezes = nil, nil
	if t.period > 0 {
		spec.Windows = []v1alpha1.Window{{
			Schedule: fmt.Sprintf("*/%d * * * *", int(t.period.Minutes())), Duration: metav1.Duration{Duration: t.open},
			MinRemaining: &metav1.Duration{Duration: t.last},
		}}
	}
	if !t.to.IsZero() {
		spec.Freezes = []v1alpha1.Freeze{{From: metav1.NewTime(t.from), To: metav1.NewTime(t.to), Reason: "simulated"}}
	}
}

// changeLimit has a user choose another budget for a NodeGroup.
func (w *world) changeLimit(group *v1alpha1.NodeGroup) {
	chosen := pick(w, limits)
	w.groups[group.Name].limit = chosen
	if w.config.generous {
		chosen = chosen.more()
	}
	group.Spec.Disruption.MaxUnavailable = chosen.value()
}

// changeTimetable has a user choose other windows and freezes for a NodeGroup.
func (w *world) changeTimetable(group *v1alpha1.NodeGroup) {
	var chosen timetable
	if w.chance(2) {
		chosen.period = pick(w, []time.Duration{2 * time.Minute, 5 * time.Minute, 20 * time.Minute})
		chosen.open = time.Duration(1+w.random.IntN(int(chosen.period.Minutes()))) * time.Minute
		chosen.last = pick(w, []time.Duration{0, 0, 20 * time.Second})
	}
	if w.chance(4) {
		chosen.from = time.Now().UTC().Truncate(time.Second).Add(w.upTo(2 * time.Minute).Truncate(time.Second))
		chosen.to = chosen.from.Add(time.Minute + w.upTo(10*time.Minute).Truncate(time.Second))
	}
	w.groups[group.Name].timetable = chosen
	chosen.apply(group.Spec.Disruption)
}

// editGroups changes NodeGroups as a user does: one of them, or all.
func (w *world) editGroups(all bool, change func(group *v1alpha1.NodeGroup)) {
	groups := w.server.all(groupKind)
	if len(groups) > 0 && !all {
		groups = []client.Object{pick(w, groups)}
	}
	for _, object := range groups {
		edit(w, "user", groupKind, keyOf(object), func(group *v1alpha1.NodeGroup) {
			group.Spec = *group.Spec.DeepCopy()
			change(group)
		})
	}
}

// crowd counts each Node of a NodeGroup twice, which makes percentages larger.
type crowd struct{ disruption.Membership }

// Members returns the Nodes of a NodeGroup, and as many Ready Nodes that do not exist.
func (c crowd) Members(ctx context.Context, group string) ([]*corev1.Node, error) {
	nodes, err := c.Membership.Members(ctx, group)
	for _, node := range nodes[:len(nodes):len(nodes)] {
		other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "zz-" + node.Name, UID: "zz-" + node.UID}}
		other.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		nodes = append(nodes, other)
	}
	return nodes, err
}
