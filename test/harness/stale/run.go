package stale

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// Mode is how the operator's view of a kind comes to be old.
type Mode string

// The modes.
const (
	// None changes nothing: it shows what an undisturbed run does.
	None Mode = "undisturbed"
	// Leader kills the operator, and shows its successor the kind as it was before some of the last changes.
	Leader Mode = "leader"
	// Standby freezes the watches of the kind of a replica that stands by, and then kills the leader: the replica takes over with an old view.
	Standby Mode = "standby"
	// OwnWrite freezes the watches of the kind right before a write of the operator to the kind is sent; where it makes none to the kind, before
	// any write of it.
	OwnWrite Mode = "write"
	// Interrupt is OwnWrite, and the user takes back what they have asked for while the view is old.
	Interrupt Mode = "interrupt"
	// Late delays every event of the kind.
	Late Mode = "late"
)

// Modes lists the modes that disturb.
func Modes() []Mode { return []Mode{Leader, Standby, OwnWrite, Interrupt, Late} }

const (
	// quiet is for how long the operator makes no request before a frozen view moves again, bound how long it stands still at most.
	quiet = 2 * time.Second
	bound = 8 * time.Second
	// lateness is how late events are at least, and how much more at most.
	lateness = 500 * time.Millisecond
	moreLate = time.Second
)

// Profile is what an undisturbed run of a workload does.
type Profile struct {
	// Writes are the operator's.
	Writes []Write
	// Kinds are the kinds that the operator watches.
	Kinds []schema.GroupVersionResource
	// First is for each kind how many writes came before its first change.
	First map[schema.GroupResource]int
}

// own counts the writes to a kind.
func (p *Profile) own(kind schema.GroupResource) (count int) {
	for _, write := range p.Writes {
		if write.APIGroup == kind.Group && write.Resource == kind.Resource {
			count++
		}
	}
	return count
}

// Run is one run of a workload with an operator behind proxies.
type Run struct {
	name    string
	mode    Mode
	kind    schema.GroupResource
	t       testing.TB
	cluster *cluster.Cluster
	random  *rand.Rand
	history *History
	judge   *Judge
	profile *Profile
	begun   time.Time
	delay   time.Duration
	point   harness.CrashPoint
	at      int

	// dead is whether the first operator has ended.
	dead atomic.Bool

	mu      sync.Mutex
	proxies []*Proxy
	// story says what was done to the view, vacuous that there was nothing to hide.
	story   string
	vacuous bool
}

var _ harness.Disturbance = (*Run)(nil)

// NewRun prepares a run. profile is the profile of the undisturbed run; it is nil for the undisturbed run itself.
func NewRun(
	t testing.TB, c *cluster.Cluster, history *History, name string, mode Mode, kind schema.GroupResource, profile *Profile, random *rand.Rand,
) *Run {
	r := &Run{
		name: name, mode: mode, kind: kind, t: t, cluster: c, random: random, history: history, judge: NewJudge(history), profile: profile,
		begun: time.Now(),
	}
	switch mode {
	case Leader, Standby:
		first := min(profile.First[kind]+1, len(profile.Writes))
		// Two runs do not make quite as many writes: the last ones may not come.
		last := max(first, len(profile.Writes)*9/10)
		r.point = harness.CrashPoint{Write: first + random.IntN(last-first+1), After: random.IntN(2) == 0}
		// In every second case the view is as old as possible: it freezes before the first change.
		r.at = 1
		if random.IntN(2) == 0 {
			r.at += random.IntN(r.point.Write)
		}
		if mode == Standby {
			r.story = fmt.Sprintf("watches of %s by a replica that stands by freeze at write %d, and it takes over after the leader's %s",
				kind, r.at, r.point)
		}
	case OwnWrite, Interrupt:
		if own := profile.own(kind); own > 0 {
			r.at = 1 + random.IntN(own)
			r.story = fmt.Sprintf("watches of %s freeze at write %d of %d to the kind", kind, r.at, own)
		} else {
			r.at = 1 + random.IntN(len(profile.Writes))
			r.story = fmt.Sprintf("watches of %s freeze at write %d of %d", kind, r.at, len(profile.Writes))
		}
	case Late:
		r.delay = lateness + time.Duration(random.Int64N(int64(moreLate)))
		r.story = fmt.Sprintf("events of %s are %s late", kind, r.delay.Round(time.Millisecond))
	case None:
	}
	return r
}

// String names the run in names of objects.
func (r *Run) String() string { return r.name }

// Kills reports whether the first operator dies.
func (r *Run) Kills() bool { return r.mode == Leader || r.mode == Standby }

// Operator has an operator reach the API server through a proxy.
func (r *Run) Operator(n int, options harness.Options) harness.Options {
	r.t.Helper()
	if r.mode == Standby {
		return r.withStandby(n, options)
	}
	options = r.point.Operator(n, options)
	options.Config = r.proxy(r.fault(n)).Config()
	return options
}

