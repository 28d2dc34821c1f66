package simulation

import (
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controllers are those whose writes are checked.
var controllers = map[string]bool{
	"machineset": true, "machine": true, "healthcheck": true, "metadata": true, "drain": true,
	"maintenance": true, "node-groups": true, "disruption": true,
}

// setView is what is to be known of a MachineSet to count its Machines.
type setView struct {
	uid       types.UID
	namespace string
	replicas  int
	selector  labels.Selector
}

// viewOf returns the view of a MachineSet; nil for other objects.
func viewOf(object client.Object) *setView {
	set, ok := object.(*machinev1beta1.MachineSet)
	if !ok {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	must(err)
	return &setView{uid: set.UID, namespace: set.Namespace, replicas: int(*set.Spec.Replicas), selector: selector}
}

// counts reports whether a Machine is one of the set's replicas.
func (v *setView) counts(object client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return object.GetNamespace() == v.namespace && owner != nil && owner.UID == v.uid && object.GetDeletionTimestamp() == nil &&
		v.selector.Matches(labels.Set(object.GetLabels()))
}

// replicas counts the Machines of a set on the server.
func (w *world) replicas(v *setView) int {
	count := 0
	for _, object := range w.server.objects[machineKind] {
		if v.counts(object) {
			count++
		}
	}
	return count
}

// check looks at each write of a controller.
func (w *world) check(wr *write) {
	if machine, ok := wr.after.(*machinev1beta1.Machine); ok {
		if wr.gone {
			w.checkGone(machine)
		}
	}
	if controllers[wr.who] {
		w.checkRoom(wr)
	}
	w.checkGroups(wr)
}

func (w *world) checkRoom(wr *write) {
	switch {
	case wr.kind == machineKind && wr.verb == "create":
		w.checkCreated(wr)
	case wr.kind == machineKind && wr.verb == "delete":
		w.checkDeleted(wr)
	case wr.kind == nodeKind && wr.verb == "delete":
		w.checkNodeDeleted(wr)
	case wr.kind == podKind && wr.who != "drain":
		_ = w.fault("%s writes Pod %s", wr.who, wr.key)
	case permitted[wr.kind.name] != nil:
		w.nodes.check(w, wr)
	}
}

// checkCreated holds that there are never more Machines than the replicas that the pass has read. Users who delete Machines at the same
// time make them fewer, and only the set makes them more.
func (w *world) checkCreated(wr *write) {
	record := w.process.record(wr.pass)
	switch {
	case wr.who != "machineset" || record == nil:
		_ = w.fault("%s creates Machine %s", wr.who, wr.key)
	case w.replicas(record.set) > record.set.replicas:
		_ = w.fault("Machine %s is created: there are %d now, for %d replicas", wr.key, w.replicas(record.set), record.set.replicas)
	}
}

// checkDeleted holds that no Machine is deleted without a decision.
func (w *world) checkDeleted(wr *write) {
	switch wr.who {
	case "machineset":
		w.checkScaledDown(wr)
	case "healthcheck":
		w.checkRemediated(wr)
	default:
		_ = w.fault("%s deletes Machine %s", wr.who, wr.key)
	}
}

// checkScaledDown checks that a MachineSet deletes no more Machines than it has too many. The pass cannot know of Machines that others have deleted
// or released since it looked.
func (w *world) checkScaledDown(wr *write) {
	record := w.process.record(wr.pass)
	machine, ok := wr.before.(*machinev1beta1.Machine)
	if record == nil || !ok {
		_ = w.fault("machineset deletes Machine %s out of nothing", wr.key)
		return
	}
	w.nodes.scaledDown[machine.UID] = true
	if w.config.replaceFailed && machine.Status.Phase != nil && *machine.Status.Phase == machinev1beta1.PhaseFailed {
		return
	}
	// left is how many Machines would be left if only the MachineSet had deleted any.
	left := w.replicas(record.set) + w.takenAway(record)
	if left < record.set.replicas {
		_ = w.fault("machineset deletes Machine %s: %d are left, for %d replicas", wr.key, left, record.set.replicas)
	}
}

// takenAway counts the Machines that a pass has seen as the set's and that others have deleted, or taken out of it, since.
func (w *world) takenAway(record *passRecord) int {
	count := 0
	for _, object := range w.server.objects[machineKind] {
		if record.counted[object.GetUID()] && !record.set.counts(object) && !w.nodes.scaledDown[object.GetUID()] {
			count++
		}
	}
	for uid := range record.counted {
		if w.nodes.vanished[uid] && !w.nodes.scaledDown[uid] {
			count++
		}
	}
	return count
}

// checkRemediated holds that a Machine is deleted as unhealthy only if it is: by what the process knows, and if its Node is gone, in truth.
func (w *world) checkRemediated(wr *write) {
	machine, ok := wr.before.(*machinev1beta1.Machine)
	if !ok {
		return
	}
	check, ok := w.server.get(checkKind, namespace+"/health").(*machinev1beta1.MachineHealthCheck)
	if !ok {
		_ = w.fault("healthcheck deletes Machine %s without a MachineHealthCheck", wr.key)
		return
	}
	known, ok := w.process.informers[machineKind].all()[wr.key].(*machinev1beta1.Machine)
	if !ok || !w.unhealthy(check, known) {
		_ = w.fault("healthcheck deletes Machine %s, which is well", wr.key)
	}
	if metav1.GetControllerOfNoCopy(machine) == nil {
		_ = w.fault("healthcheck deletes Machine %s, which no MachineSet would replace", wr.key)
	}
}

// unhealthy judges a Machine by the caches.
func (w *world) unhealthy(check *machinev1beta1.MachineHealthCheck, machine *machinev1beta1.Machine) bool {
	if machine.Status.Phase != nil && *machine.Status.Phase == machinev1beta1.PhaseFailed {
		return true
	}
	if machine.Status.NodeRef == nil {
		return time.Since(machine.CreationTimestamp.Time) > check.Spec.NodeStartupTimeout.Duration
	}
	name := machine.Status.NodeRef.Name
	node, ok := w.process.informers[nodeKind].all()[name].(*corev1.Node)
	if !ok || w.server.get(nodeKind, name) == nil {
		// The server is asked, too, before a Machine is deleted for that.
		return true
	}
	for _, rule := range check.Spec.UnhealthyConditions {
		for _, condition := range node.Status.Conditions {
			if condition.Type == rule.Type && condition.Status == rule.Status && time.Since(condition.LastTransitionTime.Time) > rule.Timeout.Duration {
				return true
			}
		}
	}
	return false
}

// checkGone holds that a Machine leaves no instance behind.
func (w *world) checkGone(machine *machinev1beta1.Machine) {
	w.nodes.vanished[machine.UID] = true
	if i := w.cloud.instances[machine.UID]; i != nil {
		_ = w.fault("Machine %s is gone, and its instance %s is not", keyOf(machine), i.id)
	}
}

// checkNodeDeleted holds that a Node is deleted only with its own Machine, after the instance.
func (w *world) checkNodeDeleted(wr *write) {
	node, ok := wr.before.(*corev1.Node)
	for _, i := range w.cloud.sorted() {
		if ok && i.name == node.Name && i.addresses(node) {
			_ = w.fault("%s deletes Node %s, whose instance %s is there", wr.who, node.Name, i.id)
		}
	}
	if wr.who != "machine" {
		_ = w.fault("%s deletes Node %s", wr.who, wr.key)
	}
}

// addresses reports whether a Node has the address of an instance.
func (i *instance) addresses(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == i.address })
}

// record is what a pass has read.
func (p *process) record(pass string) *passRecord {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passes[pass]
}
