// Package machineapi holds the facts of machine.openshift.io/v1beta1 that several controllers and the CLI share: which Machines belong to a
// MachineSet, and which Node a Machine names. It imports no client.
package machineapi

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/bounded"
)

// DeleteAnnotation marks the Machine of a MachineSet that is to be deleted next; its value does not matter. OldDeleteAnnotation is its former name.
const (
	DeleteAnnotation    = "machine.openshift.io/delete-machine"
	OldDeleteAnnotation = "machine.openshift.io/cluster-api-delete-machine"
)

// ExternalAnnotation hands a Machine over for remediation by another controller, which removes it afterwards; its value does not matter.
// RequestedAnnotation is when Drover has set it, and means nothing without it.
const (
	ExternalAnnotation  = "host.metal3.io/external-remediation"
	RequestedAnnotation = "drover.dev/remediation-requested-at"
)

// IsMarked reports whether an annotation marks a Machine as the next to delete. An annotation without a value counts, too: machine-api-operator
// ignores it, and deletes another Machine.
func IsMarked(machine *machinev1beta1.Machine) bool {
	return IsMarkedByOthers(machine) || HasDeletionMark(machine)
}

// IsMarkedByOthers reports whether another writer than Drover marks a Machine as the next to delete.
func IsMarkedByOthers(machine *machinev1beta1.Machine) bool {
	value, now := machine.Annotations[DeleteAnnotation]
	_, before := machine.Annotations[OldDeleteAnnotation]
	return now && value != DeletionMark || before
}

// HasFailed reports whether a Machine has an error, or is in the phase Failed.
func HasFailed(machine *machinev1beta1.Machine) bool {
	s := &machine.Status
	return s.ErrorReason != nil && *s.ErrorReason != "" || s.ErrorMessage != nil && *s.ErrorMessage != "" || IsInPhaseFailed(machine)
}

// IsInPhaseFailed reports whether a Machine is in the phase Failed, which it does not leave.
func IsInPhaseFailed(machine *machinev1beta1.Machine) bool {
	return machine.Status.Phase != nil && *machine.Status.Phase == machinev1beta1.PhaseFailed
}

// Annotations returns the annotations of Machines and MachineSets that caches keep, with the size in bytes beyond which a value cannot be valid.
func Annotations() map[string]int {
	return bounded.Annotations(DeleteAnnotation, OldDeleteAnnotation, TemplateHashAnnotation, RestartedAtAnnotation, ReplacingAnnotation,
		SkipReplacementAnnotation, CreatedForAnnotation, RequestedAnnotation)
}

// SetAnnotations returns the annotations that caches keep of MachineSets alone, with a size in bytes. A larger value of Drover's own records cannot
// be valid, and Drover does not write a larger value for cluster-autoscaler.
func SetAnnotations() map[string]int {
	limits := bounded.Annotations(ReachedReplicasAnnotation, MinSizeAnnotation, MaxSizeAnnotation, AutoscalerAnnotation)
	limits[CapacityAnnotation], limits[CapacityCopyAnnotation] = MaxCapacityRecord, MaxCapacityRecord
	for _, key := range CapacityAnnotations() {
		limits[key] = MaxCapacityValue
	}
	return limits
}
