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
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// sides are the two halves of the nodes: while one is drained its pods move to the other.
var sides = [2]string{"left", "right"}

// stage is a control plane with two halves of nodes and the applications on one of them.
type stage struct {
	*bench.Stage
	settings

	// mark is where the present run begins in the audit log.
	mark cluster.AuditMark

	mu sync.Mutex
	// freed are the moments in which each budget allowed more again, while a run is on.
	freed map[string][]time.Time
	// seen are the resourceVersions of the budgets of which that is known.
	seen map[string]string
}

// build makes the nodes of both sides, closes the right one, and waits until all pods are ready on the left.
func (s *stage) build(ctx context.Context) error {
	for _, side := range sides {
		err := cluster.CreatePool(ctx, s.Cluster.Admin(), cluster.PoolOptions{Name: side, Machines: s.nodes, NodeLabels: map[string]string{"side": side}})
		if err != nil {
			return err
		}
	}
	if err := s.cordon(ctx, sides[1], true); err != nil {
		return err
	}
	for i := range s.apps {
		for _, object := range s.app(fmt.Sprintf("a%02d", i)) {
			if err := s.Client.Create(ctx, object); err != nil {
				return err
			}
		}
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	return s.cordon(ctx, sides[1], false)
}

func (s *stage) app(name string) []client.Object {
	labels := map[string]string{"app": name}
	meta := metav1.ObjectMeta{Namespace: name, Name: name}
	return []client.Object{
		// In one namespace kube-controller-manager would look at the Pods of all applications for each budget.
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(s.pods)), //nolint:gosec // a flag of a benchmark
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					"test.drover.dev/ready-delay": s.ready.String(), "test.drover.dev/termination-delay": s.ends.String(),
				}},
				Spec: corev1.PodSpec{
					Containers:                   []corev1.Container{{Name: "app", Image: "example.com/app"}},
					AutomountServiceAccountToken: new(false),
				},
			},
		}},
		builder.PodDisruptionBudget(name, name, labels, harness.MaxUnavailable(int32(s.away))), //nolint:gosec // a flag of a benchmark
	}
}

// cordon closes or opens all nodes of a side.
func (s *stage) cordon(ctx context.Context, side string, closed bool) error {
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes, client.MatchingLabels{"side": side}); err != nil {
		return err
	}
	for i := range nodes.Items {
		before := nodes.Items[i].DeepCopy()
		nodes.Items[i].Spec.Unschedulable = closed
		if err := s.Client.Patch(ctx, &nodes.Items[i], client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until every budget has all of its pods and allows what it can.
func (s *stage) settled(ctx context.Context) error {
	return harness.WaitLonger(ctx, 20*time.Minute, time.Second, func() error {
		var budgets policyv1.PodDisruptionBudgetList
		if err := s.Client.List(ctx, &budgets); err != nil {
			return err
		}
		ready := 0
		for i := range budgets.Items {
			if status := budgets.Items[i].Status; int(status.CurrentHealthy) == s.pods && int(status.DisruptionsAllowed) == s.away {
				ready++
			}
		}
		if ready < s.apps {
			return fmt.Errorf("%d of %d applications are ready", ready, s.apps)
		}
		return nil
	})
}

// heard waits until it is known when the budgets allowed all that they allow now. It fails when the API server has closed the stream.
func (s *stage) heard(ctx context.Context) error {
	return harness.WaitFor(ctx, func() error {
		var budgets policyv1.PodDisruptionBudgetList
		if err := s.Client.List(ctx, &budgets); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range budgets.Items {
			if name := budgets.Items[i].Name; s.seen[name] != budgets.Items[i].ResourceVersion {
				return fmt.Errorf("the changes of the PodDisruptionBudget %s have not been heard of", name)
			}
		}
		return nil
	})
}

// nodesOf lists the names of a side's nodes.
func (s *stage) nodesOf(ctx context.Context, side string) ([]string, error) {
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes, client.MatchingLabels{"side": side}); err != nil {
		return nil, err
	}
	names := make([]string, len(nodes.Items))
	for i := range nodes.Items {
		names[i] = nodes.Items[i].Name
	}
	return names, nil
}

// listen notes when budgets allow more again, until it is stopped.
func (s *stage) listen(ctx context.Context) (stop func(), err error) {
	var list policyv1.PodDisruptionBudgetList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	allowed, seen := map[string]int32{}, map[string]string{}
	for i := range list.Items {
		allowed[list.Items[i].Name], seen[list.Items[i].Name] = list.Items[i].Status.DisruptionsAllowed, list.Items[i].ResourceVersion
	}
	s.mu.Lock()
	s.freed, s.seen = map[string][]time.Time{}, seen
	s.mu.Unlock()
	stream, err := s.Client.Watch(ctx, &policyv1.PodDisruptionBudgetList{},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			s.observe(event, allowed)
		}
	}()
	return func() {
		stream.Stop()
		<-done
	}, nil
}

func (s *stage) observe(event watch.Event, allowed map[string]int32) {
	budget, ok := event.Object.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for range budget.Status.DisruptionsAllowed - allowed[budget.Name] {
		s.freed[budget.Name] = append(s.freed[budget.Name], now)
	}
	allowed[budget.Name], s.seen[budget.Name] = budget.Status.DisruptionsAllowed, budget.ResourceVersion
}
