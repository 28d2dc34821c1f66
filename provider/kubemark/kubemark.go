// Package kubemark is a provider whose Machines are hollow nodes: Pods of the cluster that Drover runs in. In each Pod a real kubelet registers a
// Node; its container runtime runs nothing. The provider speaks the API of OpenShift's kubemark actuator.
package kubemark

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider"
)

// Name is the provider's name.
const Name = "kubemark"

// How soon a Pod is looked at again that is on its way, or on its way out.
const (
	soonest = time.Second
	latest  = 20 * time.Second
)

// Provider returns it for app.WithProvider.
func Provider() provider.Provider {
	return provider.Provider{
		Name: Name, Kinds: []schema.GroupKind{{Group: GroupVersion.Group, Kind: kindSpec}}, OnRequest: true,
		New: func(environment provider.Environment) (provider.Actuator, error) {
			program, err := programOf(environment.Options)
			if err != nil {
				return nil, err
			}
			// Drover's cache has no Secrets, and a Pod that it does not show yet would be taken for lost.
			core, err := corev1client.NewForConfig(environment.Config)
			if err != nil {
				return nil, fmt.Errorf("making a client: %w", err)
			}
			return NewActuator(core, environment.Client, environment.Config, program, clock.RealClock{}), nil
		},
	}
}

// NewActuator returns an Actuator. nodes reads Nodes, config says where the hollow nodes find the API server, and program is what they run.
func NewActuator(
	core corev1client.CoreV1Interface, nodes client.Reader, config *rest.Config, program Program, clock clock.PassiveClock,
) *Actuator {
	return &Actuator{core, nodes, config, program, clock}
}

// Actuator makes Pods of Machines.
type Actuator struct {
	core    corev1client.CoreV1Interface
	nodes   client.Reader
	config  *rest.Config
	program Program
	clock   clock.PassiveClock
}

var _ provider.Actuator = (*Actuator)(nil)

// Create makes the Pod, then the Secret that it waits for. The Pod is called like the Machine, so that there is never a second one.
func (a *Actuator) Create(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	spec, err := specOf(machine)
	if err != nil {
		return nil, err
	}
	if err := a.program.check(spec); err != nil {
		return nil, err
	}
	if err := a.free(ctx, machine.Name); err != nil {
		return nil, err
	}
	pod, err := a.core.Pods(spec.Namespace).Create(ctx, podOf(machine, spec, a.program), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		if pod, err = a.pod(ctx, machine, types.NamespacedName{Namespace: spec.Namespace, Name: machine.Name}); err != nil {
			return nil, err
		}
		if pod == nil {
			return nil, fmt.Errorf("pod %s/%s is there already and is not this Machine's", spec.Namespace, machine.Name)
		}
	case err != nil:
		return nil, refused(spec.Namespace, machine.Name, err)
	}
	return a.look(ctx, machine, spec, pod)
}

// free makes sure that no other node has the name: the hollow one would get a certificate for it, and register as that.
func (a *Actuator) free(ctx context.Context, name string) error {
	node := &corev1.Node{}
	err := a.nodes.Get(ctx, types.NamespacedName{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading node %s: %w", name, err)
	case node.Spec.ProviderID != ProviderID(name):
		return fmt.Errorf("node %s is there already and is no hollow one (its providerID is %q)", name, node.Spec.ProviderID)
	}
	return nil
}

// refused separates terminal errors from transient ones.
func refused(namespace, name string, err error) error {
	switch {
	case apierrors.IsInvalid(err):
		return provider.InvalidConfiguration("creating pod %s/%s: %w", namespace, name, err)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return provider.InsufficientResources("creating pod %s/%s: %w", namespace, name, err)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return fmt.Errorf("creating pod %s/%s: %w; config/kubemark has the namespace, its service account and Drover's permissions",
			namespace, name, err)
	}
	return fmt.Errorf("creating pod %s/%s: %w", namespace, name, err)
}

// Get looks at the Pod. It also makes the Secret that a Pod waits for when Drover ended before it did.
func (a *Actuator) Get(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	spec, err := specOf(machine)
	if err != nil {
		spec = nil
	}
	at := place(machine, spec)
	if at.Namespace == "" {
		// What cannot be read was never made, and its Machine must be able to go.
		return nil, nil
	}
	pod, err := a.pod(ctx, machine, at)
	switch {
	case err != nil:
		return nil, err
	case pod != nil:
		return a.look(ctx, machine, spec, pod)
	case machine.DeletionTimestamp == nil:
		return nil, nil
	}
	secret, err := a.secret(ctx, machine, at)
	if err != nil || secret == nil {
		return nil, err
	}
	return &provider.Instance{ProviderID: ProviderID(machine.Name), State: provider.Terminating, LookAgain: soonest}, nil
}

// look returns the instance of a Pod. If the Pod may be waiting for its Secret, look creates the Secret.
func (a *Actuator) look(
	ctx context.Context, machine *machinev1beta1.Machine, spec *ProviderSpec, pod *corev1.Pod,
) (*provider.Instance, error) {
	if spec == nil {
		spec = &ProviderSpec{}
	}
	state, ill := stateOf(pod), trouble(pod) != ""
	waits := state == provider.Pending || state == provider.Running && ill
	if waits && mounts(pod, pod.Name) && machine.DeletionTimestamp == nil {
		if err := a.ensureSecret(ctx, machine, pod); err != nil {
			return nil, err
		}
	}
	instance, err := instanceOf(pod, spec.Labels)
	if err != nil {
		return nil, err
	}
	switch {
	case state == provider.Terminating, state == provider.Running && pod.Status.PodIP == "":
		instance.LookAgain = soonest
	case waits:
		// The longer the Pod has waited, the less often it is observed.
		instance.LookAgain = min(max(a.clock.Since(pod.CreationTimestamp.Time)/8, soonest), latest)
	}
	return instance, nil
}

// mounts reports whether a Pod waits for a Secret.
func mounts(pod *corev1.Pod, secret string) bool {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].Secret; source != nil && source.SecretName == secret {
			return true
		}
	}
	return false
}

