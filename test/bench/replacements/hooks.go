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
func (s *stage) endHooks(ctx context.Context) (stop func(), err error) {
	if s.drain == 0 {
		return func() {}, nil
	}
	stream, err := s.Client.Watch(ctx, &machinev1beta1.MachineList{}, client.InNamespace(cluster.MachineNamespace))
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() {
		ended := map[types.UID]bool{}
		for event := range stream.ResultChan() {
			machine, ok := event.Object.(*machinev1beta1.Machine)
			if !ok || machine.DeletionTimestamp == nil || ended[machine.UID] {
				continue
			}
			ended[machine.UID] = true
			time.AfterFunc(s.drain, func() { s.endHook(ctx, machine) })
		}
	})
	return func() {
		stream.Stop()
		running.Wait()
	}, nil
}

func (s *stage) endHook(ctx context.Context, machine *machinev1beta1.Machine) {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"lifecycleHooks":null}}`))
	if err := s.Client.Patch(ctx, machine, patch); err != nil {
		bench.Progress("removing the hook of Machine %s: %v", machine.Name, err)
	}
}
