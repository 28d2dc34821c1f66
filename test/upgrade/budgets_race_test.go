package upgrade

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/test/harness"
)

// raceBudget is how many Nodes may be unavailable in the race, raceMachines how many Machines each of the two MachineSets has, and raceMaintenances
// how many NodeMaintenances there are in each round.
const raceBudget, raceMachines, raceMaintenances = 2, 2, 2

// roundLimit is how long a round may take: what a leader has been admitted for that was killed is free after two minutes.
const roundLimit = 6 * time.Minute

// raceRounds is how many rounds the race has; DROVER_RACE_ROUNDS=200 is the lane in full.
func raceRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DROVER_RACE_ROUNDS")
	if text == "" {
		return 3
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("DROVER_RACE_ROUNDS is %q, want a number from 1 on", text)
	}
	return rounds
}

// replicas are two operators. One of them leads.
type replicas struct {
	*budgetRace
	running []*harness.Operator
}

func (r *replicas) start() {
	r.Helper()
	r.running = append(r.running, r.Operator(harness.Options{Elect: true, Args: []string{
		// On OpenShift the capability machines has to be named.
		"--controllers=*,machines",
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms",
	}}))
}

// restart replaces replicas that have ended because they could not renew their lease in time, as a Deployment does.
func (r *replicas) restart() {
	r.Helper()
	for i := len(r.running) - 1; i >= 0; i-- {
		select {
		case <-r.running[i].Ended():
			r.running = slices.Delete(r.running, i, i+1)
			r.start()
		default:
		}
	}
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

// stop stops a replica for longer than its lease lasts, and has it go on: for a moment there may be two leaders.
func (r *replicas) stop(which int, meanwhile func(time.Duration)) {
	r.Helper()
	stopped := r.running[which]
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		r.Fatal(err)
	}
	meanwhile(8 * time.Second)
	if err := stopped.Signal(syscall.SIGCONT); err != nil {
		r.Fatal(err)
	}
}

// TestBudgets_Race: in each round NodeMaintenances, a remediation, a rolling replacement, a gated upgrade and a guarded NoExecute taint want Nodes of
// one group, while operators are killed, or stopped past their lease. Never are more Nodes disrupted than the budget has places, no Node is disrupted
// without one, and all have their turn.
func TestBudgets_Race(t *testing.T) {
	harness.TestAllOnly(t, "three minutes of everything that disrupts Nodes; the simulation checks every budget")
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks Nodes, who is killed, and when
	f := newBudgetRace(t, raceMachines, raceBudget)
	r := &replicas{budgetRace: f}
	r.start()
	r.start()
	f.eventuallyAtRest(-1)
	budget := f.WatchBudget(f.Name, raceBudget, f.replaced.Name+"-", f.steady.Name+"-")
	rounds := raceRounds(t)
	for number := range rounds {
		if !t.Run(fmt.Sprintf("round %d", number), func(t *testing.T) {
			begun := time.Now()
			round := &round{budgetRace: f.on(t), number: number, operators: r}
			kills := round.run(random)
			t.Logf("took %s with %d kills and stops", time.Since(begun).Round(100*time.Millisecond), kills)
			budget.Verify()
		}) {
			break
		}
	}
	most, serving := budget.Finish()
	if nodes := 2 * raceMachines; serving < nodes-raceBudget {
		t.Errorf("only %d Nodes served, and the budget is %d of %d", serving, raceBudget, nodes)
	}
	t.Logf("at most %d Nodes were disrupted at once, and at least %d served", most, serving)
}

// round is one round of the race.
type round struct {
	*budgetRace

	number    int
	operators *replicas
	// waiting are the NodeMaintenances that have not had their turn.
	waiting []*harness.Maintenance
	// failed is the Machine that is remediated.
	failed types.UID
}

// run has everything begin, ends each NodeMaintenance when its Node is drained, and returns how many operators were killed or stopped when all is
// over.
func (r *round) run(random *rand.Rand) (kills int) {
	r.Helper()
	r.deploy(r.number, 2*raceMachines)
	machines := r.machines()
	random.Shuffle(len(machines), func(i, j int) { machines[i], machines[j] = machines[j], machines[i] })
	r.upgrade(r.number)
	for i := range raceMaintenances {
		r.maintain(i, machines[i].Status.NodeRef.Name)
	}
	failed := machines[random.IntN(len(machines))]
	r.failed = failed.UID
	r.setTemplate(r.number)
	r.declare(r.number)
	r.fail(failed.Status.NodeRef.Name)
	for range random.IntN(3) {
		pause := time.Duration(random.IntN(3000)) * time.Millisecond // so that the kill comes at another point each time
		r.serveFor(pause)
		if which := random.IntN(2); random.IntN(3) == 0 {
			r.operators.stop(which, r.serveFor)
		} else {
			r.operators.kill(which)
		}
		kills++
	}
	r.eventuallyOver()
	return kills
}

