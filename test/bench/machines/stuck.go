package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/harness"
)

// comers is how many Machines come and go beside the stuck ones; podsPerBudget how many of their pods share a budget that allows nothing.
const comers, podsPerBudget = 200, 10

// stuck are the seconds that a pool takes up and down, before and beside drains that are stuck.
type stuck struct {
	Machines int        `json:"machines"`
	Before   [2]float64 `json:"beforeSeconds"`
	Beside   [2]float64 `json:"besideSeconds"`
}

// stuckDrains deletes Machines whose pods may not leave, and has others come and go meanwhile.
func (s *stage) stuckDrains(ctx context.Context) (*stuck, error) {
	out := &stuck{Machines: comers}
	err := s.with(ctx, func(*harness.Operator) error {
		bench.Progress("making %d Machines with pods that may not leave", s.stuck)
		if err := s.Scale(ctx, stuckPool, s.stuck); err != nil {
			return err
		}
		if err := s.occupy(ctx); err != nil {
			return err
		}
		var err error
		if out.Before, err = s.comeAndGo(ctx); err != nil {
			return err
		}
		bench.Progress("deleting them")
		if err := s.beginDrains(ctx); err != nil {
			return err
		}
		if out.Beside, err = s.comeAndGo(ctx); err != nil {
			return err
		}
		if _, err := s.drains(ctx); err != nil {
			return fmt.Errorf("the drains are not stuck any more: %w", err)
		}
		return s.vacate(ctx)
	})
	return out, err
}

func (s *stage) comeAndGo(ctx context.Context) (seconds [2]float64, err error) {
	for i, replicas := range []int{comers, 0} {
		begun := time.Now()
		if err := s.Scale(ctx, otherPool, replicas); err != nil {
			return seconds, err
		}
		seconds[i] = time.Since(begun).Seconds()
	}
	return seconds, nil
}

// occupy puts a pod on every Node of the pool, under budgets that allow nothing.
func (s *stage) occupy(ctx context.Context) error {
	machines, err := s.Machines(ctx, stuckPool)
	if err != nil {
		return err
	}
	// There is no controller here that would create it.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	if err := s.Client.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for i := range machines {
		app := map[string]string{"app": fmt.Sprintf("stuck-%d", i/podsPerBudget)}
		meta := metav1.ObjectMeta{Namespace: "default", Name: app["app"], Labels: app}
		if i%podsPerBudget == 0 {
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromString("100%")), Selector: &metav1.LabelSelector{MatchLabels: app},
			}}
			if err := s.Client.Create(ctx, budget); err != nil {
				return err
			}
			budget.Status = policyv1.PodDisruptionBudgetStatus{
				ObservedGeneration: budget.Generation, CurrentHealthy: podsPerBudget, DesiredHealthy: podsPerBudget, ExpectedPods: podsPerBudget,
			}
			if err := s.Client.Status().Update(ctx, budget); err != nil {
				return err
			}
		}
		meta.Name = fmt.Sprintf("stuck-%d", i)
		pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			NodeName: machines[i].Status.NodeRef.Name, Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}},
			AutomountServiceAccountToken: new(false),
		}}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "stuck", UID: "stuck", Controller: new(true)}}
		if err := s.Client.Create(ctx, pod); err != nil {
			return err
		}
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		if err := s.Client.Status().Update(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// beginDrains deletes the occupied Machines and waits until each of them says that its drain is under way.
func (s *stage) beginDrains(ctx context.Context) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
	if err := s.Client.Patch(ctx, machineSet(stuckPool), patch); err != nil {
		return err
	}
	return harness.WaitLonger(ctx, 5*time.Minute, time.Second, func() error {
		count, err := s.drains(ctx)
		if err == nil && count < s.stuck {
			err = fmt.Errorf("%d of %d drains are under way", count, s.stuck)
		}
		return err
	})
}

// drains counts the Machines that wait for their pods; it fails when one of them is gone.
func (s *stage) drains(ctx context.Context) (int, error) {
	machines, err := s.Machines(ctx, stuckPool)
	if err == nil && len(machines) < s.stuck {
		err = fmt.Errorf("%d of %d Machines are left", len(machines), s.stuck)
	}
	count := 0
	for i := range machines {
		drained := status.MachineCondition(machines[i].Status.Conditions, plan.ConditionDrained)
		if drained != nil && drained.Status == corev1.ConditionFalse {
			count++
		}
	}
	return count, err
}

// vacate lets the drains end.
func (s *stage) vacate(ctx context.Context) error {
	inDefault := client.InNamespace("default")
	err := errors.Join(s.Client.DeleteAllOf(ctx, &policyv1.PodDisruptionBudget{}, inDefault),
		s.Client.DeleteAllOf(ctx, &corev1.Pod{}, inDefault, client.GracePeriodSeconds(0)))
	if err != nil {
		return err
	}
	return s.Scale(ctx, stuckPool, 0)
}
