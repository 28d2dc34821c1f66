package main

import (
	"context"
	"fmt"
	"math"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// writers keep two cores busy without queueing in the API server.
const writers = 16

// floor sends as many writes of the same kinds as Drover did, without reading, watching or deciding anything.
func (s *stage) floor(ctx context.Context, r *round, up, down shape) error {
	bare, err := s.Bare(ctx)
	if err != nil {
		return err
	}
	if r.Up.Floor, err = s.each(ctx, func(name string) error { return rise(ctx, bare, name, up) }); err != nil {
		return fmt.Errorf("the floor upwards: %w", err)
	}
	if r.Down.Floor, err = s.each(ctx, func(name string) error { return fall(ctx, bare, name, down) }); err != nil {
		return fmt.Errorf("the floor downwards: %w", err)
	}
	return nil
}

func (s *stage) each(ctx context.Context, do func(name string) error) (float64, error) {
	begun := time.Now()
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range s.machines {
		group.Go(func() error { return do(fmt.Sprintf("floor-%d", i)) })
	}
	err := group.Wait()
	return time.Since(begun).Seconds(), err
}

// times is how often a write of a kind is sent for one Machine.
func (s shape) times(key string) int { return int(math.Round(s[key])) }

func newMachine(name string) *machinev1beta1.Machine {
	m := harness.NewMachine(name)
	m.Finalizers, m.Labels = []string{machinev1beta1.MachineFinalizer}, map[string]string{cluster.MachineSetLabel: "floor"}
	m.Spec.Labels = map[string]string{"example.com/team": "blue"}
	return m
}

func node(name string) *corev1.Node {
	n := builder.Node(name, builder.WithNodeLabels(map[string]string{corev1.LabelHostname: name}), builder.WithProviderID("floor://"+name),
		builder.WithReady(corev1.ConditionTrue))
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	return n
}

func annotate(n int) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"floor.example.com/write":"%d"}}}`, n))
}

func report(n int) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"status":{"phase":"Running","errorMessage":"%d","addresses":[{"type":"InternalIP","address":"10.0.0.1"}],`+
			`"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","message":"%d"}]}}`, n, n))
}

// rise sends what belongs to one Machine that comes.
func rise(ctx context.Context, c client.Client, name string, writes shape) error {
	m, n := newMachine(name), node(name)
	if err := c.Create(ctx, m); err != nil {
		return err
	}
	if err := c.Create(ctx, n); err != nil {
		return err
	}
	return patches(ctx, c, m, n, writes)
}

// patches sends the patches of a Machine and its Node.
func patches(ctx context.Context, c client.Client, m *machinev1beta1.Machine, n *corev1.Node, writes shape) error {
	for i := range writes.times("patch machines ") {
		if err := c.Patch(ctx, m, annotate(i)); err != nil {
			return err
		}
	}
	for i := range writes.times("patch machines status") {
		if err := c.Status().Patch(ctx, m, report(i)); err != nil {
			return err
		}
	}
	for i := range writes.times("patch nodes ") {
		if err := c.Patch(ctx, n, annotate(i)); err != nil {
			return err
		}
	}
	for range writes.times("create events ") {
		if err := c.Create(ctx, event(m)); err != nil {
			return err
		}
	}
	return nil
}

func event(m *machinev1beta1.Machine) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: m.Namespace, GenerateName: m.Name + "."},
		InvolvedObject: corev1.ObjectReference{Kind: "Machine", Namespace: m.Namespace, Name: m.Name, UID: m.UID},
		Reason:         "Floor", Message: "an event as the operator sends them", Type: corev1.EventTypeNormal,
		Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "floor"},
	}
}

// fall sends what belongs to one Machine that goes. The last of its patches takes the finalizer away.
func fall(ctx context.Context, c client.Client, name string, writes shape) error {
	m, n := newMachine(name), node(name)
	less := shape{}
	for key, times := range writes {
		less[key] = times
	}
	less["patch machines "]--
	if err := c.Delete(ctx, m); err != nil {
		return err
	}
	if err := patches(ctx, c, m, n, less); err != nil {
		return err
	}
	// Another round may have created one and deleted none: what Drover did is rounded.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", GenerateName: "floor-" + name + "-"}}
	if writes.times("create leases ") > 0 {
		if err := c.Create(ctx, lease); err != nil {
			return err
		}
	}
	if writes.times("delete leases ") > 0 {
		if err := c.Delete(ctx, lease); err != nil {
			return err
		}
	}
	if err := c.Delete(ctx, n); err != nil {
		return err
	}
	return c.Patch(ctx, m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}
