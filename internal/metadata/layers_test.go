package metadata

import (
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	groupmembers "github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/metadata/pace"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/undecodable"
)

// newGroup returns a NodeGroup that declares a label for the Nodes of the pool, and whose status names it.
func newGroup(key, value string) *v1alpha1.NodeGroup {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "uid-g", Generation: 1}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}
	group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}}
	group.Status.OwnedKeys = []string{"label/" + key}
	return group
}

// newLayered returns a fixture of a Machine with a Node whose MachineSet declares the label team, in a group whose roll-out has reached the Node. The
// API server denies patches of one label; empty for none.
func newLayered(t *testing.T, group *v1alpha1.NodeGroup, denied string) (*fixture, *corev1.Node) {
	t.Helper()
	set, node := setOf("a", blue), builder.Node("n1")
	node.Labels = map[string]string{"pool": "a"}
	s := newFixture(t, Options{}, set, machineOf(set, "m1", "n1"), node, group)
	admit(s.serveGroups(t), group)
	s.deny = func(_ client.Object, patch client.Patch) error {
		if body, err := patch.Data(nil); err != nil || denied == "" || !strings.Contains(string(body), "/metadata/labels/"+denied) {
			return err
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", nil)
	}
	return s, node
}

// serveGroups adds the layer of NodeGroups.
func (s *fixture) serveGroups(t *testing.T) *gate.Gate {
	t.Helper()
	metrics, err := grouplayer.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	served := func() bool { return true }
	s.groups = grouplayer.NewLayer(grouplayer.Dependencies{
		Cache: s.client, Recorder: s.events, Clock: s.clock, Metrics: metrics, Finder: groupmembers.NewFinder(s.client, served),
		Gate: &gate.Gate{},
	}, grouplayer.Options{Limiter: pace.NewLimiter(0, 0), Protected: ownership.DefaultProtected(), Machines: served})
	s.versions, s.contention = s.groups.Memory.Versions, s.groups.Memory.Contention
	return s.groups.Gate
}

// admit has the roll-out of a group reach the Node.
func admit(admissions *gate.Gate, group *v1alpha1.NodeGroup) {
	admissions.Set(group.UID, gate.Admission{Declarations: sets.New(groupmembers.Parse(group).Declaration.Revision), Nodes: sets.New("n1")})
}

// TestReconcile_Layers: what a MachineSet and a NodeGroup declare reaches a Node in one patch, and rests then.
func TestReconcile_Layers(t *testing.T) {
	s, node := newLayered(t, newGroup("tier", "batch"), "")
	s.must(t, "m1", "Machine/m1 Node/n1")
	s.read(t, node)
	if node.Labels["team"] != "blue" || node.Labels["tier"] != "batch" || node.Annotations[ownership.AnnotationRecord] == "" ||
		node.Annotations[ownership.AnnotationGroupRecord] == "" {
		t.Errorf("the Node has %v and %v", node.Labels, node.Annotations)
	}
	s.must(t, "m1", "")
	apitest.Edit(t, s.client, node, func(n *corev1.Node) { delete(n.Labels, "team"); delete(n.Labels, "tier") })
	s.emitted()
	s.must(t, "m1", "Node/n1")
	if got := s.emitted(); got != "Normal MetadataRepaired, Normal MetadataRepaired" {
		t.Errorf("events %s", got)
	}
}

// TestReconcile_LayerIsDenied: what the API server denies of one layer does not keep the other one from the Node.
func TestReconcile_LayerIsDenied(t *testing.T) {
	for _, denied := range []string{"team", "tier"} {
		s, node := newLayered(t, newGroup("tier", "batch"), denied)
		if _, _, err := s.reconcile(t, "m1"); err != nil {
			t.Fatal(err)
		}
		s.read(t, node)
		_, team := node.Labels["team"]
		if _, tier := node.Labels["tier"]; team != (denied == "tier") || tier != (denied == "team") {
			t.Errorf("without %s the Node has %v", denied, node.Labels)
		}
	}
}

// TestReconcile_LayerOfAnUndecodableMachine: the roll-out of a NodeGroup knows why the Node of a Machine that cannot be decoded is not written, and
// goes on without it.
func TestReconcile_LayerOfAnUndecodableMachine(t *testing.T) {
	s, _ := newLayered(t, newGroup("tier", "batch"), "")
	machine := machineOf(setOf("a", blue), "m1", "n1")
	apitest.Edit(t, s.client, machine, func(machine *machinev1beta1.Machine) {
		machine.Annotations = map[string]string{undecodable.Annotation: apitest.UndecodableMark(t)}
	})
	if _, sent, err := s.reconcile(t, "m1"); !undecodable.Is(err) || sent != "" {
		t.Errorf("%q, %v", sent, err)
	}
	if got := s.groups.Gate.Trouble("n1").Failing; !strings.Contains(got, "Machine machines/m1 cannot be decoded") {
		t.Errorf("the group hears %q", got)
	}
	apitest.Edit(t, s.client, machine, func(machine *machinev1beta1.Machine) { machine.Annotations = nil })
	s.must(t, "m1", "Machine/m1 Node/n1")
	if got := s.groups.Gate.Trouble("n1").Failing; got != "" {
		t.Errorf("after the correction the group hears %q", got)
	}
}

// TestReconcile_LayersWithdraw: a value that both declare stays when one of them declares it no more, and is never missing meanwhile.
func TestReconcile_LayersWithdraw(t *testing.T) {
	withdraw := map[string]func(*machinev1beta1.MachineSet, *v1alpha1.NodeGroup){
		"the MachineSet": func(set *machinev1beta1.MachineSet, _ *v1alpha1.NodeGroup) { set.Spec.Template.Spec.Labels = nil },
		"the NodeGroup":  func(_ *machinev1beta1.MachineSet, group *v1alpha1.NodeGroup) { group.Spec.Metadata.Labels = nil },
	}
	for name, change := range withdraw {
		t.Run(name, func(t *testing.T) {
			group := newGroup("team", "blue")
			s, node := newLayered(t, group, "")
			s.settle(t)
			set := setOf("a", blue)
			apitest.Edit(t, s.client, set, func(set *machinev1beta1.MachineSet) { change(set, group) })
			apitest.Edit(t, s.client, group, func(g *v1alpha1.NodeGroup) { change(set, g); g.Generation++ })
			admit(s.groups.Gate, group)
			s.settle(t)
			if s.read(t, node); node.Labels["team"] != "blue" {
				t.Errorf("the Node has %v", node.Labels)
			}
		})
	}
}

// TestReconcile_LayersWithdrawBoth: a value goes that both have declared, also when the group has been suspended all the time, and has not recorded
// it.
func TestReconcile_LayersWithdrawBoth(t *testing.T) {
	group := newGroup("team", "blue")
	group.Spec.Suspend = true
	s, node := newLayered(t, group, "")
	s.settle(t)
	apitest.Edit(t, s.client, setOf("a", blue), func(set *machinev1beta1.MachineSet) { set.Spec.Template.Spec.Labels = nil })
	s.settle(t)
	if s.read(t, node); node.Labels["team"] != "blue" {
		t.Errorf("the Node has %v", node.Labels)
	}
	apitest.Edit(t, s.client, group, func(g *v1alpha1.NodeGroup) { g.Spec.Metadata.Labels = nil; g.Generation++ })
	s.settle(t)
	if s.read(t, node); node.Labels["team"] != "" {
		t.Errorf("the Node has %v", node.Labels)
	}
}

// TestReconcile_LayerTakesOver: a key that a Node has from its NodeGroup gets the MachineSet's value with the write that records it, and stays the
// group's until then: a MachineSet that is paused, or whose waves have not reached the Node, has nothing written.
func TestReconcile_LayerTakesOver(t *testing.T) {
	group := newGroup("team", "red")
	s, node := newLayered(t, group, "")
	set := setOf("a", blue)
	apitest.Edit(t, s.client, set, func(set *machinev1beta1.MachineSet) { set.Spec.Template.Spec.Labels = nil })
	s.must(t, "m1", "Node/n1")
	s.emitted()
	apitest.Edit(t, s.client, set, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = blue
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, plan.AnnotationPaused, "")
	})
	s.must(t, "m1", "")
	apitest.Edit(t, s.client, set, func(set *machinev1beta1.MachineSet) { set.Annotations = nil })
	s.gate = &gate.Gate{}
	s.must(t, "m1", "")
	if s.read(t, node); node.Labels["team"] != "red" {
		t.Errorf("the Node has %v", node.Labels)
	}
	s.gate = nil
	s.must(t, "m1", "Machine/m1 Node/n1")
	s.must(t, "m1", "Node/n1")
	if s.read(t, node); node.Labels["team"] != "blue" || strings.Contains(node.Annotations[ownership.AnnotationGroupRecord], "team") {
		t.Errorf("the Node has %v and %v", node.Labels, node.Annotations)
	}
	if got := s.emitted(); strings.Contains(got, "Repaired") {
		t.Errorf("events %s", got)
	}
	s.must(t, "m1", "")
}

