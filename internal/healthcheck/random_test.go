package healthcheck

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/nodelease"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// randomRun is a fixture under random events: Nodes fail and recover, Machines are created and deleted, the cache lags, the API server does not
// answer, the process restarts.
type randomRun struct {
	*fixture
	*rand.Rand
	seq int
}

// answering makes the API server answer while the test itself makes requests.
func (c *randomRun) answering() func() {
	fail := c.Fail
	c.Fail = nil
	return func() {
		if c.Fail == nil {
			c.Fail = fail
		}
	}
}

// step changes one thing, and returns what.
func (c *randomRun) step() string {
	defer c.answering()()
	machines := c.machines()
	pick := func() *machinev1beta1.Machine { return &machines[c.IntN(len(machines))] }
	switch c.IntN(10) {
	case 0:
		c.cache.Reader = c.fixture.client
		return "the cache resumes"
	case 1:
		c.pauseCache()
		return "the cache pauses"
	case 2:
		c.advance(time.Duration(c.IntN(400)) * time.Second)
		return "time passes"
	case 3:
		c.restart()
		return "restart"
	case 4:
		what := []string{"delete Machine", "create Lease", "status MachineHealthCheck", "get Node"}[c.IntN(4)]
		c.Fail = map[string]error{what: errors.New("no answer")}
		return "no answer to " + what
	case 5:
		c.Fail = map[string]error{}
		return "answers again"
	case 6, 7:
		return c.node(pick(), []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}[c.IntN(3)])
	case 8:
		return c.finish(pick())
	}
	edit(c.fixture, pick(), func(m *machinev1beta1.Machine) {
		m.Annotations = []map[string]string{nil, {plan.SkipAnnotation: ""}, nil}[c.IntN(3)]
	})
	return "an annotation"
}

func (c *randomRun) machines() []machinev1beta1.Machine {
	list := &machinev1beta1.MachineList{}
	if err := c.fixture.client.List(c.t.Context(), list); err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

func (c *randomRun) node(machine *machinev1beta1.Machine, status corev1.ConditionStatus) string {
	edit(c.fixture, newNode(machineapi.NodeName(machine)), func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(c.clock.Now())
	})
	return machineapi.NodeName(machine) + " is " + string(status)
}

// finish completes the deletion of a Machine, and creates another in its place.
func (c *randomRun) finish(machine *machinev1beta1.Machine) string {
	if machine.DeletionTimestamp == nil {
		return "nothing"
	}
	c.seq++
	name := fmt.Sprintf("r%d", c.seq)
	c.replaceMachine(machine.Name, newMachine(name, "n-"+name, func(m *machinev1beta1.Machine) {
		m.CreationTimestamp = metav1.NewTime(c.clock.Now().Truncate(time.Second))
	}))
	if err := c.fixture.client.Create(c.t.Context(), newNode("n-"+name)); err != nil {
		c.t.Fatal(err)
	}
	return name + " instead of " + machine.Name
}

// check reconciles and checks the deletions: not more than may be in flight, no Machine that is healthy, skipped or being deleted, and none while
// remediation is not allowed.
func (c *randomRun) check(inFlight int) {
	in := c.observed(c.cache)
	d := plan.Decide(in)
	before := max(c.metric("drover_healthcheck_remediations_total", "deletion", "ok"), 0)
	_, writes, _ := c.reconcile("c")
	for write := range strings.SplitSeq(writes, ", ") {
		name, ok := strings.CutPrefix(write, "delete Machine/")
		if !ok {
			continue
		}
		i := slices.IndexFunc(in.Targets, func(t plan.Target) bool { return t.Machine.Name == name })
		skipped := metav1.HasAnnotation(in.Targets[i].Machine.ObjectMeta, plan.SkipAnnotation)
		if health := d.Assessments[i].Health; !d.Allowed || !health.NeedsRemediation() || skipped {
			c.t.Errorf("%s is deleted, and is %s (%d of %d unhealthy)", name, health, d.Unhealthy, d.Expected)
		}
	}
	if deleted := c.metric("drover_healthcheck_remediations_total", "deletion", "ok") - before; deleted > float64(inFlight) {
		c.t.Errorf("%v deletions in one reconciliation", deleted)
	}
}

// observed returns the input of a decision, as a reader shows it.
func (c *randomRun) observed(from client.Reader) *plan.Input {
	defer c.answering()()
	in := &plan.Input{Check: newCheck("c", limit("60%")), Now: c.clock.Now()}
	list := &machinev1beta1.MachineList{}
	if err := from.List(c.t.Context(), list); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		t := plan.Target{Machine: &list.Items[i], Node: &corev1.Node{}}
		if err := from.Get(c.t.Context(), types.NamespacedName{Name: machineapi.NodeName(t.Machine)}, t.Node); err != nil {
			t.Node = nil
		}
		in.Targets = append(in.Targets, t)
	}
	return in
}

// settle ends all faults, and checks that the status is right then, and that nothing is written any more.
func (c *randomRun) settle() {
	c.Fail = map[string]error{}
	c.resumeCache()
	for range 100 {
		for _, machine := range c.machines() {
			if machine.DeletionTimestamp != nil {
				c.finish(&machine)
			}
		}
		c.advance(time.Hour)
		if _, writes, err := c.reconcile("c"); err != nil {
			c.t.Fatal(err)
		} else if writes == "" {
			break
		}
	}
	c.mustReconcile("c", "")
	d := plan.Decide(c.observed(c.fixture.client))
	c.expectStatus("c", fmt.Sprint(d.Expected, d.Healthy, d.RemediationsAllowed()))
	if d.Allowed && len(d.Remediations) > 0 {
		c.t.Errorf("%d Machines can be remediated, and are not", len(d.Remediations))
	}
}

// seeds are the seeds of the random tests: some fixed seeds, and a new one.
func seeds(t *testing.T, fixed uint64) []uint64 {
	t.Helper()
	seeds := []uint64{uint64(time.Now().UnixNano())}
	if testing.Short() {
		fixed /= 4
	}
	for i := range fixed {
		seeds = append(seeds, i)
	}
	if text := os.Getenv("DROVER_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	return seeds
}

func TestReconcile_Random(t *testing.T) {
	for _, seed := range seeds(t, 20) {
		t.Run(fmt.Sprintf("DROVER_TEST_SEED=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			inFlight := 1 + random.IntN(2)
			options := Options{MaxUnseenStarts: inFlight, Leases: &nodelease.Leases{Holder: holder}}
			c := &randomRun{fixture: newFixture(t, options, newObjects("wwwww", limit("60%"))...), Rand: random}
			var story []string
			for range 60 {
				story = append(story, c.step())
				c.check(inFlight)
				if t.Failed() {
					t.Fatalf("%s", strings.Join(story, "; "))
				}
				c.emitted()
			}
			c.settle()
		})
	}
}
