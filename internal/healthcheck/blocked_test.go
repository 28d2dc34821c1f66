package healthcheck

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/paused"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/healthcheck/plan"
)

const holder = "drover-machines"

func withAnnotation(key string) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{key: ""} }
}

func unowned(m *machinev1beta1.Machine) { m.OwnerReferences = nil }

func TestReconcile_MachineWithoutController(t *testing.T) {
	s := newFixture(t, Options{}, newCheck("c"), newMachine("m0", "n0", unowned), newUnreadyNode("n0", time.Hour))
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "1 0 0", "RemediationAllowed=True", "RemediationProgressing=False/NoController")
	s.mustReconcile("c", "")
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Normal SkippedNoController" {
		t.Errorf("emitted %s", got)
	}
	if s.metric("drover_healthcheck_waiting_machines", "c", namespace, plan.ReasonNoController) != 1 {
		t.Error("the metric does not show it")
	}
	edit(s, newNode("n0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "1 1 1", nothingToDo)
	if s.metric("drover_healthcheck_waiting_machines", "c", namespace, plan.ReasonNoController) != -1 {
		t.Error("the series is still there")
	}
}

func TestReconcile_SkippedMachines(t *testing.T) {
	for _, key := range []string{plan.SkipAnnotation, plan.ClusterAPISkipAnnotation, paused.ClusterAPIAnnotation, paused.Annotation} {
		t.Run(key, func(t *testing.T) {
			machine := newMachine("m0", "n0", withAnnotation(key))
			s := newFixture(t, Options{}, newCheck("c"), machine, newUnreadyNode("n0", time.Hour), newMachine("m1", "n1"), newUnreadyNode("n1", time.Hour))
			s.mustReconcile("c", "delete Machine/m1, "+statusC)
			reason := map[bool]string{true: "MachinePaused", false: "SkippedByAnnotation"}[key == paused.ClusterAPIAnnotation || key == paused.Annotation]
			s.expectStatus("c", "2 0 0", "RemediationAllowed=True", "RemediationProgressing=False/"+reason)
			if got := s.conditionMessage("c", plan.ConditionProgressing); got != "Machine m0: it has the annotation "+key {
				t.Errorf("%s", got)
			}
			s.mustReconcile("c", "")
			edit(s, machine, func(m *machinev1beta1.Machine) { m.Annotations = nil })
			s.mustReconcile("c", "delete Machine/m0, "+statusC)
			if got := s.emitted(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy, Normal MachineDeleted, Normal MachineDeleted" {
				t.Errorf("emitted %s", got)
			}
		})
	}
}

func TestReconcile_ConditionNamesFiveMachines(t *testing.T) {
	objects := []client.Object{newCheck("c")}
	for _, name := range strings.Split("m0 m1 m2 m3 m4 m5 m6", " ") {
		objects = append(objects, newMachine(name, "n-"+name, withAnnotation(plan.SkipAnnotation)), newUnreadyNode("n-"+name, time.Hour))
	}
	objects = append(objects, newMachine("m9", "n-m9", unowned), newUnreadyNode("n-m9", time.Hour))
	s := newFixture(t, Options{}, objects...)
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "8 0 0", "RemediationProgressing=False/NoController")
	if got := s.conditionMessage("c", plan.ConditionProgressing); !strings.HasPrefix(got, "Machine m9: ") || !strings.Contains(got, "; Machine m3: ") ||
		!strings.HasSuffix(got, "; and 3 more") {
		t.Errorf("%s", got)
	}
}

func TestReconcile_Paused(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("ww")...)
	s.mustReconcile("c", statusC)
	edit(s, newCheck("c"), func(c *machinev1beta1.MachineHealthCheck) {
		c.Annotations = map[string]string{paused.ClusterAPIAnnotation: "false"}
	})
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 2 2", "Paused=True/PausedByAnnotation", "RemediationAllowed=True")
	if result := s.mustReconcile("c", ""); result.RequeueAfter != 0 || s.emitted() != "" {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	edit(s, newCheck("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Annotations = nil })
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
	s.expectStatus("c", "2 1 1", "Paused=", nothingToDo)
}

// guard is a control plane that spares no node while it has a denial.
type guard struct {
	denial  string
	err     error
	checked []string
	locked  bool
}

func (g *guard) Lock(ctx context.Context) (context.Context, func()) {
	g.locked = true
	return ctx, func() { g.locked = false }
}

func (g *guard) Applies(node *corev1.Node) bool { return node.Labels["control-plane"] != "" }

func (g *guard) Check(_ context.Context, node *corev1.Node) (string, error) {
	g.checked = append(g.checked, node.Name)
	if !g.locked {
		return "", errors.New("the guard is checked without its lock")
	}
	return g.denial, g.err
}

func (g *guard) MissingNode(machine *machinev1beta1.Machine) *corev1.Node {
	if machine.Labels["control-plane"] == "" {
		return nil
	}
	return newNode("once-of-" + machine.Name)
}

// controlPlane makes Nodes members of the control plane.
func controlPlane(objects []client.Object) []client.Object {
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			node.Labels = map[string]string{"control-plane": "yes"}
		}
	}
	return objects
}

