package machines

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// replacement is a pool whose NodeGroup replaces outdated Machines.
type replacement struct{ *harness.Pool }

// replace creates a NodeGroup of the pool's name that replaces its Machines, and deletes it when the test ends.
func replace(p *harness.Pool, change func(*v1alpha1.Replacement)) *replacement {
	p.Helper()
	return replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) {
		if change != nil {
			change(spec.Replacement)
		}
	})
}

// replaceWithin is replace for a NodeGroup with a budget, or with anything else.
func replaceWithin(p *harness.Pool, change func(*v1alpha1.NodeGroupSpec)) *replacement {
	p.Helper()
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: cluster.MachineNamespace, Names: []string{p.Name}}
	group.Spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
	change(&group.Spec)
	if err := p.Client.Create(p.Context(), group); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		gone := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
		// Without an operator the finalizer stays.
		text := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		for _, err := range []error{p.Client.Delete(ctx, gone), p.Client.Patch(ctx, gone, text)} {
			if client.IgnoreNotFound(err) != nil {
				p.Errorf("deleting NodeGroup %s: %v", p.Name, err)
			}
		}
	})
	return &replacement{p}
}

// group reads the NodeGroup.
func (r *replacement) group() *v1alpha1.NodeGroup {
	r.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := r.Client.Get(r.Context(), types.NamespacedName{Name: r.Name}, group); err != nil {
		r.Fatal(err)
	}
	return group
}

// setTemplate changes the providerSpec of the MachineSet.
func (r *replacement) setTemplate(change func(*kwok.ProviderSpec)) {
	r.Helper()
	harness.Update(r.World, r.World.Set, r.Name, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec = harness.KwokProviderSpec(func(spec *kwok.ProviderSpec) {
			spec.Zone = "zone-a"
			change(spec)
		})
	})
}

// newImage is a template whose Machines take a moment to boot.
func newImage(spec *kwok.ProviderSpec) {
	spec.InstanceType, spec.BootDelay = "new", metav1.Duration{Duration: 200 * time.Millisecond}
}

// current counts the Machines of the current template, and the others.
func (r *replacement) current() (current, outdated int) {
	r.Helper()
	template := machineapi.TemplateOf(r.Set())
	for _, machine := range r.Machines() {
		if template.Outdates(&machine) {
			outdated++
		} else {
			current++
		}
	}
	return current, outdated
}

// eventuallyReplaced waits until the pool has so many Machines, all of the current template, and the group says so.
func (r *replacement) eventuallyReplaced(count int) {
	r.Helper()
	r.Eventually(fmt.Sprintf("the %d Machines of %s are replaced", count, r.Name), func() error {
		if current, outdated := r.current(); current != count || outdated > 0 {
			return fmt.Errorf("%d are current and %d outdated; the group says %s", current, outdated, harness.JSON(r.group().Status))
		}
		if _, err := r.Running(count); err != nil {
			return err
		}
		if status := r.group().Status; status.Outdated != 0 || status.Phase != v1alpha1.PhaseIdle {
			return fmt.Errorf("the group says %s", harness.JSON(status))
		}
		return nil
	})
	for _, machine := range r.Machines() {
		if _, marked := machine.Annotations[machineapi.ReplacingAnnotation]; marked {
			r.Errorf("Machine %s is still marked", machine.Name)
		}
	}
}

// eventuallyBlocked waits until the group is blocked for a reason.
func (r *replacement) eventuallyBlocked(reason string) {
	r.Helper()
	r.Eventually("the group is blocked: "+reason, func() error {
		status := r.group().Status
		if found := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBlocked); found == nil || found.Reason != reason {
			return fmt.Errorf("it says %s", harness.JSON(status))
		}
		return nil
	})
}

