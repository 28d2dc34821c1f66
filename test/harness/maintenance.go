package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
)

// Maintenance is a NodeMaintenance of either group, as a test sees it.
type Maintenance struct {
	*World

	Name, Node string
	// Kubevirt is whether it is of the older group.
	Kubevirt bool
}

// endLimit is how long a test waits for a NodeMaintenance to end after it: less than Patience, since one test that fails with many
// of them would take very long.
const endLimit = time.Minute

// Maintain makes a NodeMaintenance called like its node, and ends it when the test ends.
func (w *World) Maintain(node string, drain *medik8s.DrainSpec) *Maintenance {
	w.Helper()
	m := &Maintenance{World: w, Name: node, Node: node}
	m.Begin(builder.NodeMaintenance(node, node, func(object *medik8s.NodeMaintenance) { object.Spec.Drain = drain }))
	return m
}

// MaintainAs makes a NodeMaintenance with a name of its own.
func (w *World) MaintainAs(name, node string) *Maintenance {
	w.Helper()
	m := &Maintenance{World: w, Name: name, Node: node}
	m.Begin(builder.NodeMaintenance(name, node))
	return m
}

// MaintainKubevirt makes a NodeMaintenance of the older group, called like its node.
func (w *World) MaintainKubevirt(node string) *Maintenance {
	w.Helper()
	m := &Maintenance{World: w, Name: node, Node: node, Kubevirt: true}
	m.Begin(&kubevirt.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Spec: kubevirt.NodeMaintenanceSpec{NodeName: node}})
	return m
}

// Begin makes the object, and ends it when the test ends.
func (m *Maintenance) Begin(object client.Object) {
	m.Helper()
	m.create(object)
	m.cleanup(m.remove)
}

// remove ends a NodeMaintenance after its test. Where no operator does that the finalizer is taken off, so that the next test has peace.
func (m *Maintenance) remove(ctx context.Context) {
	err := m.Client.Delete(ctx, m.fresh())
	if err == nil {
		err = WaitLonger(ctx, endLimit, pollInterval, func() error {
			if err := m.Client.Get(ctx, types.NamespacedName{Name: m.Name}, m.fresh()); !apierrors.IsNotFound(err) {
				return errors.Join(err, fmt.Errorf("it is still there"))
			}
			return nil
		})
	}
	if client.IgnoreNotFound(err) == nil {
		return
	}
	m.Errorf("ending NodeMaintenance %s: %v", m.Name, err)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := m.Client.Patch(ctx, m.fresh(), patch); client.IgnoreNotFound(err) != nil {
		m.Errorf("taking the finalizer off: %v", err)
	}
}

func (m *Maintenance) fresh() client.Object {
	if m.Kubevirt {
		return &kubevirt.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	}
	return &medik8s.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
}

// Get reads the object.
func (m *Maintenance) Get() client.Object {
	m.Helper()
	return read(m.World, "", m.Name, m.fresh())
}

// Find reads the status; nil when the object is gone.
func (m *Maintenance) Find() *medik8s.NodeMaintenanceStatus {
	m.Helper()
	object := m.fresh()
	if err := m.Client.Get(m.Context(), client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		m.Fatalf("reading NodeMaintenance %s: %v", m.Name, err)
	}
	return new(statusOf(object))
}

// Status reads the status.
func (m *Maintenance) Status() medik8s.NodeMaintenanceStatus {
	m.Helper()
	return statusOf(m.Get())
}

func statusOf(object client.Object) medik8s.NodeMaintenanceStatus {
	switch typed := object.(type) {
	case *kubevirt.NodeMaintenance:
		return typed.Status
	case *medik8s.NodeMaintenance:
		return typed.Status
	}
	return medik8s.NodeMaintenanceStatus{}
}

