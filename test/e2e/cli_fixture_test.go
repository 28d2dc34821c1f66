package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// deadline is how long a test waits for what must happen soon.
const deadline = 30 * time.Second

func adminClient(t *testing.T) client.WithWatch {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, machinev1beta1.Install} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(env.Admin(), client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// machineSet is a MachineSet with its Machines and Nodes, in a namespace of its own.
type machineSet struct {
	client.WithWatch
	t         *testing.T
	namespace string
	name      string
	machines  int
}

func newMachineSet(t *testing.T, machines int, labels map[string]string) *machineSet {
	t.Helper()
	p := &machineSet{adminClient(t), t, "", strings.ToLower(t.Name()), machines}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "machineset-"}}
	p.create(namespace)
	p.namespace = namespace.Name
	match := map[string]string{"pool": p.name}
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}}
	set.Spec.Selector.MatchLabels = match
	set.Spec.Template.ObjectMeta.Labels = match
	set.Spec.Template.Spec.Labels = labels
	p.create(set)
	for i := range machines {
		p.machine(set, fmt.Sprintf("%s-%d", p.name, i), match)
	}
	return p
}

func (p *machineSet) create(object client.Object) {
	p.t.Helper()
	if err := p.Create(p.t.Context(), object); err != nil {
		p.t.Fatal(err)
	}
}

func (p *machineSet) machine(set *machinev1beta1.MachineSet, name string, labels map[string]string) {
	p.t.Helper()
	controller := true
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.namespace, Name: name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: machinev1beta1.GroupVersion.String(), Kind: "MachineSet", Name: set.Name, UID: set.UID, Controller: &controller,
		}},
	}}
	p.create(machine)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}}}
	if err := p.Create(p.t.Context(), node, client.FieldOwner("kubelet")); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := p.Delete(context.WithoutCancel(p.t.Context()), node); client.IgnoreNotFound(err) != nil {
			p.t.Error(err)
		}
	})
	machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name}
	if err := p.Status().Update(p.t.Context(), machine); err != nil {
		p.t.Fatal(err)
	}
}

func (p *machineSet) node(i int) string { return fmt.Sprintf("%s-%d", p.name, i) }

// edit changes one object of the cluster.
func (p *machineSet) edit(object client.Object, name string, as string, change func()) {
	p.t.Helper()
	key := types.NamespacedName{Name: name}
	if _, ok := object.(*corev1.Node); !ok {
		key.Namespace = p.namespace
	}
	if err := p.Get(p.t.Context(), key, object); err != nil {
		p.t.Fatal(err)
	}
	change()
	if err := p.Update(p.t.Context(), object, client.FieldOwner(as)); err != nil {
		p.t.Fatal(err)
	}
}

// declare changes the template's labels.
func (p *machineSet) declare(labels map[string]string) {
	p.t.Helper()
	set := &machinev1beta1.MachineSet{}
	p.edit(set, p.name, "kubectl", func() { set.Spec.Template.Spec.Labels = labels })
}

// reconcile writes once what the operator would write, for at most so many Machines.
func (p *machineSet) reconcile(most int) {
	p.t.Helper()
	for _, item := range p.survey().Items {
		if most == 0 {
			return
		}
		most--
		if item.Decision.Machine.Write {
			patch, err := plan.MachinePatch(item.Machine, item.Decision.Machine)
			p.patch(item.Machine, types.MergePatchType, patch, err)
		}
		if item.Decision.Node.Write {
			patch, err := plan.NodeChange{Set: &item.Decision.Node}.Patch(item.Node)
			p.patch(item.Node, types.JSONPatchType, patch, err)
		}
	}
}

func (p *machineSet) patch(object client.Object, kind types.PatchType, patch []byte, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.Patch(p.t.Context(), object, client.RawPatch(kind, patch), client.FieldOwner("drover-metadata")); err != nil {
		p.t.Fatal(err)
	}
}

func (p *machineSet) survey() plan.Survey {
	p.t.Helper()
	var sets machinev1beta1.MachineSetList
	var machines machinev1beta1.MachineList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&sets, &machines, &nodes} {
		in := client.InNamespace(p.namespace)
		if _, ok := list.(*corev1.NodeList); ok {
			in = ""
		}
		if err := p.List(p.t.Context(), list, in); err != nil {
			p.t.Fatal(err)
		}
	}
	objects := plan.Objects{Nodes: map[string]*corev1.Node{}}
	for i := range sets.Items {
		objects.Sets = append(objects.Sets, &sets.Items[i])
	}
	for i := range machines.Items {
		objects.Machines = append(objects.Machines, &machines.Items[i])
	}
	for i := range nodes.Items {
		objects.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	return plan.SurveyOf(objects, ownership.DefaultProtected(), time.Now())
}

// outcome is what a command printed and how it ended.
type outcome struct {
	out, errors string
	code        int
}

// drover runs the plugin as the administrator in the namespace of the MachineSet.
func (p *machineSet) drover(args ...string) outcome {
	p.t.Helper()
	return p.droverAs(env.AdminKubeconfig(), args...)
}

func (p *machineSet) droverAs(kubeconfig string, args ...string) outcome {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*deadline)
	defer cancel()
	var out, errors bytes.Buffer
	args = append([]string{"--kubeconfig", kubeconfig, "-n", p.namespace}, args...)
	code := cli.Main(ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errors})
	return outcome{out.String(), errors.String(), code}
}

// started is a command that runs on.
type started struct {
	mu   sync.Mutex
	text bytes.Buffer
	// wrote gets a notice after every write.
	wrote chan struct{}
	done  chan int
	stop  context.CancelFunc
}

func (s *started) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return s.text.Write(text)
}

func (s *started) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// start runs the plugin beside the test; its output and errors go to one text.
func (p *machineSet) start(args ...string) *started {
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*deadline)
	s := &started{wrote: make(chan struct{}, 1), done: make(chan int, 1), stop: cancel}
	args = append([]string{"--kubeconfig", env.AdminKubeconfig(), "-n", p.namespace}, args...)
	go func() {
		defer cancel()
		s.done <- cli.Main(ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: s, ErrOut: s})
	}()
	return s
}

// await waits until the text satisfies a test.
func (s *started) await(t *testing.T, what string, holds func(text string) bool) {
	t.Helper()
	limit := time.After(deadline)
	for !holds(s.String()) {
		select {
		case <-s.wrote:
		case <-limit:
			t.Fatalf("%s: not seen within %s in:\n%s", what, deadline, s.String())
		}
	}
}

// end waits until the command ends.
func (s *started) end(t *testing.T) int {
	t.Helper()
	select {
	case code := <-s.done:
		return code
	case <-time.After(deadline):
		t.Fatalf("still running after %s:\n%s", deadline, s.String())
		return -1
	}
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var into T
	if err := json.Unmarshal([]byte(text), &into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return into
}

func kubeconfigOf(t *testing.T, config *rest.Config, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	path, err := env.Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// backoff spaces the tries of a test that can only ask again.
type backoff struct {
	t     *testing.T
	next  time.Duration
	limit <-chan time.Time
}

func newBackoff(t *testing.T) *backoff {
	return &backoff{t, 10 * time.Millisecond, time.After(deadline)}
}

func (b *backoff) wait() {
	b.t.Helper()
	select {
	case <-time.After(b.next):
		b.next = min(2*b.next, time.Second)
	case <-b.limit:
		b.t.Fatalf("not within %s", deadline)
	}
}
