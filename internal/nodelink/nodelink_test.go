package nodelink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/machineapi/lookup"
)

func addresses(ips []string) []corev1.NodeAddress {
	out := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "10.9.9.9"}}
	for _, ip := range ips {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return out
}

func node(name, id string, ips ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-node-" + name)},
		Spec:       corev1.NodeSpec{ProviderID: id}, Status: corev1.NodeStatus{Addresses: addresses(ips)},
	}
}

func machine(name, id string, ips ...string) *machinev1beta1.Machine {
	m := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: name, UID: types.UID("uid-of-" + name)}}
	if id != "" {
		m.Spec.ProviderID = &id
	}
	m.Status.Addresses = addresses(ips)
	return m
}

type fieldIndexer struct{ builder *fake.ClientBuilder }

func (i fieldIndexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(object, field, extract)
	return nil
}

func finder(t *testing.T, objects ...client.Object) Finder {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, machinev1beta1.Install} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...)
	if err := errors.Join(Index(t.Context(), fieldIndexer{builder}), lookup.Index(t.Context(), fieldIndexer{builder})); err != nil {
		t.Fatal(err)
	}
	return Finder{builder.Build()}
}

// linked returns a Machine whose nodeRef names a Node.
func linked(m *machinev1beta1.Machine, name string, uid types.UID) *machinev1beta1.Machine {
	m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name, UID: uid}
	return m
}

// deleting returns a Machine that is being deleted.
func deleting(m *machinev1beta1.Machine) *machinev1beta1.Machine {
	m.DeletionTimestamp, m.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"example.com/f"}
	return m
}

// linkCase is a Machine among other objects.
type linkCase struct {
	machine *machinev1beta1.Machine
	others  []client.Object
	// want is the Node, or with a bang a part of the conflict; empty for none.
	want string
}

// check holds that the Node of the Machine is found, or the conflict.
func (c *linkCase) check(t *testing.T) {
	t.Helper()
	var referred *corev1.Node
	for _, object := range c.others {
		if found, ok := object.(*corev1.Node); ok && c.machine.Status.NodeRef != nil && found.Name == c.machine.Status.NodeRef.Name {
			referred = found
		}
	}
	link, err := finder(t, append(c.others, c.machine)...).NodeOf(t.Context(), c.machine, referred)
	if err != nil {
		t.Fatal(err)
	}
	want, conflict := strings.CutPrefix(c.want, "!")
	switch {
	case conflict:
		if link.Node != nil || !strings.Contains(link.Conflict, want) {
			t.Errorf("%+v, want %q", link, want)
		}
	case want == "":
		if link.Node != nil || link.Conflict != "" {
			t.Errorf("%+v, want none", link)
		}
	default:
		if link.Node == nil || link.Node.Name != want || link.Conflict != "" {
			t.Errorf("%+v, want Node %s", link, want)
		}
	}
}

func TestFinder_NodeOf(t *testing.T) {
	for name, c := range map[string]linkCase{
		"by its ID":                {machine("m", "id"), []client.Object{node("a", "id"), node("b", "other")}, "a"},
		"none":                     {machine("m", "id"), []client.Object{node("b", "other")}, ""},
		"nothing is known":         {machine("m", ""), []client.Object{node("a", "")}, ""},
		"two Nodes with the ID":    {machine("m", "id"), []client.Object{node("b", "id"), node("a", "id")}, "!Nodes a, b all have the providerID id"},
		"two Machines with the ID": {machine("m", "id"), []client.Object{node("a", "id"), machine("n", "id")}, "!Machines m and n have the same"},
		"linked, another one repeats the ID": {
			linked(machine("m", "id"), "a", "uid-of-node-a"), []client.Object{node("a", "id"), machine("n", "id")}, "a",
		},
		"another one is linked": {
			machine("m", "id"), []client.Object{node("a", "id"), linked(machine("n", "id"), "a", "uid-of-node-a")}, "!Machines m and n have the same",
		},
		"both are linked": {
			linked(machine("m", "id"), "a", "uid-of-node-a"), []client.Object{node("a", "id"), linked(machine("n", "id"), "a", "uid-of-node-a")},
			"!Machines m and n have the same",
		},
		"was linked before the Node registered again, another one repeats the ID": {
			linked(machine("m", "id"), "a", "before"), []client.Object{node("a", "id"), machine("n", "id")}, "a",
		},
		"was linked before the Node registered again, another one is linked to another Node": {
			linked(machine("m", "id"), "a", "before"), []client.Object{node("a", "id"), linked(machine("n", "id"), "b", "uid-of-node-b")}, "a",
		},
		"another one was linked before the Node registered again": {
			machine("m", "id"), []client.Object{node("a", "id"), linked(machine("n", "id"), "a", "before")}, "!Machines m and n have the same",
		},
		"linked to the Node that is gone, another one repeats the ID": {
			linked(machine("m", "id"), "a", "before"), []client.Object{machine("n", "id")}, "",
		},
	} {
		t.Run(name, c.check)
	}
}

