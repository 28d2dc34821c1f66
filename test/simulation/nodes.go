package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newCloud(w *world) *cloud {
	return &cloud{world: w, instances: map[types.UID]*instance{}}
}

var (
	nodeKind    = kindNamed("Node")
	machineKind = kindNamed("Machine")
	setKind     = kindNamed("MachineSet")
	checkKind   = kindNamed("MachineHealthCheck")
	podKind     = kindNamed("Pod")
	leaseKind   = kindNamed("Lease")

	groupKind       = kindNamed("NodeGroup")
	maintenanceKind = kindNamed("NodeMaintenance")
)

// node returns the Node of an instance; nil when there is none, or one of that name that is another instance's.
func (w *world) node(i *instance) *corev1.Node {
	node, ok := w.server.get(nodeKind, i.name).(*corev1.Node)
	if !ok || !i.addresses(node) {
		return nil
	}
	return node
}

// register is an instance's kubelet: it makes the Node, and later that is Ready.
func (w *world) register(i *instance) {
	if i.dead || i.ending {
		return
	}
	i.booted = true
	if w.server.get(nodeKind, i.name) != nil {
		if w.node(i) == nil {
			w.after(20*time.Second, func() { w.register(i) }) // another one's of its name has yet to go
		}
		return
	}
	now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.name, Labels: map[string]string{corev1.LabelHostname: i.name, poolLabel: poolOf(i.name)}},
		Spec:       corev1.NodeSpec{ProviderID: i.id, Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: i.address}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: now}},
		},
	}
	if i.late {
		node.Spec.ProviderID = ""
		w.after(w.upTo(time.Minute), func() { w.identify(i) })
	}
	_, err := w.server.create(request{who: "kubelet"}, node)
	must(err)
	w.after(time.Second+w.upTo(30*time.Second), func() {
		w.ready(i, corev1.ConditionTrue)
		w.populate(i)
	})
}

// identify is the cloud's own controller, which puts the providerID on a Node.
func (w *world) identify(i *instance) {
	if node := w.node(i); node != nil && node.Spec.ProviderID == "" {
		edit(w, "cloud", nodeKind, i.name, func(node *corev1.Node) { node.Spec.ProviderID = i.id })
	}
	i.late = false
}

// ready sets the condition Ready, and the taint that comes with it.
func (w *world) ready(i *instance, state corev1.ConditionStatus) {
	if w.node(i) == nil {
		return
	}
	if i.dead {
		state = corev1.ConditionUnknown // its kubelet has stopped
	}
	edit(w, "kubelet", nodeKind, i.name, func(node *corev1.Node) {
		if node.Status.Conditions[0].Status != state {
			node.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: state, LastTransitionTime: metav1.NewTime(time.Now().UTC().Truncate(time.Second)),
			}}
		}
		node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
		})
		switch state {
		case corev1.ConditionFalse:
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		case corev1.ConditionUnknown:
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
		}
	})
}

// populate runs pods on a Node.
func (w *world) populate(i *instance) {
	node := w.node(i)
	if node == nil || node.Spec.Unschedulable {
		return
	}
	for n := range w.random.IntN(3) {
		grace := int64(30)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: i.name + string(rune('a'+n))},
			Spec:       corev1.PodSpec{NodeName: i.name, TerminationGracePeriodSeconds: &grace},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if w.server.get(podKind, keyOf(pod)) == nil {
			_, err := w.server.create(request{who: "scheduler"}, pod)
			must(err)
		}
	}
}

// react is what the world does about a write: pods end, and what has no owner any more is collected.
func (w *world) react(wr *write) {
	key := wr.key
	// What comes after its owner has gone is collected as well.
	owned := wr.before == nil && len(wr.after.GetOwnerReferences()) > 0
	switch {
	case wr.kind == podKind && !wr.gone && wr.after.GetDeletionTimestamp() != nil && !isDeleting(wr.before):
		uid := wr.after.GetUID()
		w.after(time.Second+w.upTo(20*time.Second), func() { w.endPod(key, uid) })
	case wr.kind == nodeKind && wr.gone:
		w.after(time.Second+w.upTo(20*time.Second), func() { w.collect() })
		if i := w.instanceNamed(key); i != nil {
			w.after(5*time.Second+w.upTo(2*time.Minute), func() { w.register(i) })
		}
	case wr.gone && (wr.kind == setKind || wr.kind == podKind), owned:
		w.after(w.upTo(20*time.Second), func() { w.collect() })
	}
}

// isDeleting reports whether there was an object, and it was being deleted.
func isDeleting(object client.Object) bool {
	return object != nil && object.GetDeletionTimestamp() != nil
}

func (w *world) instanceNamed(name string) *instance {
	all := w.cloud.sorted()
	if at := slices.IndexFunc(all, func(i *instance) bool { return i.name == name }); at >= 0 {
		return all[at]
	}
	return nil
}

// endPod is a kubelet that has ended a pod, if it lives.
func (w *world) endPod(key string, uid types.UID) {
	pod, ok := w.server.get(podKind, key).(*corev1.Pod)
	if !ok || pod.UID != uid {
		return
	}
	node, ok := w.server.get(nodeKind, pod.Spec.NodeName).(*corev1.Node)
	if ok && node.Status.Conditions[0].Status != corev1.ConditionTrue {
		w.after(20*time.Second, func() { w.endPod(key, uid) })
		return
	}
	must(w.server.delete(request{who: "kubelet"}, podKind, key, guards{}, new(int64)))
}

// collect is the garbage collector: of pods without a Node, and of objects whose owner is gone.
func (w *world) collect() {
	for _, pod := range typed[*corev1.Pod](w.server.all(podKind)) {
		if w.server.get(nodeKind, pod.Spec.NodeName) == nil {
			must(w.server.delete(request{who: "collector"}, podKind, keyOf(pod), guards{}, new(int64)))
		}
	}
	alive := map[types.UID]bool{}
	for _, k := range w.kinds() {
		for _, object := range w.server.all(k) {
			alive[object.GetUID()] = true
		}
	}
	for _, k := range []*kind{leaseKind, machineKind} {
		for _, object := range w.server.all(k) {
			owners := object.GetOwnerReferences()
			if len(owners) > 0 && !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return alive[o.UID] }) {
				must(w.server.delete(request{who: "collector"}, k, keyOf(object), guards{}, nil))
			}
		}
	}
}
