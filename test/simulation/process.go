package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/healthcheck"
	"github.com/drover-io/drover/internal/machine"
	machineplan "github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/machineset"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/provider"
)

// config says how a process works, and which bugs are injected into it.
type config struct {
	// slowReads holds every read of a cache, not only the first of a pass; versioned caches report their newest version.
	slowReads, versioned bool
	// replaceFailed is the option of the controller machineset.
	replaceFailed bool
	// lag is how many events the caches may lack when the workers of a process start, which expectations.LeaderBarrier makes none.
	lag int
	// claimsNewest has the cache report that it is up to date, also when it is not.
	claimsNewest bool
	// tamper changes the body of a patch.
	tamper func(controller string, object client.Object, body []byte) []byte
	// dropEvent keeps events of a kind from a controller.
	dropEvent func(controller string, k *kind) bool
	// groups has NodeGroups with budgets, and NodeMaintenances.
	groups bool
	// unscheduled has budgets know no windows; crowded has them count each Node twice for a percentage.
	unscheduled, crowded bool
	// unbudgeted has the controller of NodeMaintenances ask for no place; generous has users ask for a larger budget than the checks know of.
	unbudgeted, generous bool
	// forgetfulProvider has the provider create a second instance if the first one has not been recorded.
	forgetfulProvider bool
}

// process is one run of the operator, with all of its memory.
type process struct {
	*config
	world     *world
	server    *server
	gates     *gates
	cancel    context.CancelFunc
	ended     sync.WaitGroup
	informers map[*kind]*informer

	mu sync.Mutex
	// items is what each pass is about, passes what it has read.
	items  map[string]string
	passes map[string]*passRecord
}

// passRecord is what a pass of the controller machineset has read, for the checks.
type passRecord struct {
	set *setView
	// counted are the Machines that the cache showed as the set's own.
	counted map[types.UID]bool
}

// clientFor returns a client for a controller, which reads from the cache or from the server.
func (p *process) clientFor(name string, live bool) *controllerClient {
	return &controllerClient{cache: &controllerCache{process: p, controller: name}, live: live}
}

// start starts a process. Its caches show what the server has, as the operator waits for that (expectations.LeaderBarrier).
func (w *world) start() {
	if w.process != nil {
		return
	}
	p := &process{
		config: w.config, world: w, server: w.server, gates: &gates{wake: w.wake}, informers: map[*kind]*informer{},
		items: map[string]string{}, passes: map[string]*passRecord{},
	}
	for _, k := range w.kinds() {
		events, lag := len(w.server.events[k]), w.config.lag
		p.informers[k] = newInformer(w.server, k, events-w.random.IntN(min(lag, events)+1), w.config.versioned)
	}
	ctx, cancel := context.WithCancel(log.IntoContext(context.Background(), logr.New(keySink{})))
	ctx = context.WithValue(ctx, processKey{}, p)
	p.cancel = cancel
	w.process = p
	must(p.run(ctx))
	w.history.note("a process starts")
}

type processKey struct{}

