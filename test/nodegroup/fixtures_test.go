package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/harness"
)

// labelPool is the label in the selectors of these tests' groups.
const labelPool = "example.com/pool"

// fixture is a control plane with Nodes of one test.
type fixture struct {
	*harness.World
	name string
	// app has the Pods of the test; nil where there are none.
	app *guardedApp
}

// newFixture registers Nodes that are Ready, named after the test, in three zones.
func newFixture(t *testing.T, name string, count int, options ...func(*corev1.Node)) *fixture {
	t.Helper()
	f := &fixture{World: harness.NewWorld(t, env), name: name}
	for i := range count {
		f.register(fmt.Sprintf("%s-%02d", name, i), fmt.Sprintf("zone-%c", 'a'+i%3), options...)
	}
	return f
}

// besideOthers is newFixture for a test that shares the operator with others.
func besideOthers(t *testing.T, name string, count int) *fixture {
	t.Helper()
	t.Parallel()
	shared.For(t, env).ReportAbout(t, name)
	return newFixture(t, name, count)
}

// register creates a Ready Node.
func (f *fixture) register(name, zone string, options ...func(*corev1.Node)) *corev1.Node {
	f.Helper()
	options = append([]func(*corev1.Node){
		builder.WithNodeLabels(map[string]string{labelPool: f.name, corev1.LabelTopologyZone: zone}),
	}, options...)
	node := builder.Node(name, options...)
	if err := f.Client.Create(f.Context(), node); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := f.Client.Delete(context.Background(), node); client.IgnoreNotFound(err) != nil {
			f.Errorf("deleting Node %s: %v", name, err)
		}
	})
	f.setReady(name, corev1.ConditionTrue)
	return node
}

// setReady sets the condition Ready of a Node as its kubelet does.
func (f *fixture) setReady(name string, ready corev1.ConditionStatus) {
	f.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	text := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`, ready,
		time.Now().UTC().Format(time.RFC3339))
	if err := f.Client.Status().Patch(f.Context(), node, client.RawPatch(types.StrategicMergePatchType, text)); err != nil {
		f.Fatal(err)
	}
}

// newGroup returns a NodeGroup that selects the Nodes of the test.
func (f *fixture) newGroup(name string, options ...func(*v1alpha1.NodeGroupSpec)) *v1alpha1.NodeGroup {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{labelPool: f.name}}
	for _, option := range options {
		option(&group.Spec)
	}
	return group
}

// createSeen makes a NodeGroup, and waits until the operator has seen it: what begins before does not wait for its budget.
func (f *fixture) createSeen(group *v1alpha1.NodeGroup) {
	f.Helper()
	f.create(group)
	f.Eventually("the operator has seen NodeGroup "+group.Name, func() error {
		if f.group(group.Name).Status.ObservedGeneration == 0 {
			return errors.New("its status is empty")
		}
		return nil
	})
}

// create creates a NodeGroup, and deletes it when the test ends.
func (f *fixture) create(group *v1alpha1.NodeGroup) {
	f.Helper()
	if err := f.Client.Create(f.Context(), group); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		gone := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: group.Name}}
		if err := f.Client.Delete(ctx, gone); client.IgnoreNotFound(err) != nil {
			f.Errorf("deleting NodeGroup %s: %v", group.Name, err)
		}
		// Without an operator the finalizer stays.
		text := []byte(`{"metadata":{"finalizers":null}}`)
		if err := f.Client.Patch(ctx, gone, client.RawPatch(types.MergePatchType, text)); client.IgnoreNotFound(err) != nil {
			f.Errorf("removing the finalizer of NodeGroup %s: %v", group.Name, err)
		}
	})
}

// group reads a NodeGroup.
func (f *fixture) group(name string) *v1alpha1.NodeGroup {
	f.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := f.Client.Get(f.Context(), types.NamespacedName{Name: name}, group); err != nil {
		f.Fatal(err)
	}
	return group
}

// update changes the spec of a NodeGroup.
func (f *fixture) update(name string, change func(*v1alpha1.NodeGroupSpec)) {
	f.Helper()
	harness.Update(f.World, f.group, name, func(group *v1alpha1.NodeGroup) { change(&group.Spec) })
}

// eventuallyCondition waits until a condition of a group has a status and a reason for the present generation.
func (f *fixture) eventuallyCondition(name, kind string, status metav1.ConditionStatus, reason string) *v1alpha1.NodeGroup {
	f.Helper()
	var group *v1alpha1.NodeGroup
	f.Eventually(fmt.Sprintf("NodeGroup %s: %s is %s because of %s", name, kind, status, reason), func() error {
		group = f.group(name)
		found := meta.FindStatusCondition(group.Status.Conditions, kind)
		if found == nil || found.Status != status || found.Reason != reason || found.ObservedGeneration != group.Generation {
			return fmt.Errorf("status is %s", harness.JSON(group.Status))
		}
		return nil
	})
	return group
}

// eventuallyNode waits until a Node meets a condition.
func (f *fixture) eventuallyNode(name, what string, condition func(*corev1.Node) error) {
	f.Helper()
	f.Eventually(fmt.Sprintf("Node %s: %s", name, what), func() error { return condition(f.Node(name)) })
}

// eventuallyGone waits until a NodeGroup is gone.
func (f *fixture) eventuallyGone(name string) {
	f.Helper()
	f.Eventually("NodeGroup "+name+" is gone", func() error {
		group := &v1alpha1.NodeGroup{}
		err := f.Client.Get(f.Context(), types.NamespacedName{Name: name}, group)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%w): %s", err, harness.JSON(group.Status))
	})
}

// withLabel declares a label.
func withLabel(key, value string) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) {
		metadata := metadataOf(spec)
		if metadata.Labels == nil {
			metadata.Labels = map[string]v1alpha1.LabelValue{}
		}
		metadata.Labels[key] = v1alpha1.LabelValue(value)
	}
}

// withTaint declares a taint.
func withTaint(key, value string, effect corev1.TaintEffect) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) {
		metadataOf(spec).Taints = append(metadataOf(spec).Taints, v1alpha1.Taint{Key: key, Value: value, Effect: effect})
	}
}

// withRelease sets what happens to Nodes that leave.
func withRelease(policy v1alpha1.ReleasePolicy) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) { metadataOf(spec).OnRelease = policy }
}

// withReleaseDelay sets how long a Node has been out of the group when it is released.
func withReleaseDelay(delay time.Duration) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) {
		if spec.Rollout == nil {
			spec.Rollout = &v1alpha1.Rollout{}
		}
		spec.Rollout.ReleaseDelay = &metav1.Duration{Duration: delay}
	}
}

func metadataOf(spec *v1alpha1.NodeGroupSpec) *v1alpha1.Metadata {
	if spec.Metadata == nil {
		spec.Metadata = &v1alpha1.Metadata{}
	}
	return spec.Metadata
}

// hasLabel returns a condition on a label of a Node; an empty value is that there is none.
func hasLabel(key, value string) func(*corev1.Node) error {
	return func(node *corev1.Node) error {
		if got, found := node.Labels[key]; got != value || found != (value != "") {
			return fmt.Errorf("label %s is %q (%t)", key, got, found)
		}
		return nil
	}
}

// hasTaint returns a condition on a taint of a Node.
func hasTaint(key string, want bool) func(*corev1.Node) error {
	return func(node *corev1.Node) error {
		for _, taint := range node.Spec.Taints {
			if taint.Key == key {
				if want {
					return nil
				}
				return fmt.Errorf("taint %s is there", key)
			}
		}
		if want {
			return fmt.Errorf("taint %s is missing", key)
		}
		return nil
	}
}
