package e2e

import (
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

func TestOwnership_OwnReverted_ForeignKept(t *testing.T) {
	t.Parallel()
	w := pool(t, "drift", 2)
	shared.For(t, env)
	declare(w, "drift", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels = map[string]string{"example.com/team": "blue"}
		spec.Annotations = map[string]string{"example.com/note": "declared"}
		spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
	})
	complete := func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "blue"}, map[string]string{"example.com/note": "declared"},
			"example.com/dedicated=one:NoSchedule")
	}
	w.Nodes("drift", "roll-out", complete)
	harness.Update(w, w.Node, "drift-0", func(node *corev1.Node) {
		delete(node.Labels, "example.com/team")
		node.Annotations["example.com/note"] = "changed"
		node.Spec.Taints = []corev1.Taint{harness.Taint("example.com/admin", "", corev1.TaintEffectNoSchedule)}
		node.Labels["example.com/foreign"] = "mine"
	})
	w.Nodes("drift", "repair", complete)
	w.Eventually("the foreign taint", func() error { return harness.Has(w.Node("drift-0"), nil, nil, "example.com/admin=:NoSchedule") })
	hasEvent(w, "Node", "drift-0", metadata.EventRepaired, "example.com/team")

	// The Machine is repaired as well.
	harness.Update(w, w.Machine, "drift-1", func(m *machinev1beta1.Machine) {
		m.Spec.Labels = map[string]string{"example.com/by-hand": "1"}
	})
	w.Eventually("the Machine", func() error { return machineLabel(w, "drift-1", "example.com/team", "blue") })
	// A key that stands on the Machine only is its own: it stays there, and flows to its Node.
	hasLabel(w, "drift-1", "example.com/by-hand", "1")
	dropLabel(w, "drift", "example.com/team")
	lacksLabel(w, "drift-0", "example.com/team")
	node := w.Node("drift-0")
	if node.Labels["example.com/foreign"] != "mine" {
		t.Errorf("the foreign label is %q", node.Labels["example.com/foreign"])
	}
	harness.Update(w, w.Machine, "drift-1", func(m *machinev1beta1.Machine) { delete(m.Spec.Labels, "example.com/by-hand") })
	lacksLabel(w, "drift-1", "example.com/by-hand")
}

func TestConflict_Adopt(t *testing.T) {
	t.Parallel()
	w := pool(t, "adopt", 2)
	label(w, "adopt-0", "example.com/team", "green")
	annotate(w, w.Set("adopt"), plan.AnnotationConflictPolicy, "adopt")
	shared.For(t, env)
	setLabel(w, "adopt", "example.com/team", "blue")
	hasLabel(w, "adopt-0", "example.com/team", "blue")
	dropLabel(w, "adopt", "example.com/team")
	lacksLabel(w, "adopt-0", "example.com/team")
}

func TestConflict_Fail(t *testing.T) {
	t.Parallel()
	w := pool(t, "fail", 2)
	label(w, "fail-0", "example.com/team", "green")
	annotate(w, w.Set("fail"), plan.AnnotationConflictPolicy, "fail")
	shared.For(t, env)
	// A conflict that a new process finds is not reported as new.
	w.Mark("fail")
	declare(w, "fail", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels = map[string]string{"example.com/team": "blue", "example.com/other": "1"}
	})
	hasLabel(w, "fail-1", "example.com/other", "1")
	hasEvent(w, "Node", "fail-0", metadata.EventConflict, "policy is fail")
	if value, ok := w.Node("fail-0").Labels["example.com/other"]; ok {
		t.Errorf("the Node in conflict was written: %q", value)
	}
	// The conflict ends, and the Node gets everything.
	unlabel(w, "fail-0", "example.com/team")
	hasLabel(w, "fail-0", "example.com/other", "1")
	hasLabel(w, "fail-0", "example.com/team", "blue")
}

func TestConflict_UnknownPolicy(t *testing.T) {
	t.Parallel()
	w := pool(t, "policy", 1)
	label(w, "policy-0", "example.com/team", "green")
	shared.For(t, env)
	annotate(w, w.Set("policy"), plan.AnnotationConflictPolicy, "overwrite")
	setLabel(w, "policy", "example.com/team", "blue")
	w.Mark("policy")
	hasLabel(w, "policy-0", "example.com/team", "green")
	hasEvent(w, "MachineSet", "policy", metadata.EventInvalid, "overwrite")
}