// Delete deletes the Pod and its Secret. The Node is Drover's to remove.
func (a *Actuator) Delete(ctx context.Context, machine *machinev1beta1.Machine) error {
	spec, err := specOf(machine)
	if err != nil {
		spec = nil
	}
	at := place(machine, spec)
	if at.Namespace == "" {
		return nil
	}
	if spec != nil && spec.DeletionTimeout.Duration > 0 && machine.DeletionTimestamp != nil {
		if left := machine.DeletionTimestamp.Add(spec.DeletionTimeout.Duration).Sub(a.clock.Now()); left > 0 {
			return provider.RequeueAfter(left, "deletionTimeout is not over")
		}
	}
	return errors.Join(a.deletePod(ctx, machine, at), a.deleteSecret(ctx, machine, at))
}

func (a *Actuator) deletePod(ctx context.Context, machine *machinev1beta1.Machine, at types.NamespacedName) error {
	pod, err := a.pod(ctx, machine, at)
	if err != nil || pod == nil || pod.DeletionTimestamp != nil {
		return err
	}
	if err := a.core.Pods(at.Namespace).Delete(ctx, at.Name, onlyThis(pod)); err != nil && !passing(err) {
		return fmt.Errorf("deleting pod %s: %w", at, err)
	}
	return nil
}

func (a *Actuator) deleteSecret(ctx context.Context, machine *machinev1beta1.Machine, at types.NamespacedName) error {
	secret, err := a.secret(ctx, machine, at)
	if err != nil || secret == nil {
		return err
	}
	if err := a.core.Secrets(at.Namespace).Delete(ctx, at.Name, onlyThis(secret)); err != nil && !passing(err) {
		return fmt.Errorf("deleting secret %s: %w", at, err)
	}
	return nil
}

// passing reports that what was to be deleted is gone or was replaced under its name; the next reconciliation finds out which.
func passing(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

func onlyThis(object metav1.Object) metav1.DeleteOptions {
	uid := object.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// ours reports whether an object belongs to this Machine, and not to an earlier Machine with the same name.
func ours(object metav1.Object, machine *machinev1beta1.Machine) bool {
	return object.GetAnnotations()[AnnotationMachine] == string(machine.UID)
}

// pod reads the Pod of a Machine; nil when there is none, or one of that name which is not its.
func (a *Actuator) pod(ctx context.Context, machine *machinev1beta1.Machine, at types.NamespacedName) (*corev1.Pod, error) {
	pod, err := a.core.Pods(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading pod %s: %w", at, err)
	case !ours(pod, machine):
		return nil, nil
	}
	return pod, nil
}

// secret reads the Secret of a Machine; nil when there is none, or one of that name which is not its.
func (a *Actuator) secret(ctx context.Context, machine *machinev1beta1.Machine, at types.NamespacedName) (*corev1.Secret, error) {
	secret, err := a.core.Secrets(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading secret %s: %w", at, err)
	case !ours(secret, machine):
		return nil, nil
	}
	return secret, nil
}
