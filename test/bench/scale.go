package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// largestPool is how many Machines a MachineSet of a large cluster has at most.
const largestPool = 50000

// scaleAims are the aims for one number of Machines, in MiB and seconds; zero is none.
type scaleAims struct{ metadataMemory, memory, restart, leader, output, pluginMemory float64 }

func aimsOf(machines int) scaleAims {
	return map[int]scaleAims{
		20000:  {metadataMemory: 250, memory: 350, restart: 4, leader: 2, output: 2, pluginMemory: 300},
		100000: {memory: 1.1 * 1024},
	}[machines]
}

// scale measures large clusters with all capabilities.
func scale(flags *flag.FlagSet) func(context.Context, *bench) error {
	sizes := sizesFlag(flags, "sizes", "numbers of Machines", 5000, 20000)
	static := sizesFlag(flags, "static", "numbers of Machines whose Nodes have no heartbeats; there are no roll-outs to all of them")
	return func(ctx context.Context, b *bench) error {
		for i, size := range slices.Concat(*sizes, *static) {
			if err := scaleOf(ctx, b, size, i >= len(*sizes)); err != nil {
				return fmt.Errorf("%d Machines: %w", size, err)
			}
		}
		return nil
	}
}

// poolsOf returns MachineSets with so many Machines in total, the first with a hundredth of them.
func poolsOf(machines int) []pool {
	part := max(machines/100, 1)
	pools := []pool{{"bench-part", part}}
	for left := machines - part; left > 0; left -= largestPool {
		pools = append(pools, pool{fmt.Sprintf("bench%d", len(pools)), min(left, largestPool)})
	}
	return pools
}

func scaleOf(ctx context.Context, b *bench, size int, static bool) error {
	f := &fleet{pools: poolsOf(size), static: static, args: []string{allCapabilities}}
	return b.onFleet(ctx, f, cluster.Options{}, func() []step {
		aims := aimsOf(size)
		var steps []step
		if !static {
			steps = []step{
				{"roll-outs, and bare writers", func(ctx context.Context) error {
					return f.compareRollouts(ctx, b.rounds, atLeast(1.2), atLeast(1.1))
				}},
				{"roll-out with the default limit, and manual edits", f.limitedRollout},
			}
		}
		return append(steps, []step{
			{"roll-out to a hundredth of the Machines", f.partRollout},
			{"restart with the capability metadata", func(ctx context.Context) error {
				f.args = nil
				defer func() { f.args = []string{allCapabilities} }()
				return f.restart(ctx, "restart, metadata alone", aim{}, atMost(aims.metadataMemory), "--controllers=metadata")
			}},
			{"restart", func(ctx context.Context) error {
				return f.restart(ctx, "restart, all capabilities", atMost(aims.restart), atMost(aims.memory))
			}},
			{"reads without Drover", f.bareReads},
			{"kubectl drover", func(ctx context.Context) error { return f.plugin(ctx, aims) }},
			{"change of the leader", func(ctx context.Context) error { return f.changeLeader(ctx, aims) }},
			{"rest", f.rest},
			{"memory", func(context.Context) error {
				f.column.add("peak memory over all steps", f.peak, inMiB, atMost(aims.memory))
				return nil
			}},
		}...)
	})
}

// partRollout measures a roll-out to the Machines of one small MachineSet among the others.
func (f *fleet) partRollout(ctx context.Context) error {
	r, err := f.rollOutTo(ctx, []string{unlimitedRate}, f.pools[:1], nil)
	f.column.add("roll-out to a hundredth", r.lastNode(), inSeconds)
	return err
}

// changeLeader measures the time from the end of the leader until another replica counts all Machines as synced.
func (f *fleet) changeLeader(ctx context.Context, aims scaleAims) error {
	return f.withSynced(ctx, nil, func(_ context.Context, leader *operator, _ time.Time) error {
		change, err := f.succeed(ctx, leader)
		f.column.add("change of the leader", change.seconds, inSeconds, atMost(aims.leader))
		f.column.add("change of the leader: writes", float64(len(change.requests.writes())), count, exactly(0))
		return err
	})
}

// succeed ends the leader, and measures how long it takes until another replica counts all Machines as synced.
func (f *fleet) succeed(ctx context.Context, leader *operator) (m span, err error) {
	launched, err := f.launch(ctx, f.args...)
	if err != nil {
		return m, err
	}
	next := &operator{Operator: launched}
	defer func() { _ = next.Stop() }()
	if err := next.Ready(ctx); err != nil {
		return m, err
	}
	var at time.Time
	m, err = f.measure(ctx, next.PID, harness.User, func() error {
		if err := leader.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		at, err = f.synced(ctx, next)
		return err
	})
	m.seconds = at.Sub(m.begun).Seconds()
	return m, err
}
