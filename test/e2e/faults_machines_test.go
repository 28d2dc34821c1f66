package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// fleet is the life of a pool: it is created, scaled down by the marked Machine, loses a Machine that a user deletes and a Machine that is replaced
// because it is unhealthy, and is removed.
type fleet struct {
	*harness.Pool

	disturbance harness.Disturbance
	operator    *harness.Operator
	crashed     bool
	mark        cluster.AuditMark
}

// TestCrash_Machines kills the operator before and after writes of a pool's whole life. The next one must come to the same end, with as
// many Machines and Nodes made and deleted, and nothing left behind.
func TestCrash_Machines(t *testing.T) {
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the points to try
	var want string
	var writes int
	t.Run("undisturbed", func(t *testing.T) { want, writes = lifetime(t, harness.CrashPoint{}) })
	t.Logf("%d writes undisturbed, and finally\n%s", writes, want)
	if writes < 30 {
		t.Fatal("that is no life of a pool")
	}
	for _, p := range harness.CrashPoints(t, random, writes) {
		t.Run(p.String(), func(t *testing.T) {
			if got, _ := lifetime(t, p); got != want {
				t.Errorf("after the crash there is\n%s\nwithout it there was\n%s", got, want)
			}
		})
	}
}

var withMachines sync.Once

// installMachines installs the capability, once.
func installMachines(t *testing.T) {
	t.Helper()
	withMachines.Do(func() {
		if err := harness.InstallMachines(t.Context(), env); err != nil {
			t.Fatal(err)
		}
	})
}

// lifetime goes through a pool's life under a disturbance. It returns what was made and deleted on the way, and how many writes that took.
func lifetime(t *testing.T, d harness.Disturbance) (made string, writes int) {
	t.Helper()
	installMachines(t)
	f := newFleet(t, "fleet-", d)
	check := &machinev1beta1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: f.Name},
		Spec: machinev1beta1.MachineHealthCheckSpec{
			Selector:     metav1.LabelSelector{MatchLabels: map[string]string{cluster.MachineSetLabel: f.Name}},
			MaxUnhealthy: new(intstr.FromInt32(1)),
			UnhealthyConditions: []machinev1beta1.UnhealthyCondition{
				{Type: "Unhealthy", Status: corev1.ConditionTrue, Timeout: metav1.Duration{}},
			},
		},
	}
	f.CreateWithCleanup(check)
	f.operator = harness.Start(t, env, d.Operator(1, harness.Options{
		Args: []string{"--controllers=*", "--machines-parallel=1", "--machines-workers=1"},
	}))
	f.live()
	d.Wait()
	if d.Kills() && !f.crashed {
		t.Logf("the pool's life was over before %s: how many there are depends on the time", d)
	}
	made, writes = f.count()
	if err := f.operator.Stop(); err != nil {
		t.Fatal(err)
	}
	return made, writes
}

// newFleet makes a pool of two.
func newFleet(t *testing.T, prefix string, d harness.Disturbance) *fleet {
	t.Helper()
	w := harness.NewWorld(t, env)
	f := &fleet{mark: w.AuditMark(), disturbance: d}
	f.Pool = w.MakePool(prefix+d.String(), 2, func(set *machinev1beta1.MachineSet, _ *kwok.ProviderSpec) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
	})
	return f
}

// live is the pool's life.
func (f *fleet) live() {
	f.Helper()
	machines := f.until(2)
	f.Merge(f.Machine(machines[0].Name), `{"metadata":{"annotations":{"machine.openshift.io/delete-machine":""}}}`)
	f.Scale(1)
	machines = f.until(1, machines[0].Name)
	f.DeleteMachine(machines[0].Name)
	machines = f.until(1, machines[0].Name)
	f.Eventually("the Node falls ill", func() error {
		node := &corev1.Node{}
		if err := f.Client.Get(f.Context(), client.ObjectKey{Name: machines[0].Status.NodeRef.Name}, node); err != nil {
			return err
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: "Unhealthy", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		})
		return f.Client.Status().Update(f.Context(), node)
	})
	machines = f.until(1, machines[0].Name)
	f.Scale(0)
	f.until(0, machines[0].Name)
}

// revive starts another operator when the first one has died.
func (f *fleet) revive() {
	f.Helper()
	select {
	case <-f.operator.Ended():
		if f.crashed {
			f.Fatalf("the second operator ended; its log:\n%s", f.operator.Log())
		}
		f.crashed = true
		f.operator = harness.Start(f.TB, env, f.disturbance.Operator(2, harness.Options{Args: []string{"--controllers=*"}}))
	default:
	}
}

// until waits until the pool has so many Machines that run, with their labels on their Nodes, and some Machines and their Nodes are gone.
// When the operator has died it starts another one.
func (f *fleet) until(count int, gone ...string) (machines []machinev1beta1.Machine) {
	f.Helper()
	f.Eventually(fmt.Sprintf("%d Machines run", count), func() error {
		f.revive()
		var err error
		if machines, err = f.Running(count); err != nil {
			return err
		}
		for i := range machines {
			if slices.Contains(gone, machines[i].Name) {
				return fmt.Errorf("machine %s is still there", machines[i].Name)
			}
			node := &corev1.Node{}
			if err := f.Client.Get(f.Context(), client.ObjectKey{Name: machines[i].Status.NodeRef.Name}, node); err != nil {
				return err
			}
			if node.Labels["example.com/team"] != "blue" || node.Annotations[cluster.MachineAnnotation] == "" {
				return fmt.Errorf("node %s has the labels %v", node.Name, node.Labels)
			}
		}
		var nodes corev1.NodeList
		if err := f.Client.List(f.Context(), &nodes, client.Limit(1000)); err != nil {
			return err
		}
		for i := range nodes.Items {
			if slices.Contains(gone, nodes.Items[i].Name) {
				return fmt.Errorf("node %s is still there", nodes.Items[i].Name)
			}
		}
		for _, name := range gone {
			if holder := f.Holder(name); holder != "" {
				return fmt.Errorf("the lease of node %s is held by %q", name, holder)
			}
		}
		return nil
	})
	return machines
}

// count says what the operator has made and deleted, and how many writes it has made in all.
func (f *fleet) count() (made string, writes int) {
	f.Helper()
	if _, err := f.Cluster.Audit().Sync(f.Context()); err != nil {
		f.Fatal(err)
	}
	all, err := f.Cluster.Audit().Since(f.mark)
	if err != nil {
		f.Fatal(err)
	}
	counts := map[string]int{}
	deleted := map[string]bool{}
	for i := range all {
		e := &all[i]
		if e.User != harness.User || !e.Write() || e.Resource == "events" || strings.HasSuffix(e.Resource, "reviews") {
			continue
		}
		writes++
		thing := e.Verb + " " + e.Resource
		switch {
		case e.Subresource != "" || e.Code != http.StatusOK && e.Code != http.StatusCreated:
		case e.Resource == "nodes" && e.Verb == "delete", e.Resource == "machines" && e.Verb == "delete":
			// A deletion whose answer was lost may be asked for again; it counts once for each object.
			if !deleted[thing+e.Name] {
				counts[thing]++
			}
			deleted[thing+e.Name] = true
		case e.Verb == "create" && (e.Resource == "nodes" || e.Resource == "machines"):
			counts[thing]++
		}
	}
	lines := make([]string, 0, len(counts))
	for thing, n := range counts {
		lines = append(lines, fmt.Sprintf("%s: %d", thing, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), writes
}
