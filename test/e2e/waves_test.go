package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

const team = "example.com/team"

// withRollout returns the arguments of an operator whose configuration has this metadata.rollout.
func withRollout(t *testing.T, settings string) []string {
	t.Helper()
	return []string{harness.WithConfig(t, "metadata: {rollout: "+settings+"}")}
}

// inOrder returns the Nodes of a pool in wave order, which is the order of their creation.
func inOrder(w *harness.World, pool string, machines int) []*corev1.Node {
	w.Helper()
	var nodes []*corev1.Node
	for i := range machines {
		nodes = append(nodes, w.Node(fmt.Sprintf("%s-%d", pool, i)))
	}
	slices.SortStableFunc(nodes, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return nodes
}

// hasTeam checks the label of the Nodes of a pool in wave order: the first Nodes must have one value, the others another value.
func hasTeam(w *harness.World, pool string, machines, first int, value, other string) error {
	w.Helper()
	for i, node := range inOrder(w, pool, machines) {
		want := value
		if i >= first {
			want = other
		}
		for object, labels := range map[string]map[string]string{"Node": node.Labels, "Machine": w.Machine(node.Name).Spec.Labels} {
			if labels[team] != want {
				return fmt.Errorf("%s %s has %q, want %q", object, node.Name, labels[team], want)
			}
		}
	}
	return nil
}

// TestWaves_PauseSurvivesAKill: what a MachineSet declares reaches its Nodes in waves, and the next process neither begins the next wave early nor
// writes anything again.
func TestWaves_PauseSurvivesAKill(t *testing.T) {
	w := pool(t, "waves", 5)
	args := withRollout(t, "{firstWave: 1, maxInFlight: 2, pause: 1h}")
	first := w.Operator(harness.Options{Args: args})
	setLabel(w, "waves", team, "blue")
	w.Eventually("the pause after the first wave", func() error {
		if kept := w.KeptRollout("waves"); !strings.Contains(kept, `"wave":"2/3"`) || !strings.Contains(kept, "waveEndTime") {
			return fmt.Errorf("the ConfigMap has %q", kept)
		}
		return hasTeam(w, "waves", 5, 1, "blue", "")
	})
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	kept, mark := w.KeptRollout("waves"), w.AuditMark()
	second := w.Operator(harness.Options{Args: args})
	// A manual edit has no wave: it shows that the process works.
	ofFirstWave := inOrder(w, "waves", 5)[0].Name
	label(w, ofFirstWave, team, "mine")
	hasLabel(w, ofFirstWave, team, "blue")
	// The first wave of another MachineSet needs no pause either. To start it, the process decides on all MachineSets.
	w.Pool(cluster.PoolOptions{Name: "waves-other", Machines: 1})
	setLabel(w, "waves-other", team, "green")
	hasLabel(w, "waves-other-0", team, "green")
	if err := hasTeam(w, "waves", 5, 1, "blue", ""); err != nil {
		t.Error(err)
	}
	if now := w.KeptRollout("waves"); now != kept {
		t.Errorf("the ConfigMap had %s and has %s", kept, now)
	}
	for _, write := range w.Writes(mark) {
		if strings.HasPrefix(write.Name, "waves-") && write.Name != ofFirstWave && write.Name != "waves-other-0" {
			t.Errorf("%s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	mark = w.AuditMark()
	w.Operator(harness.Options{Args: withRollout(t, "{firstWave: 1, maxInFlight: 2}")})
	w.Eventually("the last wave", func() error {
		if kept := w.KeptRollout("waves"); kept != "" {
			return fmt.Errorf("the ConfigMap has %s", kept)
		}
		return hasTeam(w, "waves", 5, 5, "blue", "")
	})
	written := map[string]int{}
	for _, write := range w.Writes(mark) {
		written[write.Resource+"/"+write.Name]++
	}
	for i := range 5 {
		for _, resource := range []string{"nodes", "machines"} {
			name := fmt.Sprintf("%s/waves-%d", resource, i)
			want := 1
			if name == resource+"/"+ofFirstWave {
				want = 0
			}
			if got := written[name]; got != want {
				t.Errorf("%s was written %d times, want %d", name, got, want)
			}
		}
	}
}

// TestWaves_NoExecuteRefused: Drover does not write a taint that would make Kubernetes delete Pods. It writes all else.
func TestWaves_NoExecuteRefused(t *testing.T) {
	w := pool(t, "refused", 2)
	w.Operator(harness.Options{Args: withRollout(t, "{noExecute: {policy: Refuse}}")})
	declare(w, "refused", func(spec *machinev1beta1.MachineSpec) {
		spec.Taints = []corev1.Taint{
			harness.Taint("example.com/out", "", corev1.TaintEffectNoExecute), harness.Taint("example.com/soft", "", corev1.TaintEffectNoSchedule),
		}
	})
	w.Nodes("refused", "the taint NoSchedule alone", func(node *corev1.Node) error {
		if err := harness.Has(node, nil, nil, "example.com/soft=:NoSchedule"); err != nil {
			return err
		}
		if err := harness.Has(node, nil, nil, "example.com/out=:NoExecute"); err == nil {
			return fmt.Errorf("node %s has the taint NoExecute", node.Name)
		}
		return nil
	})
	hasEvent(w, "MachineSet", "refused", metadata.EventNoExecuteRefused, "create a NodeGroup")
	if taints := w.Machine("refused-0").Spec.Taints; len(taints) != 1 {
		t.Errorf("the Machine has %v", taints)
	}
}
