package machine

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

// deletedWithTimeout is a Machine with a pod that has five minutes for its drain, deleted now, and an obstacle.
func deletedWithTimeout(t *testing.T, obstacle func(s *fixture)) *fixture {
	t.Helper()
	s := running(t, podOf("p", "m"))
	s.update("m", func(m *machinev1beta1.Machine) { m.Annotations[plan.AnnotationDrainTimeout] = "5m" })
	obstacle(s)
	s.delete("m")
	// The fake API server takes the time of deletion from the real clock.
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Time)
	s.reconcileFew("m")
	return s
}

// reconcileFew reconciles a few times; some of the writes may fail.
func (s *fixture) reconcileFew(name string) {
	s.t.Helper()
	for range 4 {
		s.reconcile(name)
	}
}

func (s *fixture) drainReason() string {
	if found := status.MachineCondition(s.machine("m").Status.Conditions, plan.ConditionDrained); found != nil {
		return found.Reason
	}
	return ""
}

// The time for the drain begins with the deletion, and ends whatever is in the way.
func TestDrainTimeout_Obstacles(t *testing.T) {
	other := func(s *fixture) *nodelease.Leases {
		return &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: "node-maintenance", Clock: s.clock}
	}
	for name, c := range map[string]struct {
		obstacle func(s *fixture)
		reason   string
	}{
		"pods that stay": {func(*fixture) {}, plan.ReasonDraining},
		"a lease of another writer": {func(s *fixture) {
			s.clock.SetTime(time.Now().Add(-time.Minute))
			if _, err := other(s).Acquire(t.Context(), s.node("m")); err != nil {
				t.Fatal(err)
			}
		}, plan.ReasonLease},
		"an unreadable cordon record": {func(s *fixture) {
			node := s.node("m")
			node.Annotations = map[string]string{drain.AnnotationCordon: "{"}
			if err := s.client.Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}, plan.ReasonRecordUnreadable},
		"a cordon that is denied": {func(s *fixture) {
			s.Fail["patch Node"] = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "m", errors.New("by policy"))
		}, plan.ReasonDenied},
	} {
		t.Run(name, func(t *testing.T) {
			s := deletedWithTimeout(t, c.obstacle)
			if got := s.drainReason(); got != c.reason {
				t.Fatalf("Drained is %s, want %s", got, c.reason)
			}
			s.clock.SetTime(s.machine("m").DeletionTimestamp.Add(5*time.Minute - time.Second))
			if result, _, _ := s.reconcile("m"); result.RequeueAfter > time.Second || s.machine("m") == nil {
				t.Errorf("a second before its end the drain is looked at again in %s", result.RequeueAfter)
			}
			s.clock.Step(time.Second)
			s.reconcileFew("m")
			if s.machine("m") != nil || len(s.cloud.instances) != 0 {
				t.Errorf("the Machine is still there: Drained is %s", s.drainReason())
			}
		})
	}
}

// The quorum of the control plane and hooks are not a matter of time.
func TestDrainTimeout_DoesNotOverruleQuorumAndHooks(t *testing.T) {
	for name, obstacle := range map[string]func(s *fixture){
		"quorum": func(s *fixture) { s.Guard = &guard{denial: "one is away already"} },
		"hook": func(s *fixture) {
			s.update("m", func(m *machinev1beta1.Machine) {
				m.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "Save", Owner: "backup"}}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := deletedWithTimeout(t, obstacle)
			s.clock.Step(time.Hour)
			s.settle("m")
			if s.machine("m") == nil || len(s.cloud.instances) != 1 {
				t.Error("the Machine is gone")
			}
		})
	}
}

// A lease that another writer acquires after the drain keeps the instance no longer than the timeout says, either.
func TestDrainTimeout_LeaseLostAfterTheDrain(t *testing.T) {
	s := running(t)
	s.update("m", func(m *machinev1beta1.Machine) {
		m.Annotations[plan.AnnotationDrainTimeout] = "5m"
		m.Spec.LifecycleHooks.PreTerminate = []machinev1beta1.LifecycleHook{{Name: "Etcd", Owner: "etcd"}}
	})
	s.delete("m")
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Time)
	s.settle("m")
	s.clock.Step(2 * nodelease.Duration)
	other := &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: "node-maintenance", Clock: s.clock}
	if _, err := other.Acquire(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	s.update("m", func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreTerminate = nil })
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("the Machine is still there")
	}
}

