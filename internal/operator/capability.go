package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// capability is one of the things that Drover does, with the APIs it needs for that.
type capability struct {
	name string
	// needs are the resources without which it stays off. They are CRDs.
	needs []schema.GroupVersionResource
	// watches are the kinds whose caches must be full before it starts; those in own are let go of when it stops, unless another one watches
	// them, too.
	watches, own []client.Object
	// extended is the capability where the API server also has what that needs; nil for the same everywhere.
	extended *capability
	// blocked says why it has to stay off although all that it needs is there; nil or an empty text for nothing.
	blocked func(ctx context.Context) (string, error)
	// prepare is called before the caches start.
	prepare func(ctx context.Context) error
	// lookup reads from the API server what run needs, once this replica leads; it is retried until it succeeds. Nil for nothing.
	lookup func(ctx context.Context) error
	// run works until the context ends.
	run func(ctx context.Context) error
}

// State of a capability, as /readyz?verbose and the log report it.
const (
	stateOff      = "off"
	stateStarting = "filling caches"
	stateStandby  = "standing by"
	// stateCatchingUp is the state of a new leader until its caches show what was written before it led.
	stateCatchingUp = "catching up"
	stateRunning    = "running"
)

// unknown is why a capability is off before its APIs have been looked for.
const unknown = "not looked at yet"

const (
	// recheck is how often discovery is asked again after a CRD changed, or when an answer failed.
	recheck = time.Second
	// settlePeriod is how long the resources are checked again after the last change of a CRD: a resource is served a moment after its CRD exists.
	settlePeriod = 15 * time.Second
	// blockedInterval is how often the manager checks whether a capability is blocked. No event reports that.
	blockedInterval = time.Minute
	// fillLimit is for how long a capability that fills its caches keeps the replica from being ready. What keeps it from starting for longer, such as a
	// missing permission, concerns it alone: the others run, and the webhook needs a replica that is ready.
	fillLimit = 2 * time.Minute
)

// capabilityManager starts capabilities when their CRDs are served and stops them when they are gone. It runs on every replica, so that the caches of
// a standby replica are full when it takes over.
type capabilityManager struct {
	capabilities []capability
	cache        ctrlcache.Cache
	discovery    discovery.DiscoveryInterface
	elected      <-chan struct{}
	indexes      *indexes
	metrics      *Metrics
	// readVersions is called before the caches of some kinds are filled on a replica that leads already: catchUp may rely on what it reads until
	// outdated is called. Nil reads nothing.
	readVersions func(ctx context.Context, kinds ...client.Object)
	// catchUp returns when the caches of some kinds show what was written before this replica led; nil waits for nothing.
	catchUp func(ctx context.Context, kinds ...client.Object) error
	// outdated is called before capabilities start on a replica that leads, and when an informer is gone: catchUp must not rely on what it has compared
	// before. What the previous run of the capability has written, or another operator that it replaces, is newer. Nil is for nothing to do.
	outdated func()

	// failures are the questions by capability that the API server fails to answer. Only Start's goroutine uses them.
	failures map[string]*failures

	mu     sync.Mutex
	states map[string]status
}

type status struct {
	state, why string
	// since is when it came into the state.
	since time.Time
	// problem is why it is unknown whether the state is still the right one.
	problem string
}

// running is one capability that has been started.
type running struct {
	capability

	cancel context.CancelFunc
	done   chan struct{}
}

func newCapabilityManager(
	capabilities []capability, cache ctrlcache.Cache, indexes *indexes, discovery discovery.DiscoveryInterface, elected <-chan struct{},
	metrics *Metrics,
) *capabilityManager {
	s := &capabilityManager{
		capabilities: capabilities, cache: cache, indexes: indexes, discovery: discovery, elected: elected, metrics: metrics,
		states: map[string]status{}, failures: map[string]*failures{},
	}
	for _, c := range capabilities {
		s.states[c.name] = status{state: stateOff, why: unknown}
		metrics.observe(c.name, stateOff, stateOff)
	}
	return s
}

// NeedLeaderElection returns false: the capability manager runs on every replica.
func (s *capabilityManager) NeedLeaderElection() bool { return false }

