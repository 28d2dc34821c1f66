// Package plan decides what is done next for a Machine. Next is the table of a Machine's life: it leads from what is known of the Machine to the
// next step, and to what is waited for when there is none. Status and Outcome turn the same values into status, events and the next attempt.
// Everything is pure: what a decision depends on, the time included, is in its Input.
package plan

import (
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/provider"
)

// Settings are the options that decisions depend on.
type Settings struct {
	// InstanceCheck is how often the provider is asked for the instance of a running Machine; zero is 10 minutes.
	InstanceCheck time.Duration
	// DrainTimeout is how long after the deletion of a Machine its drain ends although pods are left; zero is never. AnnotationDrainTimeout of the
	// Machine takes precedence.
	DrainTimeout time.Duration
	// VolumeDetachTimeout is how long a drained Node's volumes may take to be detached; zero is 5 minutes, less does not wait.
	VolumeDetachTimeout time.Duration
	// NodeDeletionTimeout is how long the deletion of the Node is retried after it has failed once; zero is without end.
	// AnnotationNodeDeletionTimeout of the Machine takes precedence.
	NodeDeletionTimeout time.Duration
	// Cluster is the value of LabelCluster for new Machines that have none; empty for no label.
	Cluster string
	// AdoptionNamespaces are those whose Machines may adopt a Node that existed before the Machine; "*" stands for all, an empty list for none.
	AdoptionNamespaces []string
}

// Input is everything that decisions about one Machine depend on. What a step finds out is added to it, and the next step is decided anew. Decisions
// do not change it.
type Input struct {
	// Machine is the Machine, with what this reconciliation has written.
	Machine *machinev1beta1.Machine
	// State is what earlier reconciliations know.
	State *State
	// Settings are the controller's.
	Settings *Settings
	// Now is the time of the decision.
	Now time.Time
	// Unserved is why no provider serves the Machine; nil if one does.
	Unserved error

	// Get and Create are the provider's answers about the instance, Delete the one to its deletion, and Confirm the one about the instance after
	// that.
	Get, Create, Delete, Confirm Answer
	// AuthorityInitialized reports that this reconciliation has set the authority.
	AuthorityInitialized bool
	// AwaitsNode reports that the providerID of a running instance has been recorded in this reconciliation.
	AwaitsNode bool
	// Link is what has been found out about the Machine's Node.
	Link Link
	// Cordon is how the attempt to cordon the Node ended.
	Cordon Cordon
	// Lease is the answer to the request for the lease of the Node.
	Lease Lease
	// Pods is how far the drain is; nil before the engine has been asked.
	Pods *drain.Report
	// Drained is how the drain ended; nil while it has not.
	Drained *Condition
	// LeaseReleased reports that the lease of the Node has been released.
	LeaseReleased bool
	// NodeDeletion is the answer to the deletion of the Node.
	NodeDeletion NodeDeletion
	// Failed is the error of a step that does not write the Machine.
	Failed error
}

// State is what is known of a Machine from earlier reconciliations. It is lost when the process ends: no decision may be wrong without it.
type State struct {
	// NextGet is when the provider is asked for the instance again if the Machine is of Generation still; zero is at once.
	NextGet    time.Time
	Generation int64
	// Recorded is an instance that has just been recorded and that the status does not show yet; nil for none.
	Recorded *provider.Instance
	// Instance is the last instance that the provider has returned; nil for none. It outlives the instance itself.
	Instance *provider.Instance
	// Drained reports that the Node has been drained.
	Drained bool
	// Draining is the name of the Node that the engine drains; empty for none.
	Draining string
	// DeletedAt is when the provider first accepted the deletion of the instance.
	DeletedAt time.Time
	// NodeFailedAt is when the deletion of the Node failed first.
	NodeFailedAt time.Time
	// Finished reports that the finalizer has been removed.
	Finished bool
}

// Answer is the answer of one call of the provider.
type Answer struct {
	Asked    bool
	Instance *provider.Instance
	Err      error
}

// Cordon is how the attempt to cordon a Node ended. The Node is cordoned if Record is not nil; the Node of a Machine may be gone instead.
type Cordon struct {
	Tried  bool
	Record *drain.CordonRecord
	// Blocked is why the Node must not, or cannot, be cordoned now; nil for nothing.
	Blocked *Wait
}

// Lease is the answer to the request for the lease of a Node.
type Lease struct {
	Asked bool
	// RenewIn is when it is renewed.
	RenewIn time.Duration
	// Held is who else holds it; nil for no other.
	Held *nodelease.AlreadyHeldError
}