// serving replays the events of a pool. It returns the lowest number of Machines with a Ready Node, the highest number of Machines that were not
// being deleted, and the names of deleted Machines in order. All of the given Machines are Ready when the events begin.
func (r *rackWatch) serving(machines []machinev1beta1.Machine) (least, most int, gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b rackEvent) int { return cmp.Compare(a.revision, b.revision) })
	present, ready := map[string]bool{}, map[string]bool{}
	for i := range machines {
		present[machines[i].Name], ready[machines[i].Name] = true, true
	}
	least, most = len(machines), len(machines)
	for _, event := range events {
		switch {
		case event.node:
			ready[event.name] = event.ready && !event.gone
		case event.gone && present[event.name]:
			present[event.name] = false
			gone = append(gone, event.name)
		case !event.gone && !slices.Contains(gone, event.name):
			present[event.name] = true
		}
		serving, counted := 0, 0
		for name, here := range present {
			if here {
				counted++
				if ready[name] {
					serving++
				}
			}
		}
		least, most = min(least, serving), max(most, counted)
	}
	return least, most, gone
}

// byAge returns the names of Machines, ordered as Drover replaces them.
func byAge(machines []machinev1beta1.Machine) []string {
	machines = slices.Clone(machines)
	slices.SortFunc(machines, func(a, b machinev1beta1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	names := make([]string, len(machines))
	for i := range machines {
		names[i] = machines[i].Name
	}
	return names
}

// TestReplacement_Rolling: a changed template replaces all Machines in order, new ones first, and never are fewer Nodes Ready than replicas.
func TestReplacement_Rolling(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		surge, inFlight int
		budget          *v1alpha1.Disruption
		least, most     int
	}{
		"surge":        {1, 1, nil, 6, 7},
		"delete-first": {0, 2, &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(2))}, 4, 6},
	} {
		t.Run(name, func(t *testing.T) {
			w := besideOthers(t)
			p := w.MakePool("rolling-"+name, 6, nil)
			old := p.Runs(6)
			r := replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) {
				spec.Replacement.MaxSurge, spec.Replacement.MaxInFlight = new(intstr.FromInt(c.surge)), new(intstr.FromInt(c.inFlight))
				spec.Disruption = c.budget
			})
			seen := followRack(p)
			begun := time.Now()
			// The status of a group is written every few seconds: the replacement has to take longer for it to be there.
			r.setTemplate(func(spec *kwok.ProviderSpec) { spec.InstanceType, spec.BootDelay.Duration = "new", 2*time.Second })
			r.Eventually("the group says that it replaces Machines", func() error {
				status := r.group().Status
				if found := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing); found == nil || found.Reason != "Replacing" {
					return fmt.Errorf("it says %s", harness.JSON(status))
				}
				return nil
			})
			r.eventuallyReplaced(6)
			t.Logf("6 Machines were replaced in %s", time.Since(begun).Round(10*time.Millisecond))
			least, most, gone := seen.serving(old)
			if least < c.least || most > c.most {
				t.Errorf("at least %d Nodes were Ready, and at most %d Machines there", least, most)
			}
			if want := byAge(old); !slices.Equal(gone, want) {
				t.Errorf("Machines went in the order %v, not %v", gone, want)
			}
			if events := w.Events("Machine", old[0].Name); len(events["OutdatedMachineReplaced"]) != 1 {
				t.Errorf("the events are %v", events)
			}
		})
	}
}

// TestReplacement_Plan: kubectl drover plan names the Machines in the order of their replacement, and what blocks them.
func TestReplacement_Plan(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("planned", 3, nil)
	old := p.Runs(3)
	r := replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) {
		spec.Disruption = &v1alpha1.Disruption{
			Freezes: []v1alpha1.Freeze{{From: metav1.NewTime(time.Now().Add(-time.Hour)), To: metav1.NewTime(time.Now().Add(time.Hour))}},
		}
	})
	atRest := func() error {
		for _, name := range []string{"nodegroup/planned", "planned"} {
			if output, code := plugin.Run(w, "plan", name); code != 0 {
				return fmt.Errorf("the plan of %s has code %d: %s", name, code, output)
			}
		}
		return nil
	}
	w.Eventually("nothing would change", atRest)
	r.setTemplate(newImage)
	output, code := plugin.Run(w, "plan", "nodegroup/planned", "-o", "json")
	var list view.NodeGroupPlanList
	if err := json.Unmarshal([]byte(output), &list); err != nil || code != 2 || len(list.Items) != 1 || list.Items[0].Replacement == nil {
		t.Fatalf("the plan has code %d: %s (%v)", code, output, err)
	}
	planned := list.Items[0].Replacement
	if !slices.Equal(planned.Machines, byAge(old)) || !strings.Contains(planned.Held, "no disruption begins until") {
		t.Errorf("planned is %+v", planned)
	}
	if output, code := plugin.Run(w, "plan", "planned"); code != 2 || !strings.Contains(output, "3 Machines would be replaced") {
		t.Errorf("the plan of the MachineSet has code %d: %s", code, output)
	}
	seen := followRack(p)
	harness.Update(w, func(string) *v1alpha1.NodeGroup { return r.group() }, p.Name, func(group *v1alpha1.NodeGroup) { group.Spec.Disruption = nil })
	r.eventuallyReplaced(3)
	if _, _, gone := seen.serving(old); !slices.Equal(gone, planned.Machines) {
		t.Errorf("Machines went in the order %v, not %v", gone, planned.Machines)
	}
	w.Eventually("nothing would change any more", atRest)
}

