package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// build makes both halves of the nodes and the applications, all of them on the first half.
func (d *drainBench) build(ctx context.Context, halves []string) error {
	progress("%d Pods on %d nodes", d.apps*d.pods, d.machines)
	for _, half := range halves {
		options := cluster.PoolOptions{Name: half, Machines: d.machines, NodeLabels: map[string]string{"half": half}}
		if err := cluster.CreatePool(ctx, d.cluster.Admin(), options); err != nil {
			return err
		}
	}
	if err := d.cordon(ctx, halves[1], true); err != nil {
		return err
	}
	for i := range d.apps {
		for _, object := range d.application(fmt.Sprintf("a%02d", i)) {
			if err := d.client.Create(ctx, object); err != nil {
				return err
			}
		}
	}
	budgets, err := d.watchBudgets(ctx)
	if err != nil {
		return err
	}
	defer budgets.stop()
	if err := budgets.settled(ctx, d); err != nil {
		return err
	}
	return d.cordon(ctx, halves[1], false)
}

// application returns a Deployment and its PodDisruptionBudget. In one namespace kube-controller-manager would look at the Pods of all applications
// for each budget.
func (d *drainBench) application(name string) []client.Object {
	labels := map[string]string{"app": name}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(d.pods)), //nolint:gosec // a flag of a benchmark
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					"test.drover.dev/ready-delay": d.ready.String(), "test.drover.dev/termination-delay": podEnds.String(),
				}},
				Spec: corev1.PodSpec{
					Containers:                   []corev1.Container{{Name: "app", Image: "example.com/app"}},
					AutomountServiceAccountToken: new(false),
				},
			},
		}},
		builder.PodDisruptionBudget(name, name, labels, harness.MaxUnavailable(int32(d.away))), //nolint:gosec // a flag of a benchmark
	}
}

// cordon makes all nodes of a half unschedulable, or schedulable again.
func (d *drainBench) cordon(ctx context.Context, half string, unschedulable bool) error {
	nodes, err := d.half(ctx, half)
	if err != nil {
		return err
	}
	for i := range nodes {
		if err := d.merge(ctx, &nodes[i], `{"spec":{"unschedulable":%t}}`, unschedulable); err != nil {
			return err
		}
	}
	return nil
}

// half lists the nodes of a half.
func (d *drainBench) half(ctx context.Context, half string) ([]corev1.Node, error) {
	return d.nodes(ctx, client.MatchingLabels{"half": half})
}

// budgetWatch watches all PodDisruptionBudgets.
type budgetWatch struct {
	stop func()

	mu       sync.Mutex
	statuses map[string]policyv1.PodDisruptionBudgetStatus
	// freed are the times at which each budget allowed one disruption more.
	freed map[string][]time.Time
}

func (d *drainBench) watchBudgets(ctx context.Context) (b *budgetWatch, err error) {
	b = &budgetWatch{statuses: map[string]policyv1.PodDisruptionBudgetStatus{}, freed: map[string][]time.Time{}}
	b.stop, err = d.follow(ctx, &policyv1.PodDisruptionBudgetList{}, b.observe)
	return b, err
}

func (b *budgetWatch) observe(object client.Object) {
	budget, ok := object.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for range budget.Status.DisruptionsAllowed - b.statuses[budget.Name].DisruptionsAllowed {
		b.freed[budget.Name] = append(b.freed[budget.Name], now)
	}
	b.statuses[budget.Name] = budget.Status
}

// settled waits until each budget has all of its Pods and allows all that it can.
func (b *budgetWatch) settled(ctx context.Context, d *drainBench) error {
	return wait(ctx, time.Second, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		ready := 0
		for _, status := range b.statuses {
			if int(status.CurrentHealthy) == d.pods && int(status.DisruptionsAllowed) == d.away {
				ready++
			}
		}
		if ready < d.apps {
			return fmt.Errorf("%d of %d applications are ready", ready, d.apps)
		}
		return nil
	})
}

// reset forgets what was freed.
func (b *budgetWatch) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.freed)
}

// fastest returns how many seconds the fastest schedule takes that the budgets allowed for some evictions, and how long a place was idle in the mean.
func (b *budgetWatch) fastest(d *drainBench, evictions requests) (seconds, idle float64) {
	uses := map[string]*budgetUse{}
	for i := range evictions {
		name := app(evictions[i].Name)
		if uses[name] == nil {
			uses[name] = &budgetUse{}
		}
		uses[name].take(evictions[i].Name, evictions[i].Answered)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var idles []float64
	for name, use := range uses {
		use.freed = b.freed[name]
		seconds = max(seconds, fastestDrain(use.turns(d.away), d.away, podEnds).Seconds())
		idles = append(idles, use.idle(d.away)...)
	}
	return seconds, mean(idles)
}