func TestQuorum_AnnotationOverrules(t *testing.T) {
	for value, gone := range map[string]bool{"true": true, "": false, "false": false} {
		s := running(t)
		s.Guard = &guard{denial: "of two control-plane nodes both are needed"}
		s.update("m", func(m *machinev1beta1.Machine) { m.Annotations[plan.AnnotationSkipQuorum] = value })
		s.delete("m")
		s.settle("m")
		if (s.machine("m") == nil) != gone {
			t.Errorf("annotation %q: the Machine is %v", value, s.machine("m"))
		}
		if gone {
			continue
		}
		found := status.MachineCondition(s.machine("m").Status.Conditions, plan.ConditionDrained)
		if !strings.Contains(found.Message, plan.AnnotationSkipQuorum) {
			t.Errorf("the message does not say what to do: %s", found.Message)
		}
	}
}

// A Machine that a finalizer of another controller keeps says that it is being deleted, before and after Drover is done with it.
func TestDelete_KeptByAnotherFinalizer(t *testing.T) {
	s := running(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = append(m.Finalizers, "example.com/backup") })
	s.cloud.fail["delete"] = provider.RequeueAfter(time.Minute, "the instance ends")
	s.delete("m")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Ready=Deleting", "Drained=True", "InstanceExists=True")
	delete(s.cloud.fail, "delete")
	s.settle("m")
	machine := s.machine("m")
	if machine == nil || len(machine.Finalizers) != 1 || s.node("m") != nil {
		t.Fatalf("the Machine is %v", machine)
	}
	s.expect("m", machinev1beta1.PhaseDeleting, "Ready=Deleting", "Drained=True", "InstanceExists=InstanceDeleted")
	if machine.Status.NodeRef != nil {
		t.Errorf("nodeRef names the deleted Node: %+v", machine.Status.NodeRef)
	}
	// It goes at once, too, and never says that it runs.
	quick := running(t)
	quick.update("m", func(m *machinev1beta1.Machine) { m.Finalizers = append(m.Finalizers, "example.com/backup") })
	quick.delete("m")
	quick.settle("m")
	quick.expect("m", machinev1beta1.PhaseDeleting, "Ready=Deleting", "Drained=True", "InstanceExists=InstanceDeleted")
}

// An error of the provider that wraps an answer of an API server is one of the provider's own objects: back-off, not another look at once.
func TestProviderErrors_WrappedAnswersBackOff(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, answer := range map[string]error{
		"404": apierrors.NewNotFound(secrets, "credentials"), "409": apierrors.NewConflict(secrets, "credentials", errors.New("changed")),
		"422": &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}},
	} {
		for _, call := range []string{"create", "get", "delete"} {
			t.Run(name+" "+call, func(t *testing.T) {
				s := newFixture(t, machineOf("m"))
				if call == "delete" {
					s = running(t)
					s.delete("m")
				}
				s.cloud.fail[call] = fmt.Errorf("reading the credentials: %w", answer)
				result, _, _, err := s.tryReconcile("m")
				if err == nil || result.RequeueAfter != 0 {
					t.Fatalf("error %v, again in %s; want an error and the back-off of the queue", err, result.RequeueAfter)
				}
				if status.Classify(err) != status.Transient || !strings.Contains(err.Error(), "credentials") {
					t.Errorf("the error is %s: %v", status.Classify(err), err)
				}
			})
		}
	}
}

// What the provider says about when to ask again is honoured, also beyond the controller's own pace.
func TestProvider_RequeueAfterIsHonoured(t *testing.T) {
	const long = 7 * time.Minute
	creating := newFixture(t, machineOf("m"))
	creating.cloud.fail["create"] = provider.RequeueAfter(long, "the image is copied")
	if result, _, _ := creating.reconcile("m"); result.RequeueAfter != long {
		t.Errorf("Create: again in %s", result.RequeueAfter)
	}
	pending := newFixture(t, machineOf("m"))
	pending.cloud.instances["m"] = &provider.Instance{State: provider.Pending, LookAgain: long}
	if result, _, _ := pending.reconcile("m"); result.RequeueAfter != long {
		t.Errorf("Get of an instance without an ID: again in %s", result.RequeueAfter)
	}
	ending := running(t)
	ending.cloud.fail["delete"] = provider.RequeueAfter(long, "the instance ends")
	ending.delete("m")
	ending.clock.Step(5 * time.Second)
	if result, _, _ := ending.reconcile("m"); result.RequeueAfter != long {
		t.Errorf("Delete: again in %s", result.RequeueAfter)
	}
	leaving := running(t)
	leaving.cloud.slow = true
	leaving.cloud.instances["m"].LookAgain = long
	leaving.delete("m")
	leaving.reconcile("m")
	leaving.cloud.slow = true
	leaving.clock.Step(5 * time.Second)
	if result, _, calls := leaving.reconcile("m"); result.RequeueAfter != long {
		t.Errorf("Get of an instance that ends: again in %s (%s)", result.RequeueAfter, calls)
	}
}
