package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// stagedRun is a run over the MachineConfigPools infra, with the nodes n1 and n2, and gpu, with g1. The canary has the node c1.
type stagedRun struct {
	*testing.T
	*Input
}

func newStagedRun(t *testing.T) *stagedRun {
	t.Helper()
	s := &stagedRun{t, newInput()}
	s.MCPs = append(s.MCPs, newMCP("gpu", true, selecting("gpu")))
	s.mcp("canary").Spec.NodeSelector = selecting("pool")
	s.mcp("canary").Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "canary", Operator: metav1.LabelSelectorOpExists}}
	s.Targets[inNumo("target")].Spec.MachineConfigPools = []string{"infra", "gpu"}
	s.addNode("n2", "infra")
	s.addNode("g1", "gpu")
	for _, node := range s.Nodes {
		node.Annotations = map[string]string{}
	}
	return s
}

func (s *stagedRun) addNode(name, label string) *corev1.Node {
	node := nodeWith(map[string]string{label: "", "pool": ""}, map[string]string{})
	node.Name, node.UID = name, types.UID("uid-of-"+name)
	s.Nodes = append(s.Nodes, node)
	return node
}

func (s *stagedRun) mcp(name string) *mcfgv1.MachineConfigPool { return findMCP(s.MCPs, name) }

func (s *stagedRun) node(name string) *corev1.Node {
	s.Helper()
	for _, node := range s.Nodes {
		if node.Name == name {
			return node
		}
	}
	s.Fatalf("no node %s", name)
	return nil
}

// selectedBy returns the MachineConfigPools whose current selectors match a node. The machine-config-operator takes the node to them.
func (s *stagedRun) selectedBy(name string) string {
	s.Helper()
	var names []string
	for _, mcp := range s.MCPs {
		selector, err := metav1.LabelSelectorAsSelector(mcp.Spec.NodeSelector)
		if err != nil {
			s.Fatal(err)
		}
		if selector.Matches(labels.Set(s.node(name).Labels)) {
			names = append(names, mcp.Name)
		}
	}
	return strings.Join(names, " ")
}

// apply carries out a stage, and reports whether anything was to be changed. What depends on the end of another run is not carried out.
func (s *stagedRun) apply(stage Stage) (changed bool) {
	s.Helper()
	for _, change := range stage.MCPs {
		if change.Other == nil && !MCPStateOf(change.MCP).Equal(change.Want) {
			applyState(s.T, change.MCP, change.Want)
			changed = true
		}
	}
	for _, change := range stage.Nodes {
		if !change.Empty() {
			(&testRun{}).apply(change)
			changed = true
		}
	}
	return changed
}

// settle reconciles until nothing is left to change, one stage after another, and returns the last plan. After each stage every node is in exactly
// one MachineConfigPool: a node in none gets the configuration of the workers, one in two gets none.
func (s *stagedRun) settle() *Plan {
	s.Helper()
	for range 30 {
		plan, changed := Decide(Resolve(s.Input)), false
		for i := range plan.Stages {
			if changed = s.apply(plan.Stages[i]); changed {
				break
			}
		}
		for _, node := range s.Nodes {
			if mcps := s.selectedBy(node.Name); mcps == "" || strings.Contains(mcps, " ") {
				s.Fatalf("%s: node %s is in the MachineConfigPools %q, it has %v", plan.Action, node.Name, mcps, node.Labels)
			}
		}
		if !changed {
			return plan
		}
	}
	s.Fatal("after 30 reconciliations there is still something to change")
	return nil
}

// release releases a node as a step does.
func (s *stagedRun) release(name string) {
	(&testRun{}).apply(*releaseNode(s.node(name), Release{Version: "4.17.3", At: metav1.NewTime(testTime)}))
}

// copies returns copies of all MachineConfigPools and Nodes.
func (s *stagedRun) copies() (mcps []*mcfgv1.MachineConfigPool, nodes []*corev1.Node) {
	for _, mcp := range s.MCPs {
		mcps = append(mcps, mcp.DeepCopy())
	}
	for _, node := range s.Nodes {
		nodes = append(nodes, node.DeepCopy())
	}
	return mcps, nodes
}