// TestFinder_NodeOf_Addresses: kubelets write the addresses of their Nodes, and guests write the addresses of their Machines.
func TestFinder_NodeOf_Addresses(t *testing.T) {
	for name, c := range map[string]linkCase{
		"linked, another one repeats the address": {
			linked(machine("m", "", "10.0.0.1"), "a", "uid-of-node-a"), []client.Object{node("a", "", "10.0.0.1"), machine("n", "", "10.0.0.1")}, "a",
		},
		"another one with the address is linked": {
			machine("m", "", "10.0.0.1"), []client.Object{node("a", "", "10.0.0.1"), linked(machine("n", "", "10.0.0.1"), "a", "uid-of-node-a")}, "",
		},
		"both with the address are linked": {
			linked(machine("m", "", "10.0.0.1"), "a", "uid-of-node-a"),
			[]client.Object{node("a", "", "10.0.0.1"), linked(machine("n", "", "10.0.0.1"), "a", "uid-of-node-a")}, "!m and n have addresses of Node a",
		},
		"both with the address are linked, the Node of a third one has the ID": {
			linked(machine("m", "id", "10.0.0.1"), "a", "uid-of-node-a"),
			[]client.Object{
				node("a", "", "10.0.0.1"), node("x", "id"), linked(machine("n", "", "10.0.0.1"), "a", "uid-of-node-a"),
				linked(machine("x", ""), "x", "uid-of-node-x"),
			},
			"!m and n have addresses of Node a",
		},
		"linked, another Node lists the address": {
			linked(machine("m", "id", "10.0.0.1"), "a", "uid-of-node-a"), []client.Object{node("a", "", "10.0.0.1"), node("x", "", "10.0.0.1")}, "a",
		},
		"linked, another Node sets the ID": {
			linked(machine("m", "id", "10.0.0.1"), "a", "uid-of-node-a"), []client.Object{node("a", "", "10.0.0.1"), node("x", "id", "10.0.0.1")}, "a",
		},
		"linked, another Node sets the ID as well": {
			linked(machine("m", "id"), "a", "uid-of-node-a"), []client.Object{node("a", "id"), node("x", "id")}, "a",
		},
		"linked, another Node lists the address that the own one has no more": {
			linked(machine("m", "", "10.0.0.1"), "a", "uid-of-node-a"), []client.Object{node("a", "", "10.0.0.2"), node("x", "", "10.0.0.1")}, "a",
		},
		"new, the Node of another Machine lists the address": {
			machine("m", "", "10.0.0.1"),
			[]client.Object{node("a", "", "10.0.0.1"), node("x", "", "10.0.0.1"), linked(machine("n", "", "10.0.0.7"), "x", "uid-of-node-x")}, "a",
		},
		"new, the Node of a Machine that is being deleted lists the address": {
			machine("m", "", "10.0.0.1"),
			[]client.Object{node("a", "", "10.0.0.1"), node("x", "", "10.0.0.1"), deleting(linked(machine("n", "", "10.0.0.7"), "x", "uid-of-node-x"))}, "a",
		},
		"new, its Node has not registered, that of another Machine lists the address": {
			machine("m", "", "10.0.0.1"), []client.Object{node("x", "", "10.0.0.1"), linked(machine("n", "", "10.0.0.7"), "x", "uid-of-node-x")}, "",
		},
		"new, the Node of another Machine sets the ID": {
			machine("m", "id", "10.0.0.1"),
			[]client.Object{node("a", "", "10.0.0.1"), node("x", "id"), linked(machine("n", ""), "x", "uid-of-node-x")}, "a",
		},
		"new, the guest of another Machine reports the address": {
			machine("m", "", "10.0.0.1"),
			[]client.Object{node("a", "", "10.0.0.1"), node("x", ""), linked(machine("n", "", "10.0.0.1", "10.0.0.7"), "x", "uid-of-node-x")}, "a",
		},
		"new, another Machine with the address was linked to a Node that is gone": {
			machine("m", "", "10.0.0.1"), []client.Object{node("a", "", "10.0.0.1"), linked(machine("n", "", "10.0.0.1"), "x", "uid-of-node-x")},
			"!m and n have addresses of Node a",
		},
		"new, another Machine with the address was linked to a Node that has registered again": {
			machine("m", "", "10.0.0.1"), []client.Object{node("a", "", "10.0.0.1"), node("x", ""), linked(machine("n", "", "10.0.0.1"), "x", "before")},
			"!m and n have addresses of Node a",
		},
		"linked to a Node that turned out to be another Machine's": {
			linked(machine("m", "", "10.0.0.1"), "a", "uid-of-node-a"), []client.Object{node("a", "id", "10.0.0.1"), machine("n", "id")}, "",
		},
		"the other one is being deleted": {machine("m", "id"), []client.Object{node("a", "id"), deleting(machine("n", "id"))}, "a"},
		"the ID counts more":             {machine("m", "id", "10.0.0.1"), []client.Object{node("a", "id"), node("b", "", "10.0.0.1")}, "a"},
		"by its address":                 {machine("m", "", "10.0.0.1"), []client.Object{node("a", "", "10.0.0.1")}, "a"},
		"by its second address":          {machine("m", "", "fd00::1", "10.0.0.1"), []client.Object{node("a", "", "10.0.0.9", "10.0.0.1")}, "a"},
		"by both of its addresses":       {machine("m", "", "fd00::1", "10.0.0.1"), []client.Object{node("a", "", "10.0.0.1", "fd00::1")}, "a"},
		"the Node has an ID, it none":    {machine("m", "", "10.0.0.1"), []client.Object{node("a", "id", "10.0.0.1")}, "a"},
		"the Node has another ID":        {machine("m", "id", "10.0.0.1"), []client.Object{node("a", "other", "10.0.0.1")}, ""},
		"two Nodes by address": {
			machine("m", "", "10.0.0.1", "10.0.0.2"), []client.Object{node("b", "", "10.0.0.2"), node("a", "", "10.0.0.1")}, "!Nodes a, b have addresses",
		},
		"two Machines by address": {
			machine("m", "", "10.0.0.1"), []client.Object{node("a", "", "10.0.0.1"), machine("n", "", "10.0.0.1")}, "!m and n have addresses of Node a",
		},
		"the Node has the ID of another Machine": {
			machine("m", "", "10.0.0.1"), []client.Object{node("a", "id", "10.0.0.1"), machine("n", "id")}, "",
		},
		"the Node has the ID of another Machine that is being deleted": {
			machine("m", "", "10.0.0.1"), []client.Object{node("a", "id", "10.0.0.1"), deleting(machine("n", "id"))}, "",
		},
		"the other Machine has another ID": {
			machine("m", "", "10.0.0.1"), []client.Object{node("a", "id", "10.0.0.1"), machine("n", "other", "10.0.0.1")}, "a",
		},
	} {
		t.Run(name, c.check)
	}
}

