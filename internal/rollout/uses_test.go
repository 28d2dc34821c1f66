package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// TestUses: what requires a label is counted once. Nodes of the group and Nodes that have left it are counted separately.
func TestUses(t *testing.T) {
	both := map[string]string{"rack": "1", "tier": "gold"}
	uses := NewUses([]LabelChange{
		{Node: "n1", Before: both, After: map[string]string{"tier": "gold"}}, {Node: "n2", Before: both, After: map[string]string{"tier": "iron"}},
		{Node: "n3", Before: both, Released: true},
	})
	succeeded := changedPod(userOf("n1", "a", "done", term("rack Exists")), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	for _, pod := range []*corev1.Pod{
		userOf("n1", "a", "rack", term("rack Exists")), userOf("n1", "a", "tier", term("tier Exists")),
		userOf("n2", "a", "both", term("rack In 1", "tier In gold")), userOf("n3", "a", "left", term("tier In gold")),
		userOf("n4", "a", "elsewhere", term("rack Exists")), userOf("n1", "a", "free"), succeeded,
	} {
		uses.AddPod(pod)
	}
	uses.AddVolume(volumeWith("local", term("rack In 1")))
	uses.AddVolume(volumeWith("zonal", term("zone In a")))
	uses.AddVolume(volumeWith("anywhere"))
	uses.End(nil)
	var got []string
	for label, by := range uses.found {
		got = append(got, fmt.Sprintf("%s %t %d %s", label.key, label.released, by.count, strings.Join(by.names, ",")))
	}
	slices.Sort(got)
	want := []string{
		"rack false 3 PersistentVolume local,Pod a/both,Pod a/rack", "rack true 1 PersistentVolume local", "tier false 1 Pod a/both",
		"tier true 1 Pod a/left",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestUses_ManyPods: of any number of Pods only five names are kept, the first ones.
func TestUses_ManyPods(t *testing.T) {
	in := &Input{Nodes: []Node{{Name: "n0", Labels: map[string]string{"rack": "a"}, Metadata: metadataplan.GroupDecision{Change: metadataplan.Change{
		Write: true, Results: map[ownership.Kind]ownership.Result{ownership.Label: {Remove: []string{"rack"}}},
	}}}}}
	in.Uses = NewUses(in.LostLabels())
	const pods = 50_000
	for i := range pods {
		in.Uses.AddPod(userOf("n0", "shop", fmt.Sprintf("p%05d", pods-1-i), term("rack Exists")))
	}
	in.Uses.End(nil)
	const want = "Pod shop/p00000, Pod shop/p00001, Pod shop/p00002, Pod shop/p00003, Pod shop/p00004 and 49995 more; if that may be"
	if got := in.unconfirmed(false); !strings.Contains(got, want) {
		t.Errorf("got %q", got)
	}
	for label, by := range in.Uses.found {
		if len(by.names) != maxNamed || cap(by.names) > 4*maxNamed {
			t.Errorf("%d names of %+v are kept", cap(by.names), label)
		}
	}
}

// TestUses_ManyNodes: what a PersistentVolume requires is parsed once, and not for each Node that changes. A cluster has thousands of both.
func TestUses_ManyNodes(t *testing.T) {
	values := make([]string, 1000)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	volume := volumeWith("zonal", term("rack In "+strings.Join(values, " ")))
	allocations := func(nodes int) float64 {
		changes := make([]LabelChange, nodes)
		for i := range changes {
			changes[i] = LabelChange{Node: fmt.Sprint("n", i), Before: map[string]string{"rack": "x"}, After: map[string]string{"rack": "y"}}
		}
		uses := NewUses(changes)
		return testing.AllocsPerRun(1, func() { uses.AddVolume(volume) })
	}
	if few, many := allocations(1), allocations(101); many-few > 100*5 {
		t.Errorf("%.0f allocations for a Node, %.0f for 101", few, many)
	}
}
