package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/operator/fault"
)

// rounds is how often two writers race for one list of taints: all of them in make faults, samples in make test-all and make test.
func rounds() int {
	switch {
	case harness.Full():
		return 1000
	case testing.Short():
		return 40
	}
	return 200
}

// TestRace_NothingForeignIsLost changes foreign taints, labels and annotations of a Node as fast as the API server takes
// it, while the pool's own taint changes as fast.
func TestRace_NothingForeignIsLost(t *testing.T) {
	w := pool(t, "race", 2)
	w.Operator(harness.Options{Args: []string{"--metadata-writes-per-second=0"}})
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- a test's own randomness
	declare(w, "race", func(spec *machinev1beta1.MachineSpec) {
		spec.Taints = []corev1.Taint{harness.Taint("example.com/ours", "0", corev1.TaintEffectNoSchedule)}
	})
	w.Nodes("race", "the first value", func(node *corev1.Node) error { return harness.Has(node, nil, nil, "example.com/ours=0:NoSchedule") })

	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for value := 1; ctx.Err() == nil; value++ {
			text := fmt.Sprintf(`{"spec":{"template":{"spec":{"taints":[{"key":"example.com/ours","value":"%d","effect":"NoSchedule"}],`+
				`"metadata":{"labels":{"example.com/ours":"%d"}}}}}}`, value, value)
			err := w.Client.Patch(ctx, &machinev1beta1.MachineSet{ObjectMeta: harness.Meta("race")}, client.RawPatch(types.MergePatchType, []byte(text)))
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("changing the MachineSet: %v", err)
				return
			}
		}
	})
	foreign := newForeigner(w, "race-0", random)
	for range rounds() {
		foreign.step()
	}
	cancel()
	group.Wait()
	w.Mark("race")
	foreign.check(w.Node("race-0"))
	want := w.Set("race").Spec.Template.Spec
	w.Nodes("race", "the last value", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/ours": want.Labels["example.com/ours"]}, nil,
			"example.com/ours="+want.Taints[0].Value+":NoSchedule")
	})
}

// foreigner is another writer of a Node that knows what it wrote.
type foreigner struct {
	*harness.World
	node   string
	random *rand.Rand
	taints map[string]bool
	labels map[string]string
}

func newForeigner(w *harness.World, node string, random *rand.Rand) *foreigner {
	return &foreigner{World: w, node: node, random: random, taints: map[string]bool{}, labels: map[string]string{}}
}

// step makes one change, by a full update that begins again after a conflict, as most controllers write.
func (f *foreigner) step() {
	f.Helper()
	key := fmt.Sprintf("foreign.example.com/k%d", f.random.IntN(8))
	value := fmt.Sprint(f.random.IntN(1000))
	asTaint := f.random.IntN(2) == 0
	for {
		node := f.Node(f.node)
		f.check(node)
		if f.Failed() {
			f.FailNow()
		}
		if asTaint {
			toggleTaint(node, key)
		} else {
			node.Labels[key] = value
		}
		err := f.Client.Update(f.Context(), node)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			f.Fatal(err)
		}
		break
	}
	if asTaint {
		f.taints[key] = !f.taints[key]
		return
	}
	f.labels[key] = value
}

