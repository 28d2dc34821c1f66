package machines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestHealthCheck_NeverJoinedReplacedWithinBudget: Machines that never get a Node are replaced one at a time, as the NodeGroup of their MachineSet
// has it, also by the next operator after a crash.
func TestHealthCheck_NeverJoinedReplacedWithinBudget(t *testing.T) {
	replaceNeverJoined(t, boundOf("never-joined"))
}

// The same with a NodeGroup that selects Nodes by a label: the Machines count in the group of the other Nodes of their MachineSet.
func TestHealthCheck_NeverJoinedReplacedWithinBudgetOfLabel(t *testing.T) {
	harness.TestAllOnly(t, "the one without a label is like it")
	group := boundOf("never-label")
	selectRack(group)
	replaceNeverJoined(t, group)
}

// replaceNeverJoined has three Machines of a pool fail that have no Node yet, where one may be replaced at a time.
func replaceNeverJoined(t *testing.T, group *v1alpha1.NodeGroup) {
	t.Helper()
	w, operator := world(t)
	const joined, failing = 2, 3
	group.Spec.Disruption.Remediation.MaxInFlight = new(intstr.FromInt32(1))
	w.CreateWithCleanup(group)
	boots := func(delay time.Duration) func(*kwok.ProviderSpec) {
		return func(spec *kwok.ProviderSpec) {
			spec.BootDelay, spec.Labels = metav1.Duration{Duration: delay}, map[string]string{rackLabel: group.Name}
		}
	}
	p := w.MakePool(group.Name, joined, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) { boots(0)(spec) })
	healthy := p.Runs(joined)
	r := &replacement{p}
	r.setTemplate(boots(time.Hour))
	p.Scale(joined + failing)
	w.Eventually("the others have instances, and no Nodes", func() error {
		started := 0
		for _, machine := range p.Machines() {
			if machine.Spec.ProviderID != nil && machine.Status.NodeRef == nil {
				started++
			}
		}
		if started != failing {
			return fmt.Errorf("%d have", started)
		}
		return nil
	})
	r.setTemplate(boots(2 * time.Second))
	var failed []string
	for _, machine := range p.Machines() {
		if machine.Status.NodeRef == nil {
			failed = append(failed, machine.Name)
		}
	}
	seen := followRack(p)
	check := &machinev1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: p.Name}}
	check.Spec.Selector.MatchLabels = map[string]string{cluster.MachineSetLabel: p.Name}
	// A replacement that takes longer is replaced in turn, with the same place.
	check.Spec.NodeStartupTimeout = &metav1.Duration{Duration: 15 * time.Second}
	check.Spec.UnhealthyConditions = []machinev1beta1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	w.CreateWithCleanup(check)
	w.Eventually("one has a place, and the others wait for one", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(check), check); err != nil {
			return err
		}
		waits := slices.ContainsFunc(check.Status.Conditions, func(c machinev1beta1.Condition) bool { return c.Reason == "WaitingForBudget" })
		if err := w.Client.Get(t.Context(), types.NamespacedName{Name: group.Name}, group); err != nil {
			return err
		}
		places := group.Status.Reservations
		if !waits || len(places) != 1 || !strings.HasPrefix(places[0].Node, "Machine/"+cluster.MachineNamespace+"/") {
			return fmt.Errorf("the places are %s, the MachineHealthCheck says %s", harness.JSON(places), harness.JSON(check.Status.Conditions))
		}
		return nil
	})
	if err := operator.Kill(); err != nil {
		t.Fatal(err)
	}
	w.Operator(harness.Options{Args: []string{"--controllers=*"}})
	now := p.Runs(joined + failing)
	for i := range now {
		if slices.Contains(failed, now[i].Name) {
			t.Errorf("Machine %s runs, and was to be replaced", now[i].Name)
		}
	}
	if most, deleted := seen.mostReplaced(p.Name, failed, healthy); most != 1 || deleted != failing {
		t.Errorf("%d replacements were in flight at most, and %d Machines deleted", most, deleted)
	}
	r.eventuallyFree()
}

// mostReplaced replays all events of a pool in their order, and returns how many of the failed Machines were deleted and had no successor yet whose
// Node was Ready, at most, and how many were deleted.
func (r *rackWatch) mostReplaced(pool string, failed []string, healthy []machinev1beta1.Machine) (most, deleted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b rackEvent) int { return cmp.Compare(a.revision, b.revision) })
	gone, ready := map[string]bool{}, map[string]bool{}
	for _, event := range events {
		isOld := slices.ContainsFunc(healthy, func(m machinev1beta1.Machine) bool { return m.Name == event.name })
		switch {
		case event.node && event.ready && !isOld && strings.HasPrefix(event.name, pool+"-"):
			ready[event.name] = true
		case !event.node && event.gone && slices.Contains(failed, event.name):
			gone[event.name] = true
		}
		most = max(most, len(gone)-len(ready))
	}
	return most, len(gone)
}
