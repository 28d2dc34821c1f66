package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/metadata/pace"
	"github.com/drover-io/drover/internal/nodegroup"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/rollout/gate"
)

// leasesFor returns the node leases of a controller with a holder.
type leasesFor func(controller, holder string) *nodelease.Leases

// runGroups starts the controllers of NodeGroups and NodeMaintenances as the operator does, and returns the budgets.
func (p *process) runGroups(
	ctx context.Context, registry *prometheus.Registry, drainer *engine.Engine, leases leasesFor,
) (*disruption.Budgets, *grouplayer.Layer, error) {
	groupMetrics, err1 := nodegroup.NewMetrics(registry)
	nodeMetrics, err2 := grouplayer.NewMetrics(registry)
	maintenanceMetrics, err3 := maintenance.NewMetrics(registry)
	kind := maintenance.Medik8s()
	err := errors.Join(err1, err2, err3, lookup.Index(ctx, p), lookup.IndexOwners(ctx, p), maintenance.Index(ctx, p, kind))
	if err != nil {
		return nil, nil, err
	}
	all := func() bool { return true }
	groups, written, places := p.clientFor("node-groups", false), p.clientFor("metadata", false), p.clientFor("disruption", false)
	membership := p.clientFor("members", false)
	finder, index, reached := members.NewFinder(membership.cache, all), &members.Index{}, &gate.Gate{}
	membershipOfBudgets, windows := disruption.Membership(index), groupplan.WindowOf
	if p.crowded {
		membershipOfBudgets = crowd{index}
	}
	if p.unscheduled {
		windows = nil
	}
	budgets := disruption.New(disruption.Options{
		Reader: places.cache, Writer: places, Membership: membershipOfBudgets, Windows: windows,
		Pace: func(group *v1alpha1.NodeGroup) disruptionplan.Pace { return groupplan.PaceOf(group, nil) },
		Written: expectations.NewOwned(places.cache, func() client.Object { return &v1alpha1.NodeGroup{} },
			expectations.OwnedOptions{Live: p.expectationsOf("disruption")}),
	})
	p.begin(func() error { return index.Run(ctx, membership.cache, finder) })
	p.begin(func() error {
		return nodegroup.Run(ctx, groups.cache, nodegroup.Dependencies{
			Cache: groups.cache, Writer: groups, Recorder: recorder, Metrics: groupMetrics, Finder: finder, Gate: reached,
			Budgets: budgets, Live: p.expectationsOf("node-groups"),
		}, nodegroup.Options{Protected: ownership.DefaultProtected(), Machines: all})
	})
	layer := grouplayer.NewLayer(grouplayer.Dependencies{
		Cache: written.cache, Recorder: recorder, Metrics: nodeMetrics, Finder: finder, Gate: reached,
		Guard: &grouplayer.Guard{
			Engine: drainer, Leases: leases("metadata", grouplayer.Holder), Budgets: budgets, Live: pages.NewReader(p.clientFor("metadata", true)),
		},
		Memory: grouplayer.NewMemory(p.expectationsOf("metadata"), nil),
	}, grouplayer.Options{Limiter: pace.NewLimiter(0, 0), Protected: ownership.DefaultProtected(), Machines: all})
	asked := budgets
	if p.unbudgeted {
		asked = nil
	}
	p.runMaintenance(ctx, kind, &maintenance.Dependencies{
		Budgets: asked, Engine: drainer, Metrics: maintenanceMetrics, Lease: leases("maintenance", maintenance.Holder),
		OwnLease: leases("maintenance", maintenance.Holder),
	})
	return budgets, layer, nil
}

// runMaintenance starts the controller of NodeMaintenances of one group.
func (p *process) runMaintenance(ctx context.Context, kind *maintenance.Group, dependencies *maintenance.Dependencies) {
	writer := p.clientFor("maintenance", false)
	dependencies.Cache, dependencies.Writer, dependencies.Live = writer.cache, writer, p.clientFor("maintenance", true)
	dependencies.Nodes = expectations.NewObjects(p.expectationsOf("maintenance"), clock.RealClock{})
	dependencies.Recorder, dependencies.Registry = recorder, maintenance.NewRegistry(writer.cache)
	p.begin(func() error {
		return maintenance.Run(ctx, writer.cache, kind, dependencies, maintenance.Options{Workers: workers})
	})
}

