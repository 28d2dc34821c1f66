package plan

import (
	"errors"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/provider"
)

// Action is one step in the life of a Machine. Each writes one object or calls the provider once, at most.
type Action string

// The actions, in the order of a Machine's life.
const (
	// Stop ends the reconciliation; the step's Wait says what is waited for.
	Stop Action = "Stop"
	// InitializeAuthority copies the authority that the spec asks for to the status.
	InitializeAuthority Action = "InitializeAuthority"
	// AddFinalizer adds the finalizer, before there is an instance.
	AddFinalizer Action = "AddFinalizer"
	// GetInstance and CreateInstance call the provider.
	GetInstance    Action = "GetInstance"
	CreateInstance Action = "CreateInstance"
	// RecordInstance writes what the provider has returned to the spec and the metadata of the Machine. It comes before the status: an instance
	// whose providerID is not recorded would be searched by name alone.
	RecordInstance Action = "RecordInstance"
	// FindNode finds the Node of the Machine.
	FindNode Action = "FindNode"
	// SaveStatus writes the status before the next step.
	SaveStatus Action = "SaveStatus"
	// CordonNode checks the control plane, acquires the lease of the Node, and cordons it. If the Node is gone it checks the control plane only.
	CordonNode Action = "CordonNode"
	// EvictPods has the engine evict the pods of the Node.
	EvictPods Action = "EvictPods"
	// EndDrain records the step's Drained.
	EndDrain Action = "EndDrain"
	// StopEvictions has the engine evict no more pods.
	StopEvictions Action = "StopEvictions"
	// RenewLease acquires or renews the lease of the Node.
	RenewLease Action = "RenewLease"
	// DeleteInstance calls the provider, and ConfirmDeletion asks it whether the instance still exists.
	DeleteInstance  Action = "DeleteInstance"
	ConfirmDeletion Action = "ConfirmDeletion"
	// DeleteNode deletes the Node of the instance.
	DeleteNode Action = "DeleteNode"
	// ReleaseLease releases the lease of the Node.
	ReleaseLease Action = "ReleaseLease"
	// RemoveFinalizer lets the Machine go.
	RemoveFinalizer Action = "RemoveFinalizer"
)

// Step is what is done next.
type Step struct {
	Action Action
	// Wait is what a Stop waits for.
	Wait Wait
	// Machine is the Machine as a RecordInstance writes it, and IsNew reports that its Node is about to register.
	Machine *machinev1beta1.Machine
	IsNew   bool
	// Drained is the condition of an EndDrain, and Event what is reported with it.
	Drained Condition
	Event   Event
}

// Wait is what is waited for before a Machine can be taken further. It becomes a condition, an event and the next attempt.
type Wait struct {
	// Type is the condition that shows it; empty for none.
	Type machinev1beta1.ConditionType
	Condition
	// Event is reported on the Machine; the zero value is none.
	Event Event
	// RequeueAfter is when the next attempt is made without an event in the cluster; zero is never. With Err it does not count.
	RequeueAfter time.Duration
	// Err has the controller back off, and Failure is the call of the provider that returned it, for the metrics; nil for none.
	Err     error
	Failure *Failure
	// KeepsBackoff reports that the provider only asks to wait: failures before count until it has answered.
	KeepsBackoff bool
	// Quiet writes no status: what is waited for happens in a moment, or another controller has the Machine.
	Quiet bool
	// Evicting has the engine go on with the drain meanwhile.
	Evicting bool
}

func do(action Action) Step { return Step{Action: action} }

func stop(wait Wait) Step { return Step{Action: Stop, Wait: wait} }

// What is waited for, and for how long.
const (
	// awaitNode is how long a new, running instance may take to register its Node before the status is written without it.
	awaitNode = 2 * time.Second
	// settleInstance is how long an instance that has just been deleted may still exist before the provider is asked again and the status shows it.
	settleInstance = 5 * time.Second
	// retryInstance is for an instance that is being created or deleted.
	retryInstance = 30 * time.Second
)

// isOtherAPI reports whether another API has the authority over a Machine. A cluster that cannot migrate to one sets neither field.
func isOtherAPI(machine *machinev1beta1.Machine) bool {
	authority := machine.Status.AuthoritativeAPI
	return authority == machinev1beta1.MachineAuthorityClusterAPI || authority == machinev1beta1.MachineAuthorityMigrating
}