// TestReconcile_LayersDisagree: the Machine that names the UID of a Node is the Node's, also while it is being deleted. Another Machine, which means
// an earlier Node of the name, has nothing written meanwhile, and does not contend with the NodeGroup.
func TestReconcile_LayersDisagree(t *testing.T) {
	set, node, group := setOf("a", blue), builder.Node("n1"), newGroup("team", "red")
	node.Labels = map[string]string{"pool": "a"}
	machine, deleted := machineOf(set, "m1", "n1"), machineOf(setOf("b", nil), "m2", "n1")
	machine.Status.NodeRef.UID, deleted.Status.NodeRef.UID = "earlier", node.UID
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: start}, []string{"machine.openshift.io/machine"}
	s := newFixture(t, Options{}, set, machine, deleted, node, group)
	admit(s.serveGroups(t), group)
	s.settle(t)
	if s.read(t, node); node.Labels["team"] != "red" {
		t.Errorf("the Node has %v", node.Labels)
	}
	apitest.Edit(t, s.client, deleted, func(m *machinev1beta1.Machine) { m.Finalizers = nil })
	s.settle(t)
	if s.read(t, node); node.Labels["team"] != "blue" {
		t.Errorf("the Node has %v", node.Labels)
	}
}

// TestReconcile_LayerPolicies: whatever the policies of a MachineSet and a NodeGroup that declare the same key, the MachineSet's counts, the value of
// another writer goes only if that policy adopts it, and the rest of what the group declares reaches the Node. Nothing is written again and again.
func TestReconcile_LayerPolicies(t *testing.T) {
	for _, policy := range []string{"keep", "adopt", "fail"} {
		for _, ofGroup := range []v1alpha1.ConflictPolicy{v1alpha1.ConflictKeep, v1alpha1.ConflictAdopt, v1alpha1.ConflictFail} {
			for _, theirs := range []string{"", "theirs"} {
				group := newGroup("team", "red")
				group.Spec.Metadata.Labels["tier"], group.Spec.Metadata.ConflictPolicy = "batch", ofGroup
				group.Status.OwnedKeys = append(group.Status.OwnedKeys, "label/tier")
				s, node := newLayered(t, group, "")
				apitest.Edit(t, s.client, setOf("a", blue), func(set *machinev1beta1.MachineSet) {
					set.Annotations = map[string]string{plan.AnnotationConflictPolicy: policy}
				})
				want := "blue"
				if theirs != "" {
					apitest.Edit(t, s.client, node, func(n *corev1.Node) { n.Labels["team"] = theirs })
					if policy != "adopt" {
						want = theirs
					}
				}
				s.settle(t)
				if s.read(t, node); node.Labels["team"] != want || node.Labels["tier"] != "batch" {
					t.Errorf("%s and %s, with %q: the Node has %v, want the team %s", policy, ofGroup, theirs, node.Labels, want)
				}
			}
		}
	}
}

// read reads an object.
func (s *fixture) read(t *testing.T, object client.Object) {
	t.Helper()
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
}

// settle reconciles the Machine until nothing is written any more.
func (s *fixture) settle(t *testing.T) {
	t.Helper()
	for range 10 {
		if _, sent, err := s.reconcile(t, "m1"); err != nil {
			t.Fatal(err)
		} else if sent == "" {
			return
		}
	}
	t.Fatal("it writes again and again")
}
