package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// These tests state the defects of managed-node-metadata-operator that Drover must not have (docs/compatibility/mnmo.md; D1, D2 and D6 are in
// metadata_test.go).

func TestMNMO_ForeignLabelOnOneNode(t *testing.T) { // D3
	t.Parallel()
	w := pool(t, "d3", 3)
	label(w, "d3-0", "example.com/team", "green")
	shared.For(t, env)
	// A conflict that a new process finds is not reported as new.
	w.Mark("d3")
	setLabel(w, "d3", "example.com/team", "blue")
	hasLabel(w, "d3-1", "example.com/team", "blue")
	hasLabel(w, "d3-2", "example.com/team", "blue")
	w.Mark("d3")
	hasLabel(w, "d3-0", "example.com/team", "green")
	if value, ok := w.Machine("d3-0").Spec.Labels["example.com/team"]; ok {
		t.Errorf("the Machine of the Node in conflict has %q: nodelink would carry it over the other's value", value)
	}
	hasEvent(w, "Node", "d3-0", metadata.EventConflict, `"green"`)
	hasEvent(w, "MachineSet", "d3", metadata.EventConflict, "d3-0")
}

func TestMNMO_DuplicateTaint(t *testing.T) { // D4
	t.Parallel()
	w := pool(t, "d4", 3)
	shared.For(t, env)
	declare(w, "d4", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels = map[string]string{"example.com/good": "yes", "example.com/bad value": "x"}
		spec.Taints = []corev1.Taint{
			harness.Taint("example.com/same", "1", corev1.TaintEffectNoSchedule), harness.Taint("example.com/same", "1", corev1.TaintEffectNoSchedule),
			harness.Taint("example.com/two", "1", corev1.TaintEffectNoSchedule), harness.Taint("example.com/two", "2", corev1.TaintEffectNoSchedule),
			harness.Taint("example.com/bad", "1", "Sometimes"),
			harness.Taint("example.com/fine", "1", corev1.TaintEffectPreferNoSchedule),
		}
	})
	w.Nodes("d4", "everything that is valid", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/good": "yes"}, nil,
			"example.com/same=1:NoSchedule", "example.com/two=1:NoSchedule", "example.com/fine=1:PreferNoSchedule")
	})
	hasEvent(w, "MachineSet", "d4", metadata.EventDuplicate, "example.com/same")
	hasEvent(w, "MachineSet", "d4", metadata.EventDuplicate, "example.com/two")
	hasEvent(w, "MachineSet", "d4", metadata.EventInvalid, "example.com/bad:Sometimes")
	hasEvent(w, "MachineSet", "d4", metadata.EventInvalid, "example.com/bad value")
}