// Next returns the next step of a Machine. It never fails: what cannot be done is a Stop that says why.
func Next(in *Input) Step {
	switch authority := in.Machine.Status.AuthoritativeAPI; {
	case in.Failed != nil:
		return stop(Wait{Err: in.Failed, Evicting: true, Quiet: in.Machine.DeletionTimestamp == nil})
	case in.AuthorityInitialized:
		// The controller ignores the event of its own write.
		return stop(Wait{Quiet: true, RequeueAfter: delay.Conflict})
	case authority == "" && in.Machine.Spec.AuthoritativeAPI != "":
		return do(InitializeAuthority)
	case isOtherAPI(in.Machine):
		return handOver(in)
	case authority != "" && authority != machinev1beta1.MachineAuthorityMachineAPI:
		// An authority that this version does not know.
		return stop(Wait{Quiet: true})
	case paused.By(in.Machine) != "":
		return stop(Wait{Type: ConditionReady, Condition: isFalse(ReasonPaused, "the annotation "+paused.By(in.Machine)+" pauses the Machine")})
	case in.Machine.DeletionTimestamp != nil:
		return remove(in)
	}
	return provision(in)
}

// handOver leaves the Machine to another API, also in the middle of a drain.
func handOver(in *Input) Step {
	switch {
	case in.State.Draining != "":
		return do(StopEvictions)
	case in.Machine.DeletionTimestamp != nil && in.NodeName() != "" && !in.LeaseReleased:
		return do(ReleaseLease)
	}
	return stop(Wait{})
}

// provision leads from a new Machine to a running one: finalizer, instance, record, Node. If no provider serves a Machine, it belongs to another
// controller, and a finalizer of Drover would keep it forever.
func provision(in *Input) Step {
	if Phase(&in.Machine.Status) == machinev1beta1.PhaseFailed {
		return stop(Wait{})
	}
	recorded := recordedMachine(in)
	switch {
	case in.Unserved == nil && !HasFinalizer(in.Machine):
		return do(AddFinalizer)
	case in.isGetDue():
		return do(GetInstance)
	case in.isMissing() && !in.Create.Asked && !Provisioned(in.Machine):
		return do(CreateInstance)
	case recorded != nil:
		return Step{Action: RecordInstance, Machine: recorded, IsNew: isNew(in)}
	case in.AwaitsNode:
		// Its Node registers in a moment: one status then shows both.
		return stop(Wait{Quiet: true, RequeueAfter: awaitNode})
	case !in.Link.Searched:
		return do(FindNode)
	}
	return stop(in.provisioningWait())
}

// provisioningWait returns when a Machine that is not being deleted is looked at again.
func (in *Input) provisioningWait() Wait {
	var wait Wait
	switch {
	case in.Create.Err != nil:
		wait = in.providerWait(operationCreate, in.Create.Err)
	case in.Get.Err != nil && in.failure() != (Condition{}):
		wait = in.providerWait(operationCreate, in.Get.Err)
	case in.Get.Err != nil:
		wait = in.providerWait(operationGet, in.Get.Err)
	case errors.Is(in.Unserved, ErrNoSpec):
		wait.Event = Warning(EventFailedValidate, in.Unserved.Error())
	}
	if in.failure() != (Condition{}) {
		wait.Err = nil
		return wait
	}
	wait.RequeueAfter = in.nextLook(wait.RequeueAfter)
	return wait
}

// nextLook returns when the provider is asked again. after is what its errors ask for; zero is never.
func (in *Input) nextLook(after time.Duration) time.Duration {
	instance := in.Instance()
	scheduled := instance != nil && instance.LookAgain > 0
	if in.phase() != machinev1beta1.PhaseRunning && !scheduled && after == 0 {
		after = retryInstance
	}
	switch {
	case in.State.NextGet.After(in.Now):
		return sooner(after, in.State.NextGet.Sub(in.Now))
	case scheduled && after == 0:
		return time.Millisecond // that time has passed since the provider was asked: no event would come
	}
	return after
}

// remove leads to the end of a Machine that is being deleted: hooks, drain, instance, Node, lease, finalizer.
func remove(in *Input) Step {
	switch {
	case !HasFinalizer(in.Machine), in.State.Finished:
		// A finalizer of another controller keeps the Machine, or the cache does not show yet that it is gone.
		return stop(Wait{Quiet: true})
	case isKeptByOthers(in.Machine) && Phase(&in.Machine.Status) != machinev1beta1.PhaseDeleting:
		return do(SaveStatus)
	case in.Unserved == nil && !in.Get.Asked && in.mustIdentify():
		return do(GetInstance)
	case in.Get.Err != nil && !isInvalid(in.Get.Err) && in.Pods == nil:
		return stop(in.providerWait(operationGet, in.Get.Err))
	case !in.Link.Searched:
		return do(FindNode)
	}
	if step, drained := drainNode(in); !drained {
		return step
	}
	return terminate(in)
}

// mustIdentify reports whether the provider has to be asked which instance is deleted. Without its providerID and addresses, which a process that
// ended did not record, its Node would be unknown, and neither drained nor deleted. Without nodeRef, or where a Node has registered anew since then,
// what else the Machine says of its Node proves nothing.
func (in *Input) mustIdentify() bool {
	unproven := (in.Machine.Status.NodeRef == nil || in.Link.Refused != "") && in.State.Instance == nil
	return unproven || len(in.Machine.Status.Addresses) == 0 || nodelink.ProviderID(in.Machine) == ""
}

