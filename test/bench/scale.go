package main

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// everything turns all capabilities on.
const everything = "--controllers=*"

// The names of the pools of a large cluster: a hundredth of the Machines is in a pool of its own.
const (
	partName = "bench-part"
	part     = 100
	// largestPool is how many Machines one pool can have.
	largestPool = 50000
)

// runScale measures clusters of several sizes with all capabilities.
func runScale(ctx context.Context, s settings) error {
	report := scaleReport{Go: runtime.Version(), Cores: runtime.NumCPU(), Time: time.Now().UTC().Format(time.RFC3339)}
	measure := func(size int, static bool) error {
		r, err := measureScale(ctx, s, size, static)
		if err != nil {
			return fmt.Errorf("%d Machines: %w", size, err)
		}
		report.Results = append(report.Results, r)
		fmt.Print(report.table())
		return nil
	}
	for _, size := range s.sizes {
		if err := measure(size, false); err != nil {
			return err
		}
	}
	for _, size := range s.static {
		if err := measure(size, true); err != nil {
			return err
		}
	}
	fmt.Print(report.fit(), report.goals())
	return s.Write(report)
}

// poolsOf returns the pools of so many Machines.
func poolsOf(size int) []pool {
	small := max(size/part, 1)
	pools := []pool{{partName, small}}
	for left := size - small; left > 0; left -= largestPool {
		pools = append(pools, pool{fmt.Sprintf("%s%d", poolName, len(pools)), min(left, largestPool)})
	}
	return pools
}

// measureScale makes a control plane with pools and measures everything on it. Static Nodes have no heartbeats.
func measureScale(ctx context.Context, s settings, size int, static bool) (scaleResult, error) {
	r := scaleResult{Static: static}
	r.Machines = size
	var options cluster.Options
	if !static {
		options.Components = []string{cluster.Kwok}
	}
	b, err := newStage(ctx, s, options, poolsOf(size)...)
	if err != nil {
		return r, err
	}
	defer b.Close()
	steps := []step{
		{"restart with the capability metadata alone", func() (err error) {
			r.Metadata, err = b.restart(ctx, "--controllers=metadata")
			return err
		}},
		{"restart with all capabilities", func() (err error) {
			r.All, err = b.restart(ctx, everything)
			return err
		}},
		{"roll-out to a hundredth of the Machines", func() error { return b.partOnly(ctx, &r) }},
		{"reads without Drover", func() (err error) {
			r.Bare, err = b.readBare(ctx)
			return err
		}},
		{"commands of kubectl drover", func() (err error) {
			r.Plugin, err = b.plugin(ctx)
			return err
		}},
		{"change of the leader", func() error { return b.changeLeader(ctx, &r) }},
		{"at rest", func() error { return b.idle(ctx, &r.result, everything) }},
	}
	if static {
		// The first start ever with all capabilities creates a ConfigMap. A pool with heartbeats has had its roll-outs before.
		first := step{"first start with all capabilities", func() error {
			_, err := b.restart(ctx, everything)
			return err
		}}
		steps = append([]step{first}, steps...)
	} else {
		steps = append(b.rollouts(ctx, &r), steps...)
		last := &steps[len(steps)-1]
		rest := last.do
		last.do = func() error {
			if err := b.Cluster.StartComponent(ctx, cluster.Kwok); err != nil {
				return err
			}
			return rest()
		}
	}
	return r, b.steps(steps)
}

// rollouts are the steps that write all Machines and Nodes. The heartbeats of the Nodes are off until they are at rest.
func (b *stage) rollouts(ctx context.Context, r *scaleResult) []step {
	return []step{
		{"first floor", func() error {
			if err := b.Cluster.Kill(cluster.Kwok, syscall.SIGKILL); err != nil {
				return err
			}
			return b.addFloor(ctx, &r.result)
		}},
		{"roll-outs without a limit, each followed by a floor", func() error { return b.rounds(ctx, &r.result, b.settings.rounds, everything) }},
		{"roll-out with the default limit, and manual edits", func() error { return b.limited(ctx, &r.result, everything) }},
	}
}

// partOnly measures a roll-out to the Machines of one small pool among the others.
func (b *stage) partOnly(ctx context.Context, r *scaleResult) error {
	operator, _, err := b.launch(ctx, everything, unlimitedRate)
	if err != nil {
		return err
	}
	if b.mark, err = b.Cluster.Audit().Sync(ctx); err != nil {
		return err
	}
	begun, err := b.declare(ctx, b.pools[0])
	if err != nil {
		return err
	}
	if err := b.carried(ctx); err != nil {
		return err
	}
	if r.Part, err = b.read(ctx, b.mark, begun); err != nil {
		return err
	}
	return b.stop(operator, &r.result)
}

// changeLeader measures how long it takes until another replica knows every Machine as synced after the leader was asked to end.
func (b *stage) changeLeader(ctx context.Context, r *scaleResult) error {
	leader, _, err := b.launch(ctx, everything)
	if err != nil {
		return err
	}
	next, err := b.Operator(ctx, harness.Options{Elect: true, Args: []string{everything}})
	if err != nil {
		return err
	}
	if err := next.Ready(ctx); err != nil {
		return err
	}
	mark, err := b.Cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := leader.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	at, err := b.synced(ctx, next)
	if err != nil {
		return err
	}
	r.Leader = at.Sub(begun).Seconds()
	if err := leader.Stop(); err != nil {
		return err
	}
	if r.LeaderWrites, err = b.writes(ctx, mark); err != nil {
		return err
	}
	return b.stop(next, &r.result)
}