func toggleTaint(node *corev1.Node, key string) {
	for i, taint := range node.Spec.Taints {
		if taint.Key == key {
			node.Spec.Taints = append(node.Spec.Taints[:i], node.Spec.Taints[i+1:]...)
			return
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, harness.Taint(key, "", corev1.TaintEffectPreferNoSchedule))
}

// check compares a Node with what was written.
func (f *foreigner) check(node *corev1.Node) {
	f.Helper()
	found := map[string]bool{}
	for _, taint := range node.Spec.Taints {
		found[taint.Key] = true
	}
	for key, want := range f.taints {
		if found[key] != want {
			f.Errorf("taint %s: present %t, want %t", key, found[key], want)
		}
	}
	for key, want := range f.labels {
		if node.Labels[key] != want {
			f.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
		}
	}
}

// TestRace_KeyTakenAtTheSameTime lets another writer set a key while the MachineSet declares it.
func TestRace_KeyTakenAtTheSameTime(t *testing.T) {
	t.Parallel()
	const nodes, turns = 4, 12
	w := pool(t, "moment", nodes)
	shared.For(t, env)
	for turn := range turns {
		key := fmt.Sprintf("example.com/turn-%d", turn)
		var group sync.WaitGroup
		for i := range nodes {
			group.Go(func() { label(w, fmt.Sprintf("moment-%d", i), key, "theirs") })
		}
		setLabel(w, "moment", key, "ours")
		group.Wait()
		w.Mark("moment")
		for i := range nodes {
			node := w.Node(fmt.Sprintf("moment-%d", i))
			// Theirs came first, or ours did and theirs was undone as any hand edit is; never ours over theirs without a record of ours.
			record, err := ownership.ParseRecord(node.Annotations[ownership.AnnotationRecord])
			if err != nil {
				t.Fatal(err)
			}
			if owned := record.Owned(ownership.Label).Has(key); owned != (node.Labels[key] == "ours") {
				t.Errorf("%s: %s is %q and recorded as ours: %t", node.Name, key, node.Labels[key], owned)
			}
		}
	}
}

// TestRace_NodelinkWithStaleCache puts a label back that was just removed, as the machine-api-operator's nodelink can.
func TestRace_NodelinkWithStaleCache(t *testing.T) {
	t.Parallel()
	w := pool(t, "nodelink", 1)
	shared.For(t, env)
	setLabel(w, "nodelink", "example.com/team", "blue")
	hasLabel(w, "nodelink-0", "example.com/team", "blue")
	dropLabel(w, "nodelink", "example.com/team")
	lacksLabel(w, "nodelink-0", "example.com/team")
	label(w, "nodelink-0", "example.com/team", "blue")
	lacksLabel(w, "nodelink-0", "example.com/team")
	// Another value belongs to another writer.
	label(w, "nodelink-0", "example.com/team", "mine")
	w.Mark("nodelink")
	hasLabel(w, "nodelink-0", "example.com/team", "mine")
}

// TestRace_NodesComeAndGoDuringRollout deletes and re-creates Nodes while the pool changes.
func TestRace_NodesComeAndGoDuringRollout(t *testing.T) {
	t.Parallel()
	w := pool(t, "churn", 6)
	shared.For(t, env)
	var group sync.WaitGroup
	for i := range 3 {
		name := fmt.Sprintf("churn-%d", i)
		group.Go(func() {
			for range 5 {
				deleteNode(w, name)
				node := builder.Node(name, builder.WithNodeLabels(map[string]string{cluster.PoolLabel: "churn"}))
				if err := w.Client.Create(w.Context(), node); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for value := range 10 {
		setLabel(w, "churn", "example.com/value", fmt.Sprint(value))
	}
	group.Wait()
	w.Nodes("churn", "the last value", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/value": "9"}, nil)
	})
}

// TestRace_ManyConflicts has every second write refused with 409.
func TestRace_ManyConflicts(t *testing.T) {
	for _, faults := range harness.SmokeOf(t, []fault.Faults{
		{Refuse: 2, RefuseCode: 409}, {Refuse: 3, RefuseCode: 500}, {Refuse: 2, RefuseCode: 503}, {Refuse: 3, RefuseCode: 429}, {Lose: 2},
	}) {
		name := fmt.Sprintf("storm-%d-%d", faults.RefuseCode, faults.Lose)
		t.Run(name, func(t *testing.T) {
			w := pool(t, name, 5)
			operator := w.Operator(harness.Options{Faults: faults})
			setLabel(w, name, "example.com/team", "blue")
			w.Nodes(name, "the label", func(node *corev1.Node) error {
				return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil)
			})
			w.Mark(name)
			if faults.RefuseCode == 409 && strings.Contains(operator.Log(), `"level":"error"`) {
				t.Errorf("a conflict is no error:\n%s", operator.Log())
			}
		})
	}
}

// TestOperator_StandbyTakesOver kills the leader of two replicas in a roll-out.
func TestOperator_StandbyTakesOver(t *testing.T) {
	w := pool(t, "two", 20)
	elect := []string{"--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=500ms",
		"--metadata-writes-per-second=10", "--metadata-writes-burst=1"}
	leader := w.Operator(harness.Options{Elect: true, Args: elect})
	if err := leader.Says(t.Context(), "capability metadata: running"); err != nil {
		t.Fatal(err)
	}
	standby := w.Operator(harness.Options{Elect: true, Args: elect})
	if err := standby.Says(t.Context(), "capability metadata: standing by"); err != nil {
		t.Fatal(err)
	}
	setLabel(w, "two", "example.com/team", "blue")
	hasLabel(w, "two-0", "example.com/team", "blue")
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	w.Nodes("two", "the rest by the standby", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil)
	})
	// A leader that is asked to end gives the lease back, so the next need not wait for it to run out.
	third := w.Operator(harness.Options{Elect: true, Args: elect})
	if err := standby.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := third.Says(t.Context(), "capability metadata: running"); err != nil {
		t.Fatal(err)
	}
	w.Mark("two")
}
