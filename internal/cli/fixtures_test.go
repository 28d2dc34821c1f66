package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testTime is now in all tests.
var testTime = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// fakeCluster are the objects of a cluster that is made up in memory.
type fakeCluster struct{ all []client.Object }

// machineSet adds a MachineSet with Machines and Nodes named after it.
func (f *fakeCluster) machineSet(name string, machines int, edit func(*machinev1beta1.MachineSet)) *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: cmdutil.DefaultNamespace, Name: name, UID: types.UID("set-" + name), Generation: 3,
		CreationTimestamp: metav1.Time{Time: testTime.Add(-49 * time.Hour)},
	}}
	set.Spec.Selector.MatchLabels = map[string]string{"pool": name}
	set.Spec.Template.Labels = map[string]string{"pool": name}
	edit(set)
	f.all = append(f.all, set)
	for i := range machines {
		f.machine(set, fmt.Sprintf("%s-%d", name, i))
	}
	return set
}

func (f *fakeCluster) machine(set *machinev1beta1.MachineSet, name string) {
	controller := true
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: name, Labels: set.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: set.Name, UID: set.UID, Controller: &controller,
		}},
	}}
	machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name}
	f.all = append(f.all, machine, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("node-" + name), Labels: map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
	}})
}

// node and machineOf find an object again to edit it.
func (f *fakeCluster) node(name string) *corev1.Node {
	for _, object := range f.all {
		if node, ok := object.(*corev1.Node); ok && node.Name == name {
			return node
		}
	}
	panic("no Node " + name)
}

func (f *fakeCluster) machineOf(name string) *machinev1beta1.Machine {
	for _, object := range f.all {
		if machine, ok := object.(*machinev1beta1.Machine); ok && machine.Name == name {
			return machine
		}
	}
	panic("no Machine " + name)
}

// settle writes what the operator would write, with its record, so that what follows in a test differs from a settled cluster.
func (f *fakeCluster) settle(t *testing.T) {
	t.Helper()
	objects := plan.Objects{Nodes: map[string]*corev1.Node{}}
	for _, object := range f.all {
		switch object := object.(type) {
		case *machinev1beta1.MachineSet:
			objects.Sets = append(objects.Sets, object)
		case *machinev1beta1.Machine:
			objects.Machines = append(objects.Machines, object)
		case *corev1.Node:
			objects.Nodes[object.Name] = object
		}
	}
	for _, item := range plan.SurveyOf(objects, ownership.DefaultProtected(), testTime).Items {
		applyDecision(t, item)
	}
}

// outcome is what a command printed and how it ended.
type outcome struct {
	out, errors string
	code        int
}

// run runs the plugin on the objects.
func (f *fakeCluster) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return runOn(t, f.client(), "", args...)
}

// client makes a client of a copy of the objects. The fake client has its own idea of managedFields; Get gives those of the test.
func (f *fakeCluster) client() client.WithWatch {
	managed := map[string][]metav1.ManagedFieldsEntry{}
	var stored []client.Object
	for _, object := range f.all {
		managed[fmt.Sprintf("%T/%s", object, object.GetName())] = object.GetManagedFields()
		object, _ := object.DeepCopyObject().(client.Object)
		object.SetManagedFields(nil)
		stored = append(stored, object)
	}
	get := func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		err := inner.Get(ctx, key, object, options...)
		object.SetManagedFields(managed[fmt.Sprintf("%T/%s", object, key.Name)])
		return err
	}
	return fake.NewClientBuilder().WithScheme(cmdutil.Scheme).WithRESTMapper(cmdutil.Mapper()).WithObjects(stored...).
		WithInterceptorFuncs(interceptor.Funcs{Get: get}).Build()
}

func runOn(t *testing.T, c client.WithWatch, stdin string, args ...string) outcome {
	t.Helper()
	return runInput(t, func() (client.WithWatch, error) { return c, nil }, stdin, args...)
}

func runWith(t *testing.T, connect func() (client.WithWatch, error), args ...string) outcome {
	t.Helper()
	return runInput(t, connect, "", args...)
}

func runInput(t *testing.T, connect func() (client.WithWatch, error), stdin string, args ...string) outcome {
	t.Helper()
	return runGet(t, connect, func(_ context.Context, path string) ([]byte, error) { return nil, fmt.Errorf("there is no %s", path) }, stdin, args...)
}

// runGet runs the plugin with what the API server has at paths that are no objects.
func runGet(
	t *testing.T, connect func() (client.WithWatch, error), get func(context.Context, string) ([]byte, error), stdin string, args ...string,
) outcome {
	t.Helper()
	streams, in, out, errors := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	o := cmdutil.NewOptions(streams)
	o.Now = func() time.Time { return testTime }
	o.Connect, o.Get = connect, get
	code := execute(t.Context(), o, args)
	return outcome{out.String(), errors.String(), code}
}

// golden compares text with a file under testdata, or writes the file with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s differs (-want +got; go test -update writes it anew):\n%s", path, cmp.Diff(string(want), got))
	}
}

func decodeJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var into T
	if err := json.Unmarshal([]byte(text), &into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return into
}
