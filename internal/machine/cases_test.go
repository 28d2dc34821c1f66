package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/provider"
)

// A provider of machines that have addresses and no providerID of their own.
func TestReconcile_InstanceWithoutProviderID(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.cloud.instances["m"] = instanceOf("m")
	s.cloud.instances["m"].ProviderID = ""
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseProvisioned, "InstanceExists=True", "Ready=AwaitingNode")
	node := nodeOf("m")
	node.Spec.ProviderID = ""
	node.Status.Addresses = s.cloud.instances["m"].Addresses
	s.create(node)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
}

// A provider may see what is wrong before it is asked to make anything.
func TestReconcile_InvalidConfigurationAtTheFirstGet(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.cloud.fail["get"] = provider.InvalidConfiguration("no such node")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseFailed, "InstanceExists=InstanceNotCreated")
	if status := s.machine("m").Status; value(status.ErrorReason) != "InvalidConfiguration" || value(status.ErrorMessage) != "no such node" {
		t.Errorf("status %+v", status)
	}
	// A Machine whose instance was made is not given up for that.
	made := running(t)
	made.cloud.fail["get"] = provider.InvalidConfiguration("the credentials are gone")
	made.clock.Step(10 * time.Minute)
	if _, _, _, err := made.tryReconcile("m"); err == nil {
		t.Error("it is not tried again")
	}
	made.expect("m", machinev1beta1.PhaseRunning, "InstanceExists=ErrorCheckingProvider")
}

func TestReconcile_StateOfAMissingInstance(t *testing.T) {
	s := running(t)
	delete(s.cloud.instances, "m")
	s.clock.Step(10 * time.Minute)
	s.settle("m")
	if got := s.machine("m").Annotations[plan.AnnotationInstanceState]; got != "Unknown" {
		t.Errorf("the state is %q", got)
	}
}

// handOver gives a Machine to another API, or back.
func (s *fixture) handOver(name string, to machinev1beta1.MachineAuthority) {
	s.t.Helper()
	machine := s.machine(name)
	machine.Status.AuthoritativeAPI = to
	if err := s.client.Status().Update(s.t.Context(), machine); err != nil {
		s.t.Fatal(err)
	}
}

// A user who pauses a Machine in the middle of its drain, or gives it to another API, finds its pods left alone from then on.
func TestDrain_StopsWhenPaused(t *testing.T) {
	for name, c := range map[string]struct {
		stop, goOn func(s *fixture)
		leases     int
	}{
		"paused": {
			func(s *fixture) {
				s.update("m", func(m *machinev1beta1.Machine) { m.Annotations[paused.ClusterAPIAnnotation] = "" })
			},
			func(s *fixture) {
				s.update("m", func(m *machinev1beta1.Machine) { delete(m.Annotations, paused.ClusterAPIAnnotation) })
			}, 1,
		},
		"another API": {
			func(s *fixture) { s.handOver("m", machinev1beta1.MachineAuthorityMigrating) },
			func(s *fixture) { s.handOver("m", machinev1beta1.MachineAuthorityMachineAPI) }, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(t, podOf("p", "m"))
			s.delete("m")
			s.settle("m")
			if s.draining("m") != "m" {
				t.Fatal("there is no drain under way")
			}
			c.stop(s)
			s.settle("m")
			if s.draining("m") != "" || len(s.leases()) != c.leases {
				t.Errorf("pods are still asked to leave, or there are %d leases, want %d", len(s.leases()), c.leases)
			}
			c.goOn(s)
			s.settle("m")
			s.expect("m", machinev1beta1.PhaseDeleting, "Drained=Draining")
		})
	}
}

// The spec may name another API before anybody has written a status.
func TestReconcile_InitializesAuthority(t *testing.T) {
	for spec, instances := range map[machinev1beta1.MachineAuthority]int{
		machinev1beta1.MachineAuthorityClusterAPI: 0, machinev1beta1.MachineAuthorityMachineAPI: 1,
	} {
		machine := machineOf("m")
		machine.Spec.AuthoritativeAPI = spec
		s := newFixture(t, machine)
		if result, writes, calls := s.reconcile("m"); writes != "status Machine" || calls != "" || result.RequeueAfter != controller.RetryConflict {
			t.Errorf("%s: calls %q, writes %q, again in %s", spec, calls, writes, result.RequeueAfter)
		}
		s.settle("m")
		if got := s.machine("m").Status.AuthoritativeAPI; got != spec || len(s.cloud.instances) != instances {
			t.Errorf("%s: the status has %s, and there are %d instances", spec, got, len(s.cloud.instances))
		}
	}
	s := newFixture(t, machineOf("m"))
	s.handOver("m", "SomethingNew")
	if _, writes, calls := s.reconcile("m"); writes != "" || calls != "" {
		t.Errorf("an unknown authority: calls %q, writes %q", calls, writes)
	}
}

