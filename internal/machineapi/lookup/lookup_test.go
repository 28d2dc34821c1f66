package lookup

import (
	"context"
	"errors"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// indexer passes indexes on to the builder of a fake client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(object, field, extract)
	return nil
}

type failingIndexer struct{ err error }

func (i failingIndexer) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return i.err
}

func newMachine(namespace, name, node, owner string) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if node != "" {
		machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node}
	}
	if owner != "" {
		machine.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "web", UID: types.UID(owner), Controller: new(true)}}
	}
	return machine
}

func TestLookup(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := machinev1beta1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		newMachine("a", "owned", "n1", "uid"), newMachine("a", "orphan", "n2", ""),
		newMachine("a", "foreign", "", "other"), newMachine("b", "far", "n1", ""),
	)
	if err := errors.Join(Index(t.Context(), indexer{builder}), IndexOwners(t.Context(), indexer{builder})); err != nil {
		t.Fatal(err)
	}
	cache := builder.Build()
	for _, c := range []struct {
		name, node, namespace string
		want                  string
	}{
		{"Node of two Machines", "n1", "", "owned far"},
		{"Node of no Machine", "n3", "", ""},
		{"owned, and without a controller", "", "a", "owned orphan"},
		{"only those without a controller", "", "b", "far"},
	} {
		t.Run(c.name, func(t *testing.T) {
			machines, err := MachinesOfNode(t.Context(), cache, c.node)
			if c.namespace != "" {
				machines, err = MachinesOfSet(t.Context(), cache, c.namespace, "uid")
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := range machines {
				names = append(names, machines[i].Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("Machines %q, want %q", got, c.want)
			}
		})
	}
}

func TestIndex_Fails(t *testing.T) {
	broken := errors.New("broken")
	for _, add := range []func(context.Context, client.FieldIndexer) error{Index, IndexOwners} {
		if err := add(t.Context(), failingIndexer{broken}); !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
}