// soon has a replica take over soon.
var soon = []string{"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"}

// withStandby starts a standby replica next to the first operator. The replica takes over when the first operator dies. The operator that the
// workload starts next never leads.
func (r *Run) withStandby(n int, options harness.Options) harness.Options {
	r.t.Helper()
	fault := Fault{Resource: r.kind, Quiet: quiet, Bound: bound, Elect: func() bool { return false }}
	if n > 1 {
		options.Elect, options.Args = true, slices.Concat(options.Args, soon)
		options.Config = r.proxy(fault).Config()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.proxies = r.proxies[:2] // the replica's stays the last one
		r.dead.Store(true)
		return options
	}
	fault.Elect = r.dead.Load
	var replica *Proxy
	first := r.proxy(Fault{Freeze: func(w Write) bool {
		if w.Index == r.at {
			replica.view.freeze()
		}
		return false
	}})
	replica = r.proxy(fault)
	waiting := options
	waiting.Elect, waiting.Args, waiting.Config = true, slices.Concat(options.Args, soon), replica.Config()
	operator := harness.Start(r.t, r.cluster, waiting)
	if err := operator.Ready(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	options.Config = first.Config()
	return r.point.Operator(n, options)
}

// proxy starts a proxy that stops when the test ends.
func (r *Run) proxy(fault Fault) *Proxy {
	r.t.Helper()
	credentials, err := r.cluster.AsServiceAccount(r.t.Context(), harness.SystemNamespace, harness.ServiceAccount)
	if err != nil {
		r.t.Fatal(err)
	}
	proxy, err := Start(r.t.Context(), credentials, fault, r.judge)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proxies = append(r.proxies, proxy)
	r.t.Cleanup(func() {
		if err := proxy.Stop(); err != nil {
			r.t.Error(err)
		}
	})
	return proxy
}

// fault is what is wrong with the view of the n-th operator.
func (r *Run) fault(n int) Fault {
	fault := Fault{Resource: r.kind, Quiet: quiet, Bound: bound}
	switch {
	case r.mode == Leader && n == 2:
		changes := r.history.Changes(r.kind, r.begun)
		if len(changes) == 0 {
			r.vacuous = true
			return Fault{}
		}
		missed := 1 + r.random.IntN(len(changes))
		fault.Past = fmt.Sprint(changes[len(changes)-missed] - 1)
		r.story = fmt.Sprintf("the operator dies at %s, and the next one sees %s without the last %d of %d changes", r.point, r.kind, missed, len(changes))
	case r.freezes() && r.profile.own(r.kind) > 0:
		fault.Freeze = func(w Write) bool {
			return w.Own == r.at && w.Resource == r.kind.Resource && w.APIGroup == r.kind.Group
		}
	case r.freezes():
		fault.Freeze = func(w Write) bool { return w.Index == r.at }
	case r.mode == Late:
		fault.Delay = r.delay
	}
	return fault
}

func (r *Run) freezes() bool { return r.mode == OwnWrite || r.mode == Interrupt }

// Interrupted reports, from the moment on at which the view freezes, that the user takes back what they have asked for.
func (r *Run) Interrupted() bool {
	if r.mode != Interrupt {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.proxies) > 0 && r.proxies[0].view.froze()
}

// Wait returns when no view is frozen any more, and the operator has had time to act on what it sees then.
func (r *Run) Wait() {
	r.t.Helper()
	if r.mode == None || r.mode == Standby && !r.dead.Load() {
		return
	}
	deadline := time.Now().Add(2 * bound)
	for time.Now().Before(deadline) {
		r.mu.Lock()
		last := r.proxies[len(r.proxies)-1]
		r.mu.Unlock()
		if last.settled(time.Now(), r.delay+time.Second) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Finish returns what the judge found, and how many requests it judged.
func (r *Run) Finish() (findings []string, judged int) { return r.judge.Findings() }

// Story says what was done to the operator's view, and how many writes it made on that.
func (r *Run) Story() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes, refused := 0, 0
	for _, proxy := range r.proxies {
		writes += len(proxy.Writes())
		refused += proxy.Refused()
	}
	story := r.story
	if story == "" {
		story = fmt.Sprintf("%s has not changed before %s", r.kind, r.point)
	}
	return fmt.Sprintf("%s; %d writes, %d of them refused", story, writes, refused)
}

// Profile is what the run has done so far.
func (r *Run) Profile() *Profile {
	r.mu.Lock()
	defer r.mu.Unlock()
	proxy := r.proxies[0]
	p := &Profile{Writes: proxy.Writes(), First: map[schema.GroupResource]int{}}
	for kind := range proxy.Asked() {
		p.Kinds = append(p.Kinds, kind)
		first, changed := r.history.first(kind.GroupResource(), r.begun)
		if !changed {
			continue
		}
		before := 0
		for _, write := range p.Writes {
			if write.At.Before(first) {
				before++
			}
		}
		p.First[kind.GroupResource()] = before
	}
	return p
}
