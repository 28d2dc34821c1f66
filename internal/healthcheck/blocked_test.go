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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
)

const holder = "drover-machines"

func withAnnotation(key string) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{key: ""} }
}

func unowned(m *machinev1beta1.Machine) { m.OwnerReferences = nil }

func TestAMachineWithoutAnOwnerIsLeft(t *testing.T) {
	s := newStage(t, Options{}, checkOf("c"), machineOf("m0", "n0", unowned), unready("n0", time.Hour))
	s.pass("c", statusC)
	s.expect("c", "1 0 0", "RemediationAllowed=True", "RemediationProgressing=False/NoController")
	s.pass("c", "")
	if got := s.told(); got != "Normal DetectedUnhealthy, Normal SkippedNoController" {
		t.Errorf("told %s", got)
	}
	if s.metric(waitingDoc.Name, "c", namespace, reasonNoController) != 1 {
		t.Error("the metric does not show it")
	}
	edit(s, nodeOf("n0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.pass("c", statusC)
	s.expect("c", "1 1 1", rested)
	if s.metric(waitingDoc.Name, "c", namespace, reasonNoController) != -1 {
		t.Error("the series is still there")
	}
}

func TestSkippedMachines(t *testing.T) {
	for _, key := range []string{AnnotationSkip, AnnotationSkipUpstream, paused.ClusterAPIAnnotation, paused.Annotation} {
		t.Run(key, func(t *testing.T) {
			machine := machineOf("m0", "n0", withAnnotation(key))
			s := newStage(t, Options{}, checkOf("c"), machine, unready("n0", time.Hour), machineOf("m1", "n1"), unready("n1", time.Hour))
			s.pass("c", "delete Machine/m1, "+statusC)
			reason := map[bool]string{true: "MachinePaused", false: "SkippedByAnnotation"}[key == paused.ClusterAPIAnnotation || key == paused.Annotation]
			s.expect("c", "2 0 0", "RemediationAllowed=True", "RemediationProgressing=False/"+reason)
			if got := s.message("c", ConditionProgressing); got != "Machine m0: it has the annotation "+key {
				t.Errorf("%s", got)
			}
			s.pass("c", "")
			edit(s, machine, func(m *machinev1beta1.Machine) { m.Annotations = nil })
			s.pass("c", "delete Machine/m0, "+statusC)
			if got := s.told(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy, Normal MachineDeleted, Normal MachineDeleted" {
				t.Errorf("told %s", got)
			}
		})
	}
}

func TestConditionsNameSomeMachines(t *testing.T) {
	objects := []client.Object{checkOf("c")}
	for _, name := range strings.Split("m0 m1 m2 m3 m4 m5 m6", " ") {
		objects = append(objects, machineOf(name, "n-"+name, withAnnotation(AnnotationSkip)), unready("n-"+name, time.Hour))
	}
	objects = append(objects, machineOf("m9", "n-m9", unowned), unready("n-m9", time.Hour))
	s := newStage(t, Options{}, objects...)
	s.pass("c", statusC)
	s.expect("c", "8 0 0", "RemediationProgressing=False/NoController")
	if got := s.message("c", ConditionProgressing); !strings.HasPrefix(got, "Machine m9: ") || !strings.Contains(got, "; Machine m3: ") ||
		!strings.HasSuffix(got, "; and 3 more") {
		t.Errorf("%s", got)
	}
}

func TestAPausedOneDoesNothing(t *testing.T) {
	s := newStage(t, Options{}, crew("ww")...)
	s.pass("c", statusC)
	edit(s, checkOf("c"), func(c *machinev1beta1.MachineHealthCheck) {
		c.Annotations = map[string]string{paused.ClusterAPIAnnotation: "false"}
	})
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.pass("c", statusC)
	s.expect("c", "2 2 2", "Paused=True/PausedByAnnotation", "RemediationAllowed=True")
	if result := s.pass("c", ""); result.RequeueAfter != 0 || s.told() != "" {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	edit(s, checkOf("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Annotations = nil })
	s.pass("c", "delete Machine/m0, "+statusC)
	s.expect("c", "2 1 1", "Paused=", rested)
}

// guard denies some nodes of the control plane.
type guard struct {
	denial string
	err    error
	asked  []string
	locked bool
}

func (g *guard) Lock(ctx context.Context) (context.Context, func()) {
	g.locked = true
	return ctx, func() { g.locked = false }
}

func (g *guard) Applies(node *corev1.Node) bool { return node.Labels["control-plane"] != "" }

func (g *guard) Check(_ context.Context, node *corev1.Node) (string, error) {
	g.asked = append(g.asked, node.Name)
	if !g.locked {
		return "", errors.New("the guard is asked without its lock")
	}
	return g.denial, g.err
}

func (g *guard) MissingNode(machine *machinev1beta1.Machine) *corev1.Node {
	if machine.Labels["control-plane"] == "" {
		return nil
	}
	return nodeOf("once-of-" + machine.Name)
}

// controlPlane makes Nodes unhealthy and members of the control plane.
func controlPlane(objects []client.Object) []client.Object {
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			node.Labels = map[string]string{"control-plane": "yes"}
		}
	}
	return objects
}

// What the guard may not read is reported once, and asked for slowly: only a person can grant it.
func TestRemediate_GuardMayNotListLeases(t *testing.T) {
	g := &guard{err: apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no Role allows to list"))}
	s := newStage(t, Options{Guard: g}, controlPlane(crew("uww"))...)
	if result := s.pass("c", statusC); result.RequeueAfter != retryDenied {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "3 2 2", "RemediationProgressing=False/ControlPlaneQuorumUnknown")
	if got := s.message("c", ConditionProgressing); !strings.Contains(got, "no Role allows to list") {
		t.Errorf("%s", got)
	}
	if got := s.told(); got != "Normal DetectedUnhealthy, Warning RemediationDeferred" {
		t.Errorf("told %s", got)
	}
	g.err = nil
	s.pass("c", "delete Machine/m0, "+statusC)
}

func TestTheControlPlaneIsSpared(t *testing.T) {
	g := &guard{denial: "2 of 3 would be ready, and 2 are needed"}
	s := newStage(t, Options{Guard: g}, append(controlPlane(crew("uuw")), machineOf("worker", "n-w"), unready("n-w", time.Hour))...)
	if result := s.pass("c", "delete Machine/worker, "+statusC); result.RequeueAfter != retryQuorum {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "4 1 1", "RemediationAllowed=True", "RemediationProgressing=False/ControlPlaneQuorum")
	if got := s.message("c", ConditionProgressing); !strings.Contains(got, "Machine m0: "+g.denial) {
		t.Errorf("%s", got)
	}
	s.told()
	s.pass("c", "")
	if got := s.told(); got != "" {
		t.Errorf("told again: %s", got)
	}
	if slices.Contains(g.asked, "n-w") {
		t.Error("the guard was asked about a worker")
	}
	g.denial = ""
	s.pass("c", "delete Machine/m0, "+statusC)
	// The Node of the first one still looks well to the guard.
	s.pass("c", statusC)
	s.expect("c", "4 1 1", "RemediationProgressing=False/ControlPlaneQuorum")
	if got := s.message("c", ConditionProgressing); got != "Machine m1: Machine m0 of control-plane node n-m0 is being deleted" {
		t.Errorf("%s", got)
	}
	if got := s.told(); got != "Normal MachineDeleted, Warning RemediationDeferred" {
		t.Errorf("told %s", got)
	}
	if err := s.client.Delete(t.Context(), nodeOf("n-m0")); err != nil {
		t.Fatal(err)
	}
	s.pass("c", "delete Machine/m1, "+statusC)
}

// Nor may anybody pass while it is not known whose Machines are on their way out.
func TestPeersThatCannotBeListed(t *testing.T) {
	s := newStage(t, Options{Guard: &guard{}}, controlPlane(crew("u"))...)
	s.cache.Reader = &failing{Reader: s.client, after: 1}
	if _, writes, err := s.try("c"); err == nil || writes != statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
}

func TestNobodyPassesWhoCouldNotBeChecked(t *testing.T) {
	g := &guard{err: errors.New("no answer")}
	s := newStage(t, Options{Guard: g}, controlPlane(crew("u"))...)
	if _, writes, err := s.try("c"); !errors.Is(err, g.err) || writes != statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
	s.expect("c", "1 0 0", "RemediationProgressing=False/RemediationFailed")
	g.err = nil
	s.pass("c", "delete Machine/m0, "+statusC)
}

func TestTheLeaseIsTaken(t *testing.T) {
	s := newStage(t, Options{Leases: &nodelease.Leases{Holder: holder}}, crew("unw")...)
	s.pass("c", "delete Machine/m1, "+statusC)
	// The controller of Machines goes on with it.
	s.pass("c", "create Lease/node-n-m0, delete Machine/m0, "+statusC)
	s.pass("c", "")
	if got := s.leaseOf("n-m0"); got != holder {
		t.Errorf("held by %q", got)
	}
}

// leaseOf is who has the lease of a node, empty when there is none.
func (s *stage) leaseOf(node string) string {
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: nodelease.DefaultNamespace, Name: nodelease.Name(node)}
	if err := s.client.Get(s.t.Context(), key, lease); err != nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestTheLeaseIsSomebodyElses(t *testing.T) {
	s := newStage(t, Options{Leases: &nodelease.Leases{Holder: holder}}, append(crew("uuw"), leaseOf("n-m0", "node-maintenance"))...)
	if result := s.pass("c", "create Lease/node-n-m1, delete Machine/m1, "+statusC); result.RequeueAfter != retryLease {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "3 1 1", "RemediationProgressing=False/LeaseHeldByOther")
	if got := s.message("c", ConditionProgressing); got != `Machine m0: the lease of node n-m0 is held by "node-maintenance"` {
		t.Errorf("%s", got)
	}
	s.pass("c", "")
	if got := s.told(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy, Normal MachineDeleted, Warning RemediationDeferred" {
		t.Errorf("told %s", got)
	}
	if err := s.client.Delete(t.Context(), leaseOf("n-m0", "")); err != nil {
		t.Fatal(err)
	}
	s.pass("c", "create Lease/node-n-m0, delete Machine/m0, "+statusC)
	s.expect("c", "3 1 1", rested)
}

// A lease that was taken for nothing keeps those away who could help the node.
func TestALeaseIsReturnedWhenNothingComesOfIt(t *testing.T) {
	forbidden := apierrors.NewForbidden(machinev1beta1.GroupVersion.WithResource("machines").GroupResource(), "m0", errors.New("no"))
	for name, c := range map[string]struct {
		err  error
		then func(s *stage)
		want string
	}{
		"the API server refuses": {forbidden, func(*stage) {}, ""},
		"the node recovers": {errors.New("what?"), func(s *stage) {
			edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		}, ""},
		"somebody else deletes it": {errors.New("what?"), func(s *stage) {
			delete(s.fail, "delete Machine")
			if err := s.client.Delete(s.t.Context(), machineOf("m0", "")); err != nil {
				s.t.Fatal(err)
			}
		}, holder},
		"it is tried again": {errors.New("what?"), func(*stage) {}, holder},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{Leases: &nodelease.Leases{Holder: holder}}, crew("uw")...)
			s.fail["delete Machine"] = c.err
			if _, _, err := s.try("c"); (err == nil) != apierrors.IsForbidden(c.err) {
				t.Errorf("error %v", err)
			}
			c.then(s)
			if _, _, err := s.try("c"); err != nil && c.want == "" {
				t.Errorf("error %v", err)
			}
			if got := s.leaseOf("n-m0"); got != c.want {
				t.Errorf("held by %q, want %q", got, c.want)
			}
		})
	}
}

func TestALeaseThatCannotBeRead(t *testing.T) {
	s := newStage(t, Options{Leases: &nodelease.Leases{Holder: holder}}, crew("uw")...)
	s.fail["get Lease"] = errors.New("no answer")
	if _, writes, err := s.try("c"); err == nil || writes != statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
	s.fail = map[string]error{"create Lease": apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), "node-n-m0")}
	if result := s.pass("c", "create Lease/node-n-m0, "+statusC); result.RequeueAfter != retryStale {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
}