// Await waits until a condition holds for the status, and returns that status.
func (m *Maintenance) Await(what string, condition func(medik8s.NodeMaintenanceStatus) error) medik8s.NodeMaintenanceStatus {
	m.Helper()
	var last medik8s.NodeMaintenanceStatus
	m.Eventually(fmt.Sprintf("NodeMaintenance %s: %s", m.Name, what), func() error {
		object := m.fresh()
		if err := m.Client.Get(m.Context(), types.NamespacedName{Name: m.Name}, object); err != nil {
			return err
		}
		last = statusOf(object)
		if err := condition(last); err != nil {
			return fmt.Errorf("%w; the status is %s", err, Render(last))
		}
		return nil
	})
	return last
}

// Phase waits for a phase.
func (m *Maintenance) Phase(phase medik8s.Phase) medik8s.NodeMaintenanceStatus {
	m.Helper()
	return m.Await("phase "+string(phase), func(s medik8s.NodeMaintenanceStatus) error {
		if s.Phase != phase {
			return fmt.Errorf("the phase is %q", s.Phase)
		}
		return nil
	})
}

// Condition waits until a condition has a reason and its message a part.
func (m *Maintenance) Condition(kind, reason, part string) medik8s.NodeMaintenanceStatus {
	m.Helper()
	return m.Await(fmt.Sprintf("condition %s with reason %s", kind, reason), func(s medik8s.NodeMaintenanceStatus) error {
		found := meta.FindStatusCondition(s.Conditions, kind)
		if found == nil || found.Reason != reason || !strings.Contains(found.Message, part) {
			return fmt.Errorf("want %q in its message", part)
		}
		return nil
	})
}

// Render writes a status in one line.
func Render(s medik8s.NodeMaintenanceStatus) string {
	text := fmt.Sprintf("phase %q progress %d pending %v total %d eviction %d lastError %q leaseErrors %d", s.Phase, s.DrainProgress,
		s.PendingPods, s.TotalPods, s.EvictionPods, s.LastError, s.ErrorOnLeaseCount)
	for _, c := range s.Conditions {
		text += fmt.Sprintf("; %s=%s %s (%s)", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// Delete asks for the end without waiting for it.
func (m *Maintenance) Delete() {
	m.Helper()
	if err := m.Client.Delete(m.Context(), m.fresh()); err != nil {
		m.Fatalf("deleting NodeMaintenance %s: %v", m.Name, err)
	}
}

// End asks for the end and waits until the object is gone.
func (m *Maintenance) End() {
	m.Helper()
	m.Delete()
	m.Gone(m.fresh())
}

// AwaitEvent waits until there is an event on an object with a reason and a part of a text, and returns how often there was one with that reason.
func (w *World) AwaitEvent(kind, name, reason, part string) int {
	w.Helper()
	return w.AwaitEventIn(metav1.NamespaceAll, kind, name, reason, part)
}

// AwaitEventIn is AwaitEvent for an object that has its like in other namespaces.
func (w *World) AwaitEventIn(namespace, kind, name, reason, part string) int {
	w.Helper()
	count := 0
	w.Eventually(fmt.Sprintf("event %s on %s %s", reason, kind, name), func() error {
		var texts []string
		texts, count = w.eventsWithReason(namespace, kind, name, reason)
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, part) }) {
			return fmt.Errorf("there are %q", texts)
		}
		return nil
	})
	return count
}

// NoEvent fails the test when there has been an event on an object with a reason.
func (w *World) NoEvent(kind, name, reason string) {
	w.Helper()
	if texts, _ := w.eventsWithReason(metav1.NamespaceAll, kind, name, reason); len(texts) > 0 {
		w.Errorf("%s %s has events %s: %q", kind, name, reason, texts)
	}
}

// eventsWithReason lists the texts of the events with a reason, and how often there was one: an event that repeats is one object with a count.
func (w *World) eventsWithReason(namespace, kind, name, reason string) (texts []string, count int) {
	w.Helper()
	var events corev1.EventList
	about := client.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": name, "reason": reason}
	if err := w.Client.List(w.Context(), &events, client.InNamespace(namespace), about); err != nil {
		w.Fatal(err)
	}
	for i := range events.Items {
		texts = append(texts, events.Items[i].Message)
		count += max(int(events.Items[i].Count), 1)
	}
	return texts, count
}
