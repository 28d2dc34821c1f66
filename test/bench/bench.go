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

	size   int
	writer client.Client
	token  string
	value  int
	// mark is the place in the audit log where the present step began.
	mark cluster.AuditMark
}

func (b *stage) namespace() string { return cluster.MachineNamespace }

func (b *stage) set() types.NamespacedName {
	return types.NamespacedName{Namespace: b.namespace(), Name: poolName}
}

// measure makes a control plane with a pool of a size and measures everything on it.
func measure(ctx context.Context, s settings, size int, last bool) (result, error) {
	base, err := bench.NewStage(ctx, s.Settings, cluster.Options{Components: []string{cluster.Kwok}, KubeletLeases: true})
	if err != nil {
		return result{}, err
	}
	defer base.Close()
	b := &stage{Stage: base, settings: s, size: size}
	// The floor writes as the operator does: by a token, and under the same roles. It does so only while no operator runs.
	if b.writer, err = b.Bare(ctx); err != nil {
		return result{}, err
	}
	begun := time.Now()
	pool := cluster.PoolOptions{Name: poolName, Machines: size, Log: os.Stderr}
	if err := cluster.CreatePool(ctx, b.Cluster.Admin(), pool); err != nil {
		return result{}, err
	}
	bench.Progress("%d Machines: pool made in %s", size, time.Since(begun).Round(100*time.Millisecond))
	// The heartbeats of thousands of Nodes take half of a small machine, from the floor and from the operator alike. They are back when
	// the operator is at rest.
	if err := b.Cluster.Kill(cluster.Kwok, syscall.SIGKILL); err != nil {
		return result{}, err
	}
	return b.all(ctx, last)
}

// all runs the steps in an order that lets each begin where the one before ended.
func (b *stage) all(ctx context.Context, last bool) (result, error) {
	r := result{Machines: b.size}
	steps := []struct {
		what string
		do   func() error
	}{
		{"first floor", func() error { return b.addFloor(ctx, &r) }},
		{"restart with nothing to do", func() error { return b.restart(ctx, &r) }},
		{"roll-outs without a limit, each followed by a floor", func() error { return b.rounds(ctx, &r) }},
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
	}
	for _, step := range steps {
		begun := time.Now()
		bench.Progress("%d Machines: %s", b.size, step.what)
		if err := step.do(); err != nil {
			return r, fmt.Errorf("%s: %w", step.what, err)
		}
		bench.Progress("%d Machines: %s took %s", b.size, step.what, time.Since(begun).Round(100*time.Millisecond))
	}
	return r, nil
}

// rounds measures the roll-out several times, each between two floors: the speed of a small machine wanders by more than what is to be
// distinguished. The result is the round in the middle.
func (b *stage) rounds(ctx context.Context, r *result) error {
	var all []rollout
	rounds := roundsOf(b.size)
	for i := range rounds {
		if err := b.unlimited(ctx, r); err != nil {
			return err
		}
		if err := b.addFloor(ctx, r); err != nil {
			return err
		}
		run := r.Rollout
		run.Ratio = (r.Floor[i].Seconds + r.Floor[i+1].Seconds) / 2 / run.Seconds
		bench.Progress("%d Machines: round %d of %d: %.2f s, %.2f of the floor's speed", b.size, i+1, rounds, run.Seconds, run.Ratio)
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

// declare gives the pool a new label, annotation and value of a taint. It returns when the API server had it.
func (b *stage) declare(ctx context.Context) (time.Time, error) {
	b.value++
	text := fmt.Sprintf(`{"spec":{"template":{"spec":{"metadata":{"labels":{"bench.drover.dev/label":"v%[1]d"},`+
		`"annotations":{"bench.drover.dev/annotation":"value %[1]d"}},`+
		`"taints":[{"key":"bench.drover.dev/taint","value":"v%[1]d","effect":"PreferNoSchedule"}]}}}}`, b.value)
	set := &machinev1beta1.MachineSet{}
	set.Namespace, set.Name = b.set().Namespace, b.set().Name
	begun := time.Now()
	return begun, b.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(text)))
}

// launch starts the shipped program as it is installed, and waits until it knows all Machines as synced.
func (b *stage) launch(ctx context.Context, args ...string) (*harness.Operator, error) {
	operator, err := b.Operator(ctx, harness.Options{Elect: true, Args: args})
	if err != nil {
		return nil, err
	}
	if err := operator.Says(ctx, "capability metadata: running"); err != nil {
		return nil, err
	}
	return operator, b.synced(ctx, operator, b.size)
}

// restart measures how long a start with nothing to do takes.
func (b *stage) restart(ctx context.Context, r *result) error {
	mark, err := b.Cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	operator, err := b.launch(ctx)
	if err != nil {
		return err
	}
	r.Restart = time.Since(begun).Seconds()
	if r.CatchUp, err = b.catchUp(ctx, operator); err != nil {
		return err
	}
	writes, err := b.writes(ctx, mark)
	if err != nil {
		return err
	}
	r.RestartWrites = writes
	return b.stop(operator, r)
}

// unlimited measures a roll-out without the rate limit.
func (b *stage) unlimited(ctx context.Context, r *result) error {
	operator, err := b.launch(ctx, "--metadata-writes-per-second=0")
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
	begun, err := b.declare(ctx)
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
	r.CPUSeconds = (after - before) / float64(b.size) * 1000
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
	r.PeakMemory = max(r.PeakMemory, peak)
	return operator.Stop()
}

// carried waits until every Node has the present label, annotation and taint.
func (b *stage) carried(ctx context.Context) error {
	want := "v" + strconv.Itoa(b.value)
	log, err := follow(b.Cluster.Audit().Path(), int64(b.mark))
	if err != nil {
		return err
	}
	defer log.close()
	err = wait(ctx, 250*time.Millisecond, func() error {
		n, err := log.nodesWritten()
		if err == nil && n < b.size {
			err = fmt.Errorf("%d of %d Nodes are written", n, b.size)
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
	if len(nodes.Items) != b.size {
		return fmt.Errorf("%d of %d Nodes have what is declared", len(nodes.Items), b.size)
	}
	return nil
}

// wait waits as long as the slowest step may take.
func wait(ctx context.Context, every time.Duration, condition func() error) error {
	return harness.WaitLonger(ctx, 10*time.Minute, every, condition)
}
