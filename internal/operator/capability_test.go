package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
)

// server stands in for the API server's discovery: which resources it serves, or that it does not answer.
type server struct {
	discovery.DiscoveryInterface
	mu     sync.Mutex
	served []string
	err    error
	asked  int
}

func (s *server) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	switch {
	case s.err != nil:
		return nil, s.err
	case s.served == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range s.served {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func (s *server) serve(err error, resources ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served, s.err = resources, err
}

func (s *server) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// informers is a cache that notes which kinds are dropped.
type informers struct {
	informertest.FakeInformers
	crds *controllertest.FakeInformer

	mu      sync.Mutex
	missing error
	// full, when set, is closed once the caches are full. Until then GetInformer waits, like GetInformer of a real cache.
	full    chan struct{}
	dropped []string
}

func (c *informers) GetInformer(ctx context.Context, object client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	if _, ok := object.(*metav1.PartialObjectMetadata); ok {
		return c.crds, nil
	}
	if c.full != nil {
		select {
		case <-c.full:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return controllertest.NewFakeInformer(controllertest.Synced), c.missing
}

func (c *informers) RemoveInformer(_ context.Context, object client.Object) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = append(c.dropped, typeName(object))
	return c.missing
}

func (c *informers) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = err
}

func typeName(object client.Object) string {
	switch object.(type) {
	case *machinev1beta1.MachineSet:
		return "MachineSet"
	case *machinev1beta1.Machine:
		return "Machine"
	}
	return "?"
}

// plant is a capability manager in operation with one capability.
type plant struct {
	*capabilityManager
	server  *server
	cache   *informers
	elect   func()
	fails   chan error
	stopped chan error
	mu      sync.Mutex
	log     []string
}

func (p *plant) note(word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, word)
}

// history is what the capability was asked to do so far.
func (p *plant) history() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, " ")
}

func newPlant() *plant {
	p := &plant{
		server: &server{}, cache: &informers{crds: controllertest.NewFakeInformer(controllertest.Synced)},
		fails: make(chan error), stopped: make(chan error, 1),
	}
	elected := make(chan struct{})
	p.elect = func() { close(elected) }
	work := capability{
		name: "metadata",
		needs: []schema.GroupVersionResource{
			machinev1beta1.GroupVersion.WithResource("machinesets"), machinev1beta1.GroupVersion.WithResource("machines"),
		},
		watches: []client.Object{&machinev1beta1.MachineSet{}},
		own:     []client.Object{&machinev1beta1.MachineSet{}, &machinev1beta1.Machine{}},
		prepare: func(context.Context) error { p.note("prepare"); return nil },
		run: func(ctx context.Context) error {
			p.note("run")
			defer p.note("stop")
			select {
			case <-ctx.Done():
				return nil
			case err := <-p.fails:
				return err
			}
		},
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		panic(err)
	}
	p.capabilityManager = newCapabilityManager([]capability{work}, p.cache, newIndexes(p.cache), p.server, elected, metrics)
	return p
}

// operate runs a test beside a capability manager, in a bubble whose clock goes on as soon as all goroutines wait.
func operate(t *testing.T, test func(t *testing.T, p *plant)) {
	synctest.Test(t, func(t *testing.T) { newPlant().operate(t, test) })
}

// operateFilling is operate with caches that are filled when the test closes cache.full.
func operateFilling(t *testing.T, test func(t *testing.T, p *plant)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant()
		p.cache.full = make(chan struct{})
		p.operate(t, func(t *testing.T, p *plant) {
			p.elect()
			p.server.serve(nil, "machinesets", "machines")
			p.expect(t, "capability metadata: filling caches", false)
			test(t, p)
		})
	})
}

func (p *plant) operate(t *testing.T, test func(t *testing.T, p *plant)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { p.stopped <- p.Start(ctx) }()
	test(t, p)
	cancel()
	synctest.Wait()
	if p.NeedLeaderElection() {
		t.Error("the capability manager runs on every replica")
	}
}

// expect lets two rechecks pass and compares the line of /readyz?verbose.
func (p *plant) expect(t *testing.T, line string, ready bool) {
	t.Helper()
	time.Sleep(2 * recheck)
	synctest.Wait()
	if got := p.lines(); !slices.Equal(got, []string{line}) {
		t.Errorf("got  %q\nwant %q", got, line)
	}
	if err := p.ready(); (err == nil) != ready {
		t.Errorf("ready: %v", err)
	}
}

