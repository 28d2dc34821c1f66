package nodegroup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/test/harness"
)

const (
	raceRounds = 200
	raceGroup  = "race"
)

var capabilities = []v1alpha1.Capability{
	v1alpha1.CapabilityMaintenance, v1alpha1.CapabilityRemediation, v1alpha1.CapabilityUpgrade, v1alpha1.CapabilityMetadata,
	v1alpha1.CapabilityReplacement,
}

// replica is what one process has: a client, a cache of its own, and Budgets.
type replica struct {
	name    string
	budgets *disruption.Budgets
}

// budgetRace has a group of Nodes, one for each capability of each replica, and sees every version of the group.
type budgetRace struct {
	*testing.T

	admin    client.WithWatch
	nodes    []*corev1.Node
	replicas []*replica
	// limit is the budget of the round.
	limit atomic.Int64
	// most is the largest number of reservations in any version, exceeded those beyond the budget.
	versions, most atomic.Int64
	exceeded       chan string
}

func newBudgetRace(t *testing.T) *budgetRace {
	t.Helper()
	admin, err := client.NewWithWatch(env.Admin(), client.Options{Scheme: raceScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	f := &budgetRace{T: t, admin: admin, exceeded: make(chan string, 100)}
	for i := range 2 * len(capabilities) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("race-%d", i)}}
		if err := admin.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := admin.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, node)
	}
	object := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: raceGroup}}
	object.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"race": "yes"}}
	object.Spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	f.limit.Store(1)
	f.watch()
	return f
}

// watch checks every version of the group.
func (f *budgetRace) watch() {
	f.Helper()
	watcher, err := f.admin.Watch(f.Context(), &v1alpha1.NodeGroupList{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(*v1alpha1.NodeGroup)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			f.versions.Add(1)
			admitted := len(object.Status.Admissions)
			f.most.Store(max(f.most.Load(), int64(admitted)))
			if limit := object.Spec.Disruption.MaxUnavailable.IntValue(); admitted > limit {
				f.exceeded <- fmt.Sprintf("%d admissions, where %d are allowed: %+v", admitted, limit, object.Status.Admissions)
			}
		}
	}()
}

// GroupOf implements disruption.Membership.
func (f *budgetRace) GroupOf(context.Context, string) (string, error) { return raceGroup, nil }

// Members implements disruption.Membership.
func (f *budgetRace) Members(context.Context, string) ([]*corev1.Node, error) { return f.nodes, nil }

// Machines implements disruption.Membership.
func (f *budgetRace) Machines(context.Context, string, time.Time) (machines plan.Machines, err error) {
	return machines, nil
}

// start starts a replica. Its cache may be up to lag behind.
func (f *budgetRace) start(name string, lag time.Duration) *replica {
	f.Helper()
	scheme := raceScheme(f.T)
	cache, err := ctrlcache.New(env.Admin(), ctrlcache.Options{Scheme: scheme, DefaultUnsafeDisableDeepCopy: new(true)})
	if err != nil {
		f.Fatal(err)
	}
	go func() { _ = cache.Start(f.Context()) }()
	for _, kind := range []client.Object{&v1alpha1.NodeGroup{}, &coordinationv1.Lease{}} {
		if _, err := cache.GetInformer(f.Context(), kind, ctrlcache.BlockUntilSynced(true)); err != nil {
			f.Fatal(err)
		}
	}
	if !cache.WaitForCacheSync(f.Context()) {
		f.Fatal("the cache does not start")
	}
	writer, err := client.New(env.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		f.Fatal(err)
	}
	reader := &lagging{Reader: cache, lag: lag}
	r := &replica{name: name, budgets: disruption.New(disruption.Options{
		Reader: reader, Writer: writer, Membership: f,
		Written: expectations.NewOwned(reader, func() client.Object { return &v1alpha1.NodeGroup{} }, expectations.OwnedOptions{
			Live: expectations.NewLive(writer, scheme),
		}),
	})}
	f.replicas = append(f.replicas, r)
	return r
}

// lagging is a cache that shows an object again for a while after it has changed.
type lagging struct {
	client.Reader

	lag   time.Duration
	mu    sync.Mutex
	until time.Time
	shown v1alpha1.NodeGroup
}

