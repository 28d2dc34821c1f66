package nodegroup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/test/harness"
)

// raceLimit is how many Nodes the budget of the race allows, and raceNodes how many want to be disrupted in each round.
const raceLimit, raceNodes = 2, 6

// raceRounds is how many rounds the race has; DROVER_RACE_ROUNDS=200 is the lane in full.
func raceRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DROVER_RACE_ROUNDS")
	if text == "" {
		return 8
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("DROVER_RACE_ROUNDS is %q, want a number from 1 on", text)
	}
	return rounds
}

// replicas are two operators, of which one leads.
type replicas struct {
	*fixture
	running []*harness.Operator
}

func (r *replicas) start() {
	r.Helper()
	r.running = append(r.running, r.Operator(harness.Options{Elect: true, Args: []string{
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms",
	}}))
}

// kill ends the replica that leads, or the other one, and starts another one.
func (r *replicas) kill(which int) {
	r.Helper()
	if err := r.running[which].Kill(); err != nil {
		r.Fatal(err)
	}
	r.running = slices.Delete(r.running, which, which+1)
	r.start()
}

// cordons watches how many Nodes are cordoned at once.
type cordons struct {
	mu       sync.Mutex
	now      map[string]bool
	most     int
	versions int
}

func (f *fixture) watchCordons() *cordons {
	f.Helper()
	watcher, err := client.NewWithWatch(f.Cluster.Admin(), client.Options{Scheme: f.Client.Scheme()})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := watcher.Watch(ctx, &corev1.NodeList{}, client.MatchingLabels{labelPool: f.name})
	if err != nil {
		cancel()
		f.Fatal(err)
	}
	c, done := &cordons{now: map[string]bool{}}, sync.WaitGroup{}
	done.Go(func() { c.read(stream) })
	f.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return c
}

func (c *cordons) read(stream watch.Interface) {
	defer stream.Stop()
	for event := range stream.ResultChan() {
		node, ok := event.Object.(*corev1.Node)
		if !ok {
			continue
		}
		c.mu.Lock()
		c.versions++
		delete(c.now, node.Name)
		if node.Spec.Unschedulable && event.Type != watch.Deleted {
			c.now[node.Name] = true
		}
		c.most = max(c.most, len(c.now))
		c.mu.Unlock()
	}
}

// TestBudget_Race: NodeMaintenances of both API groups want more Nodes than the budget has places, while the leader is killed: never are more Nodes
// cordoned, and all have their turn.
func TestBudget_Race(t *testing.T) {
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks who is killed, and when
	f := newFixture(t, "race", raceNodes)
	f.create(f.newGroup("race", withBudget(raceLimit, queued)))
	seen := f.watchCordons()
	r := &replicas{fixture: f}
	r.start()
	r.start()
	for round := range raceRounds(t) {
		if !t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			g := &fixture{World: harness.NewWorld(t, env), name: f.name}
			waiting := map[string]*harness.Maintenance{}
			for i := range raceNodes {
				name := fmt.Sprintf("race-%02d", i)
				if i%2 == 0 {
					waiting[name] = g.Maintain(name, nil)
				} else {
					waiting[name] = g.MaintainKubevirt(name)
				}
			}
			if random.IntN(2) == 0 {
				time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // so that the kill comes at another point each time
				r.kill(random.IntN(2))
			}
			g.serve(waiting)
			g.eventuallyBudget("race", 0, 0)
		}) {
			break
		}
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.most > raceLimit {
		t.Errorf("%d Nodes were cordoned at once, and the budget is %d", seen.most, raceLimit)
	}
	t.Logf("%d versions of Nodes seen, at most %d cordoned at once", seen.versions, seen.most)
}

// serve ends each of some NodeMaintenances when its Node is drained, until all have been.
func (f *fixture) serve(waiting map[string]*harness.Maintenance) {
	f.Helper()
	for len(waiting) > 0 {
		var ready []string
		f.Eventually("another Node is in maintenance", func() error {
			if reserved := f.group("race").Status.Reservations; len(reserved) > raceLimit {
				f.Fatalf("the reservations are %s", harness.JSON(reserved))
			}
			for name, m := range waiting {
				if status := m.Find(); status != nil && status.Phase == medik8s.PhaseSucceeded {
					ready = append(ready, name)
				}
			}
			if len(ready) == 0 {
				return fmt.Errorf("%d wait; the group is %s", len(waiting), harness.JSON(f.group("race").Status))
			}
			return nil
		})
		for _, name := range ready {
			waiting[name].End()
			delete(waiting, name)
		}
	}
}