// expectationsOf asks the API server about own writes that the cache does not show for long.
func (p *process) expectationsOf(controller string) *expectations.Live {
	return expectations.NewLive(p.clientFor(controller, true), known())
}

// poolOf returns the name of the pool that a Machine was made for.
func poolOf(machine string) string {
	pool, _, _ := strings.Cut(machine, "-")
	return pool
}

// populateGroups makes a NodeGroup with a budget for most pools.
func (w *world) populateGroups() {
	for _, set := range w.server.all(setKind) {
		if w.chance(4) {
			continue
		}
		group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: set.GetName()}}
		group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: set.GetName()}}
		group.Spec.Metadata = &v1alpha1.Metadata{ConflictPolicy: v1alpha1.ConflictAdopt}
		w.redeclareGroup(group)
		group.Spec.Rollout = &v1alpha1.Rollout{
			MaxInFlight: pick(w, []*intstr.IntOrString{nil, new(intstr.FromInt32(1)), new(intstr.FromString("50%"))}),
			// Nodes that fail are not the fault of what is declared.
			StopWhen: &v1alpha1.StopConditions{NotReady: new(intstr.FromInt32(1000))},
		}
		group.Spec.Disruption = &v1alpha1.Disruption{
			PersonMaintenance: v1alpha1.PersonQueue,
			Remediation:       pick(w, []*v1alpha1.RemediationPace{nil, {MaxInFlight: new(intstr.FromInt32(2))}}),
		}
		w.groups[set.GetName()] = w.newGroupCheck()
		w.changeLimit(group)
		w.changeTimetable(group)
		_, err := w.server.create(request{who: "user"}, group)
		must(err)
	}
}

// redeclareGroup changes what a group declares for its Nodes.
func (w *world) redeclareGroup(group *v1alpha1.NodeGroup) {
	metadata, key, value := group.Spec.Metadata, grouped+pick(w, []string{"a", "b", "c"}), fmt.Sprintf("v%d", w.random.IntN(9))
	switch w.random.IntN(5) {
	case 0, 1:
		_, there := metadata.Labels[key]
		metadata.Labels = with(metadata.Labels, key, v1alpha1.LabelValue(value))
		if there && w.chance(2) {
			delete(metadata.Labels, key)
		}
	case 2, 3, 4:
		kept := slices.DeleteFunc(slices.Clone(metadata.Taints), func(t v1alpha1.Taint) bool { return t.Key == key })
		if len(kept) == len(metadata.Taints) || w.chance(2) {
			kept = append(kept, v1alpha1.Taint{Key: key, Value: value, Effect: pick(w, []corev1.TaintEffect{
				corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
			})})
		}
		metadata.Taints = kept
	}
	for e := range declaredIn(metadata) {
		w.declared[e] = true
	}
}

// declaredIn is what a group declares for its Nodes.
func declaredIn(metadata *v1alpha1.Metadata) map[entry]any {
	out := map[entry]any{}
	for key, value := range metadata.Labels {
		out[entry{"label", key}] = string(value)
	}
	for _, taint := range metadata.Taints {
		out[entry{"taint", taint.Key}] = fmt.Sprint(taint.Value, taint.Effect)
	}
	return out
}

// groupActions are what users do where there are NodeGroups, in addition to actions.
var groupActions = []action{
	{5, func(w *world) { w.editGroups(false, w.redeclareGroup) }},
	{3, func(w *world) { w.editGroups(false, w.changeLimit) }},
	{4, func(w *world) { w.editGroups(false, w.changeTimetable) }},
	{12, (*world).maintain},
}

// maintain is a user with some NodeMaintenances, who ends each after a while.
func (w *world) maintain() {
	for range 1 + w.random.IntN(3) {
		node := w.someNode()
		if node == nil {
			return
		}
		object := &medik8s.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "maintenance-" + w.suffix()}}
		object.Spec.NodeName = node.Name
		_, err := w.server.create(request{who: "user"}, object)
		must(err)
		w.after(w.upTo(15*time.Minute), func() {
			must(client.IgnoreNotFound(w.server.delete(request{who: "user"}, maintenanceKind, keyOf(object), guards{}, nil)))
		})
	}
}
