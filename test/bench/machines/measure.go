package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// The pools: the measured one, one whose drains are stuck, and another that is not to be slowed by it.
const pool, stuckPool, otherPool = "measured", "stuck", "other"

// stage is a control plane without other writers: the Nodes of the provider are ready from the start, so not even kwok runs.
type stage struct {
	*bench.Stage
	settings
}

func measure(ctx context.Context, s settings) (*results, error) {
	base, err := bench.NewStage(ctx, s.Settings, cluster.Options{})
	if err != nil {
		return nil, err
	}
	defer base.Close()
	st := &stage{base, s}
	if err := st.build(ctx); err != nil {
		return nil, err
	}
	out := &results{}
	for i := range s.rounds {
		r, err := st.round(ctx)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
		bench.Progress("round %d of %d: up %.1f s (floor %.1f s), down %.1f s (floor %.1f s)", i+1, s.rounds, r.Up.Seconds, r.Up.Floor, r.Down.Seconds,
			r.Down.Floor)
		out.Rounds = append(out.Rounds, r)
	}
	return out, st.crowd(ctx, out)
}

// build installs the capability machines, and makes the pools, which are empty yet.
func (s *stage) build(ctx context.Context) error {
	if err := harness.InstallMachines(ctx, s.Cluster); err != nil {
		return err
	}
	for _, name := range []string{pool, stuckPool, otherPool} {
		if err := s.Client.Create(ctx, machineSet(name)); err != nil {
			return err
		}
	}
	return nil
}

// crowd measures what many Machines do to others: those whose drains are stuck, and those at rest.
func (s *stage) crowd(ctx context.Context, out *results) (err error) {
	if s.stuck > 0 {
		if out.Stuck, err = s.stuckDrains(ctx); err != nil {
			return fmt.Errorf("stuck drains: %w", err)
		}
	}
	if s.rest > 0 {
		if out.Rest, err = s.atRest(ctx); err != nil {
			return fmt.Errorf("at rest: %w", err)
		}
	}
	if s.settings.vsphere > 0 {
		if err := s.with(ctx, func(*harness.Operator) error { return s.Scale(ctx, pool, 0) }); err != nil {
			return fmt.Errorf("deleting the Machines: %w", err)
		}
		if out.VSphere, err = s.onVSphere(ctx); err != nil {
			return fmt.Errorf("on vSphere: %w", err)
		}
	}
	return nil
}

func machineSet(pool string) *machinev1beta1.MachineSet {
	return harness.NewMachineSet(pool, 0, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
	})
}

// with runs the operator while something is done.
func (s *stage) with(ctx context.Context, do func(*harness.Operator) error) error {
	return s.With(ctx, do, "--controllers=*", "--metadata-writes-per-second=0")
}

// round measures Drover, and then, with the operator stopped, the floor with as many writes.
func (s *stage) round(ctx context.Context) (r round, err error) {
	up, down := shape{}, shape{}
	err = s.with(ctx, func(*harness.Operator) error {
		return errors.Join(s.scale(ctx, s.machines, &r.Up, up), s.scale(ctx, 0, &r.Down, down))
	})
	if err != nil {
		return r, err
	}
	return r, s.floor(ctx, &r, up, down)
}

// shape is how many writes of a kind there are for each Machine: the key is verb, resource and subresource.
type shape map[string]float64

// scale measures one direction and notes what was written.
func (s *stage) scale(ctx context.Context, replicas int, f *figures, writes shape) error {
	mark, err := s.Cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := s.Scale(ctx, pool, replicas); err != nil {
		return err
	}
	f.Seconds, f.Kinds = time.Since(begun).Seconds(), map[string]float64{}
	// What is not waited for belongs to it, too: labels on the last Nodes, leases given back.
	if err := s.quiet(ctx, mark); err != nil {
		return err
	}
	counts, err := s.Counts(ctx, mark)
	if err != nil {
		return err
	}
	for key, n := range counts {
		f.Requests += float64(n) / float64(s.machines)
		f.Kinds[fmt.Sprintf("%s %s %s %d", key.Verb, key.Resource, key.Subresource, key.Code)] += float64(n) / float64(s.machines)
		if key.Write() && !strings.HasSuffix(key.Resource, "reviews") && key.Resource != "machinesets" {
			f.Writes += float64(n) / float64(s.machines)
			if key.Code >= 400 {
				f.Refused += float64(n) / float64(s.machines)
			}
			if key.Code < 300 {
				writes[key.Verb+" "+key.Resource+" "+key.Subresource] += float64(n) / float64(s.machines)
			}
		}
	}
	return nil
}

// quiet waits until the operator has written nothing for a second.
func (s *stage) quiet(ctx context.Context, mark cluster.AuditMark) error {
	last, since := -1, time.Now()
	return harness.WaitLonger(ctx, time.Minute, 200*time.Millisecond, func() error {
		n, err := s.Writes(ctx, mark)
		if err != nil {
			return err
		}
		if n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < time.Second {
			return errors.New("it is still writing")
		}
		return nil
	})
}