func TestFinder_Foreign(t *testing.T) {
	for name, c := range map[string]struct {
		machine *machinev1beta1.Machine
		node    *corev1.Node
		others  []client.Object
		want    bool
	}{
		"same ID":                     {machine("m", "id"), node("a", "id"), nil, false},
		"no ID on the Node":           {machine("m", "id"), node("a", ""), nil, false},
		"another ID":                  {machine("m", "id"), node("a", "other"), nil, true},
		"no ID on the Machine":        {machine("m", ""), node("a", "id"), nil, false},
		"another Machine has the ID":  {machine("m", ""), node("a", "id"), []client.Object{machine("n", "id")}, true},
		"both Machines have the ID":   {machine("m", "id"), node("a", "id"), []client.Object{machine("n", "id")}, false},
		"the other Machine has no ID": {machine("m", ""), node("a", ""), []client.Object{machine("n", "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := finder(t, append(c.others, c.machine)...).Foreign(t.Context(), c.machine, c.node)
			if err != nil || got != c.want {
				t.Errorf("%t, %v; want %t", got, err, c.want)
			}
		})
	}
}

func TestFinder_MachinesOf(t *testing.T) {
	f := finder(t, machine("by-id", "id"), machine("by-ip", "", "10.0.0.1"), machine("other", "x", "10.0.0.7"))
	found, err := f.MachinesOf(t.Context(), node("a", "id", "10.0.0.1"))
	if err != nil || len(found) != 2 || found[0].Name != "by-id" || found[1].Name != "by-ip" {
		t.Errorf("%v, %v", found, err)
	}
	if ref := Ref(node("a", "id")); ref.Kind != "Node" || ref.Name != "a" || ref.UID != "uid-of-node-a" {
		t.Errorf("the reference is %+v", ref)
	}
}

// TestFinder_Joining: only a Machine that has no Node yet, and is not being deleted, is about to get one.
func TestFinder_Joining(t *testing.T) {
	linked, deleted := machine("linked", "id"), machine("deleted", "id")
	linked.Status.NodeRef = &corev1.ObjectReference{Name: "b"}
	deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.Unix(1, 0)), []string{"example.com/keep"}
	for want, all := range map[string][]client.Object{
		"":               {linked, deleted},
		"machines/by-ip": {linked, deleted, machine("by-ip", "", "10.0.0.1")},
		"machines/by-id": {linked, deleted, machine("by-id", "id")},
	} {
		got, err := finder(t, all...).Joining(t.Context(), node("a", "id", "10.0.0.1"))
		if namespace, name, _ := strings.Cut(got, "/"); err != nil || (namespace != "") != (want != "") || !strings.HasSuffix(want, name) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestFinder_CacheFails(t *testing.T) {
	no := errors.New("no")
	f := Finder{fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return no },
	}).Build()}
	for _, m := range []*machinev1beta1.Machine{machine("m", "id"), machine("m", "", "10.0.0.1")} {
		if _, err := f.NodeOf(t.Context(), m, nil); !errors.Is(err, no) {
			t.Errorf("error %v", err)
		}
	}
	for _, n := range []*corev1.Node{node("a", "id"), node("a", "", "10.0.0.1")} {
		if _, err := f.MachinesOf(t.Context(), n); !errors.Is(err, no) {
			t.Errorf("error %v", err)
		}
	}
	if err := Index(t.Context(), refusing{no}); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
}

type refusing struct{ err error }

func (r refusing) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return r.err
}

// A kubelet that writes thousands of addresses into its status wakes few Machines, and is found by few addresses.
func TestInternalIPs_AreBounded(t *testing.T) {
	flooding, objects := node("flooding", "own"), []client.Object{}
	flooding.Status.Addresses = addresses([]string{strings.Repeat("x", 65), ""})
	for i := range 20_000 {
		flooding.Status.Addresses = append(flooding.Status.Addresses, corev1.NodeAddress{
			Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256),
		})
	}
	for i := range 2 * MaxInternalIPs {
		objects = append(objects, machine(fmt.Sprintf("m%d", i), "", fmt.Sprintf("10.0.0.%d", i)))
	}
	ips := InternalIPs(flooding.Status.Addresses)
	if len(ips) != MaxInternalIPs || ips[0] != "10.0.0.0" {
		t.Errorf("%d addresses are read, from %s", len(ips), ips[0])
	}
	found, err := finder(t, append(objects, flooding)...).MachinesOf(t.Context(), flooding)
	if err != nil || len(found) != MaxInternalIPs {
		t.Errorf("%d Machines wake: %v", len(found), err)
	}
}
