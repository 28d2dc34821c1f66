package healthcheck

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
)

// deadline is how long a replacement counts as in flight.
const deadline = 30 * time.Minute

// limitedRun is a MachineSet with two MachineHealthChecks. Everything happens to it at random. The test plays every other controller, and keeps its
// own account of the remediations in flight.
type limitedRun struct {
	randomRun
	// reached is how many of the replicas the MachineSet has reached: what is missing beyond that is growth.
	replicas, reached int
	// open are the remediations in flight, by their replacement's name: empty while it has not been created.
	open []string
	seq  int
}

// live are the Machines that are not being deleted.
func (c *limitedRun) live() []machinev1beta1.Machine {
	return slices.DeleteFunc(c.machines(), func(m machinev1beta1.Machine) bool { return m.DeletionTimestamp != nil })
}

// end removes one remediation with this replacement, and reports whether there was one.
func (c *limitedRun) end(replacement string) bool {
	i := slices.Index(c.open, replacement)
	if i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
	}
	return i >= 0
}

// deleted accounts for a Machine that is gone or going: of one in flight, the replacement is missing again.
func (c *limitedRun) deleted(name string, remediated bool) {
	if c.end(name) || remediated {
		c.open = append(c.open, "")
	}
}

// account ends what no replacement will be created for, and what has taken too long.
func (c *limitedRun) account() {
	live := c.live()
	for _, m := range live {
		if c.clock.Now().Sub(m.CreationTimestamp.Time) >= deadline {
			c.end(m.Name)
		}
	}
	for slices.Contains(c.open, "") && c.missing() > c.replicas-len(live) {
		c.end("")
	}
}

func (c *limitedRun) missing() (count int) {
	for _, replacement := range c.open {
		if replacement == "" {
			count++
		}
	}
	return count
}

func (c *limitedRun) step() string {
	defer c.answering()()
	if live := c.live(); len(live) > 0 {
		if done := c.stepMachine(&live[c.IntN(len(live))]); done != "" {
			return done
		}
	}
	switch c.IntN(8) {
	case 0:
		c.advance(time.Duration(c.IntN(400)) * time.Second)
		return "time passes"
	case 1:
		// A new leader starts with a cache that shows everything.
		c.resumeCache()
		c.restart()
		return "restart"
	case 2:
		c.pauseCache()
		return "the cache pauses"
	case 3:
		c.resumeCache()
		return "the cache resumes"
	case 4:
		what := []string{"delete Machine", "status MachineHealthCheck", "get Node"}[c.IntN(3)]
		c.Fail = map[string]error{what: errors.New("no answer")}
		return "no answer to " + what
	case 5:
		c.Fail = map[string]error{}
		return "answers again"
	case 6:
		return c.scale(c.replicas + c.IntN(3) - 1)
	}
	return c.reconcileSet()
}

// stepMachine changes one Machine; it returns an empty text when it does not.
func (c *limitedRun) stepMachine(machine *machinev1beta1.Machine) string {
	node, name := machineapi.NodeName(machine), machine.Name
	switch c.IntN(12) {
	case 0, 1:
		if node != "" {
			return ""
		}
		c.create(newUnreadyNode("n-"+name, c.clock.Now().Sub(start)*-1))
		edit(c.fixture, machine, func(m *machinev1beta1.Machine) {
			m.Status.NodeRef, m.Status.Phase = &corev1.ObjectReference{Kind: "Node", Name: "n-" + name}, new(machinev1beta1.PhaseRunning)
		})
		return "the Node of " + name + " registers"
	case 2, 3, 4:
		if node == "" {
			return ""
		}
		c.end(name)
		return c.node(machine, corev1.ConditionTrue)
	case 5, 6, 7:
		if node == "" {
			return ""
		}
		return c.node(machine, corev1.ConditionFalse)
	case 8:
		if c.IntN(3) > 0 {
			return ""
		}
		if err := c.fixture.client.Delete(c.t.Context(), machine); err != nil {
			c.t.Fatal(err)
		}
		c.deleted(name, false)
		return "a user deletes " + name
	}
	return ""
}

func (c *limitedRun) scale(replicas int) string {
	c.replicas = min(max(replicas, 4), 8)
	c.reach(c.reached)
	return fmt.Sprintf("replicas are %d", c.replicas)
}

// reach has the MachineSet report how many replicas it has reached.
func (c *limitedRun) reach(replicas int) {
	c.reached = replicas
	edit(c.fixture, newSet(0), func(set *machinev1beta1.MachineSet) {
		set.Spec.Replicas, set.Status.Replicas = new(bounded.Int32(c.replicas)), bounded.Int32(c.reached)
	})
}