func TestMNMO_MachineSetWithoutMetadata(t *testing.T) { // D5
	t.Parallel()
	w := pool(t, "d5", 3)
	w.Pool(cluster.PoolOptions{Name: "d5-other", Machines: 1})
	shared.For(t, env)
	mark := w.AuditMark()
	for i := range 3 {
		annotate(w, w.Set("d5"), "example.com/touched", fmt.Sprint(i))
		set := w.Set("d5")
		set.Status.ReadyReplicas = int32(i)
		if err := w.Client.Status().Update(w.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	w.Mark("d5-other")
	for _, write := range writesOf(w, mark, "d5-") {
		if !strings.HasPrefix(write.Name, "d5-other") {
			t.Errorf("wrote %s %s", write.Resource, write.Name)
		}
	}
	for i := range 3 {
		node := w.Node(fmt.Sprintf("d5-%d", i))
		for key := range node.Annotations {
			if strings.HasPrefix(key, "drover.dev/") || strings.HasPrefix(key, "managed.openshift.com/") {
				t.Errorf("node %s has annotation %s", node.Name, key)
			}
		}
	}
}

func TestMNMO_MachineWithoutNode(t *testing.T) { // D7
	t.Parallel()
	w := pool(t, "d7", 4)
	deleteNode(w, "d7-0")
	machine := w.Machine("d7-1")
	machine.Status.NodeRef = nil
	if err := w.Client.Status().Update(w.Context(), machine); err != nil {
		t.Fatal(err)
	}
	shared.For(t, env)
	setLabel(w, "d7", "example.com/team", "blue")
	hasLabel(w, "d7-2", "example.com/team", "blue")
	hasLabel(w, "d7-3", "example.com/team", "blue")
	w.Eventually("the Machine whose Node is gone", func() error { return machineLabel(w, "d7-0", "example.com/team", "blue") })
	w.Eventually("the Machine without nodeRef", func() error { return machineLabel(w, "d7-1", "example.com/team", "blue") })

	// The Node comes back, and the other Machine gets one: no MachineSet event is needed for either.
	createNode(w, "d7-0", nil)
	hasLabel(w, "d7-0", "example.com/team", "blue")
	createNode(w, "d7-late", nil)
	machine = w.Machine("d7-1")
	machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "d7-late"}
	if err := w.Client.Status().Update(w.Context(), machine); err != nil {
		t.Fatal(err)
	}
	hasLabel(w, "d7-late", "example.com/team", "blue")
}

// What machine-api-operator's nodelink controller carries reaches the Node, from the MachineSet and from a Machine alone.
func TestMachineAPIKeys_ReachTheNode(t *testing.T) {
	t.Parallel()
	w := pool(t, "mao", 2)
	shared.For(t, env)
	labels := map[string]string{
		"machine.openshift.io/interruptible-instance": "", "cluster.x-k8s.io/cluster-name": "blue",
		"topology.ebs.csi.aws.com/zone": "a", "node-role.kubernetes.io/infra": "",
	}
	declare(w, "mao", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels, spec.Annotations = labels, map[string]string{"machine.openshift.io/note": "1", "cluster.x-k8s.io/note": "2"}
	})
	own := `{"spec":{"metadata":{"labels":{"machine.openshift.io/own":"1"},"annotations":{"cluster.x-k8s.io/own":"2"}}}}`
	if err := w.Client.Patch(t.Context(), w.Machine("mao-0"), mergePatch(own)); err != nil {
		t.Fatal(err)
	}
	w.Nodes("mao", "the keys of the MachineSet", func(node *corev1.Node) error {
		if node.Annotations["machine.openshift.io/note"] != "1" || node.Annotations["cluster.x-k8s.io/note"] != "2" {
			return fmt.Errorf("annotations are %v", node.Annotations)
		}
		return harness.Has(node, labels, nil)
	})
	hasLabel(w, "mao-0", "machine.openshift.io/own", "1")
	w.AwaitNode("mao-0", "the Machine's own annotation", func(node *corev1.Node) error {
		if node.Annotations["cluster.x-k8s.io/own"] != "2" {
			return fmt.Errorf("annotations are %v", node.Annotations)
		}
		return nil
	})
	for kind, name := range map[string]string{"MachineSet": "mao", "Machine": "mao-0"} {
		if refused := w.Events(kind, name)[metadata.EventRefused]; len(refused) > 0 {
			t.Errorf("%s %s: %v", kind, name, refused)
		}
	}
}

func machineLabel(w *harness.World, name, key, value string) error {
	if got := w.Machine(name).Spec.Labels[key]; got != value {
		return fmt.Errorf("machine %s: label %s is %q, want %q", name, key, got, value)
	}
	return nil
}

func TestMNMO_KeysOfTheSystem(t *testing.T) { // D8, and a kubelet that restores its labels when it starts
	t.Parallel()
	w := pool(t, "d8", 2)
	before := w.Node("d8-0")
	shared.For(t, env)
	declare(w, "d8", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels = map[string]string{
			"kubernetes.io/hostname": "wrong", "node-role.kubernetes.io/worker": "overruled", "node-role.kubernetes.io/infra": "",
			"topology.kubernetes.io/zone": "moon", "example.com/team": "blue",
		}
		spec.Taints = []corev1.Taint{harness.Taint("node.kubernetes.io/unreachable", "", corev1.TaintEffectNoExecute)}
	})
	w.Nodes("d8", "the label that is allowed", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "blue", "node-role.kubernetes.io/infra": ""}, nil)
	})
	hasEvent(w, "MachineSet", "d8", metadata.EventRefused, "kubernetes.io/hostname")
	hasEvent(w, "MachineSet", "d8", metadata.EventRefused, "node.kubernetes.io/unreachable")

	kubelet, err := env.AsNode("d8-0")
	if err != nil {
		t.Fatal(err)
	}
	mark := w.AuditMark()
	restart := `{"metadata":{"labels":{"kubernetes.io/hostname":"d8-0","topology.kubernetes.io/zone":"` +
		before.Labels["topology.kubernetes.io/zone"] + `","kubernetes.io/arch":"amd64"}}}`
	if err := harness.ClientFor(t, kubelet).Patch(t.Context(), &corev1.Node{ObjectMeta: named("d8-0")}, mergePatch(restart)); err != nil {
		t.Fatal(err)
	}
	label(w, "d8-0", "example.com/other", "1")
	unlabel(w, "d8-0", "example.com/team")
	hasLabel(w, "d8-0", "example.com/team", "blue")
	if writes := writesOf(w, mark, "d8-"); len(writes) != 1 {
		t.Errorf("%d writes after a kubelet's restart and one repair, want 1: %v", len(writes), writes)
	}
	node := w.Node("d8-0")
	for _, key := range []string{"kubernetes.io/hostname", "node-role.kubernetes.io/worker", "topology.kubernetes.io/zone"} {
		if node.Labels[key] != before.Labels[key] {
			t.Errorf("label %s is %q, was %q", key, node.Labels[key], before.Labels[key])
		}
	}
	if slices.Contains(harness.Taints(node), "node.kubernetes.io/unreachable=:NoExecute") {
		t.Errorf("taints are %v", harness.Taints(node))
	}
}

