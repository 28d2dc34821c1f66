package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

const poolName = "bench"

// unlimitedRate turns the limit of writes off.
const unlimitedRate = "--metadata-writes-per-second=0"

// roundsOf is how often the roll-out without a limit is measured: short ones wander most, and cost least.
func roundsOf(size int) int {
	if size < 1000 {
		return 11
	}
	return 5
}

// stage is one control plane with one pool.
type stage struct {
	*bench.Stage
	settings

	// pools are the pools of the control plane, and changed those that were declared last.
	pools, changed []pool
	writer         client.Client
	token          string
	value          int
	// mark is the place in the audit log where the present step began.
	mark cluster.AuditMark
}

// pool is a MachineSet, and how many Machines it has.
type pool struct {
	name string
	size int
}

// sizeOf returns how many Machines some pools have.
func sizeOf(pools []pool) int {
	size := 0
	for _, p := range pools {
		size += p.size
	}
	return size
}

func (b *stage) namespace() string { return cluster.MachineNamespace }

func (b *stage) set(p pool) types.NamespacedName {
	return types.NamespacedName{Namespace: b.namespace(), Name: p.name}
}

// newStage makes a control plane with some pools. The caller closes it.
func newStage(ctx context.Context, s settings, options cluster.Options, pools ...pool) (*stage, error) {
	base, err := bench.NewStage(ctx, s.Settings, options)
	if err != nil {
		return nil, err
	}
	b := &stage{Stage: base, settings: s, pools: pools}
	// The floor writes as the operator does: by a token, and under the same roles. It does so only while no operator runs.
	if b.writer, err = b.Bare(ctx); err != nil {
		base.Close()
		return nil, err
	}
	begun := time.Now()
	for _, p := range pools {
		options := cluster.PoolOptions{Name: p.name, Machines: p.size, Log: os.Stderr}
		if err := cluster.CreatePool(ctx, b.Cluster.Admin(), options); err != nil {
			base.Close()
			return nil, err
		}
	}
	bench.Progress("%d Machines: made in %s", sizeOf(pools), time.Since(begun).Round(100*time.Millisecond))
	return b, nil
}

// measure makes a control plane with a pool of a size and measures everything on it.
func measure(ctx context.Context, s settings, size int, last bool) (result, error) {
	b, err := newStage(ctx, s, cluster.Options{Components: []string{cluster.Kwok}, KubeletLeases: true}, pool{poolName, size})
	if err != nil {
		return result{}, err
	}
	defer b.Close()
	// The heartbeats of thousands of Nodes take half of a small machine, from the floor and from the operator alike. They are back when
	// the operator is at rest.
	if err := b.Cluster.Kill(cluster.Kwok, syscall.SIGKILL); err != nil {
		return result{}, err
	}
	return b.all(ctx, last)
}

// all runs the steps in an order that lets each begin where the one before ended.
func (b *stage) all(ctx context.Context, last bool) (result, error) {
	r := result{Machines: sizeOf(b.pools)}
	err := b.steps([]step{
		{"first floor", func() error { return b.addFloor(ctx, &r) }},
		// It creates a ConfigMap.
		{"first start", func() error {
			_, err := b.restart(ctx)
			return err
		}},
		{"restart with nothing to do", func() error { return b.addRestart(ctx, &r) }},
		{"roll-outs without a limit, each followed by a floor", func() error { return b.rounds(ctx, &r, roundsOf(sizeOf(b.pools))) }},
		{"roll-out with the default limit, and manual edits", func() error { return b.limited(ctx, &r) }},
		{"at rest", func() error {
			if !last {
				return nil
			}
			if err := b.Cluster.StartComponent(ctx, cluster.Kwok); err != nil {
				return err
			}
			return b.idle(ctx, &r)
		}},
	})
	return r, err
}

// step is a part of the measurement.
type step struct {
	what string
	do   func() error
}

// steps takes one step after the other.
func (b *stage) steps(steps []step) error {
	size := sizeOf(b.pools)
	for _, step := range steps {
		begun := time.Now()
		bench.Progress("%d Machines: %s", size, step.what)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		bench.Progress("%d Machines: %s took %s", size, step.what, time.Since(begun).Round(100*time.Millisecond))
	}
	return nil
}

// rounds measures the roll-out several times, each between two floors: the speed of a small machine wanders by more than what is to be
// distinguished. The result is the round in the middle.
func (b *stage) rounds(ctx context.Context, r *result, rounds int, args ...string) error {
	var all []rollout
	for i := range rounds {
		if err := b.unlimited(ctx, r, args...); err != nil {
			return err
		}
		if err := b.addFloor(ctx, r); err != nil {
			return err
		}
		run := r.Rollout
		run.Ratio = (r.Floor[i].Seconds + r.Floor[i+1].Seconds) / 2 / run.Seconds
		bench.Progress("%d Machines: round %d of %d: %.2f s, %.2f of the floor's speed", r.Machines, i+1, rounds, run.Seconds, run.Ratio)
		all = append(all, run)
	}
	slices.SortFunc(all, func(a, b rollout) int { return cmp.Compare(a.Ratio, b.Ratio) })
	r.Rollout, r.Worst = all[rounds/2], all[0].Ratio
	r.Ratio = r.Rollout.Ratio
	return nil
}

func (b *stage) addFloor(ctx context.Context, r *result) error {
	floor, err := b.floor(ctx)
	r.Floor = append(r.Floor, floor)
	return err
}