// NodeDeletion is the answer to the deletion of a Node.
type NodeDeletion struct {
	Tried bool
	// Node is the Node that could not be deleted, and Err the reason; Stale reports that it has changed since it was observed.
	Node  *corev1.Node
	Err   error
	Stale bool
}

// Phase returns the phase in a status; empty for none.
func Phase(status *machinev1beta1.MachineStatus) string {
	if status.Phase == nil {
		return ""
	}
	return *status.Phase
}

// HasFinalizer reports whether Drover has not finished with a Machine.
func HasFinalizer(machine *machinev1beta1.Machine) bool {
	return slices.Contains(machine.Finalizers, machinev1beta1.MachineFinalizer)
}

// isKeptByOthers reports whether a finalizer of another controller keeps a Machine when Drover has finished with it.
func isKeptByOthers(machine *machinev1beta1.Machine) bool { return len(machine.Finalizers) > 1 }

// Provisioned reports whether a Machine has or had an instance, as machine-api-operator does.
func Provisioned(machine *machinev1beta1.Machine) bool {
	return len(machine.Status.Addresses) > 0 || nodelink.ProviderID(machine) != ""
}

// Instance returns the instance that the provider has returned in this reconciliation; nil for none.
func (in *Input) Instance() *provider.Instance {
	if in.Create.Instance != nil {
		return in.Create.Instance
	}
	return in.Get.Instance
}

// Known returns the Machine with what the provider has returned in this reconciliation.
func (in *Input) Known() *machinev1beta1.Machine {
	instance := in.Instance()
	if instance == nil {
		return in.Machine
	}
	known := in.Machine.DeepCopy()
	if len(instance.Addresses) > 0 {
		known.Status.Addresses = instance.Addresses
	}
	if nodelink.ProviderID(known) == "" && instance.ProviderID != "" {
		known.Spec.ProviderID = &instance.ProviderID
	}
	return known
}

// NodeName returns the name of the Node that the Machine has or had; empty for none.
func (in *Input) NodeName() string {
	if in.Link.Node != nil {
		return in.Link.Node.Name
	}
	if ref := in.Machine.Status.NodeRef; ref != nil && !in.Link.Cleared {
		return ref.Name
	}
	return ""
}

// isMissing reports whether the provider has said that there is no instance.
func (in *Input) isMissing() bool {
	return in.Get.Asked && in.Get.Err == nil && in.Instance() == nil
}

// isGetDue reports whether the provider is to be asked for the instance. For a running Machine it is asked now and then, and when the spec changes:
// most reconciliations are for labels, Nodes and conditions, and each answer of a provider costs.
func (in *Input) isGetDue() bool {
	if in.Unserved != nil || in.Get.Asked {
		return false
	}
	phase := Phase(&in.Machine.Status)
	return phase != machinev1beta1.PhaseRunning && phase != machinev1beta1.PhaseProvisioned ||
		in.State.NextGet.IsZero() || in.State.Generation != in.Machine.Generation || !in.Now.Before(in.State.NextGet)
}

// isExcluded reports whether an annotation skips the drain.
func (in *Input) isExcluded() bool {
	_, excluded := in.Machine.Annotations[AnnotationExclude]
	return excluded
}

// settling returns for how long an instance that has just been deleted may still exist without the status showing it.
func (in *Input) settling() time.Duration { return in.State.DeletedAt.Add(settleInstance).Sub(in.Now) }

// drainDeadline returns when the drain ends although pods are left; zero is never. The time begins with the deletion of the Machine: what delays the
// drain does not prolong it.
func (in *Input) drainDeadline() time.Time {
	timeout, _ := duration(in.Machine, AnnotationDrainTimeout, in.Settings.DrainTimeout)
	if timeout == 0 {
		return time.Time{}
	}
	return in.Machine.DeletionTimestamp.Add(timeout)
}

// isLate reports whether a deadline has passed; zero is none.
func (in *Input) isLate(deadline time.Time) bool {
	return !deadline.IsZero() && !in.Now.Before(deadline)
}

// duration returns the value of an annotation, or a default and, where the value is invalid, what is wrong with it.
func duration(machine *machinev1beta1.Machine, annotation string, otherwise time.Duration) (value time.Duration, problem string) {
	text, found := machine.Annotations[annotation]
	if !found {
		return otherwise, ""
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		return otherwise, fmt.Sprintf("annotation %s: %q is not a duration such as 10m; using %s", annotation, text, otherwise)
	}
	return bounded.Duration(value), ""
}