// reconcileSet removes a Machine that is being deleted, creates a missing Machine, or deletes a surplus Machine.
func (c *limitedRun) reconcileSet() string {
	c.reach(max(min(c.reached, c.replicas), len(c.live())))
	for _, m := range c.machines() {
		if m.DeletionTimestamp != nil && c.IntN(2) == 0 {
			edit(c.fixture, &m, func(m *machinev1beta1.Machine) { m.Finalizers = nil })
			return m.Name + " is gone"
		}
	}
	live := c.live()
	switch {
	case len(live) < c.replicas:
		c.seq++
		name := fmt.Sprintf("r%d", c.seq)
		isGrowth := len(live) >= c.reached
		c.create(newMachine(name, "", c.starting, func(m *machinev1beta1.Machine) {
			m.Labels["pool"] = []string{"a", "b"}[c.IntN(2)]
			if isGrowth {
				m.Annotations[machineapi.CreatedForAnnotation] = string(machineapi.CreatedForGrowth)
			}
		}))
		if isGrowth {
			c.reach(len(live) + 1)
		} else if c.end("") {
			c.open = append(c.open, name)
		}
		return name + " is created"
	case len(live) > c.replicas:
		victim := &live[c.IntN(len(live))]
		if err := c.fixture.client.Delete(c.t.Context(), victim); err != nil {
			c.t.Fatal(err)
		}
		c.deleted(victim.Name, false)
		return victim.Name + " is too many"
	}
	return "nothing"
}

// check reconciles a MachineHealthCheck, and checks that no more are in flight than may be when it has started one.
func (c *limitedRun) check(name string, limit int) {
	c.account()
	before := map[types.UID]bool{}
	for _, m := range c.live() {
		before[m.UID] = true
	}
	_, _, _ = c.reconcile(name)
	after := map[types.UID]bool{}
	for _, m := range c.live() {
		after[m.UID] = true
	}
	deleted := false
	for uid := range before {
		if !after[uid] {
			deleted = true
			c.deleted(strings.TrimPrefix(string(uid), "uid-of-"), true)
		}
	}
	c.account()
	if deleted && len(c.open) > limit {
		c.t.Errorf("MachineHealthCheck %s has started a remediation, and %d are in flight (%q); at most %d may be", name, len(c.open), c.open, limit)
	}
}

func TestReconcile_RandomMaxInFlight(t *testing.T) {
	for _, seed := range seeds(t, 8) {
		t.Run(fmt.Sprintf("DROVER_TEST_SEED=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			limit := 1 + random.IntN(3)
			selectsB := func(m *machinev1beta1.MachineHealthCheck) {
				m.Spec.Selector.MatchLabels = map[string]string{"pool": "b"}
			}
			objects := append(newObjects("wwwwww", maxInFlight(fmt.Sprint(limit))), newSet(6), newCheck("d", selectsB, maxInFlight(fmt.Sprint(limit))))
			for i, object := range objects {
				if machine, ok := object.(*machinev1beta1.Machine); ok && i%4 == 1 {
					machine.Labels = map[string]string{"pool": "b"}
				}
			}
			c := &limitedRun{randomRun: randomRun{fixture: newFixture(t, Options{MaxUnseenStarts: 3}, objects...), Rand: random}, replicas: 6, reached: 6}
			var story []string
			for range 100 {
				story = append(story, c.step())
				c.check("c", limit)
				c.check("d", limit)
				if t.Failed() {
					t.Fatalf("%s", strings.Join(story, "; "))
				}
				c.emitted()
			}
			c.settleLimited(story)
		})
	}
}

// settleLimited ends all faults, lets every replacement become Ready, and checks that every unhealthy Machine has been replaced then.
func (c *limitedRun) settleLimited(story []string) {
	c.Fail = map[string]error{}
	c.resumeCache()
	c.scale(6)
	unhealthy := func(m machinev1beta1.Machine) bool {
		node := &corev1.Node{}
		err := c.fixture.client.Get(c.t.Context(), client.ObjectKey{Name: machineapi.NodeName(&m)}, node)
		return err != nil || node.Status.Conditions[0].Status != corev1.ConditionTrue
	}
	for range 100 {
		for range 20 {
			c.reconcileSet()
		}
		for _, m := range c.live() {
			if machineapi.NodeName(&m) == "" && c.clock.Now().Sub(m.CreationTimestamp.Time) < 10*time.Minute {
				c.create(newNode("n-" + m.Name))
				edit(c.fixture, &m, func(m *machinev1beta1.Machine) {
					m.Status.NodeRef, m.Status.Phase = &corev1.ObjectReference{Kind: "Node", Name: "n-" + m.Name}, new(machinev1beta1.PhaseRunning)
				})
			}
		}
		if len(c.live()) == 6 && !slices.ContainsFunc(c.live(), unhealthy) {
			return
		}
		c.advance(6 * time.Minute)
		for _, name := range []string{"c", "d"} {
			if _, _, err := c.reconcile(name); err != nil {
				c.t.Fatal(err)
			}
		}
		c.emitted()
	}
	c.t.Errorf("unhealthy Machines are not replaced: %s", strings.Join(story, "; "))
}