// Replacements that never come up are replaced ever more slowly.
func TestMachinesThatKeepFailing(t *testing.T) {
	s := newStage(t, Options{}, crew("fw")...)
	failing := "m0"
	for i, want := range []time.Duration{0, time.Minute, 2 * time.Minute, 4 * time.Minute} {
		if want > 0 {
			result := s.rest("c")
			if result.RequeueAfter != want {
				t.Fatalf("failure %d: looks again in %s, want %s", i, result.RequeueAfter, want)
			}
			s.expect("c", "2 1 1", "RemediationProgressing=False/BackingOff")
			s.later(want - time.Second)
			s.pass("c", "")
			s.later(time.Second)
		}
		s.pass("c", "delete Machine/"+failing+", "+statusC)
		next := "r" + failing
		s.replace(failing, machineOf(next, "", func(m *machinev1beta1.Machine) {
			m.Status.Phase = new("Failed")
			m.CreationTimestamp = metav1.NewTime(s.clock.Now().Truncate(time.Second))
		}))
		failing = next
	}
	if got := s.told(); strings.Count(got, "Warning RemediationDeferred") != 3 || strings.Count(got, "MachineDeleted") != 4 {
		t.Errorf("told %s", got)
	}
	// One that comes up ends it.
	s.replace(failing, machineOf("good", "n-m1", func(m *machinev1beta1.Machine) { m.CreationTimestamp = metav1.NewTime(s.clock.Now()) }))
	s.rest("c")
	s.replace("good", machineOf("bad", "", func(m *machinev1beta1.Machine) {
		m.Status.Phase = new("Failed")
		m.CreationTimestamp = metav1.NewTime(s.clock.Now())
	}))
	s.pass("c", "delete Machine/bad, "+statusC)
}

