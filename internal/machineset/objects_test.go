package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineset/plan"
)

func setOf(replicas int32) *machinev1beta1.MachineSet {
	return builder.MachineSet("machines", "web", replicas, func(set *machinev1beta1.MachineSet) {
		set.Generation, set.CreationTimestamp = 1, metav1.NewTime(start.Add(-time.Hour))
		set.Spec.Selector.MatchLabels = map[string]string{"pool": "web"}
		set.Spec.Template.Labels = map[string]string{"pool": "web", "tier": "front"}
		set.Spec.Template.Annotations = map[string]string{
			"note": "from the template", machineapi.CreatedForAnnotation: "outdated/of-the-template", plan.AttemptAnnotation: "7",
		}
		set.Spec.Template.Spec.Labels = map[string]string{"node": "label"}
		set.Spec.Template.Spec.ProviderSpec = builder.RawProviderSpec(`{"size":"large"}`)
	})
}

// machineOf is a Machine of the set, with a Node of its own name.
func machineOf(name string, edits ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	return builder.Machine("machines", name, slices.Concat([]func(*machinev1beta1.Machine){
		builder.WithOwner(setOf(1)), builder.WithNode(name), func(machine *machinev1beta1.Machine) {
			machine.CreationTimestamp, machine.Finalizers = metav1.NewTime(start.Add(-time.Hour)), []string{machinev1beta1.MachineFinalizer}
			machine.Annotations = map[string]string{}
		},
	}, edits)...)
}

func nodeOf(name string, ready corev1.ConditionStatus, since time.Time) *corev1.Node {
	return builder.Node(name, builder.WithReadySince(ready, since))
}

// pool is a set with as many Machines as it asks for, a, b, c and so on, all with Nodes that are ready.
func pool(replicas int32) []client.Object {
	objects := []client.Object{setOf(replicas)}
	for i := range replicas {
		name := string('a' + i)
		objects = append(objects, machineOf(name), nodeOf(name, corev1.ConditionTrue, start.Add(-time.Hour)))
	}
	return objects
}

func loose(m *machinev1beta1.Machine)   { m.OwnerReferences = nil }
func relabel(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": "other"} }

// denied is the answer of admission.
func denied(string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "x", errors.New("quota"))
}

// broken is an error after which the outcome is unknown.
func broken(string) error { return apierrors.NewInternalError(errors.New("etcd")) }

// only has just some requests fail.
func only(prefix string, fail func(string) error) func(string) error {
	return func(write string) error {
		if strings.HasPrefix(write, prefix) {
			return fail(write)
		}
		return nil
	}
}

// guard is the precondition of a deletion.
func guard(machine *machinev1beta1.Machine) client.Preconditions {
	return client.Preconditions{UID: &machine.UID, ResourceVersion: &machine.ResourceVersion}
}

// failing is a reader that fails for one kind.
type failing struct {
	client.Reader
	kind string
	err  error
}

func (f *failing) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if fmt.Sprintf("%T", object) == f.kind {
		return f.err
	}
	return f.Reader.Get(ctx, key, object, options...)
}

func (f *failing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if fmt.Sprintf("%T", list) == f.kind {
		return f.err
	}
	return f.Reader.List(ctx, list, options...)
}
