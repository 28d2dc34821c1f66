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

	"github.com/drover-io/drover/internal/nodelease"
)

// chance is a run of the stage in which everything happens by chance: Nodes fail and recover, Machines come and go, the cache lags, the
// API server does not answer, the process ends.
type chance struct {
	*stage
	*rand.Rand
	seq int
}

// answering makes the API server answer while a test does its own work.
func (c *chance) answering() func() {
	fail := c.fail
	c.fail = nil
	return func() {
		if c.fail == nil {
			c.fail = fail
		}
	}
}

// step does one thing, and tells what.
func (c *chance) step() string {
	defer c.answering()()
	machines := c.machines()
	pick := func() *machinev1beta1.Machine { return &machines[c.IntN(len(machines))] }
	switch c.IntN(10) {
	case 0:
		c.cache.Reader = c.stage.client
		return "the cache goes on"
	case 1:
		c.stop()
		return "the cache stops"
	case 2:
		c.later(time.Duration(c.IntN(400)) * time.Second)
		return "time passes"
	case 3:
		c.restart()
		return "restart"
	case 4:
		what := []string{"delete Machine", "create Lease", "status MachineHealthCheck", "get Node"}[c.IntN(4)]
		c.fail = map[string]error{what: errors.New("no answer")}
		return "no answer to " + what
	case 5:
		c.fail = map[string]error{}
		return "answers again"
	case 6, 7:
		return c.node(pick(), []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}[c.IntN(3)])
	case 8:
		return c.finish(pick())
	}
	edit(c.stage, pick(), func(m *machinev1beta1.Machine) {
		m.Annotations = []map[string]string{nil, {AnnotationSkip: ""}, nil}[c.IntN(3)]
	})
	return "an annotation"
}

func (c *chance) machines() []machinev1beta1.Machine {
	list := &machinev1beta1.MachineList{}
	if err := c.stage.client.List(c.t.Context(), list); err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

func (c *chance) node(machine *machinev1beta1.Machine, status corev1.ConditionStatus) string {
	edit(c.stage, nodeOf(nodeName(machine)), func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(c.clock.Now())
	})
	return nodeName(machine) + " is " + string(status)
}

// finish ends a Machine that is being deleted, and makes another in its place.
func (c *chance) finish(machine *machinev1beta1.Machine) string {
	if machine.DeletionTimestamp == nil {
		return "nothing"
	}
	c.seq++
	name := fmt.Sprintf("r%d", c.seq)
	c.replace(machine.Name, machineOf(name, "n-"+name, func(m *machinev1beta1.Machine) {
		m.CreationTimestamp = metav1.NewTime(c.clock.Now().Truncate(time.Second))
	}))
	if err := c.stage.client.Create(c.t.Context(), nodeOf("n-"+name)); err != nil {
		c.t.Fatal(err)
	}
	return name + " instead of " + machine.Name
}

// check makes a pass and looks at what it does: never more than there is room for, never a Machine that is well, skipped or on its way
// out, and none at all over the limit.
func (c *chance) check(inFlight int) {
	in := c.seen(c.cache)
	seen := decide(in)
	before := map[string]verdict{}
	for i, v := range seen.verdicts {
		before[in.targets[i].machine.Name] = v
	}
	done := max(c.metric(attemptsDoc.Name, "deletion", "ok"), 0)
	_, writes, _ := c.try("c")
	for write := range strings.SplitSeq(writes, ", ") {
		name, ok := strings.CutPrefix(write, "delete Machine/")
		if !ok {
			continue
		}
		i := slices.IndexFunc(in.targets, func(t target) bool { return t.machine.Name == name })
		if v := before[name]; !seen.allowed || !v.finding.due() || has(in.targets[i].machine, AnnotationSkip) {
			c.t.Errorf("%s is deleted, and is %s (%d of %d unhealthy)", name, v.finding, seen.unhealthy, seen.expected)
		}
	}
	if done = c.metric(attemptsDoc.Name, "deletion", "ok") - done; done > float64(inFlight) {
		c.t.Errorf("%v deletions in a pass", done)
	}
}

// seen is what a decision is made on, as a reader shows it.
func (c *chance) seen(from client.Reader) *input {
	defer c.answering()()
	in := &input{check: checkOf("c", limit("60%")), now: c.clock.Now()}
	list := &machinev1beta1.MachineList{}
	if err := from.List(c.t.Context(), list); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		t := target{machine: &list.Items[i], node: &corev1.Node{}}
		if err := from.Get(c.t.Context(), types.NamespacedName{Name: nodeName(t.machine)}, t.node); err != nil {
			t.node = nil
		}
		in.targets = append(in.targets, t)
	}
	return in
}

// settle lets everything be well, and checks that the end is the one that anybody would compute, and that nothing is written any more.
func (c *chance) settle() {
	c.fail = map[string]error{}
	c.goOn()
	for range 100 {
		for _, machine := range c.machines() {
			if machine.DeletionTimestamp != nil {
				c.finish(&machine)
			}
		}
		c.later(time.Hour)
		if _, writes, err := c.try("c"); err != nil {
			c.t.Fatal(err)
		} else if writes == "" {
			break
		}
	}
	c.pass("c", "")
	d := decide(c.seen(c.stage.client))
	c.expect("c", fmt.Sprint(d.expected, d.healthy, d.remediationsAllowed()))
	if d.allowed && len(d.remedies) > 0 {
		c.t.Errorf("%s could be remediated, and is not", d.text())
	}
}

func TestByChance(t *testing.T) {
	seeds := []uint64{uint64(time.Now().UnixNano())}
	for i := range uint64(20) {
		seeds = append(seeds, i)
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
			random := rand.New(rand.NewPCG(seed, 1))
			inFlight := 1 + random.IntN(2)
			options := Options{MaxInFlight: inFlight, Leases: &nodelease.Leases{Holder: holder}}
			c := &chance{stage: newStage(t, options, crew("wwwww", limit("60%"))...), Rand: random}
			var story []string
			for range 60 {
				story = append(story, c.step())
				c.check(inFlight)
				if t.Failed() {
					t.Fatalf("%s", strings.Join(story, "; "))
				}
				c.told()
			}
			c.settle()
		})
	}
}
