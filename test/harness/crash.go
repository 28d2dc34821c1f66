package harness

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/drover-io/drover/test/operator/fault"
)

// crashPointsVariable is how many points of each workload are tried, "all" for every one.
const crashPointsVariable = "DROVER_CRASH_PLANS"

// crashPoints is how many points are tried when nothing else is asked for; under go test -short it is one.
const crashPoints = 2

// Full reports whether lanes run in full, as make faults has them, instead of a sample.
func Full() bool { return os.Getenv(crashPointsVariable) == "all" }

// Disturbance is what goes wrong while a workload runs.
type Disturbance interface {
	// String names it, in names of tests and of objects.
	fmt.Stringer
	// Operator returns how the operator is started for the n-th time, counted from 1, where the workload would start it with some options.
	Operator(n int, options Options) Options
	// Kills reports whether the first operator dies, so that the workload has to start another one.
	Kills() bool
	// Interrupted reports whether the user takes back what they have asked for, without waiting for it.
	Interrupted() bool
	// Wait returns when it is over, and what it led to has been done.
	Wait()
}

// CrashPoint is a point at which the operator dies: before or after its n-th write, counted from 1. The zero value is none.
type CrashPoint struct {
	Write int
	After bool
}

// String names it in the name of a test.
func (p CrashPoint) String() string { return fmt.Sprintf("write-%d-after-%t", p.Write, p.After) }

// Faults returns the faults of an operator that dies at the crash point.
func (p CrashPoint) Faults() fault.Faults {
	switch {
	case p.Write == 0:
		return fault.Faults{}
	case p.After:
		return fault.Faults{KillAfter: p.Write}
	}
	return fault.Faults{KillBefore: p.Write}
}

// Operator has the first operator die there.
func (p CrashPoint) Operator(n int, options Options) Options {
	if n == 1 {
		options.Faults = p.Faults()
	}
	return options
}

// Kills reports whether it is a point at all.
func (p CrashPoint) Kills() bool { return p.Write > 0 }

// Interrupted is never the case.
func (CrashPoint) Interrupted() bool { return false }

// Wait does nothing: the workload itself waits for the second operator.
func (CrashPoint) Wait() {}

// CrashPoints picks the points to try of a workload with so many writes.
func CrashPoints(t testing.TB, random *rand.Rand, writes int) []CrashPoint {
	t.Helper()
	var all []CrashPoint
	for write := 1; write <= writes; write++ {
		all = append(all, CrashPoint{write, false}, CrashPoint{write, true})
	}
	count := crashPoints
	if testing.Short() {
		count = 1
	}
	switch text := os.Getenv(crashPointsVariable); text {
	case "":
	case "all":
		return all
	default:
		if _, err := fmt.Sscan(text, &count); err != nil {
			t.Fatalf("%s is %q, want a number or all", crashPointsVariable, text)
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(count, len(all))]
}
