package main

import (
	"context"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
)

// endHooks removes the hooks of Machines some time after they were deleted, until it is stopped. This stands for a drain, and takes exactly as long
// for each Machine.
func (s *stage) endHooks(ctx context.Context) (stop func()) {
	if s.drain == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		ended := map[types.UID]bool{}
		for ctx.Err() == nil {
			// The API server ends a watch when the client is too slow. Another one begins with the Machines that are there.
			if err := s.followDeletions(ctx, ended); err != nil && ctx.Err() == nil {
				bench.Progress("watching Machines: %v", err)
				_ = bench.Sleep(ctx, time.Second)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// followDeletions watches Machines, and ends the hooks of those that are deleted.
func (s *stage) followDeletions(ctx context.Context, ended map[types.UID]bool) error {
	stream, err := s.Client.Watch(ctx, &machinev1beta1.MachineList{}, client.InNamespace(cluster.MachineNamespace))
	if err != nil {
		return err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		machine, ok := event.Object.(*machinev1beta1.Machine)
		if !ok || machine.DeletionTimestamp == nil || ended[machine.UID] {
			continue
		}
		ended[machine.UID] = true
		time.AfterFunc(s.drain, func() { s.endHook(ctx, machine) })
	}
	return nil
}

func (s *stage) endHook(ctx context.Context, machine *machinev1beta1.Machine) {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"lifecycleHooks":null}}`))
	if err := s.Client.Patch(ctx, machine, patch); err != nil {
		bench.Progress("removing the hook of Machine %s: %v", machine.Name, err)
	}
}