const (
	noSets     = "capability metadata: off (the API server has no machinesets.machine.openshift.io; it starts when that CRD is installed)"
	noMachines = "capability metadata: off (the API server has no machines.machine.openshift.io; it starts when that CRD is installed)"
	runs       = "capability metadata: running"
)

func TestCapabilityComesAndGoesWithItsCRDs(t *testing.T) {
	operate(t, func(t *testing.T, p *plant) {
		p.elect()
		p.expect(t, noSets, true)
		p.server.serve(nil, "machinesets")
		p.expect(t, noMachines, true)
		p.server.serve(nil, "machinesets", "machines")
		p.expect(t, runs, true)
		p.server.serve(nil, "machinesets")
		p.expect(t, noMachines, true)
		if got, want := p.history(), "prepare run stop"; got != want {
			t.Errorf("history %s", got)
		}
		if !slices.Equal(p.cache.dropped, []string{"MachineSet", "Machine"}) {
			t.Errorf("dropped %v", p.cache.dropped)
		}
		p.server.serve(nil, "machines", "machinesets")
		p.expect(t, runs, true)
		if got, want := p.history(), "prepare run stop prepare run"; got != want {
			t.Errorf("history %s", got)
		}
	})
}

// An API server that does not answer says nothing about its CRDs.
func TestFailingDiscoveryKeepsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant()
		p.server.serve(errors.New("no route"))
		p.operate(t, func(t *testing.T, p *plant) {
			p.elect()
			p.expect(t, "capability metadata: off (not looked at yet) (no route; trying again)", false)
			p.server.serve(nil, "machinesets", "machines")
			p.expect(t, runs, true)
			p.server.serve(errors.New("no route"))
			p.expect(t, runs+" (no route; trying again)", true)
			p.server.serve(nil)
			p.expect(t, noSets, true)
		})
	})
}

func TestCapabilityStandsByUntilElected(t *testing.T) {
	operate(t, func(t *testing.T, p *plant) {
		p.server.serve(nil, "machinesets", "machines")
		p.expect(t, "capability metadata: standing by (another replica leads)", true)
		p.server.serve(nil)
		p.expect(t, noSets, true)
		p.server.serve(nil, "machinesets", "machines")
		p.elect()
		p.expect(t, runs, true)
		if got, want := p.history(), "prepare prepare run"; got != want {
			t.Errorf("history %s", got)
		}
	})
}

// A CRD may go away again while its cache is filled; that must not end the process.
func TestCachesAreFilledBeforeItStarts(t *testing.T) {
	operateFilling(t, func(t *testing.T, p *plant) {
		p.server.serve(nil, "machines")
		p.expect(t, noSets, true)
		p.server.serve(nil, "machinesets", "machines")
		p.expect(t, "capability metadata: filling caches", false)
		close(p.cache.full)
		p.expect(t, runs, true)
		if got, want := p.history(), "prepare prepare run"; got != want {
			t.Errorf("history %s", got)
		}
	})
}

