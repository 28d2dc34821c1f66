package view

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// StatusList is what `status` shows.
type StatusList struct {
	TypeMeta
	Items []MachineSetStatus `json:"items"`
	// NodeGroups are there unless only MachineSets were named.
	NodeGroups []NodeGroupStatus `json:"nodeGroups,omitempty"`
	Notes      []string          `json:"notes,omitempty"`
}

// MachineSetStatus is the progress of one MachineSet.
type MachineSetStatus struct {
	MachineSet
	Created *time.Time `json:"created,omitempty"`
	// Declared counts the entries of the template by kind.
	Declared map[ownership.Kind]int `json:"declared,omitempty"`
}

// NewStatusList returns the document of `status`. The survey is of the objects.
func NewStatusList(objects plan.Objects, survey plan.Survey) StatusList {
	created := make(map[types.NamespacedName]time.Time, len(objects.Sets))
	for _, set := range objects.Sets {
		created[types.NamespacedName{Namespace: set.Namespace, Name: set.Name}] = set.CreationTimestamp.Time
	}
	list := StatusList{TypeMeta: TypeMeta{APIVersion, "MachineSetStatusList"}, Items: []MachineSetStatus{}, Notes: survey.Notes}
	for _, members := range byMachineSet(survey) {
		status := MachineSetStatus{MachineSet: newMachineSet(members)}
		if set := members.set; set != nil {
			status.Created, status.Declared = new(created[set.Key]), map[ownership.Kind]int{}
			for _, kind := range ownership.Kinds {
				status.Declared[kind] = len(set.Desired[kind])
			}
		}
		list.Items = append(list.Items, status)
	}
	return list
}

// Unfinished counts the Machines that need a write or have no Node yet.
func (s MachineSetStatus) Unfinished() int { return max(s.Summary.Pending, s.Summary.ToWrite) }

// Unfinished counts the Nodes of the group that are still to be written; at least one if its roll-out goes on.
func (s NodeGroupStatus) Unfinished() int {
	if s.Rollout.Done || s.Rollout.Failed {
		return 0
	}
	return max(int(s.Pending), 1)
}

// Unfinished counts the Machines and Nodes of all MachineSets and NodeGroups that are unfinished.
func (l StatusList) Unfinished() int {
	number := 0
	for _, set := range l.Items {
		number += set.Unfinished()
	}
	for i := range l.NodeGroups {
		number += l.NodeGroups[i].Unfinished()
	}
	return number
}

// Pending says which MachineSets and NodeGroups are unfinished.
func (l StatusList) Pending() (parts []string) {
	for _, set := range l.Items {
		if number := set.Unfinished(); number > 0 {
			parts = append(parts, fmt.Sprintf("MachineSet %s has %d of %d Machines pending", cmp.Or(set.Name, "<none>"), number, set.Summary.Machines))
		}
	}
	for i := range l.NodeGroups {
		if group := &l.NodeGroups[i]; group.Unfinished() > 0 {
			parts = append(parts, group.Rollout.Message)
		}
	}
	return parts
}

// Failed says which MachineSets and NodeGroups are finished, but not as they are declared.
func (l StatusList) Failed() (parts []string) {
	for i := range l.Items {
		if rollout := RolloutOfMachineSet(&l.Items[i], nil); rollout.Failed {
			parts = append(parts, rollout.Message)
		}
	}
	for i := range l.NodeGroups {
		if rollout := l.NodeGroups[i].Rollout; rollout.Failed {
			parts = append(parts, rollout.Message)
		}
	}
	return parts
}