// Start runs until the context ends or a capability fails; it returns when all have stopped.
func (s *capabilityManager) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	if err := s.watchCRDs(ctx, func() { poke(changed) }); err != nil {
		return err
	}
	group, failed := map[string]*running{}, make(chan error, len(s.capabilities))
	defer func() {
		for _, r := range group {
			r.cancel()
			<-r.done
		}
	}()
	quiet := time.Now().Add(settlePeriod)
	for {
		wait := s.settle(ctx, group, failed)
		switch {
		case time.Now().Before(quiet):
			wait = recheck
		case wait == 0 && slices.ContainsFunc(s.capabilities, func(c capability) bool { return c.blocked != nil }):
			wait = blockedInterval
		}
		var again <-chan time.Time
		if wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-changed:
			quiet = time.Now().Add(settlePeriod)
		case <-again:
		}
	}
}

func poke(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// watchCRDs calls back when any CRD is created, changed or deleted. Only their metadata is read.
func (s *capabilityManager) watchCRDs(ctx context.Context, changed func()) error {
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(crdKind)
	informer, err := s.cache.GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	return nil
}

// settle starts and stops what has to be. It returns how soon the API server has to be asked again because it failed to answer, zero when it
// did answer.
func (s *capabilityManager) settle(ctx context.Context, group map[string]*running, failed chan<- error) (again time.Duration) {
	var starting []capability
	resources := s.askOnce()
	for _, c := range s.capabilities {
		c, missing, err := choose(ctx, c, resources)
		current := group[c.name]
		if err != nil {
			if wait := s.recordFailure(ctx, c.name, err, current != nil); again == 0 || wait < again {
				again = wait
			}
			continue
		}
		s.clearFailure(ctx, c.name)
		if current != nil && (missing != "" || len(c.needs) != len(current.needs)) {
			current.cancel()
			<-current.done
			delete(group, c.name)
			s.release(ctx, current.capability, group)
			current = nil
			// That may have taken long.
			resources = s.askOnce()
		}
		switch {
		case missing == "" && current == nil:
			starting = append(starting, c)
		case missing != "":
			s.set(ctx, c.name, stateOff, missing)
		}
	}
	s.beginAll(ctx, starting, group, failed)
	return again
}

// beginAll starts capabilities. On a replica that leads, none of them may rely on what was read before it was known that it may start.
func (s *capabilityManager) beginAll(ctx context.Context, starting []capability, group map[string]*running, failed chan<- error) {
	if len(starting) > 0 && s.leads() {
		s.compareAnew()
	}
	for _, c := range starting {
		group[c.name] = s.begin(ctx, c, failed)
	}
}

// askOnce returns a function that returns the resources of a version of an API. It asks the API server once for each: several capabilities need the
// same.
func (s *capabilityManager) askOnce() resourcesFunc {
	lists, errs := map[string]*metav1.APIResourceList{}, map[string]error{}
	return func(version string) (*metav1.APIResourceList, error) {
		if _, asked := lists[version]; !asked {
			lists[version], errs[version] = s.discovery.ServerResourcesForGroupVersion(version)
		}
		return lists[version], errs[version]
	}
}

// resourcesFunc returns the resources of a version of an API, as the client of discovery does.
type resourcesFunc func(version string) (*metav1.APIResourceList, error)

// choose returns a capability, or the extended one if the server has what that needs, and the first resource that is missing.
func choose(ctx context.Context, c capability, resources resourcesFunc) (chosen capability, missing string, err error) {
	if c.extended != nil {
		if missing, err = missingOf(ctx, *c.extended, resources); err != nil || missing == "" {
			return *c.extended, missing, err
		}
	}
	missing, err = missingOf(ctx, c, resources)
	return c, missing, err
}

// missingOf names the first resource that a capability needs and the server does not have.
func missingOf(ctx context.Context, c capability, resources resourcesFunc) (string, error) {
	for _, need := range c.needs {
		list, err := resources(need.GroupVersion().String())
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		served := list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == need.Resource })
		if !served {
			return fmt.Sprintf("the API server has no %s; it starts when that CRD is installed", need.GroupResource()), nil
		}
	}
	if c.blocked != nil {
		return c.blocked(ctx)
	}
	return "", nil
}

// begin starts a capability. Its own failure ends the process, unless its CRDs went away under it.
func (s *capabilityManager) begin(ctx context.Context, c capability, failed chan<- error) *running {
	own, cancel := context.WithCancel(ctx)
	r := &running{capability: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		if err := s.operate(own, c); err != nil && own.Err() == nil {
			failed <- fmt.Errorf("capability %s: %w", c.name, err)
		}
	}()
	return r
}