// run starts the controllers as the operator does.
func (p *process) run(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	machineMetrics, err1 := machine.NewMetrics(registry)
	setMetrics, err2 := machineset.NewMetrics(registry)
	checkMetrics, err3 := healthcheck.NewMetrics(registry)
	nodeMetrics, err4 := metadata.NewMetrics(registry)
	drainMetrics, err5 := engine.NewMetrics(registry)
	actuators, err6 := machine.NewActuators(provider.Environment{}, nil, provider.Provider{
		Name: "simulation", Kinds: []schema.GroupKind{cloudKind}, New: func(provider.Environment) (provider.Actuator, error) {
			return &actuator{process: p}, nil
		},
	})
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return err
	}
	drains := p.clientFor("drain", false)
	drainer := engine.New(engine.NewCachedPods(drains.cache), drains.cache, p.clientFor("drain", true), drains, drainMetrics, engine.Settings{})
	machines, health := p.clientFor("machine", false), p.clientFor("healthcheck", true)
	written := expectations.NewOwned(machines.cache, func() client.Object { return &coordinationv1.Lease{} }, expectations.OwnedOptions{})
	leases := func(controller, holder string) *nodelease.Leases {
		return &nodelease.Leases{
			Client: p.clientFor(controller, false), Namespace: nodelease.DefaultNamespace, Holder: holder, Clock: clock.RealClock{}, Written: written,
		}
	}
	if err := errors.Join(engine.IndexPods(ctx, drains.cache), engine.Index(ctx, p), machine.Index(ctx, p), machineset.Index(ctx, p),
		healthcheck.Index(ctx, p), metadata.Index(ctx, p)); err != nil {
		return err
	}
	sets, entries := p.clientFor("machineset", false), p.clientFor("metadata", false)
	var budgets *disruption.Budgets
	var layer *grouplayer.Layer
	if p.groups {
		if budgets, layer, err1 = p.runGroups(ctx, registry, drainer, leases); err1 != nil {
			return err1
		}
	}
	p.begin(func() error { return drainer.Start(ctx) })
	p.begin(func() error {
		return machine.Run(ctx, machines.cache, &machine.Dependencies{
			Cache: machines.cache, Writer: machines, Recorder: recorder, Actuators: actuators, Engine: drainer, Lease: leases("machine", machine.Holder),
			Metrics: machineMetrics, Live: p.clientFor("machine", true),
		}, machine.Options{Workers: workers, Settings: machineplan.Settings{InstanceCheck: instanceCheck}})
	})
	p.begin(func() error {
		return machineset.Run(ctx, sets.cache, p.clientFor("machineset", true), sets, recorder, setMetrics, machineset.Options{
			Workers: 1, Parallel: 1, ReplaceFailed: p.replaceFailed, Suffix: p.world.suffix, Adopt: adopt,
		})
	})
	p.begin(func() error {
		return healthcheck.Run(ctx, health.cache, health, recorder, checkMetrics, healthcheck.Options{
			Workers: 1, Live: health, Leases: leases("healthcheck", machine.Holder), Budgets: budgets,
		})
	})
	p.begin(func() error {
		return metadata.Run(ctx, entries.cache, entries, recorder, nodeMetrics, metadata.Options{
			Workers: workers, Templates: true, Groups: layer, Protected: ownership.DefaultProtected(), Link: func() bool { return true },
		})
	})
	return nil
}

// adopt is what the operator passes to the controller machineset.
func adopt(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine) {
	plan.Adopt(set, machine, ownership.DefaultProtected(), time.Now())
}

// instanceCheck is how often the instance of a Machine that runs is looked at. What a pass has seen there and could not write waits for as long.
const instanceCheck = 4 * time.Minute

// workers is about as many as there are Machines, so that it is the scheduler that says which is worked on next.
const workers = 8

// begin starts a part of the process. A part must not return an error.
func (p *process) begin(part func() error) {
	p.ended.Go(func() {
		if err := part(); err != nil {
			must(err)
		}
	})
}

// fault records that a controller has done something that is not allowed, and returns it as an error.
func (p *process) fault(format string, args ...any) error {
	return p.world.fault(format, args...)
}

// crash ends the process at once. Of its other requests that are under way some are still carried out.
func (w *world) crash(why string) {
	p := w.process
	w.history.note("the process ends: %s", why)
	for _, c := range p.gates.close() {
		if c.mutates && w.random.IntN(2) == 0 {
			w.history.note("its last request is carried out: %s", c.name())
			_ = c.act() // the answer is lost
		}
		c.done <- errDead
	}
	p.cancel()
	p.ended.Wait()
	w.process = nil
}

// noteGet remembers which MachineSet a pass has read.
func (p *process) noteGet(pass string, object client.Object) {
	if view := viewOf(object); view != nil && pass != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		// What is decided on is what the pass has read first; it reads the set again before each request, to see whether that still stands.
		if before := p.passes[pass]; before == nil || before.set.uid != view.uid {
			p.passes[pass] = &passRecord{set: view}
		}
	}
}

// noteList remembers which Machines a pass has seen.
func (p *process) noteList(pass string, k *kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	record := p.passes[pass]
	if record == nil || k.name != "Machine" {
		return
	}
	if record.counted == nil {
		record.counted = map[types.UID]bool{}
	}
	in := p.informers[k]
	for _, key := range slices.Sorted(maps.Keys(in.all())) {
		if record.set.counts(in.all()[key]) {
			record.counted[in.all()[key].GetUID()] = true
		}
	}
}

// recorder drops events: they decide nothing.
var recorder = &record.FakeRecorder{}
