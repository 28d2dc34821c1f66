package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// declare changes what a pool's template declares.
func declare(w *harness.World, pool string, change func(spec *machinev1beta1.MachineSpec)) {
	w.Helper()
	harness.Update(w, w.Set, pool, func(set *machinev1beta1.MachineSet) { change(&set.Spec.Template.Spec) })
}

// setLabel declares one more label.
func setLabel(w *harness.World, pool, key, value string) {
	w.Helper()
	declare(w, pool, func(spec *machinev1beta1.MachineSpec) { spec.Labels = add(spec.Labels, key, value) })
}

// dropLabel no longer declares a label.
func dropLabel(w *harness.World, pool, key string) {
	w.Helper()
	declare(w, pool, func(spec *machinev1beta1.MachineSpec) { delete(spec.Labels, key) })
}

func add(entries map[string]string, key, value string) map[string]string {
	out := maps.Clone(entries)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// annotate sets an annotation of any object; an empty value removes it.
func annotate(w *harness.World, object client.Object, key, value string) {
	w.Helper()
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	patch(w, object, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, text))
}

// label sets a label of a Node by hand.
func label(w *harness.World, node, key, value string) {
	w.Helper()
	patch(w, &corev1.Node{ObjectMeta: named(node)}, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value))
}

// unlabel removes a label of a Node by hand.
func unlabel(w *harness.World, node, key string) {
	w.Helper()
	patch(w, &corev1.Node{ObjectMeta: named(node)}, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, key))
}

func patch(w *harness.World, object client.Object, text string) {
	w.Helper()
	if err := w.Client.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.Fatalf("patching %T %s: %v", object, object.GetName(), err)
	}
}

// hasLabel waits until a Node has a label.
func hasLabel(w *harness.World, node, key, value string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("label %s of %s", key, node), func() error {
		return harness.Has(w.Node(node), map[string]string{key: value}, nil)
	})
}

// lacksLabel waits until a Node lacks a label.
func lacksLabel(w *harness.World, node, key string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("no label %s on %s", key, node), func() error {
		if value, ok := w.Node(node).Labels[key]; ok {
			return fmt.Errorf("it is %q", value)
		}
		return nil
	})
}

// hasEvent waits until an object has an event with a reason whose text has a part in it.
func hasEvent(w *harness.World, kind, name, reason, part string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("event %s on %s %s", reason, kind, name), func() error {
		found := w.Events(kind, name)
		if !slices.ContainsFunc(found[reason], func(text string) bool { return strings.Contains(text, part) }) {
			return fmt.Errorf("there are %v", found)
		}
		return nil
	})
}

// createNode makes a Node again as a kubelet that registers does, played by kwok.
func createNode(w *harness.World, name string, labels map[string]string) {
	w.Helper()
	node := builder.Node(name, builder.WithNodeLabels(labels), harness.WithKwok)
	if err := w.Client.Create(w.Context(), node); err != nil {
		w.Fatal(err)
	}
	// Pools take their Nodes with them by label; this one has none.
	w.Cleanup(func() { _ = w.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: named(name)}) })
}

func deleteNode(w *harness.World, name string) {
	w.Helper()
	if err := w.Client.Delete(w.Context(), &corev1.Node{ObjectMeta: named(name)}); err != nil {
		w.Fatal(err)
	}
}

// pool makes a world with one pool of a name.
func pool(t *testing.T, name string, machines int, change ...func(*cluster.PoolOptions)) *harness.World {
	t.Helper()
	w := harness.NewWorld(t, env)
	options := cluster.PoolOptions{Name: name, Machines: machines}
	for _, c := range change {
		c(&options)
	}
	w.Pool(options)
	return w
}

// writesOf lists the operator's writes of Nodes and Machines whose names begin with a prefix, since a mark: the operator is shared with other tests.
func writesOf(w *harness.World, since cluster.AuditMark, prefix string) []cluster.AuditEvent {
	w.Helper()
	return slices.DeleteFunc(w.Writes(since), func(e cluster.AuditEvent) bool { return !strings.HasPrefix(e.Name, prefix) })
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func mergePatch(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }
