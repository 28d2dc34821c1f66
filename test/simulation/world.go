package simulation

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// world is everything outside of the controllers, and the scheduler. One goroutine works in it; the controllers reach it through the gates only.
type world struct {
	seed    uint64
	random  *rand.Rand
	config  *config
	server  *server
	history *history
	cloud   *cloud
	process *process
	// wake gets a value when a call comes to a gate.
	wake chan struct{}
	// timers are sorted by when they are due.
	timers []timer
	// steps counts what the scheduler has done.
	steps int
	// paces are how fast events of each kind go on: see pace.
	paces map[*kind][2]int
	// calm is the time after the last fault: nothing is made to fail any more.
	calm bool
	// declared are all keys that pools have ever declared; once they are dropped no Node may have them.
	declared map[entry]bool
	nodes    *nodeChecks
	// groups are the checks of the NodeGroups, by the name of their pool.
	groups map[string]*groupCheck
	// trace notes each step of the scheduler, too.
	trace bool

	mu sync.Mutex
	// faults are what controllers have done although it is not allowed, in order of discovery.
	faults   []string
	suffixes int
}

func newWorld(seed uint64, c *config) *world {
	w := &world{
		seed: seed, random: rand.New(rand.NewPCG(seed, 0x64726f766572)), config: c, server: newServer(),
		history: &history{begun: time.Now()}, wake: make(chan struct{}, 1), declared: map[entry]bool{}, nodes: newNodeChecks(),
		paces: map[*kind][2]int{}, groups: map[string]*groupCheck{},
		trace: os.Getenv("DROVER_SIMULATION_TRACE") != "",
	}
	w.cloud = newCloud(w)
	for _, k := range w.kinds() {
		w.paces[k] = [2]int{1 << w.random.IntN(5), 1 << w.random.IntN(5)}
	}
	w.server.wrote = func(wr *write) {
		w.history.wrote(wr)
		w.check(wr)
		w.react(wr)
	}
	return w
}

// kinds returns the kinds in this world.
func (w *world) kinds() []*kind {
	if w.config.groups {
		return allKinds
	}
	return kinds
}

// chance is true once in so many times.
func (w *world) chance(in int) bool { return w.random.IntN(in) == 0 }

// upTo is a time that is short rather than long.
func (w *world) upTo(longest time.Duration) time.Duration {
	return time.Duration(w.random.Float64() * w.random.Float64() * float64(longest))
}

func pick[T any](w *world, of []T) T { return of[w.random.IntN(len(of))] }

// fault notes what a controller has done that it may not.
func (w *world) fault(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, text)
	w.history.note("FAULT        %s", text)
	return fmt.Errorf("%s", text)
}

// broken is the first fault; empty for none.
func (w *world) broken() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) == 0 {
		return ""
	}
	return w.faults[0]
}

// suffix makes names of Machines.
func (w *world) suffix() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.suffixes++
	return fmt.Sprintf("%05d", w.suffixes)
}

// timer is something that happens in the world at a time.
type timer struct {
	at  time.Time
	act func()
}

// after has something happen later, after all that was to happen at the same time.
func (w *world) after(wait time.Duration, act func()) {
	next := timer{at: time.Now().Add(wait), act: act}
	at := slices.IndexFunc(w.timers, func(t timer) bool { return t.at.After(next.at) })
	if at < 0 {
		at = len(w.timers)
	}
	w.timers = slices.Insert(w.timers, at, next)
}

// due does what is due by now, and reports whether there was anything.
func (w *world) due() (found bool) {
	for len(w.timers) > 0 && !w.timers[0].at.After(time.Now()) {
		next := w.timers[0]
		w.timers = w.timers[1:]
		next.act()
		found = true
	}
	return found
}

// edit changes an object as an actor of the world does.
func edit[T client.Object](w *world, who string, k *kind, key string, change func(object T)) {
	part := ""
	if who == "kubelet" {
		part = "both"
	}
	_, err := w.server.change(request{who: who, verb: "edit"}, k, key, part, guards{}, func(before client.Object) (client.Object, error) {
		after, ok := copied(before).(T)
		if !ok {
			panic(fmt.Sprintf("the simulation edits a %T as another type", before))
		}
		change(after)
		return after, nil
	})
	if err != nil {
		w.history.note("%-12s cannot edit %s %s: %v", who, k.name, key, err)
	}
}

// typed returns objects of one type as that type.
func typed[T client.Object](objects []client.Object) []T {
	all := make([]T, 0, len(objects))
	for _, object := range objects {
		if one, ok := object.(T); ok {
			all = append(all, one)
		}
	}
	return all
}

// weighted picks one of several things at random, each as often as its weight says; false when there is none.
func weighted[T any](w *world, of []T, weight func(T) int) (picked T, found bool) {
	total := 0
	for _, one := range of {
		total += weight(one)
	}
	if total == 0 {
		return picked, false
	}
	at := w.random.IntN(total)
	for _, one := range of {
		if at -= weight(one); at < 0 {
			return one, true
		}
	}
	return picked, false
}