// terminate leads from a drained Node to an instance that may be deleted. The lease of the Node is kept until then, however long hooks and provider
// take: another controller would start to work on the Node.
func terminate(in *Input) Step {
	switch {
	case in.NodeDeletion.Tried:
		return finalize(in)
	case in.State.Draining != "":
		return do(StopEvictions)
	case in.keepsLease() && !in.Lease.Asked:
		return do(RenewLease)
	case in.keepsLease() && in.Lease.Held != nil && !in.isLate(in.drainDeadline()):
		return stop(in.leaseWait())
	case len(in.Machine.Spec.LifecycleHooks.PreTerminate) > 0:
		return stop(Wait{})
	case in.Link.Linked && in.Machine.Status.NodeRef == nil:
		// The Node may be known by the addresses of the instance alone, which are lost with the instance.
		return do(SaveStatus)
	}
	return deleteInstance(in)
}

// keepsLease reports whether the lease of the Node has to be held.
func (in *Input) keepsLease() bool {
	return in.Link.Node != nil && !in.isExcluded() && in.State.DeletedAt.IsZero()
}

// deleteInstance leads to the end of the instance. An instance that has just been deleted gets a moment before it is deleted again.
func deleteInstance(in *Input) Step {
	switch {
	case in.Unserved != nil && Provisioned(in.Machine):
		return stop(Wait{
			Type: machinev1beta1.InstanceExistsCondition, Condition: isFalse(ReasonNoProvider, in.Unserved.Error()), RequeueAfter: delay.Denied,
		})
	case in.Unserved != nil:
		return finalize(in)
	case !in.Delete.Asked && in.settling() <= 0:
		return do(DeleteInstance)
	case in.neverCreated(in.Delete.Err):
		return finalize(in)
	case in.Delete.Err != nil:
		return stop(in.providerWait(operationDelete, in.Delete.Err))
	case !in.Confirm.Asked:
		return do(ConfirmDeletion)
	case in.neverCreated(in.Confirm.Err):
		return finalize(in)
	case in.Confirm.Err != nil:
		return stop(in.providerWait(operationGet, in.Confirm.Err))
	case in.Confirm.Instance != nil:
		return stop(in.instanceWait())
	}
	return finalize(in)
}

// neverCreated reports whether an error of the provider means that a Machine without addresses has no instance, and can have none.
func (in *Input) neverCreated(err error) bool {
	return isInvalid(err) && len(in.Machine.Status.Addresses) == 0
}

// instanceWait waits for an instance that is being deleted. It is gone in a moment, or has to be waited for: only then the status shows it.
func (in *Input) instanceWait() Wait {
	wait := Wait{Type: machinev1beta1.InstanceExistsCondition, Condition: isTrue(""), RequeueAfter: retryInstance}
	if in.Confirm.Instance.LookAgain > 0 {
		wait.RequeueAfter = in.Confirm.Instance.LookAgain
	}
	if left := in.settling(); left > 0 {
		wait.Quiet, wait.RequeueAfter = true, min(wait.RequeueAfter, left)
	}
	return wait
}

// finalize deletes the Node of an instance that is gone, and lets the Machine go. The lease of a deleted Node is garbage collected.
func finalize(in *Input) Step {
	deletion := &in.NodeDeletion
	switch {
	case !deletion.Tried:
		return do(DeleteNode)
	case deletion.Stale:
		// It has registered anew, which the cache does not show yet.
		return stop(Wait{RequeueAfter: delay.Conflict})
	case deletion.Err != nil && !in.keepsNode():
		return stop(Wait{Err: deletion.Err})
	case deletion.Err != nil && in.NodeName() != "" && !in.LeaseReleased:
		return do(ReleaseLease)
	case isKeptByOthers(in.Machine) && !isSaved(in):
		return do(SaveStatus)
	}
	return do(RemoveFinalizer)
}

// keepsNode reports whether the Node is kept because it could not be deleted in time.
func (in *Input) keepsNode() bool {
	timeout, _ := duration(in.Machine, AnnotationNodeDeletionTimeout, in.Settings.NodeDeletionTimeout)
	return in.NodeDeletion.Err != nil && timeout > 0 && !in.Now.Before(in.State.NodeFailedAt.Add(timeout))
}

// isInvalid reports whether the provider can never create or find the instance as the Machine describes it.
func isInvalid(err error) bool {
	return err != nil && provider.ReasonOf(err, machinev1beta1.UpdateMachineError) == machinev1beta1.InvalidConfigurationMachineError
}

// RequeueAfter returns when the Machine is reconciled again without an event in the cluster; zero is never.
func RequeueAfter(in *Input, wait *Wait) time.Duration {
	return sooner(wait.RequeueAfter, in.Lease.RenewIn)
}

// sooner returns the shorter of two delays; zero is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
