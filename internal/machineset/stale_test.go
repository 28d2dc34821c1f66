package machineset

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller"
)

// both runs a test on a cache with a version, and on one without.
func both(t *testing.T, run func(s *fixture, versioned bool), objects func() []client.Object) {
	t.Helper()
	for _, versioned := range []bool{true, false} {
		t.Run(fmt.Sprintf("the cache has a version: %v", versioned), func(t *testing.T) {
			s := newFixture(t, Options{}, objects()...)
			if versioned {
				s.restart(s.version)
			}
			run(s, versioned)
		})
	}
}

// waits checks that passes write nothing as long as the cache is behind, and cost no worker.
func (s *fixture) waits() {
	s.t.Helper()
	for range 3 {
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		if result := s.reconciles(""); result.RequeueAfter != controller.CatchUp {
			s.t.Errorf("looks again in %s", result.RequeueAfter)
		}
	}
}

func TestStaleCache_Creations(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		s.freezeMachines()
		s.reconciles("create Machine, create Machine, create Machine, status MachineSet/web")
		s.waits()
		s.thaw()
		s.reconciles("")
		s.expect(3, 0, 0)
		if s.creates != 3 {
			s.t.Errorf("%d were created", s.creates)
		}
	}, func() []client.Object { return []client.Object{setOf(3)} })
}

func TestStaleCache_Deletions(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		s.settle()
		s.resize(3)
		s.freezeMachines()
		s.reconciles("delete Machine/a, delete Machine/b, status MachineSet/web")
		s.waits()
		s.resize(2)
		s.waits()
		s.thaw()
		s.reconciles("delete Machine/c, status MachineSet/web")
		s.expect(2, 2, 2)
	}, func() []client.Object { return pool(5) })
}

func TestStaleCache_Adoptions(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		s.resize(2)
		s.freezeMachines()
		s.reconciles("patch Machine/orphan, status MachineSet/web")
		s.waits()
		s.thaw()
		s.reconciles("")
		s.expect(2, 1, 1)
	}, func() []client.Object { return append(pool(1), machineOf("orphan", loose)) })
}

// machine-api-operator does not wait after a creation that failed in part, counts on the old cache, and creates too many.
func TestStaleCache_AfterPartialFailure(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		s.fail = only("create", func(string) error {
			if s.creates >= 4 {
				return denied("")
			}
			return nil
		})
		s.freezeMachines()
		if _, writes, err := s.try("web"); err != nil || s.creates < 3 {
			s.t.Fatalf("error %v, wrote %s", err, writes)
		}
		before := s.creates
		s.fail = nil
		s.waits()
		if s.creates != before {
			s.t.Errorf("%d more were created", s.creates-before)
		}
		s.thaw()
		s.clock.SetTime(start.Add(time.Minute))
		s.settle()
		s.expect(10, 0, 0, "MachinesCreated=True Created")
		if s.creates != 10 {
			s.t.Errorf("%d were created", s.creates)
		}
	}, func() []client.Object { return []client.Object{setOf(10)} })
}

// A cache that shows half of what was done is behind as well.
func TestStaleCache_HalfCaughtUp(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		var half *moment
		s.carried = func() {
			if s.creates >= 2 && half == nil {
				half = new(s.moment())
			}
		}
		s.freezeMachines()
		s.reconciles(strings.Repeat("create Machine, ", 4) + "status MachineSet/web")
		s.show(*half)
		s.cached.Reader = split{s.client, s.cached.Reader}
		s.waits()
		s.thaw()
		s.reconciles("")
	}, func() []client.Object { return []client.Object{setOf(4)} })
}

// A Machine that was created and is gone before the cache could show it is missing, and not awaited for ever.
func TestStaleCache_MachineCreatedAndDeleted(t *testing.T) {
	both(t, func(s *fixture, versioned bool) {
		s.freezeMachines()
		s.reconciles("create Machine, status MachineSet/web")
		edit(s, s.machine("web-00001"), func(m *machinev1beta1.Machine) { m.Finalizers = nil })
		if err := s.client.Delete(s.t.Context(), s.machine("web-00001"), guard(s.machine("web-00001"))); err != nil {
			s.t.Fatal(err)
		}
		s.thaw()
		if !versioned {
			// Only the API server itself knows.
			s.waits()
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
		}
		s.reconciles("create Machine")
		s.expect(1, 0, 0)
	}, func() []client.Object { return []client.Object{setOf(1)} })
}

// A cache that lags for long is compared with the API server; as long as they differ nothing is done.
func TestStaleCache_Slow(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		s.freezeMachines()
		s.reconciles("create Machine, create Machine, status MachineSet/web")
		s.waits()
		for range 3 {
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			if result, writes, err := s.try("web"); err != nil || strings.Contains(writes, "create") || result.RequeueAfter != controller.CatchUp {
				s.t.Errorf("error %v, wrote %s, again in %s", err, writes, result.RequeueAfter)
			}
		}
		s.thaw()
		s.settle()
		s.expect(2, 0, 0)
		if s.creates != 2 {
			s.t.Errorf("%d were created", s.creates)
		}
	}, func() []client.Object { return []client.Object{setOf(2)} })
}

