package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

// apply carries out one step, and returns what is known after it. It returns an error if the Machine could not be written: then nothing more is
// done. Any other error is a part of what is known.
func (rc *reconciliation) apply(ctx context.Context, in plan.Input, step *plan.Step) (plan.Input, error) {
	var err error
	switch step.Action {
	case plan.InitializeAuthority:
		in.Machine, err = rc.initializeAuthority(ctx, in.Machine)
		in.AuthorityInitialized = true
	case plan.AddFinalizer:
		in.Machine, err = rc.addFinalizer(ctx, in.Machine)
	case plan.RecordInstance:
		in.Machine, err = rc.recordInstance(ctx, &in, step)
		in.AwaitsNode = step.IsNew
	case plan.SaveStatus:
		in.Machine, err = rc.writeStatus(ctx, &in, &plan.Wait{})
	case plan.RemoveFinalizer:
		err = rc.removeFinalizer(ctx, in.Machine)
	case plan.GetInstance:
		in.Get = rc.getInstance(ctx, in.Machine)
		rc.remember(&in, in.Get.Instance)
		// The instance may prove another Node to be the Machine's.
		in.Link = plan.Link{}
	case plan.CreateInstance:
		in.Create = rc.createInstance(ctx, in.Machine)
		rc.remember(&in, in.Create.Instance)
	case plan.DeleteInstance:
		in.Delete = rc.deleteInstance(ctx, in.Machine)
	case plan.ConfirmDeletion:
		in.Confirm = rc.confirmDeletion(ctx, in.Machine)
	default:
		in.Failed = rc.applyToNode(ctx, &in, step)
	}
	return in, err
}

// applyToNode carries out a step that concerns the Node of the Machine.
func (rc *reconciliation) applyToNode(ctx context.Context, in *plan.Input, step *plan.Step) (err error) {
	switch step.Action {
	case plan.FindNode:
		in.Link, err = rc.findNode(ctx, in)
	case plan.CordonNode:
		in.Cordon, in.Lease, err = rc.cordonNode(ctx, in)
	case plan.EvictPods:
		in.Pods, err = rc.evictPods(ctx, in)
	case plan.EndDrain:
		in.Drained = &step.Drained
		rc.endDrain(in, step)
	case plan.StopEvictions:
		rc.stopEvictions()
	case plan.RenewLease:
		in.Lease, err = rc.acquireLease(ctx, in.Link.Node)
	case plan.DeleteNode:
		in.NodeDeletion, err = rc.deleteNode(ctx, in)
	case plan.ReleaseLease:
		in.LeaseReleased, err = true, rc.Lease.ReleaseIfHolder(ctx, in.NodeName())
	default:
		err = fmt.Errorf("unknown step %q", step.Action)
	}
	return err
}

// remember keeps an instance that the provider has returned for later reconciliations.
func (rc *reconciliation) remember(in *plan.Input, instance *provider.Instance) {
	if instance == nil {
		return
	}
	next := rc.options.InstanceCheck
	if instance.LookAgain > 0 {
		next = instance.LookAgain
	}
	rc.state.Instance, rc.state.NextGet, rc.state.Generation = instance, rc.clock.Now().Add(next), in.Machine.Generation
	delete(rc.state.emitted, plan.EventFailedCreate)
}

// patchMachine patches a Machine that has not changed since it was observed.
func (rc *reconciliation) patchMachine(
	ctx context.Context, before, changed *machinev1beta1.Machine, what string,
) (*machinev1beta1.Machine, error) {
	if err := rc.Writer.Patch(ctx, changed, controller.GuardedPatch(before), fieldOwner); err != nil {
		return nil, fmt.Errorf("%s Machine %s: %w", what, rc.key, err)
	}
	rc.expect(changed)
	return changed, nil
}

// addFinalizer adds the finalizer to a Machine that a user created without it. Machines of a MachineSet are created with it.
func (rc *reconciliation) addFinalizer(ctx context.Context, machine *machinev1beta1.Machine) (*machinev1beta1.Machine, error) {
	changed := machine.DeepCopy()
	changed.Finalizers = append(changed.Finalizers, machinev1beta1.MachineFinalizer)
	return rc.patchMachine(ctx, machine, changed, "adding the finalizer to")
}

