package machineset

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/watch"
)

// withWait shows what is enqueued with its priority, if that is not the high one, and with how long it waits.
func withWait(name string, options priorityqueue.AddOpts) string {
	if *options.Priority != watch.PriorityHigh {
		name += fmt.Sprintf("@%d", *options.Priority)
	}
	if options.After > 0 {
		name += fmt.Sprintf("+%s", options.After)
	}
	return name
}

// informers stands in for the cache's watches.
type informers struct {
	queue                 *apitest.Queue
	sets, machines, nodes *controllertest.FakeInformer
}

func watched(t *testing.T, s *fixture) *informers {
	t.Helper()
	cache := &informertest.FakeInformers{Scheme: newScheme(t)}
	w := &informers{queue: &apitest.Queue{Text: withWait}}
	for _, source := range s.sources(cache) {
		if err := source.Start(t.Context(), w.queue); err != nil {
			t.Fatal(err)
		}
	}
	for i, into := range []**controllertest.FakeInformer{&w.sets, &w.machines, &w.nodes} {
		informer, err := cache.FakeInformerFor(t.Context(), Kinds()[i])
		if err != nil {
			t.Fatal(err)
		}
		*into = informer
	}
	return w
}

// audience is a MachineSet with one Machine, and other MachineSets. The MachineSet second selects the same Machine.
func audience(t *testing.T) (*fixture, *informers) {
	t.Helper()
	second, other, broken := setOf(1), setOf(1), setOf(1)
	second.Name, second.UID = "second", "uid-of-second"
	other.Name, other.UID = "other", "uid-of-other"
	other.Spec.Selector.MatchLabels = map[string]string{"pool": "other"}
	other.Spec.Template.Labels = map[string]string{"pool": "other"}
	broken.Name, broken.UID = "broken", "uid-of-broken"
	broken.Spec.Selector = metav1.LabelSelector{}
	s := newFixture(t, Options{}, append(pool(1), second, other, broken, machineOf("orphan", loose))...)
	return s, watched(t, s)
}

func TestWatches_Machine(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after func(*machinev1beta1.Machine)
		want          string
	}{
		{"nothing", nil, nil, ""},
		{"the state that a provider writes", nil, func(m *machinev1beta1.Machine) { m.Annotations["machine.openshift.io/instance-state"] = "running" }, ""},
		{"a mark", nil, func(m *machinev1beta1.Machine) { m.Annotations[machineapi.DeleteAnnotation] = "" }, ""},
		{"it is being replaced", nil, func(m *machinev1beta1.Machine) { m.Annotations[machineapi.ReplacingAnnotation] = "" }, "web"},
		{"its Node", func(m *machinev1beta1.Machine) { m.Status.NodeRef = nil }, nil, "web+100ms"},
		{"an error", nil, func(m *machinev1beta1.Machine) { m.Status.ErrorMessage = new("no") }, "web+100ms"},
		{"its labels", relabel, nil, "web"},
		{"it is being deleted", nil, func(m *machinev1beta1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: start} }, "web"},
		{"it loses its owner: others may have it", nil, loose, "second web"},
		{"it gets an owner", loose, nil, "second web"},
		{"it changes its owner", nil, func(m *machinev1beta1.Machine) {
			m.OwnerReferences[0].Name, m.OwnerReferences[0].UID = "second", "uid-of-second"
		}, "second web"},
		{"an orphan is labelled for another set", loose, func(m *machinev1beta1.Machine) { relabel(m); loose(m) }, "other second web"},
		{"an orphan without labels", func(m *machinev1beta1.Machine) { loose(m); m.Labels = nil },
			func(m *machinev1beta1.Machine) { loose(m); m.Labels = nil; m.Status.NodeRef = nil }, ""},
		{"a control plane's", nil, func(m *machinev1beta1.Machine) {
			m.OwnerReferences[0].Kind, m.OwnerReferences[0].UID = "ControlPlaneMachineSet", "uid-of-another"
		}, "web"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, w := audience(t)
			before, after := machineOf("a"), machineOf("a")
			if c.before != nil {
				c.before(before)
			}
			if c.after != nil {
				c.after(after)
			}
			w.machines.Update(before, after)
			if got := w.queue.TakeOnce(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
	_, w := audience(t)
	w.machines.Add(machineOf("a"))
	if got := w.queue.TakeOnce(); got != "web" {
		t.Errorf("created: queued %q", got)
	}
	w.machines.Add(machineOf("a", loose))
	if got := w.queue.TakeOnce(); got != "second web" {
		t.Errorf("an orphan is created: queued %q", got)
	}
	w.machines.Delete(machineOf("a"))
	if got := w.queue.TakeOnce(); got != "web" {
		t.Errorf("gone without a finalizer: queued %q", got)
	}
	w.machines.Delete(machineOf("a", func(m *machinev1beta1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: start} }))
	if got := w.queue.TakeOnce(); got != "web+100ms" {
		t.Errorf("gone at last: queued %q", got)
	}
}