// world plays a MachineSet with a cache that lags, requests that fail or whose answers are lost, and processes that die. Whatever
// happens, no pass creates or deletes a Machine beyond what its MachineSet asks for.
type world struct {
	*fixture
	random *rand.Rand
	// past are the states of the cluster, the cache is at one of them.
	past      []moment
	at        int
	versioned bool
	log       []string
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{random: rand.New(rand.NewPCG(seed, 1))}
	w.fixture = newFixture(t, Options{Parallel: 1}, setOf(w.random.Int32N(5)))
	w.versioned = w.random.IntN(2) == 0
	w.carried = w.remember
	w.remember()
	w.advance(0)
	w.crash()
	return w
}

func (w *world) remember() { w.past = append(w.past, w.moment()) }

// advance lets the cache show another moment.
func (w *world) advance(to int) {
	w.at = to
	w.show(w.past[to])
}

// crash starts a new process. Its caches have caught up before it begins (expectations.LeaderBarrier).
func (w *world) crash() {
	w.advance(len(w.past) - 1)
	if w.versioned {
		w.restart(func() string { return w.cached.reached })
		return
	}
	w.restart(nil)
}

// counted is how many Machines count for the set.
func (w *world) counted() int {
	count := 0
	for _, name := range w.living() {
		if metav1.IsControlledBy(w.machine(name), w.fixture.set()) {
			count++
		}
	}
	return count
}

func (w *world) step() {
	w.t.Helper()
	switch n := w.random.IntN(20); {
	case n < 9:
		w.look()
	case n < 14:
		w.advance(min(w.at+1+w.random.IntN(3), len(w.past)-1))
	case n < 16:
		w.clock.SetTime(w.clock.Now().Add(time.Duration(w.random.IntN(5000)) * time.Millisecond))
	case n < 17:
		w.log = append(w.log, "crash")
		w.crash()
	case n < 18:
		w.resize(w.random.Int32N(7))
		w.remember()
	case n < 19:
		w.finish()
	default:
		// What others do a cache cannot know; here it is about what Drover itself has done.
		w.advance(len(w.past) - 1)
		if names := w.living(); len(names) > 0 {
			machine := w.machine(names[w.random.IntN(len(names))])
			if err := w.client.Delete(w.t.Context(), machine, guard(machine)); err != nil {
				w.t.Fatal(err)
			}
			w.log = append(w.log, "another writer deletes "+machine.Name)
		}
		w.advance(len(w.past) - 1)
	}
}

// finish ends Machines that are being deleted, as the machine controller does.
func (w *world) finish() {
	var machines machinev1beta1.MachineList
	if err := w.client.List(w.t.Context(), &machines); err != nil {
		w.t.Fatal(err)
	}
	for i := range machines.Items {
		if machine := &machines.Items[i]; machine.DeletionTimestamp != nil {
			machine.Finalizers = nil
			if err := w.client.Update(w.t.Context(), machine); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.remember()
}

// look makes a pass, with luck or without.
func (w *world) look() {
	w.t.Helper()
	trouble := func(string) error {
		switch w.random.IntN(12) {
		case 0:
			return broken("")
		case 1:
			return denied("")
		}
		return nil
	}
	w.fail, w.lose = trouble, func(string) error {
		if w.random.IntN(12) == 0 {
			return broken("")
		}
		return nil
	}
	var set machinev1beta1.MachineSet
	if err := w.cached.Get(w.t.Context(), named("machines", "web").NamespacedName, &set); err != nil {
		w.t.Fatal(err)
	}
	before, wanted := w.counted(), int(*set.Spec.Replicas)
	_, writes, _ := w.try("web")
	w.fail, w.lose = nil, nil
	after := w.counted()
	w.log = append(w.log, fmt.Sprintf("%d of %d, then %d: %s", before, wanted, after, writes))
	if after > max(before, wanted) || after < min(before, wanted) {
		w.t.Fatalf("%d Machines, %d were wanted, and now there are %d\n%s", before, wanted, after, strings.Join(w.log, "\n"))
	}
}

func TestReconcile_RandomFaults(t *testing.T) {
	seeds := make([]uint64, 40)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if text := os.Getenv("DROVER_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("DROVER_TEST_SEED=%d", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for range 80 {
				w.step()
			}
			// Whatever has happened, it ends well, and rests.
			w.thaw()
			for range 20 {
				w.clock.SetTime(w.clock.Now().Add(time.Minute))
				if _, _, err := w.try("web"); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := w.counted(), int(*w.fixture.set().Spec.Replicas); got != want {
				t.Errorf("%d Machines, %d are wanted\n%s", got, want, strings.Join(w.log, "\n"))
			}
			w.reconciles("")
			for machine, times := range w.deletes {
				if times > 1 {
					t.Errorf("%s was deleted %d times\n%s", machine, times, strings.Join(w.log, "\n"))
				}
			}
		})
	}
}