// TestReplacement_FailingTemplate: a new Machine that fails stops the replacement before an old one goes; a mended template goes on.
func TestReplacement_FailingTemplate(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("replaced-failing", 3, nil)
	old := p.Runs(3)
	r := replace(p, nil)
	seen := followRack(p)
	r.setTemplate(func(spec *kwok.ProviderSpec) { spec.Failure.Create = machinev1beta1.InvalidConfigurationMachineError })
	r.eventuallyBlocked("NewMachineFailed")
	if group := r.group(); group.Status.Phase != v1alpha1.PhaseStopped || group.Status.Outdated != 3 {
		t.Errorf("the group says %s", harness.JSON(group.Status))
	}
	// A user lets it try again: the failed Machine goes, and the next one fails, too.
	failed := p.Machines()[slices.IndexFunc(p.Machines(), func(m machinev1beta1.Machine) bool { return m.Status.NodeRef == nil })].Name
	r.Eventually("it is a later second", func() error {
		if since := time.Since(w.Machine(failed).CreationTimestamp.Time); since < 2*time.Second {
			return fmt.Errorf("it is there for %s", since)
		}
		return nil
	})
	w.Merge(r.group(), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationResume, time.Now().UTC().Format(time.RFC3339)))
	p.Gone(failed)
	r.eventuallyBlocked("NewMachineFailed")
	if least, most, _ := seen.serving(old); least < 3 || most > 4 {
		t.Errorf("at least %d Nodes were Ready, and at most %d Machines there", least, most)
	}
	r.setTemplate(newImage)
	r.eventuallyReplaced(3)
	if least, _, _ := seen.serving(old); least < 3 {
		t.Errorf("at least %d Nodes were Ready", least)
	}
}

// TestReplacement_Held: nothing is replaced while the group is suspended, and never a Machine that a user excludes.
func TestReplacement_Held(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("held", 3, nil)
	old := p.Runs(3)
	r := replace(p, nil)
	suspend := func(suspended bool) {
		harness.Update(w, func(string) *v1alpha1.NodeGroup { return r.group() }, p.Name, func(group *v1alpha1.NodeGroup) { group.Spec.Suspend = suspended })
	}
	suspended := func(outdated int32) {
		t.Helper()
		r.Eventually(fmt.Sprintf("the group is suspended with %d outdated Machines", outdated), func() error {
			if status := r.group().Status; status.Outdated != outdated || status.Phase != v1alpha1.PhaseSuspended {
				return fmt.Errorf("it says %s", harness.JSON(status))
			}
			return nil
		})
	}
	suspend(true)
	// Events of the group and of its MachineSet have no order between them.
	suspended(0)
	r.setTemplate(newImage)
	suspended(3)
	w.Merge(w.Machine(old[1].Name), `{"metadata":{"annotations":{"drover.dev/skip-replacement":""}}}`)
	p.Runs(3)
	for _, machine := range p.Machines() {
		if _, marked := machine.Annotations[machineapi.ReplacingAnnotation]; marked {
			t.Errorf("Machine %s is marked while the group is suspended", machine.Name)
		}
	}
	suspend(false)
	r.Eventually("the others are replaced", func() error {
		if current, outdated := r.current(); current != 2 || outdated != 1 {
			return fmt.Errorf("%d are current and %d outdated", current, outdated)
		}
		if status := r.group().Status; status.Outdated != 1 || status.Phase != v1alpha1.PhaseIdle {
			return fmt.Errorf("the group says %s", harness.JSON(status))
		}
		_, err := p.Running(3)
		return err
	})
	if w.Machine(old[1].Name).UID != old[1].UID {
		t.Error("the excluded Machine was replaced")
	}
}