func TestWatches_MachineSet(t *testing.T) {
	s, w := audience(t)
	before, after := setOf(1), setOf(1)
	after.ResourceVersion = "100"
	w.sets.Update(before, after)
	if got := w.queue.TakeOnce(); got != "web" {
		t.Errorf("changed: queued %q", got)
	}
	w.sets.Update(after, after)
	if got := w.queue.TakeOnce(); got != "" {
		t.Errorf("not changed: queued %q", got)
	}
	s.versions.Expect("uid-of-web", expectations.Write{Version: "100"})
	w.sets.Update(before, after)
	if got := w.queue.TakeOnce(); got != "" {
		t.Errorf("written by ourselves: queued %q", got)
	}
	s.versions.Expect("uid-of-web", expectations.Write{Version: "100", Awaited: true})
	w.sets.Update(before, after)
	if got := w.queue.TakeOnce(); got != "web" {
		t.Errorf("written by ourselves, and awaited: queued %q", got)
	}
	w.sets.Add(setOf(1))
	w.sets.Delete(setOf(1))
	if got := w.queue.TakeOnce(); got != "web" {
		t.Errorf("created and deleted: queued %q", got)
	}
}

func TestWatches_Node(t *testing.T) {
	ready := nodeOf("a", corev1.ConditionTrue, start)
	for _, c := range []struct {
		name string
		edit func(*corev1.Node)
		want string
	}{
		{"a heartbeat", func(n *corev1.Node) {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(start.Add(time.Minute))
		}, ""},
		{"a label", func(n *corev1.Node) { n.Labels = map[string]string{"x": "y"} }, ""},
		{"not ready", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, "web+100ms"},
		{"made anew", func(n *corev1.Node) { n.UID = "another" }, "web+100ms"},
		{"no Machine", func(n *corev1.Node) { n.Name, n.UID = "stray", "another" }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, w := audience(t)
			after := ready.DeepCopy()
			c.edit(after)
			w.nodes.Update(ready, after)
			if got := w.queue.TakeOnce(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
	s, w := audience(t)
	w.nodes.Add(ready)
	if got := w.queue.TakeOnce(); got != "web+100ms" {
		t.Errorf("created: queued %q", got)
	}
	w.nodes.Delete(ready)
	if got := w.queue.TakeOnce(); got != "web+100ms" {
		t.Errorf("deleted: queued %q", got)
	}
	s.cached.Reader = &failing{Reader: s.client, kind: "*v1beta1.MachineList", err: errors.New("no")}
	w.nodes.Delete(ready)
	if got := w.queue.TakeOnce(); got != "" {
		t.Errorf("queued %q", got)
	}
	s.cached.Reader = &failing{Reader: s.client, kind: "*v1beta1.MachineSetList", err: errors.New("no")}
	w.machines.Add(machineOf("x", loose))
	if got := w.queue.TakeOnce(); got != "" {
		t.Errorf("queued %q", got)
	}
}

// What is there when the process starts is seen once for each set, and after what happens meanwhile.
func TestWatches_InitialObjects(t *testing.T) {
	s, _ := audience(t)
	noted := apitest.Queue{Text: withWait}
	cache := &startingInformers{objects: map[string][]client.Object{
		"*v1beta1.MachineSet": {setOf(1)}, "*v1beta1.Machine": {machineOf("a")}, "*v1.Node": {nodeOf("a", corev1.ConditionTrue, start)},
	}}
	for _, source := range s.sources(cache) {
		if err := source.Start(t.Context(), &noted); err != nil {
			t.Fatal(err)
		}
	}
	if got := noted.TakeOnce(); got != fmt.Sprintf("web@%d", watch.PriorityStartup) {
		t.Errorf("queued %q", got)
	}
}

// startingInformers deliver the existing objects, as informers do when a handler is added.
type startingInformers struct {
	informertest.FakeInformers
	objects map[string][]client.Object
}

func (c *startingInformers) GetInformer(_ context.Context, kind client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return &startingInformer{objects: c.objects[fmt.Sprintf("%T", kind)]}, nil
}

type startingInformer struct {
	controllertest.FakeInformer
	objects []client.Object
}

func (i *startingInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range i.objects {
		handler.OnAdd(object, true)
	}
	return nil, nil
}
