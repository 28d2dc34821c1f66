package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
)

// draining is a Machine whose node is cordoned and has a pod that stays.
func draining(t *testing.T) *fixture {
	t.Helper()
	s := running(t, podOf("p", "m"))
	s.delete("m")
	s.settle("m")
	if hold, err := drain.ReadCordonRecord(s.node("m")); err != nil || hold == nil || hold.Object != "machines/m" {
		t.Fatalf("the cordon record is %+v, %v", hold, err)
	}
	return s
}

// asked counts the pods that are asked to leave their nodes.
func (s *fixture) asked() (pods float64) {
	s.t.Helper()
	families, err := s.drains.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "drover_drain_pods_left" {
			for _, metric := range family.GetMetric() {
				pods += metric.GetGauge().GetValue()
			}
		}
	}
	return pods
}

func (s *fixture) released() bool {
	node := s.node("m")
	return !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 && node.Annotations[drain.AnnotationCordon] == "" && len(s.leases()) == 0
}

// A Machine that was removed by force leaves a node behind that is cordoned by an owner that does not exist any more.
func TestOrphans_MachineRemovedByForce(t *testing.T) {
	s := draining(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	if s.machine("m") != nil {
		t.Fatal("the Machine is still there")
	}
	if _, writes, _ := s.reconcile("m"); writes != "patch Node, delete Lease" || !s.released() {
		t.Errorf("writes %q, the Node is %+v, the leases are %v", writes, s.node("m"), s.leases())
	}
}

// The Machine is there, with an own finalizer of another controller, and Drover is finished with it.
func TestOrphans_MachineKeptByAnotherFinalizer(t *testing.T) {
	s := draining(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = []string{"example.com/backup"} })
	s.settle("m")
	if !s.released() {
		t.Errorf("the Node is %+v, the leases are %v", s.node("m"), s.leases())
	}
}

// Another Machine has taken the name.
func TestOrphans_MachineOfTheSameName(t *testing.T) {
	s := draining(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	again := machineOf("m")
	again.UID = "another"
	s.create(again)
	s.settle("m")
	if !s.released() {
		t.Errorf("the Node is %+v, the leases are %v", s.node("m"), s.leases())
	}
}

// The record of a Machine at work is left alone. So is a record whose owner is unknown.
func TestOrphans_OwnerExists(t *testing.T) {
	s := draining(t)
	s.reconcile("m")
	if s.released() {
		t.Error("the node of a Machine that is drained was released")
	}
	node := s.node("m")
	node.Annotations[drain.AnnotationCordon] = `{"by":"Machine/uid-of-another","since":"2026-01-01T00:00:00Z","cordoned":true}`
	if err := s.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	if _, writes, _ := s.reconcile("m"); writes != "" {
		t.Errorf("writes %q", writes)
	}
}

// The Node could not be deleted in time: it is given back when its Machine is gone.
func TestOrphans_NodeThatStays(t *testing.T) {
	s := running(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Annotations[plan.AnnotationNodeDeletionTimeout] = "1m" })
	s.delete("m")
	s.Fail["delete Node"] = errors.New("no")
	for range 3 {
		if _, _, _, err := s.tryReconcile("m"); err == nil && s.machine("m") == nil {
			break
		}
		s.clock.Step(time.Minute)
	}
	s.reconcile("m")
	if s.machine("m") != nil || !s.released() {
		t.Errorf("the Machine is %v, the Node is %+v, the leases are %v", s.machine("m"), s.node("m"), s.leases())
	}
}

// What a record asks to undo beyond a cordon is not undone: the kubelet writes the annotations of its own Node.
func TestOrphans_ForgedRecord(t *testing.T) {
	node := nodeOf("m")
	node.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"Machine/no","object":"machines/no","since":"2026-01-01T00:00:00Z",` +
		`"cordoned":true,"taints":["dedicated:NoSchedule","node.kubernetes.io/unschedulable:NoSchedule"],"labels":{"tenant":null}}`}
	node.Labels = map[string]string{"tenant": "a"}
	node.Spec.Unschedulable = true
	node.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	}
	s := newFixture(t, node)
	s.reconcile("no")
	got := s.node("m")
	if got.Spec.Unschedulable || len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "dedicated" || got.Labels["tenant"] != "a" {
		t.Errorf("the Node is %+v %+v", got.Labels, got.Spec)
	}
}

// A writer that holds the lease may rely on the cordon.
func TestOrphans_LeaseOfAnotherWriter(t *testing.T) {
	s := draining(t)
	s.clock.Step(2 * nodelease.Duration)
	other := &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: "node-maintenance", Clock: s.clock}
	if _, err := other.Acquire(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	s.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	if result, writes, _ := s.reconcile("m"); writes != "" || result.RequeueAfter == 0 {
		t.Errorf("writes %q, again in %s", writes, result.RequeueAfter)
	}
	if err := other.Release(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if s.reconcile("m"); !s.released() {
		t.Errorf("the Node is %+v, the leases are %v", s.node("m"), s.leases())
	}
}

// A Machine that was removed by force and created again before a reconciliation leaves no drain running on the Node that is released.
func TestOrphans_DrainEndsWithTheMachine(t *testing.T) {
	for name, recreated := range map[string]bool{"another Machine of the name": true, "nothing is remembered of the Machine": false} {
		t.Run(name, func(t *testing.T) {
			s := draining(t)
			if s.asked() == 0 {
				t.Fatal("no pod is asked to leave")
			}
			s.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = nil })
			if recreated {
				again := machineOf("m")
				again.UID = "another"
				again.Annotations = map[string]string{paused.Annotation: ""}
				s.create(again)
			} else {
				s.states = controller.NewStates(newState, s.end)
			}
			s.reconcile("m")
			if pods := s.asked(); pods != 0 || !s.released() {
				t.Errorf("%v pods are still asked to leave; the Node is %+v", pods, s.node("m"))
			}
			if s.versions.Len() > 1 {
				t.Errorf("%d Machines are remembered", s.versions.Len())
			}
		})
	}
}

// A Node that cannot be released does not keep the Machine of that name from its own work.
func TestOrphans_ReleaseThatIsRefused(t *testing.T) {
	s := draining(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	again := machineOf("m")
	again.UID = "another"
	s.create(again)
	s.emitted()
	s.Fail["patch Node"] = apierrors.NewForbidden(corev1.Resource("nodes"), "m", errors.New("by policy"))
	for range 3 {
		if _, _, _, err := s.tryReconcile("m"); err == nil || !strings.Contains(err.Error(), "by policy") {
			t.Errorf("error %v", err)
		}
	}
	s.expect("m", machinev1beta1.PhaseRunning, "InstanceExists=True")
	if got := s.emitted(); got != plan.EventFailedRelease {
		t.Errorf("events %q", got)
	}
	delete(s.Fail, "patch Node")
	s.settle("m")
	if !s.released() {
		t.Errorf("the Node is %+v, the leases are %v", s.node("m"), s.leases())
	}
}