func TestMNMO_CopiedMetadataAdopted(t *testing.T) { // D9
	taint := harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)
	w := pool(t, "d9", 2, func(o *cluster.PoolOptions) {
		o.Labels = map[string]string{"example.com/team": "blue"}
		o.Taints = []corev1.Taint{taint}
		o.CopyToNodes = true
	})
	w.Operator(harness.Options{})
	w.Mark("d9")
	declare(w, "d9", func(spec *machinev1beta1.MachineSpec) { delete(spec.Labels, "example.com/team"); spec.Taints = nil })
	lacksLabel(w, "d9-0", "example.com/team")
	lacksLabel(w, "d9-1", "example.com/team")
	w.Nodes("d9", "no taint", func(node *corev1.Node) error {
		if slices.Contains(node.Spec.Taints, taint) {
			return fmt.Errorf("node %s has %v", node.Name, harness.Taints(node))
		}
		return nil
	})
}

func TestMNMO_RecordTakenOver(t *testing.T) {
	// As MNMO left it: labels on Machine and Node, its annotation in random order, one label dropped while no operator ran.
	w := pool(t, "mnmo", 2, func(o *cluster.PoolOptions) {
		o.Labels = map[string]string{"example.com/b": "1", "example.com/a": "1"}
		o.NodeLabels = map[string]string{"example.com/b": "1", "example.com/a": "1", "example.com/dropped": "1", "example.com/foreign": "1"}
		o.NodeAnnotations = map[string]string{"managed.openshift.com/customlabels": "example.com/dropped,example.com/b,example.com/a"}
	})
	w.Operator(harness.Options{})
	w.Nodes("mnmo", "the dropped label goes, the list is sorted", func(node *corev1.Node) error {
		if _, ok := node.Labels["example.com/dropped"]; ok {
			return fmt.Errorf("node %s still has it", node.Name)
		}
		return harness.Has(node, map[string]string{"example.com/a": "1", "example.com/foreign": "1"},
			map[string]string{"managed.openshift.com/customlabels": "example.com/a,example.com/b"})
	})

	// MNMO comes back for a while: it adds c to the Machine, the Node and its list, and takes b away.
	declare(w, "mnmo", func(spec *machinev1beta1.MachineSpec) { spec.Labels = add(spec.Labels, "example.com/c", "1") })
	hasLabel(w, "mnmo-0", "example.com/c", "1")
	node := w.Node("mnmo-0")
	if got := node.Annotations["managed.openshift.com/customlabels"]; got != "example.com/a,example.com/b,example.com/c" {
		t.Errorf("the list is %q", got)
	}
	if keys := strings.Split(node.Annotations["managed.openshift.com/customlabels"], ","); !slices.IsSorted(keys) {
		t.Errorf("the list is not sorted: %v", keys)
	}
}

func TestMNMO_MachineWithoutOwner(t *testing.T) {
	t.Parallel()
	w := pool(t, "orphan", 2)
	shared.For(t, env)
	harness.Update(w, w.Machine, "orphan-0", func(m *machinev1beta1.Machine) { m.OwnerReferences = nil })
	harness.Update(w, w.Machine, "orphan-1", func(m *machinev1beta1.Machine) {
		controller := true
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Other", Name: "x", UID: "1234", Controller: &controller}}
	})
	setLabel(w, "orphan", "example.com/team", "blue")
	hasLabel(w, "orphan-0", "example.com/team", "blue")
	if _, ok := w.Node("orphan-1").Labels["example.com/team"]; ok {
		t.Error("the Node of a Machine with another owner was written")
	}
	harness.Update(w, w.Machine, "orphan-1", func(m *machinev1beta1.Machine) { m.OwnerReferences = nil })
	hasLabel(w, "orphan-1", "example.com/team", "blue")
}