// replace takes a Machine away, as its provider and its owner do, and makes another.
func (s *stage) replace(name string, with *machinev1beta1.Machine) {
	s.t.Helper()
	machine := machineOf(name, "")
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

func TestOverlaps(t *testing.T) {
	objects := append(crew("uw"), checkOf("old", older))
	s := newStage(t, Options{}, objects...)
	s.pass("c", statusC)
	s.expect("c", "2 1 1", "RemediationProgressing=False/LeftToOlder", "SelectorExclusive=False/Overlapping")
	if got := s.message("c", ConditionExclusive); !strings.Contains(got, "old, which is older") {
		t.Errorf("%s", got)
	}
	if got := s.told(); got != "Normal DetectedUnhealthy, Warning SelectorOverlap" {
		t.Errorf("told %s", got)
	}
	s.pass("c", "")
	s.pass("old", "delete Machine/m0, status MachineHealthCheck/old")
	s.expect("old", "2 1 1", rested, "SelectorExclusive=False/Overlapping")
	if got := s.message("old", ConditionExclusive); !strings.Contains(got, "c, which is younger") {
		t.Errorf("%s", got)
	}
	s.pass("old", "")
	if got := s.told(); got != "Normal MachineDeleted, Warning SelectorOverlap" {
		t.Errorf("told %s", got)
	}
	edit(s, checkOf("old"), func(c *machinev1beta1.MachineHealthCheck) { c.Spec.Selector.MatchLabels["pool"] = "b" })
	s.pass("c", statusC)
	s.expect("c", "2 1 1", "SelectorExclusive=True/NoOverlap", rested)
	if got := s.told(); got != "" {
		t.Errorf("told %s", got)
	}
}

func TestWhoOverlaps(t *testing.T) {
	named := func(name string) func(*machinev1beta1.MachineHealthCheck) {
		return func(c *machinev1beta1.MachineHealthCheck) { c.Name = name }
	}
	for name, c := range map[string]struct {
		change func(*machinev1beta1.MachineHealthCheck)
		want   string
	}{
		"an older one": {older, "False/Overlapping"},
		"a paused one keeps its Machines": {func(c *machinev1beta1.MachineHealthCheck) {
			older(c)
			c.Annotations = map[string]string{paused.ClusterAPIAnnotation: ""}
		}, "False/Overlapping"},
		"a younger one":        {func(*machinev1beta1.MachineHealthCheck) {}, "False/Overlapping"},
		"of another namespace": {func(c *machinev1beta1.MachineHealthCheck) { c.Namespace = "other" }, "True/NoOverlap"},
		"of other Machines":    {func(c *machinev1beta1.MachineHealthCheck) { c.Spec.Selector.MatchLabels["pool"] = "b" }, "True/NoOverlap"},
		"on its way out": {func(c *machinev1beta1.MachineHealthCheck) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: start}, []string{"x/y"}
		}, "True/NoOverlap"},
		"with a selector that cannot be read": {func(c *machinev1beta1.MachineHealthCheck) {
			c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Operator: "Like"}}
		}, "True/NoOverlap"},
		"OpenShift's own for spot instances": {named(terminationHandler), "True/NoOverlap"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{}, append(crew("w"), checkOf("z", c.change))...)
			s.pass("c", statusC)
			s.expect("c", "1 1 1", "SelectorExclusive="+c.want)
		})
	}
}

func TestTheEldestActs(t *testing.T) {
	a, b := checkOf("a"), checkOf("b")
	if compareAge(a, b) >= 0 || compareAge(b, a) <= 0 || compareAge(checkOf("z", older), a) >= 0 {
		t.Error("the older one comes first, and of two made in the same second the one whose name does")
	}
}