// declare gives some pools a new label, annotation and value of a taint. It returns when the API server had the first.
func (b *stage) declare(ctx context.Context, pools ...pool) (time.Time, error) {
	b.value++
	b.changed = pools
	text := fmt.Sprintf(`{"spec":{"template":{"spec":{"metadata":{"labels":{"bench.drover.dev/label":"v%[1]d"},`+
		`"annotations":{"bench.drover.dev/annotation":"value %[1]d"}},`+
		`"taints":[{"key":"bench.drover.dev/taint","value":"v%[1]d","effect":"PreferNoSchedule"}]}}}}`, b.value)
	begun := time.Now()
	for _, p := range pools {
		set := &machinev1beta1.MachineSet{}
		set.Namespace, set.Name = b.set(p).Namespace, b.set(p).Name
		if err := b.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			return begun, err
		}
	}
	return begun, nil
}

// launch starts the shipped program as it is installed, and waits until it knows all Machines as synced, and when that was.
func (b *stage) launch(ctx context.Context, args ...string) (operator *harness.Operator, at time.Time, err error) {
	if operator, err = b.Operator(ctx, harness.Options{Elect: true, Args: args}); err != nil {
		return nil, at, err
	}
	if err := operator.Says(ctx, "capability metadata: running"); err != nil {
		return nil, at, err
	}
	at, err = b.synced(ctx, operator)
	return operator, at, err
}

// start is a start of the operator with nothing to do.
type start struct {
	// Seconds are from the start of the process to the moment when it knows every Machine as synced; CatchUp is the part of it in which the caches
	// were compared with the API server.
	Seconds float64 `json:"seconds"`
	CatchUp float64 `json:"catchUpSeconds"`
	Writes  int     `json:"writes"`
	// PeakMemory is the operator's largest resident size in MiB.
	PeakMemory float64 `json:"peakMemoryMiB"`
}

// restart measures how long a start with nothing to do takes.
func (b *stage) restart(ctx context.Context, args ...string) (start, error) {
	mark, err := b.Cluster.Audit().Sync(ctx)
	if err != nil {
		return start{}, err
	}
	var s start
	begun := time.Now()
	operator, at, err := b.launch(ctx, args...)
	if err != nil {
		return s, err
	}
	s.Seconds = at.Sub(begun).Seconds()
	if s.CatchUp, err = b.catchUp(ctx, operator); err != nil {
		return s, err
	}
	if s.Writes, err = b.writes(ctx, mark); err != nil {
		return s, err
	}
	if s.PeakMemory, err = bench.PeakMemory(operator.PID); err != nil {
		return s, err
	}
	return s, operator.Stop()
}

// addRestart measures a start as most users have it.
func (b *stage) addRestart(ctx context.Context, r *result) error {
	s, err := b.restart(ctx)
	r.Restart, r.CatchUp, r.RestartWrites, r.PeakMemory = s.Seconds, s.CatchUp, s.Writes, max(r.PeakMemory, s.PeakMemory)
	return err
}

// unlimited measures a roll-out without the rate limit.
func (b *stage) unlimited(ctx context.Context, r *result, args ...string) error {
	operator, _, err := b.launch(ctx, append(args, unlimitedRate)...)
	if err != nil {
		return err
	}
	if b.mark, err = b.Cluster.Audit().Sync(ctx); err != nil {
		return err
	}
	before, err := bench.CPUSeconds(operator.PID)
	if err != nil {
		return err
	}
	begun, err := b.declare(ctx, b.pools...)
	if err != nil {
		return err
	}
	if err := b.carried(ctx); err != nil {
		return err
	}
	after, err := bench.CPUSeconds(operator.PID)
	if err != nil {
		return err
	}
	r.CPUSeconds = (after - before) / float64(r.Machines) * 1000
	if r.Rollout, err = b.read(ctx, b.mark, begun); err != nil {
		return err
	}
	return b.stop(operator, r)
}

// stop ends an operator after its memory was read.
func (b *stage) stop(operator *harness.Operator, r *result) error {
	peak, err := bench.PeakMemory(operator.PID)
	if err != nil {
		return err
	}
	bench.Progress("the operator took %.0f MiB at most", peak)
	r.PeakMemory = max(r.PeakMemory, peak)
	return operator.Stop()
}

// carried waits until every Node of the pools that were changed has the present label, annotation and taint.
func (b *stage) carried(ctx context.Context) error {
	want := "v" + strconv.Itoa(b.value)
	log, err := follow(b.Cluster.Audit().Path(), int64(b.mark))
	if err != nil {
		return err
	}
	defer log.close()
	err = wait(ctx, 250*time.Millisecond, func() error {
		n, err := log.nodesWritten()
		if size := sizeOf(b.changed); err == nil && n < size {
			err = fmt.Errorf("%d of %d Nodes are written", n, size)
		}
		return err
	})
	if err != nil {
		return err
	}
	return wait(ctx, time.Second, func() error { return b.count(ctx, want) })
}

// count lists all Nodes with the label and checks the rest of what they must carry.
func (b *stage) count(ctx context.Context, want string) error {
	var nodes corev1.NodeList
	if err := b.Client.List(ctx, &nodes, client.MatchingLabels{"bench.drover.dev/label": want}); err != nil {
		return err
	}
	for i := range nodes.Items {
		err := harness.Has(&nodes.Items[i], nil, map[string]string{"bench.drover.dev/annotation": "value " + strings.TrimPrefix(want, "v")},
			"bench.drover.dev/taint="+want+":PreferNoSchedule")
		if err != nil {
			return err
		}
	}
	if size := sizeOf(b.changed); len(nodes.Items) != size {
		return fmt.Errorf("%d of %d Nodes have what is declared", len(nodes.Items), size)
	}
	return nil
}

// wait waits as long as the slowest step may take.
func wait(ctx context.Context, every time.Duration, condition func() error) error {
	return harness.WaitLonger(ctx, 20*time.Minute, every, condition)
}
