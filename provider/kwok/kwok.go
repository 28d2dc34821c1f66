// Package kwok is a provider whose Machines are Nodes that kwok plays: for demos, tests and benchmarks, with boot delays and failures on
// request. An instance is nothing but a Node and what Drover recorded on the Machine.
package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider"
)

// Name is the provider's name.
const Name = "kwok"

// Provider returns it for app.WithProvider.
func Provider() provider.Provider {
	return provider.Provider{
		Name: Name, Kinds: []schema.GroupKind{{Group: GroupVersion.Group, Kind: kindSpec}}, OnRequest: true,
		New: func(environment provider.Environment) (provider.Actuator, error) {
			return NewActuator(environment.Client, clock.RealClock{}), nil
		},
	}
}

// NewActuator returns an Actuator that reads and writes Nodes with a client.
func NewActuator(client client.Client, clock clock.PassiveClock) *Actuator {
	return &Actuator{client, clock}
}

// Actuator makes Nodes of Machines.
type Actuator struct {
	client client.Client
	clock  clock.PassiveClock
}

var _ provider.Actuator = (*Actuator)(nil)

// Create makes the Node, or waits for the boot delay.
func (a *Actuator) Create(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	spec, err := specOf(machine)
	if err != nil {
		return nil, err
	}
	if spec.Failure.Create != "" {
		return nil, &provider.Error{Reason: spec.Failure.Create, Err: fmt.Errorf("spec.providerSpec.value.failure.create is %s", spec.Failure.Create)}
	}
	return a.boot(ctx, machine, spec, a.clock.Now())
}

// Get looks for the Node, and makes it when its time has come.
func (a *Actuator) Get(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	node, err := a.node(ctx, machine)
	if err != nil {
		return nil, err
	}
	status, err := statusOf(machine)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(machine)
	if err != nil {
		if node == nil && status == nil {
			// What cannot be read was never made, and its Machine must be able to go.
			return nil, nil
		}
		spec = &ProviderSpec{}
	}
	switch {
	case status == nil && node == nil && halfRecorded(machine):
		// It was made and recorded by half: the cache may not show its Node yet, or its boot delay is not over. To say that there is none
		// would be the Machine's end.
		return a.boot(ctx, machine, spec, a.clock.Now())
	case status == nil && node == nil:
		return nil, nil
	case status == nil:
		// It was made, and Drover ended before it was recorded.
		return a.instance(machine, spec, node.CreationTimestamp.Time, provider.Running, node)
	}
	return a.age(ctx, machine, spec, status, node)
}

// halfRecorded reports whether Drover has written the providerID of an instance, and not its status yet.
func halfRecorded(machine *machinev1beta1.Machine) bool {
	return machine.Spec.ProviderID != nil && machine.DeletionTimestamp == nil
}

// age is the life of an instance after it was recorded.
func (a *Actuator) age(
	ctx context.Context, machine *machinev1beta1.Machine, spec *ProviderSpec, status *ProviderStatus, node *corev1.Node,
) (*provider.Instance, error) {
	now := a.clock.Now()
	vanishes := spec.Failure.VanishesAfter.Duration
	if left := status.Made.Add(vanishes).Sub(now); vanishes > 0 && left <= 0 {
		return nil, nil
	}
	if machine.DeletionTimestamp != nil && node == nil {
		return nil, nil
	}
	if node == nil {
		// Not booted yet, or the Node was deleted: a kubelet registers again, too.
		return a.boot(ctx, machine, spec, status.Made)
	}
	return a.turnNotReady(ctx, machine, spec, status, node)
}

// boot makes the Node of an instance that was made at some time, when its delay is over.
func (a *Actuator) boot(ctx context.Context, machine *machinev1beta1.Machine, spec *ProviderSpec, made time.Time) (*provider.Instance, error) {
	now := a.clock.Now()
	left := made.Add(spec.BootDelay.Duration).Sub(now)
	if left > 0 || spec.Failure.NeverBoots {
		return a.instance(machine, spec, made, provider.Pending, nil)
	}
	node := nodeOf(machine, spec, metav1.NewTime(now))
	err := a.client.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		there := &corev1.Node{}
		if err := a.client.Get(ctx, types.NamespacedName{Name: machine.Name}, there); err != nil {
			return nil, fmt.Errorf("reading node %s: %w", machine.Name, err)
		}
		if there.Annotations[AnnotationInstance] != string(machine.UID) {
			return nil, fmt.Errorf("node %s is there already and is another Machine's", machine.Name)
		}
		node, err = there, nil
	}
	if err != nil {
		return nil, fmt.Errorf("creating node %s: %w", machine.Name, err)
	}
	return a.instance(machine, spec, made, provider.Running, node)
}