// maintain makes a NodeMaintenance of one API group or the other.
func (r *round) maintain(i int, node string) {
	r.Helper()
	m := &harness.Maintenance{World: r.World, Name: fmt.Sprintf("%s-%d-%d", r.Name, r.number, i), Node: node, Kubevirt: i%2 == 1}
	if m.Kubevirt {
		m.Begin(&kubevirt.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Spec: kubevirt.NodeMaintenanceSpec{NodeName: node}})
	} else {
		m.Begin(builder.NodeMaintenance(m.Name, node))
	}
	r.waiting = append(r.waiting, m)
}

// serveFor ends NodeMaintenances for a while.
func (r *round) serveFor(pause time.Duration) {
	r.Helper()
	for end := time.Now().Add(pause); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		r.operators.restart()
		r.serve()
	}
}

// serve ends the NodeMaintenances whose Nodes are drained, or gone.
func (r *round) serve() {
	r.Helper()
	r.waiting = slices.DeleteFunc(r.waiting, func(m *harness.Maintenance) bool {
		status := m.Find()
		if status == nil || status.Phase != medik8s.PhaseSucceeded && r.exists(m.Node) {
			return status == nil
		}
		// The Node owns it: where the Node is gone, it may go any moment.
		if err := r.Client.Delete(r.Context(), maintenanceOf(m)); client.IgnoreNotFound(err) != nil {
			r.Fatal(err)
		}
		return true
	})
}

func (r *round) exists(node string) bool {
	return slices.ContainsFunc(r.nodes(), func(n corev1.Node) bool { return n.Name == node })
}

// eventuallyOver ends NodeMaintenances until all of them, and everything else that has begun in the round, is over.
func (r *round) eventuallyOver() {
	r.Helper()
	r.eventually("the round is over", func() error {
		r.operators.restart()
		if r.serve(); len(r.waiting) > 0 {
			return fmt.Errorf("NodeMaintenance %s of Node %s waits: %s", r.waiting[0].Name, r.waiting[0].Node, harness.JSON(r.waiting[0].Find()))
		}
		for _, machine := range r.machines() {
			if machine.UID == r.failed {
				return fmt.Errorf("the unhealthy Machine %s is there", machine.Name)
			}
		}
		if run := r.upgrades(); run.Status.Phase != mutex.PhaseDone {
			return fmt.Errorf("the run is %s", run.Status.Phase)
		}
		return r.restless(r.number)
	})
}

// eventuallyAtRest waits until nothing is left to be done.
func (f *budgetRace) eventuallyAtRest(round int) {
	f.Helper()
	f.eventually("everything is at rest", func() error { return f.restless(round) })
}

func (f *budgetRace) eventually(what string, condition func() error) {
	f.Helper()
	if err := harness.WaitLonger(f.Context(), roundLimit, 250*time.Millisecond, condition); err != nil {
		f.Fatalf("%s: %v\n%s", what, err, f.describe())
	}
}

// restless returns what is left to be done until all Machines and Nodes are as they are declared in a round, and no place is taken.
func (f *budgetRace) restless(round int) error {
	f.Helper()
	for _, pool := range []*harness.Pool{f.replaced, f.steady} {
		machines, err := pool.Running(raceMachines)
		if err != nil {
			return fmt.Errorf("MachineSet %s: %w", pool.Name, err)
		}
		template := machineapi.TemplateOf(pool.Set())
		for i := range machines {
			if template.Outdates(&machines[i]) {
				return fmt.Errorf("machine %s is outdated", machines[i].Name)
			}
		}
	}
	for _, node := range f.nodes() {
		if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == taintKey && t.Value == valueOf(round) && t.Effect == corev1.TaintEffectNoExecute
		}) || len(node.Spec.Taints) != 1 {
			return fmt.Errorf("node %s has the taints %v", node.Name, harness.Taints(&node))
		}
	}
	if s := f.group().Status; s.Phase != v1alpha1.PhaseIdle || len(s.Reservations) > 0 || s.Unavailable > 0 || s.Outdated > 0 {
		return fmt.Errorf("the group is %s", s.Phase)
	}
	return nil
}

// describe returns what there is, for a round that does not end.
func (f *budgetRace) describe() string {
	f.Helper()
	lines := []string{
		"the group is " + harness.JSON(f.group().Status), "the run is " + harness.JSON(f.upgrades().Status),
		"the check is " + harness.JSON(f.healthCheck().Status),
	}
	for _, machine := range f.machines() {
		lines = append(lines, fmt.Sprintf("Machine %s: deleted at %v, annotations %v, conditions %s", machine.Name, machine.DeletionTimestamp,
			machine.Annotations, harness.JSON(machine.Status.Conditions)))
	}
	for _, node := range f.nodes() {
		lines = append(lines, fmt.Sprintf("Node %s: unschedulable %t, leased by %q, taints %v, annotations %v, conditions %s", node.Name,
			node.Spec.Unschedulable, f.Holder(node.Name), harness.Taints(&node), node.Annotations, harness.JSON(node.Status.Conditions)))
	}
	return strings.Join(lines, "\n")
}

// maintenanceOf returns the object of a NodeMaintenance, with its name alone.
func maintenanceOf(m *harness.Maintenance) client.Object {
	if m.Kubevirt {
		return &kubevirt.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	}
	return &medik8s.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
}