// recordInstance writes what the provider has returned to the spec and the metadata of the Machine.
func (rc *reconciliation) recordInstance(ctx context.Context, in *plan.Input, step *plan.Step) (*machinev1beta1.Machine, error) {
	recorded, err := rc.patchMachine(ctx, in.Machine, step.Machine, "recording the instance of")
	if err != nil {
		return nil, err
	}
	rc.state.Generation = recorded.Generation
	if rc.state.creating && nodelink.ProviderID(in.Machine) == "" && nodelink.ProviderID(recorded) != "" {
		rc.emit(recorded, instanceCreated)
	}
	if step.IsNew {
		rc.state.Recorded = in.Instance()
	}
	return recorded, nil
}

// removeFinalizer lets the Machine go. The answer is not expected in the cache: its object may be gone.
func (rc *reconciliation) removeFinalizer(ctx context.Context, machine *machinev1beta1.Machine) error {
	changed := machine.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == machinev1beta1.MachineFinalizer })
	if err := rc.Writer.Patch(ctx, changed, controller.GuardedPatch(machine), fieldOwner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of Machine %s: %w", rc.key, err)
	}
	rc.state.Finished = true
	log.FromContext(ctx).Info("deleted the instance and the Node of the Machine")
	return nil
}

// instanceCreated is the event of an instance that the provider has created, in its Create or in the background.
var instanceCreated = plan.Normal(plan.EventCreate, "Created an instance for the Machine")

// errNoInstance is the error of a provider that violates its contract.
var errNoInstance = errors.New("the provider returned neither an instance nor an error")

// createInstance has the provider create the instance.
func (rc *reconciliation) createInstance(ctx context.Context, machine *machinev1beta1.Machine) plan.Answer {
	ctx, cancel := context.WithTimeout(ctx, rc.options.ProviderTimeout)
	defer cancel()
	rc.state.creating = true
	instance, err := rc.actuator.Create(ctx, machine)
	if err == nil && instance == nil {
		err = errNoInstance
	}
	if err == nil {
		rc.emit(machine, instanceCreated)
		log.FromContext(ctx).Info("created an instance", "providerID", instance.ProviderID)
	}
	return plan.Answer{Asked: true, Instance: instance, Err: err}
}

// deleteInstance has the provider delete the instance.
func (rc *reconciliation) deleteInstance(ctx context.Context, machine *machinev1beta1.Machine) plan.Answer {
	ctx, cancel := context.WithTimeout(ctx, rc.options.ProviderTimeout)
	defer cancel()
	return plan.Answer{Asked: true, Err: rc.actuator.Delete(ctx, machine)}
}

// confirmDeletion asks the provider whether the instance still exists.
func (rc *reconciliation) confirmDeletion(ctx context.Context, machine *machinev1beta1.Machine) plan.Answer {
	answer := rc.getInstance(ctx, machine)
	switch {
	case answer.Err != nil:
	case answer.Instance == nil:
		rc.emit(machine, plan.Normal(plan.EventDelete, "The instance has been deleted"))
	case rc.state.DeletedAt.IsZero():
		rc.state.DeletedAt = rc.clock.Now()
	}
	return answer
}

// deleteNode deletes the Node of the instance if it is the same Node still. It also finds a Node that never came into nodeRef.
func (rc *reconciliation) deleteNode(ctx context.Context, in *plan.Input) (plan.NodeDeletion, error) {
	deletion := plan.NodeDeletion{Tried: true}
	node := in.Link.Node
	if node == nil {
		var err error
		if node, err = rc.findLateNode(ctx, in); err != nil || node == nil {
			return deletion, err
		}
	} else if err := rc.Cache.Get(ctx, types.NamespacedName{Name: node.Name}, &corev1.Node{}); apierrors.IsNotFound(err) {
		return deletion, nil
	}
	err := rc.Writer.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.Preconditions{UID: &node.UID})
	switch status.Classify(err) {
	case status.Stale:
		deletion.Stale = true
	case status.OK, status.Gone:
		log.FromContext(ctx).Info("deleted the Node", "node", node.Name)
	default:
		deletion.Node, deletion.Err = node, fmt.Errorf("deleting Node %s: %w", node.Name, err)
		if rc.state.NodeFailedAt.IsZero() {
			rc.state.NodeFailedAt = in.Now
		}
	}
	return deletion, nil
}
