// Package plan decides which annotations the MachineSets of a namespace get because of a MachineAutoscaler, and what its status says.
package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/undecodable"
)

// Finalizer holds up the deletion of a MachineAutoscaler until its MachineSet has no bounds any more.
const Finalizer = "machinetarget.autoscaling.openshift.io"

// Input is what a decision depends on.
type Input struct {
	// Autoscaler is the MachineAutoscaler.
	Autoscaler *v1beta1.MachineAutoscaler
	// Sets are the MachineSets of its namespace.
	Sets []*machinev1beta1.MachineSet
	// Others are the names of the MachineAutoscalers of the namespace that exist and that a MachineSet names as its owner.
	Others map[string]bool
}

// Change is a MachineSet that gets other annotations.
type Change struct {
	Set         *machinev1beta1.MachineSet
	Annotations map[string]string
}

// Plan is what is to be done, in this order.
type Plan struct {
	// AddFinalizer is set if the MachineAutoscaler needs its finalizer before the target is changed.
	AddFinalizer bool
	// Releases are the MachineSets that lose its bounds.
	Releases []Change
	// Target is the MachineSet that has or gets the bounds, and Update how it changes; nil for none.
	Target *machinev1beta1.MachineSet
	Update *Change
	// RemoveFinalizer is set if the MachineAutoscaler may go when all that has been done.
	RemoveFinalizer bool
	// Reason and Message go to the condition.
	Reason, Message string
	// LacksAccelerator reports that the target has GPUs, but lacks the label that makes cluster-autoscaler wait for them.
	LacksAccelerator bool
}

// Decide returns what is to be done for a MachineAutoscaler.
func Decide(in *Input) Plan {
	ma := in.Autoscaler
	if ma.DeletionTimestamp != nil {
		return Plan{Releases: in.releases(nil), RemoveFinalizer: slices.Contains(ma.Finalizers, Finalizer)}
	}
	if paused.Is(ma.Annotations) {
		return Plan{Reason: ReasonPaused, Message: "the annotation " + paused.Annotation + " pauses it"}
	}
	target, problem := in.target()
	plan := Plan{Releases: in.releases(target)}
	if text := validate(&ma.Spec); text != "" {
		plan.Reason, plan.Message = ReasonFailedValidation, text
		return plan
	}
	if target == nil {
		plan.Reason, plan.Message = ReasonFailedGetTarget, "Error getting target: "+problem
		return plan
	}
	if owner := target.Annotations[machineapi.AutoscalerAnnotation]; in.isForeign(owner) {
		plan.Reason, plan.Message = ReasonFailedSetOwner, fmt.Sprintf("Error setting target owner: %s: %s", textOwned, owner)
		return plan
	}
	if annotation := paused.By(target); annotation != "" {
		plan.Reason, plan.Message = ReasonPaused, fmt.Sprintf("the annotation %s pauses MachineSet %s/%s", annotation, target.Namespace, target.Name)
		return plan
	}
	plan.Target, plan.AddFinalizer = target, !slices.Contains(ma.Finalizers, Finalizer)
	if annotations := bounded(target, ma); !maps.Equal(annotations, target.Annotations) {
		plan.Update = &Change{Set: target, Annotations: annotations}
	}
	plan.Reason, plan.Message = ReasonUpdated, fmt.Sprintf("Updated MachineAutoscaler target: %s/%s", target.Namespace, target.Name)
	plan.LacksAccelerator = lacksAccelerator(target)
	return plan
}

// validate returns what is wrong with the bounds; empty if they are valid.
func validate(spec *v1beta1.MachineAutoscalerSpec) string {
	switch {
	case spec.MinReplicas < 0 || spec.MaxReplicas < 1:
		return textTooSmall
	case spec.MaxReplicas < spec.MinReplicas:
		return textMaxBelowMin
	}
	return ""
}

// target returns the MachineSet that the MachineAutoscaler names; nil, and why, if there is none.
func (in *Input) target() (target *machinev1beta1.MachineSet, problem string) {
	ref := &in.Autoscaler.Spec.ScaleTargetRef
	switch {
	case ref.Name == "":
		return nil, textInvalid
	case ref.APIVersion != machinev1beta1.GroupVersion.String() || ref.Kind != "MachineSet":
		return nil, textUnsupported
	}
	for _, set := range in.Sets {
		if set.Name != ref.Name {
			continue
		}
		if err := undecodable.Check(set); err != nil {
			return nil, err.Error()
		}
		return set, ""
	}
	return nil, fmt.Sprintf("machinesets.machine.openshift.io %q not found", ref.Name)
}

// isForeign reports whether an owner annotation names another MachineAutoscaler that exists. A MachineAutoscaler of another namespace counts, because
// nothing here knows whether it exists.
func (in *Input) isForeign(owner string) bool {
	if owner == "" || owner == OwnerOf(in.Autoscaler) {
		return false
	}
	name, known := OwnerIn(in.Autoscaler.Namespace, owner)
	return !known || in.Others[name]
}

// OwnerIn returns the name of the MachineAutoscaler of a namespace that an owner annotation names, and whether it names one there.
func OwnerIn(namespace, owner string) (name string, found bool) {
	return strings.CutPrefix(owner, namespace+"/")
}

// OwnerOf returns the owner annotation of the MachineSets that a MachineAutoscaler bounds.
func OwnerOf(ma *v1beta1.MachineAutoscaler) string { return ma.Namespace + "/" + ma.Name }

// releases returns the MachineSets that the MachineAutoscaler bounds and does not name any more.
func (in *Input) releases(target *machinev1beta1.MachineSet) (releases []Change) {
	for _, set := range in.Sets {
		if in.Autoscaler.DeletionTimestamp == nil && undecodable.ProblemOf(set) != "" {
			continue // it may be the target
		}
		if set != target && set.Annotations[machineapi.AutoscalerAnnotation] == OwnerOf(in.Autoscaler) {
			releases = append(releases, Change{Set: set, Annotations: released(set)})
		}
	}
	return releases
}

// bounded returns the annotations of a MachineSet with bounds.
func bounded(set *machinev1beta1.MachineSet, ma *v1beta1.MachineAutoscaler) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, set.Annotations)
	annotations[machineapi.AutoscalerAnnotation] = OwnerOf(ma)
	annotations[machineapi.MinSizeAnnotation] = strconv.Itoa(int(ma.Spec.MinReplicas))
	annotations[machineapi.MaxSizeAnnotation] = strconv.Itoa(int(ma.Spec.MaxReplicas))
	copyCapacity(annotations)
	return annotations
}

// released returns the annotations of a MachineSet without bounds.
func released(set *machinev1beta1.MachineSet) map[string]string {
	annotations := maps.Clone(set.Annotations)
	for _, key := range []string{machineapi.AutoscalerAnnotation, machineapi.MinSizeAnnotation, machineapi.MaxSizeAnnotation} {
		delete(annotations, key)
	}
	removeCopies(annotations)
	return annotations
}
