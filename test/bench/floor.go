package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/harness"
)

// floorWriters is how many bare writers send at the same time. More make two processors no faster.
const floorWriters = 16

// write is one request of a bare writer.
type write func(context.Context, client.Client) error

func create(object client.Object) write {
	return func(ctx context.Context, c client.Client) error { return c.Create(ctx, object) }
}

func remove(object client.Object) write {
	return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, object) }
}

func patch(object client.Object, kind types.PatchType, body []byte) write {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, object, client.RawPatch(kind, body))
	}
}

func patchStatus(object client.Object, body []byte) write {
	return func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, body))
	}
}

// floor is a program that sends what Drover sends, and decides nothing: the yardstick of most scenarios.
type floor struct {
	// items are what is written: the writes of one item run one after the other, the writes of several items at the same time.
	items [][]write
	// writers is how many items are written at the same time; zero stands for floorWriters.
	writers int
	// watched is a kind that the program watches meanwhile; nil for none.
	watched client.ObjectList
}

// run sends all writes by the operator's own account, and returns how many seconds that takes.
func (f *floor) run(ctx context.Context, s *stage) (float64, error) {
	if f.writers == 0 {
		f.writers = floorWriters
	}
	if f.watched != nil {
		events, err := s.bare.Watch(ctx, f.watched)
		if err != nil {
			return 0, err
		}
		defer events.Stop()
		go func() {
			for range events.ResultChan() {
				continue
			}
		}()
	}
	begun := time.Now()
	err := each(ctx, f.writers, len(f.items), func(ctx context.Context, i int) error {
		for _, send := range f.items[i] {
			if err := send(ctx, s.bare); err != nil {
				return err
			}
		}
		return nil
	})
	return time.Since(begun).Seconds(), err
}

// each calls a function with each number below a count, several at the same time.
func each(ctx context.Context, parallel, count int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// rollOut changes what is declared and waits until the operator has written so many Nodes.
func (s *stage) rollOut(ctx context.Context, o *operator, nodes int, declare func() error) (span, error) {
	mark, err := s.cluster.Audit().Sync(ctx)
	if err != nil {
		return span{}, err
	}
	return s.measure(ctx, o.PID, harness.User, func() error {
		if err := declare(); err != nil {
			return err
		}
		return wait(ctx, 10*time.Millisecond, func() error {
			if err := s.silent(ctx, 300*time.Millisecond); err != nil {
				return err
			}
			made, err := s.requestsSince(ctx, mark, harness.User)
			if written := len(made.of("patch nodes")); err == nil && written < nodes {
				err = fmt.Errorf("%d of %d Nodes are written", written, nodes)
			}
			return err
		})
	})
}

// lastNode returns how many seconds after the beginning the last Node was written.
func (m *span) lastNode() float64 { return m.requests.of("patch nodes").last().Sub(m.begun).Seconds() }

// round is a roll-out, with the seconds of the bare writers before and after it: the speed of a small machine varies by more than what is to be
// distinguished.
type round struct {
	span

	before, after float64
}

// share is the share of the bare writers' speed.
func (r *round) share() float64 { return (r.before + r.after) / 2 / r.lastNode() }

func byShare(a, b round) int { return cmp.Compare(a.share(), b.share()) }

// compare measures rounds of a roll-out, each between two runs of bare writers.
func compare(
	ctx context.Context, rounds int, bare func(context.Context) (float64, error), roll func(context.Context) (span, error),
) ([]round, error) {
	all := make([]round, rounds)
	before, err := bare(ctx)
	for i := range all {
		if err != nil {
			return nil, err
		}
		r := &all[i]
		r.before = before
		if r.span, err = roll(ctx); err != nil {
			return nil, err
		}
		r.after, err = bare(ctx)
		before = r.after
		progress("round %d of %d: %.2f s, %.2f s and %.2f s by bare writers: a share of %.2f", i+1, rounds, r.lastNode(), r.before, r.after, r.share())
	}
	return all, err
}