// TestStages_GateAndRestore: waiting nodes stay in their paused MachineConfigPools, released ones are in the canary, and a run that ends leaves
// everything as it was.
func TestStages_GateAndRestore(t *testing.T) {
	for name, end := range map[string]func(*v1alpha1.MutexRunConfig){
		"suspended": func(c *v1alpha1.MutexRunConfig) { c.Spec.Suspend = true },
		"aborted":   func(c *v1alpha1.MutexRunConfig) { c.Spec.Abort = true },
		"deleted":   func(c *v1alpha1.MutexRunConfig) { c.DeletionTimestamp = &metav1.Time{Time: testTime} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStagedRun(t)
			mcps, nodes := s.copies()
			if plan := s.settle(); plan.Action != ActionGate || !s.mcp("infra").Spec.Paused || !s.mcp("gpu").Spec.Paused || s.mcp("canary").Spec.Paused {
				t.Errorf("the action is %s, infra is paused: %t", plan.Action, s.mcp("infra").Spec.Paused)
			}
			s.release("n1")
			s.settle()
			for node, want := range map[string]string{"n1": "canary", "n2": "infra", "g1": "gpu", "c1": "canary"} {
				if got := s.selectedBy(node); got != want {
					t.Errorf("node %s is in %s, want %s", node, got, want)
				}
			}
			joined := s.addNode("n3", "infra")
			if got := s.selectedBy("n3"); got != "" {
				t.Errorf("a node without the labels is in %q", got)
			}
			s.apply(Decide(Resolve(s.Input)).Stages[1])
			if got := s.selectedBy("n3"); got != "infra" {
				t.Errorf("the node that has joined is in %q with the labels %v", got, joined.Labels)
			}
			s.settle()
			s.Nodes = s.Nodes[:len(nodes)]

			end(s.Config)
			if plan := s.settle(); plan.Action != ActionRestore || plan.Unrestorable != "" {
				t.Errorf("the action is %s, unrestorable %q", plan.Action, plan.Unrestorable)
			}
			if diff := cmp.Diff([]any{mcps, nodes}, []any{s.MCPs, s.Nodes}, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("restored (-before, +after):\n%s", diff)
			}
			if Resolve(s.Input).NeedsRestore() {
				t.Error("something is left to restore")
			}
		})
	}
}

// TestStages_TargetDropped: a MachineConfigPool that the run does not need any more is restored together with its nodes, while the others stay gated.
func TestStages_TargetDropped(t *testing.T) {
	s := newStagedRun(t)
	mcps, nodes := s.copies()
	s.settle()
	s.release("g1")
	s.settle()
	s.Targets[inNumo("target")].Spec.MachineConfigPools = []string{"infra"}
	if plan := s.settle(); plan.Action != ActionGate {
		t.Errorf("the action is %s", plan.Action)
	}
	if diff := cmp.Diff([]any{findMCP(mcps, "gpu"), nodes[3]}, []any{s.mcp("gpu"), s.node("g1")}, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the dropped target (-before, +after):\n%s", diff)
	}
	if !s.mcp("infra").Spec.Paused || s.node("n1").Labels[LabelRun] != "uid" || s.selectedBy("g1") != "gpu" {
		t.Errorf("infra is paused: %t, n1 has %v", s.mcp("infra").Spec.Paused, s.node("n1").Labels)
	}
}

// TestStages_ReservedByOther: what another run has reserved is only taken over once that run is gone, and nothing is labeled before all is reserved.
// A MachineConfigPool with another role in that run is restored first.
func TestStages_ReservedByOther(t *testing.T) {
	for name, c := range map[string]struct {
		canary bool
		// run is the run in the wanted reservation; empty for none.
		run string
	}{
		"as a target: its record of the selector is inherited": {false, "run"},
		"as the canary: it is restored":                        {true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStagedRun(t)
			infra := s.mcp("infra")
			before := infra.Spec.DeepCopy()
			reservation := Reserve(infra, inNumo("other"), "uid-of-other").WithKeys([]string{LabelPrefix + "b.numo"})
			reservation.Canary = c.canary
			state := reservation.Gated()
			if c.canary {
				state = reservation.Open(infra)
			}
			applyState(t, infra, state)
			stages := Decide(Resolve(s.Input)).Stages
			if len(stages) != 1 || len(stages[0].Nodes) != 0 || stages[0].Condition != ConditionPaused {
				t.Fatalf("the stages are %+v", stages)
			}
			last := stages[0].MCPs[len(stages[0].MCPs)-1]
			if last.MCP != infra || last.Other == nil || last.Other.Run != inNumo("other") {
				t.Fatalf("the last change is %+v", last)
			}
			if got := len(stages[0].MCPs); got != 3 {
				t.Errorf("%d MachineConfigPools are reserved: those that precede it by name, and itself", got)
			}
			inherited := applyState(t, infra, last.Want)
			if c.run == "" {
				if diff := cmp.Diff(before, &infra.Spec); diff != "" || inherited != nil {
					t.Errorf("restored (-before, +after):\n%s, reservation %+v", diff, inherited)
				}
				return
			}
			if inherited.Run != inNumo(c.run) || inherited.UID != "uid" || !cmp.Equal(inherited.NodeSelector, before.NodeSelector) || inherited.Paused {
				t.Errorf("the reservation is %+v, want what the MachineConfigPool was before the other run", inherited)
			}
		})
	}
}