// Get implements client.Reader.
func (l *lagging) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	group, ok := into.(*v1alpha1.NodeGroup)
	if !ok || l.lag == 0 {
		return l.Reader.Get(ctx, key, into, options...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.After(l.until) {
		l.shown, l.until = v1alpha1.NodeGroup{}, now.Add(rand.N(l.lag))
		if err := l.Reader.Get(ctx, key, &l.shown, options...); err != nil {
			l.until = time.Time{}
			return err
		}
	}
	*group = l.shown
	return nil
}

// winner is a request that was admitted.
type winner struct {
	replica *replica
	request *disruption.Request
}

// setLimit changes the budget as a user does.
func (f *budgetRace) setLimit(limit int) {
	f.Helper()
	object := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: raceGroup}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"disruption":{"maxUnavailable":%d}}}`, limit))
	if err := f.admin.Patch(f.Context(), object, patch); err != nil {
		f.Fatal(err)
	}
	f.limit.Store(int64(limit))
}

// race has each capability of each replica ask for a place on a Node of its own, until all places are taken and then twice more.
func (f *budgetRace) race() []winner {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), harness.Patience)
	defer cancel()
	var mu sync.Mutex
	var winners []winner
	var racing sync.WaitGroup
	for i, node := range f.nodes {
		r, capability := f.replicas[i%2], capabilities[i/2]
		request := &disruption.Request{Request: plan.Request{
			Node: node.Name, UID: node.UID, Capability: capability, Object: fmt.Sprintf("%s/%s", r.name, node.Name),
		}}
		racing.Go(func() {
			time.Sleep(rand.N(3 * time.Millisecond)) // so that another one is first each time
			for late := 0; late < 2 && ctx.Err() == nil; {
				mu.Lock()
				if len(winners) >= int(f.limit.Load()) {
					late++
				}
				mu.Unlock()
				permit, _, err := r.budgets.Begin(ctx, request)
				permit.Done()
				switch {
				case err != nil && !apierrors.IsConflict(err):
					f.Errorf("%s: %v", request.Object, err)
					return
				case err == nil && permit.Allowed:
					mu.Lock()
					defer mu.Unlock()
					winners = append(winners, winner{r, request})
					return
				}
				time.Sleep(rand.N(5 * time.Millisecond))
			}
			if err := r.budgets.End(ctx, request); err != nil && !apierrors.IsConflict(err) {
				f.Errorf("%s: %v", request.Object, err)
			}
		})
	}
	racing.Wait()
	return winners
}

// check compares who has won with the status of the group.
func (f *budgetRace) check(round int, winners []winner) {
	f.Helper()
	object := &v1alpha1.NodeGroup{}
	if err := f.admin.Get(f.Context(), client.ObjectKey{Name: raceGroup}, object); err != nil {
		f.Fatal(err)
	}
	var won, recorded []string
	for _, w := range winners {
		won = append(won, w.request.Object)
	}
	for _, r := range object.Status.Admissions {
		recorded = append(recorded, r.Object)
	}
	slices.Sort(won)
	slices.Sort(recorded)
	if !slices.Equal(won, recorded) || len(won) != int(f.limit.Load()) {
		f.Fatalf("round %d: %d places; won by %s, recorded for %s", round, f.limit.Load(), strings.Join(won, ", "), strings.Join(recorded, ", "))
	}
}

// release ends the round: the admissions of a minute ago do not count.
func (f *budgetRace) release() {
	f.Helper()
	object := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: raceGroup}}
	if err := f.admin.Status().Patch(f.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"status":{"admissions":null}}`))); err != nil {
		f.Fatal(err)
	}
}

// TestRace_LastPlaceOfBudget: two replicas with five capabilities each race for the last places of a budget. No version of the NodeGroup ever has
// more admissions than the budget allows, and each round ends with all places taken.
func TestRace_LastPlaceOfBudget(t *testing.T) {
	harness.TestAllOnly(t, "400 rounds of a race; the simulation checks every budget")
	for name, lag := range map[string]time.Duration{"caches follow": 0, "one cache lags": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			f := newBudgetRace(t)
			f.start("a", 0)
			f.start("b", lag)
			wins := map[string]int{}
			for round := range raceRounds {
				f.setLimit(1 + round%3)
				winners := f.race()
				f.check(round, winners)
				for _, w := range winners {
					wins[w.replica.name+" "+string(w.request.Capability)]++
				}
				f.release()
			}
			select {
			case exceeded := <-f.exceeded:
				t.Error(exceeded)
			default:
			}
			if f.most.Load() != 3 {
				t.Errorf("no version had all places taken; the most were %d", f.most.Load())
			}
			t.Logf("%d versions, at most %d admissions in one; won: %v", f.versions.Load(), f.most.Load(), wins)
			f.clean()
		})
	}
}

// clean removes what the next test creates again.
func (f *budgetRace) clean() {
	f.Helper()
	objects := []client.Object{&v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: raceGroup}}}
	for _, node := range f.nodes {
		objects = append(objects, node)
	}
	for _, object := range objects {
		if err := f.admin.Delete(f.Context(), object); err != nil {
			f.Fatal(err)
		}
	}
}

func raceScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
