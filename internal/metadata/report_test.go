package metadata

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lists counts the lists that a reader makes.
type lists struct {
	client.Reader
	count atomic.Int32
}

func (l *lists) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	l.count.Add(1)
	return l.Reader.List(ctx, list, options...)
}

// TestTrackRollout_OneList: after a start many workers reconcile Machines of the same MachineSet. One of them reads all its Machines, which may
// be thousands.
func TestTrackRollout_OneList(t *testing.T) {
	s, set, machine, _ := one(t, Options{})
	observed, err := s.observe(t.Context(), client.ObjectKeyFromObject(machine))
	if err != nil || observed.set == nil || observed.set.key != client.ObjectKeyFromObject(set) {
		t.Fatalf("observed %v: %v", observed, err)
	}
	once := &lists{Reader: s.cache}
	s.cache = once
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() { s.trackRollout(t.Context(), observed.set) })
	}
	workers.Wait()
	// One list for the Machines that the MachineSet owns, and one for the Machines without an owner.
	if got := once.count.Load(); got != 2 {
		t.Errorf("%d lists, want 2", got)
	}
}