// TestStages_Reverted: what another writer undoes during a run is done again, and the change says so.
func TestStages_Reverted(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*stagedRun)
		want string
	}{
		"nothing": {func(*stagedRun) {}, ""},
		"a target is unpaused": {func(s *stagedRun) { s.mcp("infra").Spec.Paused = false },
			"another writer has unpaused MachineConfigPool infra; it is paused again"},
		"the canary is paused": {func(s *stagedRun) { s.mcp("canary").Spec.Paused = true }, ""},
		"the selector of the canary is changed": {func(s *stagedRun) { s.mcp("canary").Spec.NodeSelector = selecting("canary") },
			"another writer has changed the selector of MachineConfigPool canary; it is reverted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStagedRun(t)
			s.settle()
			c.edit(s)
			var reverted []string
			for _, stage := range Decide(Resolve(s.Input)).Stages {
				for _, change := range stage.MCPs {
					if change.Reverted != "" {
						reverted = append(reverted, change.Reverted)
					}
				}
			}
			if got := strings.Join(reverted, "; "); got != c.want {
				t.Errorf("reverted is %q, want %q", got, c.want)
			}
			s.settle()
			if !s.mcp("infra").Spec.Paused || s.selectedBy("c1") != "canary" {
				t.Errorf("infra is paused: %t, c1 is in %q", s.mcp("infra").Spec.Paused, s.selectedBy("c1"))
			}
		})
	}
}

// TestStages_JoinWhileInvalid: a run that waits for a user labels the nodes that join its MachineConfigPools: otherwise they would be upgraded with
// the workers. It does not touch nodes of other MachineConfigPools.
func TestStages_JoinWhileInvalid(t *testing.T) {
	s := newStagedRun(t)
	s.MCPs = append(s.MCPs, newMCP("edge", false, selecting("edge")))
	s.settle()
	key := Resolve(s.Input).Keys[0]
	s.Config.Spec.MutexRules = append(s.Config.Spec.MutexRules, v1alpha1.Reference{Name: "missing"})
	waiting, canary, elsewhere, disputed := s.addNode("n3", "infra"), s.addNode("c2", "canary"), s.addNode("e1", "edge"), s.addNode("x", "edge")
	disputed.Labels["infra"] = ""
	plan := Decide(Resolve(s.Input))
	if plan.Action != ActionWait || len(plan.Stages) != 1 {
		t.Fatalf("the plan is %+v", plan)
	}
	s.apply(plan.Stages[0])
	for _, c := range []struct {
		node      *corev1.Node
		run, rule bool
	}{{waiting, true, true}, {canary, true, false}, {elsewhere, false, false}, {disputed, false, false}} {
		_, rule := c.node.Labels[key]
		if run := c.node.Labels[LabelRun] == "uid"; run != c.run || rule != c.rule {
			t.Errorf("node %s has the labels %v", c.node.Name, c.node.Labels)
		}
	}
}

// TestStages_ReleaseLeases: a restore releases the leases of nodes that have no label of the run yet, which are known from their Jobs. Jobs from
// before the run was settled say nothing about a lease.
func TestStages_ReleaseLeases(t *testing.T) {
	for name, c := range map[string]struct {
		settled *metav1.Time
		label   string
		want    string
	}{
		"not labeled":         {nil, "", "n1"},
		"of another run":      {nil, "other", ""},
		"settled before that": {&metav1.Time{Time: testTime.Add(-1)}, "", "n1"},
		"settled since":       {&metav1.Time{Time: testTime}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStagedRun(t)
			rule, node := s.Rules[inNumo("db")], s.node("n1")
			id := JobID{Run: "uid", Version: "4.17.3", Node: node.UID, Rule: inNumo("db"), Kind: BeforeUpgrade}
			job := NewJob(rule, &batchv1.JobSpec{}, node, id)
			job.CreationTimestamp = metav1.NewTime(testTime)
			s.Jobs = map[types.NamespacedName]*batchv1.Job{keyOf(job): job}
			s.Config.Status.Settled = c.settled
			s.Config.Spec.Abort = true
			if c.label != "" {
				node.Labels[LabelRun] = c.label
			}
			var released []string
			run := Resolve(s.Input)
			for _, stage := range Decide(run).Stages {
				for _, change := range stage.Nodes {
					if change.ReleaseLease && change.Empty() {
						released = append(released, change.Node.Name)
					}
				}
			}
			if got := strings.Join(released, " "); got != c.want {
				t.Errorf("the leases of %q are released, want %q", got, c.want)
			}
			if got := run.Settled(); got != (c.want == "" && c.label == "") {
				t.Errorf("settled: %t", got)
			}
		})
	}
}