// What the guard may not read is reported once, and tried again every minute: only a user can grant it.
func TestRemediate_GuardMayNotListLeases(t *testing.T) {
	g := &guard{err: apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no Role allows to list"))}
	s := newFixture(t, Options{Guard: g}, controlPlane(newObjects("uww"))...)
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != controller.RetryDenied {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "3 2 2", "RemediationProgressing=False/ControlPlaneQuorumUnknown")
	if got := s.conditionMessage("c", plan.ConditionProgressing); !strings.Contains(got, "no Role allows to list") {
		t.Errorf("%s", got)
	}
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Warning RemediationDeferred" {
		t.Errorf("emitted %s", got)
	}
	g.err = nil
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
}

func TestRemediate_ControlPlaneQuorum(t *testing.T) {
	g := &guard{denial: "2 of 3 would be ready, and 2 are needed"}
	s := newFixture(t, Options{Guard: g}, append(controlPlane(newObjects("uuw")), newMachine("worker", "n-w"), newUnreadyNode("n-w", time.Hour))...)
	if result := s.mustReconcile("c", "delete Machine/worker, "+statusC); result.RequeueAfter != delay.Quorum {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "4 1 1", "RemediationAllowed=True", "RemediationProgressing=False/ControlPlaneQuorum")
	if got := s.conditionMessage("c", plan.ConditionProgressing); !strings.Contains(got, "Machine m0: "+g.denial) {
		t.Errorf("%s", got)
	}
	s.emitted()
	s.mustReconcile("c", "")
	if got := s.emitted(); got != "" {
		t.Errorf("emitted again: %s", got)
	}
	if slices.Contains(g.checked, "n-w") {
		t.Error("the guard has checked a worker")
	}
	g.denial = ""
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
	// The Node of the first one is still ready for the guard.
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "4 1 1", "RemediationProgressing=False/ControlPlaneQuorum")
	if got := s.conditionMessage("c", plan.ConditionProgressing); got != "Machine m1: Machine m0 of control-plane node n-m0 is being deleted" {
		t.Errorf("%s", got)
	}
	if got := s.emitted(); got != "Normal MachineDeleted, Warning RemediationDeferred" {
		t.Errorf("emitted %s", got)
	}
	if err := s.client.Delete(t.Context(), newNode("n-m0")); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile("c", "delete Machine/m1, "+statusC)
}

// Nothing is remediated while it is not known which Machines are being deleted.
func TestRemediate_PeersCannotBeListed(t *testing.T) {
	s := newFixture(t, Options{Guard: &guard{}}, controlPlane(newObjects("u"))...)
	s.cache.Reader = &failingCache{Reader: s.client, after: 1}
	if _, writes, err := s.reconcile("c"); err == nil || writes != statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
}

func TestRemediate_GuardFails(t *testing.T) {
	g := &guard{err: errors.New("no answer")}
	s := newFixture(t, Options{Guard: g}, controlPlane(newObjects("u"))...)
	if _, writes, err := s.reconcile("c"); !errors.Is(err, g.err) || writes != statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
	s.expectStatus("c", "1 0 0", "RemediationProgressing=False/RemediationFailed")
	g.err = nil
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
}

