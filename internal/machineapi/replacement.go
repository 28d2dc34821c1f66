package machineapi

import machinev1beta1 "github.com/openshift/api/machine/v1beta1"

// Annotations of Machines that are outdated. A Machine is replaced in two steps: with ReplacingAnnotation a new Machine is created beside it, and
// with DeletionMark it is about to be deleted.
const (
	// ReplacingAnnotation marks an outdated Machine that is to be replaced next. It does not count for its MachineSet any more, so that the new Machine
	// is created while it still works. Drover sets and removes it.
	ReplacingAnnotation = "drover.dev/replacing"
	// SkipReplacementAnnotation is set by users on a Machine that is not to be replaced.
	SkipReplacementAnnotation = "drover.dev/skip-replacement"
)

// DeletionMark is the value of DeleteAnnotation that Drover sets right before it deletes a Machine that a NodeGroup replaces. Users and
// cluster-autoscaler set any other one.
const DeletionMark = "drover.dev/replaced"

// IsReplacing reports whether an annotation says that a Machine is being replaced: the first of the two steps.
func IsReplacing(machine *machinev1beta1.Machine) bool {
	_, marked := machine.Annotations[ReplacingAnnotation]
	return marked
}

// HasDeletionMark reports whether Drover marks a Machine as the next to delete. If the deletion did not follow, the mark means nothing once the
// Machine is not to be replaced any more.
func HasDeletionMark(machine *machinev1beta1.Machine) bool {
	return machine.Annotations[DeleteAnnotation] == DeletionMark
}