// Two Machines without nodeRef may be one Node's: its pods must not lose it without having been asked.
func TestDelete_AmbiguousNodeIsNotDeletedUndrained(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.settle("m")
	twin := machineOf("twin")
	twin.Spec.ProviderID = new("cloud:///m")
	s.create(twin)
	s.create(nodeOf("m"))
	s.create(podOf("p", "m"))
	s.delete("m")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=NodeLinkConflict")
	if len(s.cloud.instances) != 1 {
		t.Error("the instance is gone")
	}
	for _, condition := range s.machine("m").Status.Conditions {
		if condition.Type == plan.ConditionDrained && !strings.Contains(condition.Message, plan.AnnotationExclude) {
			t.Errorf("it does not say what to do: %s", condition.Message)
		}
	}
	s.update("m", func(m *machinev1beta1.Machine) { m.Annotations[plan.AnnotationExclude] = "" })
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
}

// A hook may take longer than a lease lasts.
func TestDelete_KeepsLeaseUntilTheInstanceIsDeleted(t *testing.T) {
	s := running(t)
	s.update("m", func(m *machinev1beta1.Machine) {
		m.Spec.LifecycleHooks.PreTerminate = []machinev1beta1.LifecycleHook{{Name: "Etcd", Owner: "etcd"}}
	})
	s.delete("m")
	s.settle("m")
	taken := s.leases()[0].Spec.RenewTime.Time
	s.clock.Step(nodelease.RenewAfter)
	if result, _, _ := s.reconcile("m"); result.RequeueAfter != nodelease.RenewAfter {
		t.Errorf("again in %s", result.RequeueAfter)
	}
	if renewed := s.leases()[0].Spec.RenewTime.Time; !renewed.After(taken) {
		t.Errorf("renewed at %s, taken at %s", renewed, taken)
	}
	// Drover did not run for too long: another controller has acquired the lease.
	s.clock.Step(2 * nodelease.Duration)
	other := &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: "node-maintenance", Clock: s.clock}
	if _, err := other.Acquire(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	s.update("m", func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreTerminate = nil })
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=True", "Ready=LeaseHeldByOther")
	if len(s.cloud.instances) != 1 {
		t.Error("the instance was deleted although another controller holds the lease")
	}
	if err := other.Release(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
}

func TestDelete_ControlPlaneQuorumWithoutNode(t *testing.T) {
	s := running(t)
	g := &guard{denial: "one is away already"}
	s.Guard = g
	if err := s.client.Delete(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	s.delete("m")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=ControlPlaneQuorum")
	g.denial = ""
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
	if g.unlocked != 0 || g.locked {
		t.Errorf("%d checks without the lock; still locked: %t", g.unlocked, g.locked)
	}
}

// The time counts from the first failure, however long the drain has taken.
func TestDelete_NodeDeletionTimeoutCountsFromTheFirstFailure(t *testing.T) {
	s := running(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Annotations[plan.AnnotationNodeDeletionTimeout] = "1m" })
	s.delete("m")
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Add(time.Hour))
	s.Fail["delete Node"] = errors.New("no")
	for range 3 {
		if _, _, _, err := s.tryReconcile("m"); err == nil || s.machine("m") == nil {
			t.Fatalf("error %v", err)
		}
		s.clock.Step(29 * time.Second)
	}
	s.settle("m")
	if s.machine("m") != nil || !strings.Contains(s.emitted(), plan.EventNodeLeft) {
		t.Error("the Machine is still there, or no event says that the Node is kept")
	}
	if node := s.node("m"); node == nil || node.Status.Conditions[0].Type != corev1.NodeReady {
		t.Error("the Node is gone")
	}
}

// A Machine may go before anything of its instance is in its status, and its Node be known by an address alone.
func TestDelete_NodeKnownByTheInstanceAlone(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.reconcile("m")
	node := nodeOf("m")
	node.Spec.ProviderID, node.Status.Addresses = "", instanceOf("m").Addresses
	s.create(node)
	s.delete("m")
	s.cloud.slow = true
	s.reconcile("m")
	delete(s.cloud.instances, "m")
	s.clock.Step(5 * time.Second)
	s.settle("m")
	if s.machine("m") != nil || s.node("m") != nil || len(s.leases()) != 0 {
		t.Errorf("left are %v, %v, %v", s.machine("m"), s.node("m"), s.leases())
	}
}