// Replacements that never start are replaced ever more slowly.
func TestReconcile_ReplacementsKeepFailing(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("fw")...)
	failing := "m0"
	for i, want := range []time.Duration{0, time.Minute, 2 * time.Minute, 4 * time.Minute} {
		if want > 0 {
			result := s.reconcileUntilQuiet("c")
			if result.RequeueAfter != want {
				t.Fatalf("failure %d: requeues after %s, want %s", i, result.RequeueAfter, want)
			}
			s.expectStatus("c", "2 1 1", "RemediationProgressing=False/BackingOff")
			s.advance(want - time.Second)
			s.mustReconcile("c", "")
			s.advance(time.Second)
		}
		s.mustReconcile("c", "delete Machine/"+failing+", "+statusC)
		next := "r" + failing
		s.replaceMachine(failing, newMachine(next, "", func(m *machinev1beta1.Machine) {
			m.Status.Phase = new("Failed")
			m.CreationTimestamp = metav1.NewTime(s.clock.Now().Truncate(time.Second))
		}))
		failing = next
	}
	if got := s.emitted(); strings.Count(got, "Warning RemediationDeferred") != 3 || strings.Count(got, "MachineDeleted") != 4 {
		t.Errorf("emitted %s", got)
	}
	// One that starts ends it.
	s.replaceMachine(failing, newMachine("good", "n-m1", func(m *machinev1beta1.Machine) { m.CreationTimestamp = metav1.NewTime(s.clock.Now()) }))
	s.reconcileUntilQuiet("c")
	s.replaceMachine("good", newMachine("bad", "", func(m *machinev1beta1.Machine) {
		m.Status.Phase = new("Failed")
		m.CreationTimestamp = metav1.NewTime(s.clock.Now())
	}))
	s.mustReconcile("c", "delete Machine/bad, "+statusC)
}

// replaceMachine removes a Machine, as its provider and its owner do, and creates another.
func (s *fixture) replaceMachine(name string, with *machinev1beta1.Machine) {
	s.t.Helper()
	machine := newMachine(name, "")
	edit(s, machine, func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	if err := s.client.Delete(s.t.Context(), machine); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Create(s.t.Context(), with); err != nil {
		s.t.Fatal(err)
	}
}

func older(c *machinev1beta1.MachineHealthCheck) {
	c.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
}

func TestReconcile_Overlap(t *testing.T) {
	objects := append(newObjects("uw"), newCheck("old", older))
	s := newFixture(t, Options{}, objects...)
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 1 1", "RemediationProgressing=False/LeftToOlder", "SelectorExclusive=False/Overlapping")
	if got := s.conditionMessage("c", plan.ConditionExclusive); !strings.Contains(got, "old, which is older") {
		t.Errorf("%s", got)
	}
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Warning SelectorOverlap" {
		t.Errorf("emitted %s", got)
	}
	s.mustReconcile("c", "")
	s.mustReconcile("old", "delete Machine/m0, status MachineHealthCheck/old")
	s.expectStatus("old", "2 1 1", nothingToDo, "SelectorExclusive=False/Overlapping")
	if got := s.conditionMessage("old", plan.ConditionExclusive); !strings.Contains(got, "c, which is younger") {
		t.Errorf("%s", got)
	}
	s.mustReconcile("old", "")
	if got := s.emitted(); got != "Normal MachineDeleted, Warning SelectorOverlap" {
		t.Errorf("emitted %s", got)
	}
	edit(s, newCheck("old"), func(c *machinev1beta1.MachineHealthCheck) { c.Spec.Selector.MatchLabels["pool"] = "b" })
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 1 1", "SelectorExclusive=True/NoOverlap", nothingToDo)
	if got := s.emitted(); got != "" {
		t.Errorf("emitted %s", got)
	}
}

func TestReconcile_WhatOverlaps(t *testing.T) {
	named := func(name string) func(*machinev1beta1.MachineHealthCheck) {
		return func(c *machinev1beta1.MachineHealthCheck) { c.Name = name }
	}
	for name, c := range map[string]struct {
		change func(*machinev1beta1.MachineHealthCheck)
		want   string
	}{
		"an older one": {older, "False/Overlapping"},
		"a paused one": {func(c *machinev1beta1.MachineHealthCheck) {
			older(c)
			c.Annotations = map[string]string{paused.ClusterAPIAnnotation: ""}
		}, "False/Overlapping"},
		"a younger one":        {func(*machinev1beta1.MachineHealthCheck) {}, "False/Overlapping"},
		"of another namespace": {func(c *machinev1beta1.MachineHealthCheck) { c.Namespace = "other" }, "True/NoOverlap"},
		"of other Machines":    {func(c *machinev1beta1.MachineHealthCheck) { c.Spec.Selector.MatchLabels["pool"] = "b" }, "True/NoOverlap"},
		"being deleted": {func(c *machinev1beta1.MachineHealthCheck) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: start}, []string{"x/y"}
		}, "True/NoOverlap"},
		"with an invalid selector": {func(c *machinev1beta1.MachineHealthCheck) {
			c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Operator: "Like"}}
		}, "True/NoOverlap"},
		"OpenShift's own for spot instances": {named("machine-api-termination-handler"), "True/NoOverlap"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{}, append(newObjects("w"), newCheck("z", c.change))...)
			s.mustReconcile("c", statusC)
			s.expectStatus("c", "1 1 1", "SelectorExclusive="+c.want)
		})
	}
}