// TestReplacement_GroupDeletedMidway: without the group, the MachineSet has as many Machines as before, and none is marked.
func TestReplacement_GroupDeletedMidway(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("abandoned", 3, nil)
	p.Runs(3)
	r := replace(p, nil)
	r.setTemplate(func(spec *kwok.ProviderSpec) { spec.Failure.NeverBoots = true })
	r.Eventually("a new Machine is there", func() error {
		if current, outdated := r.current(); current != 1 || outdated != 3 {
			return fmt.Errorf("%d are current and %d outdated", current, outdated)
		}
		return nil
	})
	if err := w.Client.Delete(t.Context(), r.group()); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the group is gone, and the new Machine with it", func() error {
		err := w.Client.Get(t.Context(), types.NamespacedName{Name: p.Name}, &v1alpha1.NodeGroup{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the group is there: %w", err)
		}
		if current, outdated := r.current(); current != 0 || outdated != 3 {
			return fmt.Errorf("%d are current and %d outdated", current, outdated)
		}
		for _, machine := range p.Machines() {
			if _, marked := machine.Annotations[machineapi.ReplacingAnnotation]; marked {
				return fmt.Errorf("machine %s is marked", machine.Name)
			}
		}
		return nil
	})
	p.Runs(3)
}

// TestReplacement_Crash: wherever the operator is killed, the next one comes to the same end, with the same bounds.
func TestReplacement_Crash(t *testing.T) {
	harness.TestAllOnly(t, "a kill during replacements; TestCrash_Machines has one in the life of a pool")
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the points to try
	writes := 0
	t.Run("undisturbed", func(t *testing.T) { writes = crashReplacement(t, "crash-undisturbed", harness.CrashPoint{}) })
	if writes < 30 {
		t.Fatalf("the undisturbed run made %d writes: the workload is none", writes)
	}
	points := harness.CrashPoints(t, random, writes)
	t.Logf("%d writes undisturbed, %d points tried", writes, len(points))
	for i, point := range points {
		t.Run(point.String(), func(t *testing.T) { crashReplacement(t, fmt.Sprint("crash-", i), point) })
	}
}

// crashReplacement replaces three Machines within a budget of one with an operator that is killed at a point, and another one after it. It returns
// how many writes there were.
func crashReplacement(t *testing.T, name string, point harness.CrashPoint) int {
	t.Helper()
	w := prepared(t)
	args := []string{"--controllers=*"}
	operator := w.Operator(harness.Options{Args: args})
	p := w.MakePool(name, 3, nil)
	old := p.Runs(3)
	r := replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) { withBudget(spec) })
	r.eventuallyReplaced(3)
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	seen, budget := followRack(p), w.WatchBudget(p.Name, 1, p.Name+"-")
	r.setTemplate(newImage)
	mark := w.AuditMark()
	first := harness.Start(t, env, harness.Options{Args: args, Faults: point.Faults()})
	if point.Kills() {
		select {
		case <-first.Ended():
		case <-time.After(harness.Patience):
			t.Logf("the workload was over before %s", point)
		}
		w.Operator(harness.Options{Args: args})
	}
	r.eventuallyReplaced(3)
	r.eventuallyFree()
	writes := len(w.AllWrites(mark))
	if least, most, gone := seen.serving(old); least < 3 || most > 4 || !slices.Equal(gone, byAge(old)) {
		t.Errorf("at least %d Nodes were Ready, at most %d Machines there, and these went: %v", least, most, gone)
	}
	budget.Finish()
	return writes
}
