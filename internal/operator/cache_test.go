package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/compact"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

func fullMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "machines", Name: name, UID: "uid", ResourceVersion: "7", Generation: 3, Labels: map[string]string{"pool": "a", "old": "1"},
		Annotations:       map[string]string{ownership.AnnotationRecord: `{"labels":["old"]}`, "example.com/note": "x"},
		OwnerReferences:   []metav1.OwnerReference{{Kind: "MachineSet", Name: "a", UID: "uid", Controller: new(true)}},
		Finalizers:        []string{"example.com/f"},
		CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
		ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
	}
}

func fullNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: fullMeta("n"),
		Spec:       corev1.NodeSpec{ProviderID: "aws:///x", Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Images: []corev1.ContainerImage{{Names: []string{"image"}}}, Capacity: corev1.ResourceList{"cpu": {}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "kubelet is posting", LastHeartbeatTime: metav1.Now()},
			},
		},
	}
}

func fullMachine() *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: fullMeta("m")}
	machine.Spec.Labels, machine.Spec.Taints = map[string]string{"hand": "made"}, []corev1.Taint{{Key: "b", Effect: corev1.TaintEffectNoExecute}}
	machine.Spec.ProviderSpec.Value, machine.Spec.ProviderID = &runtime.RawExtension{Raw: []byte(`{"ami":"x"}`)}, new("aws:///x")
	machine.Status = machinev1beta1.MachineStatus{
		NodeRef: &corev1.ObjectReference{Name: "n"}, Phase: new("Running"), AuthoritativeAPI: machinev1beta1.MachineAuthorityMachineAPI,
		ErrorMessage: new("x"), ProviderStatus: &runtime.RawExtension{Raw: []byte(`{}`)}, Addresses: []corev1.NodeAddress{{Address: "10.0.0.1"}},
	}
	return machine
}

func fullSet() *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{ObjectMeta: fullMeta("a")}
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
	set.Spec.Template.Spec.Labels, set.Spec.Template.Spec.Annotations = map[string]string{"team": "blue"}, map[string]string{"n": "1"}
	set.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "c", Value: "1", Effect: corev1.TaintEffectNoSchedule}}
	set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"ami":"x"}`)}
	set.Spec.Replicas, set.Status.ReadyReplicas = new(int32(3)), 3
	return set
}

func trimmed[T client.Object](t *testing.T, drop func(T), object T) T {
	t.Helper()
	out, err := trim(drop)(object)
	if err != nil {
		t.Fatal(err)
	}
	same, ok := out.(T)
	if !ok {
		t.Fatalf("a %T became a %T", object, out)
	}
	return same
}

// What is not listed here is in memory five thousand times for nothing; what is missing here and used would be read as empty.
func TestTrims(t *testing.T) {
	node, machine, set := fullNode(), fullMachine(), fullSet()
	node.ManagedFields, machine.ManagedFields, set.ManagedFields = nil, nil, nil
	delete(machine.Annotations, "example.com/note")
	delete(set.Annotations, "example.com/note")
	set.Labels = nil
	node.Status = corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	machine.Spec.ProviderSpec.Value, set.Spec.Template.Spec.ProviderSpec.Value = nil, nil
	machine.Status = machinev1beta1.MachineStatus{
		NodeRef: machine.Status.NodeRef, Phase: machine.Status.Phase, AuthoritativeAPI: machine.Status.AuthoritativeAPI,
	}
	for name, diff := range map[string]string{
		"Node":       cmp.Diff(node, trimmed(t, compact.Node, fullNode())),
		"Machine":    cmp.Diff(machine, trimmed(t, trimMachine, fullMachine())),
		"MachineSet": cmp.Diff(set, trimmed(t, trimMachineSet, fullSet())),
	} {
		if diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	pod := &corev1.Pod{ObjectMeta: fullMeta("p")}
	if out, err := trim(compact.Node)(pod); err != nil || out != any(pod) || len(pod.ManagedFields) != 1 {
		t.Errorf("another kind was trimmed: %v, %v", out, err)
	}
}

// The operator decides on trimmed objects, kubectl drover on whole ones: they must say the same.
func TestTrimmedObjectsGiveTheSameDecision(t *testing.T) {
	decide := func(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine, node *corev1.Node) plan.Decision {
		return plan.Decide(plan.Input{
			Declaration: plan.DeclarationOf(set), Machine: machine, Node: node, Protected: ownership.DefaultProtected(), Now: time.Unix(1_700_000_000, 0),
		})
	}
	whole := decide(fullSet(), fullMachine(), fullNode())
	if !whole.Machine.Write || !whole.Node.Write {
		t.Fatalf("nothing to compare: %+v", whole)
	}
	set, machine := trimmed(t, trimMachineSet, fullSet()), trimmed(t, trimMachine, fullMachine())
	if diff := cmp.Diff(whole, decide(set, machine, trimmed(t, compact.Node, fullNode())), cmp.AllowUnexported(plan.Change{})); diff != "" {
		t.Error(diff)
	}
	for _, machine := range []*machinev1beta1.Machine{fullMachine(), machine} {
		if membership, err := machineapi.MembershipOf(set); err != nil || !membership.Has(machine) {
			t.Errorf("Machine %s does not belong to its MachineSet: %v", machine.Name, err)
		}
	}
}

func TestCacheIsLimitedToANamespace(t *testing.T) {
	for namespace, want := range map[string]string{"machines": "metadata.namespace=machines", "": ""} {
		for object, by := range cacheOptions(namespace, false).ByObject {
			limit, expected := "", ""
			if by.Field != nil {
				limit = by.Field.String()
			}
			switch object.(type) {
			case *machinev1beta1.Machine, *machinev1beta1.MachineSet, *machinev1beta1.MachineHealthCheck, *autoscaling.MachineAutoscaler:
				expected = want
			case *coordinationv1.Lease:
				// The heartbeats of kubelets are leases, too, in another namespace.
				expected = "metadata.namespace=medik8s-leases"
			default:
				if by.Transform == nil {
					t.Errorf("%T is cached whole", object)
				}
			}
			if limit != expected {
				t.Errorf("namespace %q: %T is limited to %q", namespace, object, limit)
			}
		}
	}
}

// Everything that is written or watched has to be mapped by hand.
func TestMapperKnowsWhatIsUsed(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range append(metadata.Kinds(), &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{
		APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition",
	}}) {
		found, err := apiutil.GVKForObject(kind, scheme)
		if err != nil {
			t.Fatal(err)
		}
		mapping, err := newMapper().RESTMapping(found.GroupKind(), found.Version)
		if err != nil {
			t.Error(err)
			continue
		}
		resource, scope := strings.ToLower(found.Kind)+"s", meta.RESTScopeNameNamespace
		if found.Kind == "Node" || found.Kind == "CustomResourceDefinition" {
			scope = meta.RESTScopeNameRoot
		}
		if mapping.Resource.Resource != resource || mapping.Scope.Name() != scope {
			t.Errorf("%s is %s, %s", found, mapping.Resource, mapping.Scope.Name())
		}
	}
}

func TestSchemeKnowsWhatIsUsed(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []runtime.Object{&corev1.Node{}, &machinev1beta1.Machine{}, &machinev1beta1.MachineSetList{}, &corev1.Event{}} {
		if _, _, err := scheme.ObjectKinds(object); err != nil {
			t.Error(err)
		}
	}
}