func TestPause_MachineSetMachineOrNode(t *testing.T) {
	t.Parallel()
	w := pool(t, "pause", 3)
	w.Pool(cluster.PoolOptions{Name: "pause-unpaused", Machines: 1})
	annotate(w, w.Machine("pause-0"), plan.AnnotationPaused, "true")
	annotate(w, w.Node("pause-1"), plan.AnnotationPaused, "true")
	shared.For(t, env)
	setLabel(w, "pause", "example.com/team", "blue")
	hasLabel(w, "pause-2", "example.com/team", "blue")
	w.Mark("pause-unpaused")
	for _, name := range []string{"pause-0", "pause-1"} {
		_, onNode := w.Node(name).Labels["example.com/team"]
		// The Machine of a paused Node waits with it: nodelink would carry what is written there to the Node.
		_, onMachine := w.Machine(name).Spec.Labels["example.com/team"]
		if onNode || onMachine {
			t.Errorf("%s was written although it is paused: Node %t, Machine %t", name, onNode, onMachine)
		}
	}
	annotate(w, w.Machine("pause-0"), plan.AnnotationPaused, "")
	annotate(w, w.Node("pause-1"), plan.AnnotationPaused, "")
	hasLabel(w, "pause-0", "example.com/team", "blue")
	hasLabel(w, "pause-1", "example.com/team", "blue")

	annotate(w, w.Set("pause"), plan.AnnotationPaused, "true")
	mark := w.AuditMark()
	setLabel(w, "pause", "example.com/team", "red")
	w.Pool(cluster.PoolOptions{Name: "pause-other", Machines: 1})
	w.Mark("pause-other")
	for _, write := range writesOf(w, mark, "pause-") {
		if write.Name != "pause-other-0" {
			t.Errorf("wrote %s %s of a paused pool", write.Resource, write.Name)
		}
	}
	annotate(w, w.Set("pause"), plan.AnnotationPaused, "")
	hasLabel(w, "pause-0", "example.com/team", "red")
}

func TestOwnership_SetOnceTaint(t *testing.T) {
	t.Parallel()
	w := pool(t, "once", 1)
	annotate(w, w.Set("once"), plan.AnnotationSetOnceTaints, "example.com/starting")
	shared.For(t, env)
	starting := harness.Taint("example.com/starting", "", corev1.TaintEffectNoSchedule)
	declare(w, "once", func(spec *machinev1beta1.MachineSpec) { spec.Taints = []corev1.Taint{starting} })
	given := func() error { return harness.Has(w.Node("once-0"), nil, nil, "example.com/starting=:NoSchedule") }
	w.Eventually("the taint", given)
	harness.Update(w, w.Node, "once-0", func(node *corev1.Node) { node.Spec.Taints = nil })
	w.Mark("once")
	if given() == nil {
		t.Error("a taint that is given once came back")
	}
	// A Node that registers anew gets it anew.
	deleteNode(w, "once-0")
	createNode(w, "once-0", nil)
	w.Eventually("the taint on the new Node", given)
}

func TestOwnership_NodeOfTwoMachines(t *testing.T) {
	t.Parallel()
	w := pool(t, "shared", 2)
	shared.For(t, env)
	w.Mark("shared")
	machine := w.Machine("shared-1")
	machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "shared-0"}
	if err := w.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	// Drover sees Machines and MachineSets each in their own order: it knows these Machines only after what the other one says now.
	w.Pool(cluster.PoolOptions{Name: "shared-other", Machines: 1})
	w.Mark("shared-other")
	setLabel(w, "shared", "example.com/team", "blue")
	w.Eventually("the Machines", func() error { return machineLabel(w, "shared-0", "example.com/team", "blue") })
	w.Mark("shared-other")
	if _, ok := w.Node("shared-0").Labels["example.com/team"]; ok {
		t.Error("a Node that two Machines name was written")
	}
	machine = w.Machine("shared-1")
	machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "shared-1"}
	if err := w.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	hasLabel(w, "shared-0", "example.com/team", "blue")
	hasLabel(w, "shared-1", "example.com/team", "blue")
}

func TestOwnership_UnreadableRecord(t *testing.T) {
	t.Parallel()
	w := pool(t, "hostile", 1)
	shared.For(t, env)
	setLabel(w, "hostile", "example.com/team", "blue")
	hasLabel(w, "hostile-0", "example.com/team", "blue")
	for i, text := range []string{"{", `[]`, `{"labels":["kubernetes.io/hostname","example.com/foreign"]}`, "null"} {
		label(w, "hostile-0", "example.com/foreign", fmt.Sprint(i))
		annotate(w, w.Node("hostile-0"), ownership.AnnotationRecord, text)
		w.Mark("hostile")
		node := w.Node("hostile-0")
		if node.Labels["kubernetes.io/hostname"] != "hostile-0" || node.Labels["example.com/team"] != "blue" {
			t.Errorf("after the record %q the labels are %v", text, node.Labels)
		}
	}
}

func TestContention_DistinguishedFromManualEdit(t *testing.T) {
	w := pool(t, "contended", 2)
	operator := w.Operator(harness.Options{})
	setLabel(w, "contended", "example.com/team", "blue")
	hasLabel(w, "contended-0", "example.com/team", "blue")
	for round := 0; ; round++ {
		if len(w.Events("Node", "contended-0")[metadata.EventContention]) > 0 {
			break
		}
		if round == 50 {
			t.Fatal("50 rounds, and no contention was noticed")
		}
		label(w, "contended-0", "example.com/team", "red")
		w.Eventually("the next repair, or the pause", func() error {
			if w.Node("contended-0").Labels["example.com/team"] == "blue" || len(w.Events("Node", "contended-0")[metadata.EventContention]) > 0 {
				return nil
			}
			return fmt.Errorf("the label is red and no contention is reported")
		})
	}
	metricsHave(w, operator, `drover_metadata_fights_total 1`)
	metricsHave(w, operator, `drover_metadata_nodes{machineset="contended",namespace="openshift-machine-api",state="held"} 1`)
	// The other key of the same Node, and the other Node, go on.
	w.Mark("contended")
	if w.Node("contended-0").Labels["example.com/team"] == "blue" {
		label(w, "contended-0", "example.com/team", "red")
		w.Mark("contended")
	}
	hasLabel(w, "contended-0", "example.com/team", "red")
}
