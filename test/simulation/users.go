package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "machines"
	poolLabel = "example.com/pool"
	// foreign is the prefix of keys that no controller may touch, pooled the prefix of keys that pools declare, and grouped the prefix of keys that
	// NodeGroups declare.
	foreign, pooled, grouped = "foreign.example.com/", "pool.example.com/", "group.example.com/"
)

// populateCluster makes what there is at the beginning.
func (w *world) populateCluster() {
	for n := range 1 + w.random.IntN(2) {
		name := fmt.Sprintf("pool%d", n)
		set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		set.Spec.Replicas = new(w.random.Int32N(5))
		set.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: name}}
		set.Spec.DeletePolicy = pick(w, []string{"", "Random", "Newest", "Oldest"})
		set.Spec.Template.Labels = map[string]string{poolLabel: name}
		set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"cloud.example.com/v1","kind":"CloudSpec"}`)}
		for range w.random.IntN(4) {
			w.redeclare(set)
		}
		_, err := w.server.create(request{who: "user"}, set)
		must(err)
	}
	check := &machinev1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "health"}}
	check.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: poolLabel, Operator: metav1.LabelSelectorOpExists}}
	check.Spec.NodeStartupTimeout = &metav1.Duration{Duration: time.Duration(3+w.random.IntN(8)) * time.Minute}
	check.Spec.MaxUnhealthy = pick(w, []*intstr.IntOrString{nil, new(intstr.FromInt32(1)), new(intstr.FromString("60%"))})
	for _, state := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		check.Spec.UnhealthyConditions = append(check.Spec.UnhealthyConditions, machinev1beta1.UnhealthyCondition{
			Type: corev1.NodeReady, Status: state, Timeout: metav1.Duration{Duration: time.Duration(1+w.random.IntN(5)) * time.Minute},
		})
	}
	_, err := w.server.create(request{who: "user"}, check)
	must(err)
	if w.config.groups {
		w.populateGroups()
	}
}

// redeclare changes what a pool declares for its Nodes.
func (w *world) redeclare(set *machinev1beta1.MachineSet) {
	spec := &set.Spec.Template.Spec
	key := pooled + pick(w, []string{"a", "b", "c"})
	toggle := func(entries *map[string]string) {
		if _, there := (*entries)[key]; there && w.chance(2) {
			*entries = maps.Clone(*entries)
			delete(*entries, key)
		} else {
			*entries = with(*entries, key, fmt.Sprintf("v%d", w.random.IntN(9)))
		}
	}
	switch w.random.IntN(4) {
	case 0, 1:
		toggle(&spec.ObjectMeta.Labels)
	case 2:
		toggle(&spec.ObjectMeta.Annotations)
	case 3:
		kept := slices.DeleteFunc(slices.Clone(spec.Taints), func(t corev1.Taint) bool { return t.Key == key })
		if len(kept) == len(spec.Taints) || w.chance(2) {
			kept = append(kept, corev1.Taint{Key: key, Value: fmt.Sprintf("v%d", w.random.IntN(9)), Effect: corev1.TaintEffectNoSchedule})
		}
		spec.Taints = kept
	}
	w.declare(set)
}

// action is something that a user, a kubelet or the cloud does to the cluster.
type action struct {
	weight int
	do     func(w *world)
}

var actions = []action{
	{6, (*world).scale},
	{6, func(w *world) {
		w.someSet(w.redeclare)
	}},
	{3, func(w *world) {
		if m := w.someMachine(); m != nil {
			must(client.IgnoreNotFound(w.server.delete(request{who: "user"}, machineKind, keyOf(m), guards{}, nil)))
		}
	}},
	{2, (*world).shrinkBy},
	{3, func(w *world) {
		if node := w.someNode(); node != nil {
			must(w.server.delete(request{who: "user"}, nodeKind, node.Name, guards{}, nil))
		}
	}},
	{3, (*world).makeNotReady},
	{1, func(w *world) {
		if i := w.someInstance(); i != nil {
			i.dead = true
			w.ready(i, corev1.ConditionUnknown)
		}
	}},
	{2, func(w *world) {
		if i := w.someInstance(); i != nil {
			w.cloud.end(i)
		}
	}},
	{4, (*world).editNode},
	{3, (*world).editMachine},
	{2, (*world).pauseSet},
	{2, func(w *world) { w.server.version += w.random.IntN(3) }},
	{2, func(w *world) {
		if w.process != nil {
			w.crash("killed")
			w.after(w.upTo(time.Minute), w.start)
		}
	}},
}

// act does something at random.
func (w *world) act() {
	all := actions
	if w.config.groups {
		all = slices.Concat(actions, groupActions)
	}
	if chosen, found := weighted(w, all, func(a action) int { return a.weight }); found {
		chosen.do(w)
	}
}

func (w *world) someSet(change func(set *machinev1beta1.MachineSet)) {
	if all := w.server.all(setKind); len(all) > 0 {
		edit(w, "user", setKind, keyOf(pick(w, all)), change)
	}
}

func (w *world) someMachine() client.Object {
	if all := w.server.all(machineKind); len(all) > 0 {
		return pick(w, all)
	}
	return nil
}

func (w *world) someNode() *corev1.Node {
	if all := typed[*corev1.Node](w.server.all(nodeKind)); len(all) > 0 {
		return pick(w, all)
	}
	return nil
}

func (w *world) someInstance() *instance {
	if all := w.cloud.sorted(); len(all) > 0 {
		return pick(w, all)
	}
	return nil
}

func (w *world) scale() {
	w.someSet(func(set *machinev1beta1.MachineSet) { set.Spec.Replicas = new(w.random.Int32N(6)) })
}

// shrinkBy is the cluster-autoscaler: it marks a Machine and takes one replica away.
func (w *world) shrinkBy() {
	machine := w.someMachine()
	if machine == nil {
		return
	}
	edit(w, "user", machineKind, keyOf(machine), func(object client.Object) {
		annotate(object, "machine.openshift.io/delete-machine", "")
	})
	edit(w, "user", setKind, keyFor(namespace, machine.GetLabels()[poolLabel]), func(set *machinev1beta1.MachineSet) {
		set.Spec.Replicas = new(max(*set.Spec.Replicas-1, 0))
	})
}

// makeNotReady turns a Node NotReady for a while.
func (w *world) makeNotReady() {
	i := w.someInstance()
	if i == nil {
		return
	}
	w.ready(i, pick(w, []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown}))
	w.after(w.upTo(10*time.Minute), func() { w.ready(i, corev1.ConditionTrue) })
}

func annotate(object client.Object, key, value string) {
	object.SetAnnotations(with(object.GetAnnotations(), key, value))
}

func label(object client.Object, key, value string) {
	object.SetLabels(with(object.GetLabels(), key, value))
}

// with returns a copy of a map with one entry more.
func with[V any](entries map[string]V, key string, value V) map[string]V {
	after := map[string]V{}
	maps.Copy(after, entries)
	after[key] = value
	return after
}

// editNode edits a Node by hand: it sets the user's own keys, or changes or removes keys that the pool declares.
func (w *world) editNode() {
	node := w.someNode()
	if node == nil {
		return
	}
	key, value := foreign+pick(w, []string{"a", "b"}), fmt.Sprintf("v%d", w.random.IntN(9))
	edit(w, "user", nodeKind, node.Name, func(node *corev1.Node) {
		switch w.random.IntN(6) {
		case 0:
			label(node, key, value)
		case 1:
			annotate(node, key, value)
		case 2:
			node.Spec.Taints = append(slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == key }),
				corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectPreferNoSchedule})
		case 3:
			for k := range node.Labels {
				if _, ours := w.declared[entry{"label", k}]; ours {
					delete(node.Labels, k)
				}
			}
		case 4:
			node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return w.declared[entry{"taint", t.Key}] })
		case 5:
			for k := range node.Labels {
				if w.declared[entry{"label", k}] {
					node.Labels[k] = "by-hand"
				}
			}
		}
	})
}

// editMachine is a hand on a Machine, which takes most of what it does back after a while.
func (w *world) editMachine() {
	machine := w.someMachine()
	if machine == nil {
		return
	}
	key, hook := keyOf(machine), []machinev1beta1.LifecycleHook{{Name: "wait", Owner: "user"}}
	change := func(do func(m *machinev1beta1.Machine)) {
		edit(w, "user", machineKind, key, do)
	}
	later := func(undo func(m *machinev1beta1.Machine)) { w.after(w.upTo(8*time.Minute), func() { change(undo) }) }
	switch w.random.IntN(7) {
	case 0:
		change(func(m *machinev1beta1.Machine) { label(m, foreign+"a", fmt.Sprintf("v%d", w.random.IntN(9))) })
	case 1:
		change(func(m *machinev1beta1.Machine) { annotate(m, foreign+"b", fmt.Sprintf("v%d", w.random.IntN(9))) })
	case 2:
		change(func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreDrain = hook })
		later(func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreDrain = nil })
	case 3:
		change(func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreTerminate = hook })
		later(func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreTerminate = nil })
	case 4:
		change(func(m *machinev1beta1.Machine) { annotate(m, "cluster.x-k8s.io/paused", "") })
		later(func(m *machinev1beta1.Machine) { delete(m.Annotations, "cluster.x-k8s.io/paused") })
	case 5:
		pool := machine.GetLabels()[poolLabel]
		change(func(m *machinev1beta1.Machine) { label(m, poolLabel, "none") })
		if w.chance(2) {
			later(func(m *machinev1beta1.Machine) { label(m, poolLabel, pool) })
		}
	case 6:
		change(func(m *machinev1beta1.Machine) { m.OwnerReferences = nil })
	}
}

// pauseSet keeps the controllers off a MachineSet for a while.
func (w *world) pauseSet() {
	all := w.server.all(setKind)
	key := keyOf(pick(w, all))
	edit(w, "user", setKind, key, func(object client.Object) { annotate(object, "cluster.x-k8s.io/paused", "") })
	w.after(w.upTo(5*time.Minute), func() {
		edit(w, "user", setKind, key, func(object client.Object) { delete(object.GetAnnotations(), "cluster.x-k8s.io/paused") })
	})
}
