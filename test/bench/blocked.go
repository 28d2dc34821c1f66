package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// blockedPool are the Machines whose drains are blocked.
const blockedPool = "stuck"

// besideBlockedDrains has Machines created and deleted, alone and beside Machines whose Pods may not be evicted.
func (m *machineBench) besideBlockedDrains(ctx context.Context) error {
	const others = 200
	pods := cluster.PoolOptions{Name: blockedPool, Machines: m.blocked, RunningPods: 1}
	if err := cluster.CreatePool(ctx, m.cluster.Admin(), pods); err != nil {
		return err
	}
	if err := m.forbidEvictions(ctx, pods.PodNamespace()); err != nil {
		return err
	}
	return m.withMachines(ctx, func(ctx context.Context, _ *operator) error {
		alone, err := m.createAndDelete(ctx, others)
		if err != nil {
			return err
		}
		if err := m.beginDrains(ctx); err != nil {
			return err
		}
		beside, err := m.createAndDelete(ctx, others)
		if err != nil {
			return err
		}
		if err := m.allDraining(ctx); err != nil {
			return fmt.Errorf("the drains did not stay blocked: %w", err)
		}
		for i, name := range []string{"created", "deleted"} {
			c := m.column(fmt.Sprintf("%d Machines beside %d blocked drains", others, m.blocked), name)
			c.add("without blocked drains", alone[i], inSeconds)
			c.add("beside blocked drains", beside[i], inSeconds)
			c.add("share of the speed without them", alone[i]/beside[i], ratio, atLeast(0.8))
		}
		return m.endDrains(ctx, pods.PodNamespace())
	})
}

// forbidEvictions creates a PodDisruptionBudget for the Pods of a namespace that allows none. No controller writes its status here.
func (m *machineBench) forbidEvictions(ctx context.Context, namespace string) error {
	budget := builder.PodDisruptionBudget(namespace, "none", nil, harness.MaxUnavailable(0))
	if err := m.client.Create(ctx, budget); err != nil {
		return err
	}
	pods := int32(m.blocked) //nolint:gosec // a flag of a benchmark
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, CurrentHealthy: pods, DesiredHealthy: pods, ExpectedPods: pods,
	}
	return m.client.Status().Update(ctx, budget)
}

// createAndDelete returns the seconds that a MachineSet takes from 0 Machines to some, and back.
func (m *machineBench) createAndDelete(ctx context.Context, machines int) (seconds [2]float64, err error) {
	for i, replicas := range []int{machines, 0} {
		begun := time.Now()
		if err := m.scale(ctx, withTeam("other"), replicas); err != nil {
			return seconds, err
		}
		seconds[i] = time.Since(begun).Seconds()
	}
	return seconds, nil
}

// beginDrains deletes the Machines, and waits until all of them are being drained.
func (m *machineBench) beginDrains(ctx context.Context) error {
	if err := m.merge(ctx, harness.NewMachineSet(blockedPool, 0), `{"spec":{"replicas":0}}`); err != nil {
		return err
	}
	return wait(ctx, time.Second, func() error { return m.allDraining(ctx) })
}

func (m *machineBench) allDraining(ctx context.Context) error {
	machines, err := m.machinesOf(ctx, blockedPool)
	if err != nil {
		return err
	}
	draining := 0
	for i := range machines {
		drained := status.MachineCondition(machines[i].Status.Conditions, plan.ConditionDrained)
		if drained != nil && drained.Status == corev1.ConditionFalse {
			draining++
		}
	}
	if draining < m.blocked {
		return fmt.Errorf("%d of %d Machines are being drained", draining, m.blocked)
	}
	return nil
}

// endDrains lets the drains end.
func (m *machineBench) endDrains(ctx context.Context, namespace string) error {
	err := errors.Join(m.client.DeleteAllOf(ctx, &policyv1.PodDisruptionBudget{}, client.InNamespace(namespace)),
		m.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0)))
	if err != nil {
		return err
	}
	return m.scale(ctx, harness.NewMachineSet(blockedPool, 0), 0)
}