// TestReady_OneCapabilityDoesNotStart: a capability whose caches do not fill keeps the replica from being ready for a while, and the others,
// which need the webhook, not for ever.
func TestReady_OneCapabilityDoesNotStart(t *testing.T) {
	operateFilling(t, func(t *testing.T, p *plant) {
		time.Sleep(fillLimit - 3*recheck)
		if err := p.ready(); err == nil {
			t.Error("ready too early")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if line := p.lines()[0]; p.ready() != nil || !strings.Contains(line, "filling caches (warning: for 2m") {
			t.Errorf("%v, %q", p.ready(), line)
		}
		close(p.cache.full)
		p.expect(t, runs, true)
	})
}

func TestFailureOfACapabilityEndsTheProcess(t *testing.T) {
	operate(t, func(t *testing.T, p *plant) {
		p.elect()
		p.server.serve(nil, "machinesets", "machines")
		p.expect(t, runs, true)
		p.fails <- errors.New("broken")
		p.ended(t, "capability metadata: broken")
	})
	operate(t, func(t *testing.T, p *plant) {
		p.cache.fail(errors.New("broken"))
		p.server.serve(nil, "machinesets", "machines")
		p.ended(t, "capability metadata: filling the cache of *v1beta1.MachineSet: broken")
	})
}

// ended waits for the end of the capability manager with an error.
func (p *plant) ended(t *testing.T, want string) {
	t.Helper()
	if err := <-p.stopped; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestAskOnce: an answer, be it an error, is kept for one round of questions, and each version of an API has its own.
func TestAskOnce(t *testing.T) {
	s := &server{served: []string{"machines"}}
	m := &capabilityManager{discovery: s}
	resources := m.askOnce()
	for range 3 {
		if list, err := resources("a/v1"); err != nil || list.GroupVersion != "a/v1" || len(list.APIResources) != 1 {
			t.Fatalf("a/v1 has %v: %v", list, err)
		}
	}
	failure := errors.New("no answer")
	s.serve(failure)
	for range 3 {
		if _, err := resources("b/v1"); !errors.Is(err, failure) {
			t.Fatalf("b/v1: %v", err)
		}
	}
	if s.questions() != 2 {
		t.Errorf("asked %d times for two versions", s.questions())
	}
	if _, err := m.askOnce()("a/v1"); !errors.Is(err, failure) {
		t.Errorf("the next round has the old answer: %v", err)
	}
}

// At rest nothing is asked: only a change of a CRD, or a failed answer, makes it look again.
func TestDiscoveryIsAskedWhenSomethingChanged(t *testing.T) {
	operate(t, func(t *testing.T, p *plant) {
		p.expect(t, noSets, true)
		time.Sleep(2 * settlePeriod)
		before := p.server.questions()
		time.Sleep(time.Hour)
		if now := p.server.questions(); now != before {
			t.Errorf("asked %d times in an hour at rest", now-before)
		}
		p.server.serve(nil, "machinesets", "machines")
		crd := &metav1.PartialObjectMetadata{}
		p.cache.crds.Add(crd)
		p.expect(t, "capability metadata: standing by (another replica leads)", true)
		p.server.serve(nil)
		time.Sleep(2 * settlePeriod)
		p.cache.crds.Delete(crd)
		p.expect(t, noSets, true)
		time.Sleep(2 * settlePeriod)
		p.server.serve(nil, "machinesets", "machines")
		p.cache.crds.Update(crd, crd)
		p.expect(t, "capability metadata: standing by (another replica leads)", true)
	})
}

// TestVersionsAreReadBeforeTheCachesFill: a replica that leads already reads which versions its caches have to reach before they fill, and after
// what was read earlier has been dropped, once for all capabilities that start together.
func TestVersionsAreReadBeforeTheCachesFill(t *testing.T) {
	for name, c := range map[string]struct {
		leads bool
		want  string
	}{
		"it leads":                    {true, "outdated versions versions prepare prepare catchUp catchUp run run"},
		"it is elected a while after": {false, "prepare prepare catchUp catchUp run run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlant()
				another := p.capabilities[0]
				another.name = "another"
				p.capabilities = append(p.capabilities, another)
				// A second passes between the steps, so that each step happens for both capabilities before the next one.
				step := func(word string) { p.note(word); time.Sleep(time.Second) }
				prepare := func(context.Context) error { step("prepare"); return nil }
				p.capabilities[0].prepare, p.capabilities[1].prepare = prepare, prepare
				p.outdated = func() { p.note("outdated") }
				p.readVersions = func(_ context.Context, kinds ...client.Object) {
					if len(kinds) != 1 || typeName(kinds[0]) != "MachineSet" {
						t.Errorf("read the versions of %v", kinds)
					}
					step("versions")
				}
				p.catchUp = func(context.Context, ...client.Object) error { step("catchUp"); return nil }
				p.server.serve(nil, "machinesets", "machines")
				if c.leads {
					p.elect()
				}
				p.operate(t, func(t *testing.T, p *plant) {
					time.Sleep(5 * time.Second)
					if !c.leads {
						p.elect()
					}
					time.Sleep(5 * time.Second)
					synctest.Wait()
					if got := p.history(); got != c.want {
						t.Errorf("history %s\nwant    %s", got, c.want)
					}
				})
			})
		})
	}
}