func (s *capabilityManager) operate(ctx context.Context, c capability) error {
	s.set(ctx, c.name, stateStarting, "")
	if s.readVersions != nil && s.leads() {
		s.readVersions(ctx, c.watches...)
	}
	begun := time.Now()
	if err := s.fill(ctx, c); err != nil {
		return err
	}
	log.FromContext(ctx).Info("caches are full", "capability", c.name, "seconds", time.Since(begun).Seconds())
	s.set(ctx, c.name, stateStandby, "another replica leads")
	select {
	case <-ctx.Done():
		return nil
	case <-s.elected:
	}
	if err := s.lookUp(ctx, c); err != nil {
		return err
	}
	if err := s.waitForCaches(ctx, c); err != nil {
		return err
	}
	s.set(ctx, c.name, stateRunning, "")
	return c.run(ctx)
}

// waitForCaches returns when the caches of a capability show what was written before this replica led.
func (s *capabilityManager) waitForCaches(ctx context.Context, c capability) error {
	if s.catchUp == nil {
		return nil
	}
	s.set(ctx, c.name, stateCatchingUp, "its caches are compared with the API server")
	begun := time.Now()
	if err := s.catchUp(ctx, c.watches...); err != nil {
		return fmt.Errorf("comparing the caches with the API server: %w", err)
	}
	seconds := time.Since(begun).Seconds()
	s.metrics.catchUp.WithLabelValues(c.name).Set(seconds)
	log.FromContext(ctx).Info("caches have caught up", "capability", c.name, "seconds", seconds)
	return nil
}

// fill waits until the caches of a capability are full. When a CRD goes away meanwhile, settle ends the wait.
func (s *capabilityManager) fill(ctx context.Context, c capability) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	for _, kind := range c.watches {
		if _, err := s.cache.GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("filling the cache of %T: %w", kind, err)
		}
	}
	return nil
}

// release drops the caches that only this capability used: their kinds may not be served any more. If another capability reads a cache, it stays,
// with the other capability's watches and indexes on it. When that capability stops, too, it drops the cache.
func (s *capabilityManager) release(ctx context.Context, c capability, group map[string]*running) {
	for _, kind := range c.own {
		if s.inUse(kind, group) {
			continue
		}
		s.indexes.forget(kind)
		s.compareAnew()
		if err := s.cache.RemoveInformer(ctx, kind); err != nil {
			log.FromContext(ctx).Error(err, "cannot drop a cache", "kind", fmt.Sprintf("%T", kind))
		}
	}
}

func (s *capabilityManager) compareAnew() {
	if s.outdated != nil {
		s.outdated()
	}
}

// leads reports whether this replica has been elected.
func (s *capabilityManager) leads() bool {
	select {
	case <-s.elected:
		return true
	default:
		return false
	}
}

// inUse reports whether a running capability watches a kind.
func (s *capabilityManager) inUse(object client.Object, group map[string]*running) bool {
	for _, r := range group {
		if slices.ContainsFunc(r.watches, func(watched client.Object) bool { return kindOf(watched) == kindOf(object) }) {
			return true
		}
	}
	return false
}

// set notes the state of a capability and logs it once.
func (s *capabilityManager) set(ctx context.Context, name, state, why string) {
	s.mu.Lock()
	before := s.states[name]
	since := time.Now()
	if before.state == state {
		since = before.since
	}
	s.states[name] = status{state: state, why: why, since: since}
	s.metrics.observe(name, before.state, state)
	s.mu.Unlock()
	if (before.state != state || before.why != why) && state != stateStandby {
		log.FromContext(ctx).Info("capability "+state, "capability", name, "why", why)
	}
}

// isOff reports whether it is known that a capability is off, and so that the API server has not what it needs.
func (s *capabilityManager) isOff(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.states[name]
	return current.state == stateOff && current.why != unknown
}

// ready returns an error while the caches of a capability whose CRDs exist are not synced, up to fillLimit.
func (s *capabilityManager) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failures []error
	for _, c := range s.capabilities {
		if current := s.states[c.name]; current.why == unknown || current.state == stateStarting && time.Since(current.since) < fillLimit {
			failures = append(failures, fmt.Errorf("capability %s: %s", c.name, stateStarting))
		}
	}
	return errors.Join(failures...)
}

// lines describes each capability for /readyz?verbose.
func (s *capabilityManager) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, c := range s.capabilities {
		current := s.states[c.name]
		line := fmt.Sprintf("capability %s: %s", c.name, current.state)
		late := ""
		if filling := time.Since(current.since).Round(time.Second); current.state == stateStarting && filling >= fillLimit {
			late = fmt.Sprintf("warning: for %s; the log says what the API server answers", filling)
		}
		for _, note := range []string{current.why, current.problem, late} {
			if note != "" {
				line += " (" + note + ")"
			}
		}
		lines = append(lines, line)
	}
	return lines
}
