package simulation

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// seedsVariable is how many seeds are run, seedVariable the one seed that is run instead, baseVariable the first of them.
	seedsVariable, seedVariable, baseVariable = "DROVER_SIMULATION_SEEDS", "DROVER_SIMULATION_SEED", "DROVER_SIMULATION_BASE"
	// shardVariable gives a process of this test its seeds: the first one, and how many.
	shardVariable = "DROVER_SIMULATION_SHARD"
	// laneSeeds is the number of seeds of make simulation. make test-all runs a sample of them, make test a smaller sample.
	laneSeeds   = 500
	sampleSeeds = 100
	shortSeeds  = 40
)

// TestMain runs on one processor: what runs at the same time on two of them has no order that a seed could choose, such as whether a
// worker takes an item before its handler has put it into the queue for a second time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return value
}

// chosenSeeds returns the first of the seeds to run and how many: the requested seeds, or a random sample of the lane.
func chosenSeeds(t *testing.T) (base, seeds uint64) {
	t.Helper()
	if os.Getenv(baseVariable) == "" && os.Getenv(seedsVariable) == "" {
		sample := uint64(sampleSeeds)
		if testing.Short() {
			sample = shortSeeds
		}
		return 1 + rand.Uint64N(laneSeeds-sample+1), sample // #nosec G404 -- picks what to test
	}
	return number(t, baseVariable, 1), number(t, seedsVariable, laneSeeds)
}

// TestSimulation runs the seeds. Each processor runs its share in a process of its own.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if os.Getenv(seedVariable) != "" {
		simulate(t, number(t, seedVariable, 0))
		return
	}
	base, seeds := chosenSeeds(t)
	t.Logf("base seed %d, %d seeds; %s=N replays one of them, %s=N with %s=N runs others", base, seeds, seedVariable, baseVariable, seedsVariable)
	shards := uint64(runtime.NumCPU()) //nolint:gosec // it is not negative
	size := (seeds + shards - 1) / shards
	var all sync.WaitGroup
	for first := uint64(0); first < seeds; first += size {
		count := min(size, seeds-first)
		all.Go(func() { shard(t, base+first, count) })
	}
	all.Wait()
}

// shard runs some seeds in another process.
func shard(t *testing.T, first, count uint64) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShard$", "-test.v", "-test.timeout=1h")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%d", shardVariable, first, count))
	output, err := child.CombinedOutput()
	if err != nil {
		t.Errorf("seeds %d to %d: %v\n%s", first, first+count-1, err, output)
		return
	}
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "seeds/s") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestShard is what the processes run that TestSimulation begins.
func TestShard(t *testing.T) {
	var first, count uint64
	if _, err := fmt.Sscanf(os.Getenv(shardVariable), "%d:%d", &first, &count); err != nil {
		t.Skip("TestSimulation runs it")
	}
	begun, steps, writes := time.Now(), 0, 0
	failed := 0
	for seed := first; seed < first+count && failed < 5; seed++ {
		out := simulate(t, seed)
		steps, writes = steps+out.steps, writes+out.writes
		if out.fault != "" {
			failed++
		}
	}
	took := time.Since(begun)
	t.Logf("%d seeds, %d steps, %d requests to write, in %s: %.1f seeds/s", count, steps, writes, took.Round(time.Millisecond),
		float64(count)/took.Seconds())
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) outcome {
	t.Helper()
	out := play(t, seed, configFor(seed), actionsFor(seed), false)
	if out.fault != "" {
		t.Errorf("seed %d: %s\nthe end of its history (%s=%d replays it):\n%s", seed, out.fault, seedVariable, seed, out.tail)
	}
	return out
}

// TestSimulation_SameSeedSameHistory holds that a seed can be replayed. On a busy machine Go may take the processor from a handler between two
// of its steps, which makes another history; that is rare enough to find the same one in a few tries.
func TestSimulation_SameSeedSameHistory(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector Go's scheduler chooses at random which goroutine comes next: make test-all runs it without")
	}
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		seen := map[string]bool{}
		for tries := 0; ; tries++ {
			digest := play(t, seed, configFor(seed), 15, true).digest
			if seen[digest] {
				break
			}
			if seen[digest] = true; tries == 5 {
				t.Fatalf("seed %d has %d histories", seed, len(seen))
			}
		}
	}
}
