package history

import (
	"bytes"
	"encoding/json"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// groupData is what a revision holds of a NodeGroup.
type groupData struct {
	Spec struct {
		Metadata *v1alpha1.Metadata `json:"metadata,omitempty"`
	} `json:"spec"`
}

// machineSetData is what a revision holds of a MachineSet.
type machineSetData struct {
	Spec struct {
		Template machinev1beta1.MachineTemplateSpec `json:"template"`
	} `json:"spec"`
}

// GroupData returns what a revision holds of a NodeGroup: spec.metadata.
func GroupData(group *v1alpha1.NodeGroup) ([]byte, error) {
	var data groupData
	data.Spec.Metadata = group.Spec.Metadata
	return marshal(&data)
}

// MachineSetData returns what a revision holds of a MachineSet: spec.template.
func MachineSetData(set *machinev1beta1.MachineSet) ([]byte, error) {
	var data machineSetData
	data.Spec.Template = set.Spec.Template
	return marshal(&data)
}

// RestoreGroup sets in a NodeGroup what a revision holds.
func RestoreGroup(group *v1alpha1.NodeGroup, revision *appsv1.ControllerRevision) error {
	var data groupData
	if err := unmarshal(revision, &data); err != nil {
		return err
	}
	group.Spec.Metadata = data.Spec.Metadata
	return nil
}

// RestoreMachineSet sets in a MachineSet what a revision holds.
func RestoreMachineSet(set *machinev1beta1.MachineSet, revision *appsv1.ControllerRevision) error {
	var data machineSetData
	if err := unmarshal(revision, &data); err != nil {
		return err
	}
	set.Spec.Template = data.Spec.Template
	return nil
}

func marshal(data any) ([]byte, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("rendering a revision: %w", err)
	}
	return text, nil
}

// unmarshal reads what a revision holds. An unknown field is an error: without it the revision would not be what it was.
func unmarshal(revision *appsv1.ControllerRevision, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(revision.Data.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("reading revision %d (ControllerRevision %s/%s): %w", revision.Revision, revision.Namespace, revision.Name, err)
	}
	return nil
}