// instance returns an instance that looks like this now, and when it will look different.
func (a *Actuator) instance(
	machine *machinev1beta1.Machine, spec *ProviderSpec, made time.Time, state provider.InstanceState, node *corev1.Node,
) (*provider.Instance, error) {
	instance, err := instanceOf(machine, spec, made, state)
	if err != nil {
		return nil, err
	}
	boots := made.Add(spec.BootDelay.Duration)
	var changes []time.Time
	if state == provider.Pending && !spec.Failure.NeverBoots {
		changes = append(changes, boots)
	}
	if sickens := spec.Failure.NotReadyAfter.Duration; sickens > 0 && state == provider.Running && !sick(node) {
		changes = append(changes, boots.Add(sickens))
	}
	if vanishes := spec.Failure.VanishesAfter.Duration; vanishes > 0 {
		changes = append(changes, made.Add(vanishes))
	}
	if len(changes) > 0 {
		// If a change is already due, look again at once.
		instance.LookAgain = max(slices.MinFunc(changes, time.Time.Compare).Sub(a.clock.Now()), time.Millisecond)
	}
	return instance, nil
}

// sick reports whether kwok is to keep a Node NotReady.
func sick(node *corev1.Node) bool { return node != nil && node.Annotations[AnnotationReady] == "false" }

// turnNotReady turns a Node NotReady when that is asked for and its time has come.
func (a *Actuator) turnNotReady(
	ctx context.Context, machine *machinev1beta1.Machine, spec *ProviderSpec, status *ProviderStatus, node *corev1.Node,
) (*provider.Instance, error) {
	sickens := spec.Failure.NotReadyAfter.Duration
	due := !a.clock.Now().Before(status.Made.Add(spec.BootDelay.Duration).Add(sickens))
	if sickens == 0 || sick(node) || !due {
		return a.instance(machine, spec, status.Made, provider.Running, node)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"false"}}}`, AnnotationReady)
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := a.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, fmt.Errorf("turning node %s NotReady: %w", node.Name, err)
	}
	node = node.DeepCopy()
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationReady, "false")
	return a.instance(machine, spec, status.Made, provider.Running, node)
}

// Delete ends the instance. Its Node is Drover's to remove.
func (a *Actuator) Delete(ctx context.Context, machine *machinev1beta1.Machine) error {
	spec, err := specOf(machine)
	if err == nil && machine.DeletionTimestamp != nil {
		if left := machine.DeletionTimestamp.Add(spec.Failure.StaysFor.Duration).Sub(a.clock.Now()); left > 0 && spec.Failure.StaysFor.Duration > 0 {
			return provider.RequeueAfter(left, "the instance takes its time to end")
		}
	}
	node, err := a.node(ctx, machine)
	if err != nil || node == nil {
		return err
	}
	err = a.client.Delete(ctx, node, client.Preconditions{UID: &node.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting node %s: %w", node.Name, err)
	}
	return nil
}

// node finds the Node of a Machine; nil when there is none, or one of that name which is another Machine's.
func (a *Actuator) node(ctx context.Context, machine *machinev1beta1.Machine) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := a.client.Get(ctx, types.NamespacedName{Name: machine.Name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", machine.Name, err)
	case node.Annotations[AnnotationInstance] != string(machine.UID):
		return nil, nil
	}
	return node, nil
}

func instanceOf(machine *machinev1beta1.Machine, spec *ProviderSpec, made time.Time, state provider.InstanceState) (*provider.Instance, error) {
	status := ProviderStatus{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kindStatus},
		InstanceID: machine.Namespace + "/" + machine.Name, InstanceState: state, Made: made.UTC().Truncate(time.Millisecond),
	}
	text, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("rendering status.providerStatus: %w", err)
	}
	return &provider.Instance{
		ProviderID: ProviderID(machine), Addresses: addresses(machine), State: state, Type: spec.InstanceType, Region: spec.Region, Zone: spec.Zone,
		Status: &runtime.RawExtension{Raw: text},
	}, nil
}
