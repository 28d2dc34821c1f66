package view

import (
	"cmp"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
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

// NewStatusList returns the document of `status`. The survey is of the MachineSets.
func NewStatusList(sets []*machinev1beta1.MachineSet, survey plan.Survey) *StatusList {
	created := make(map[types.NamespacedName]time.Time, len(sets))
	for _, set := range sets {
		created[types.NamespacedName{Namespace: set.Namespace, Name: set.Name}] = set.CreationTimestamp.Time
	}
	list := &StatusList{TypeMeta: TypeMeta{APIVersion, "MachineSetStatusList"}, Items: []MachineSetStatus{}, Notes: survey.Notes}
	eachMachineSet(survey, func(declaration *plan.Declaration, set MachineSet, _ []*plan.Item) {
		status := MachineSetStatus{MachineSet: set}
		if declaration != nil {
			status.Created, status.Declared = new(created[declaration.Key]), map[ownership.Kind]int{}
			for _, kind := range ownership.Kinds {
				status.Declared[kind] = len(declaration.Desired[kind])
			}
		}
		list.Items = append(list.Items, status)
	})
	return list
}

// Unfinished counts the Machines that need a write or have no Node yet.
func (s *MachineSetStatus) Unfinished() int { return max(s.Summary.Pending, s.Summary.ToWrite) }

// Unfinished counts the Nodes of the group that are still to be written; at least one if its roll-out goes on.
func (s *NodeGroupStatus) Unfinished() int {
	if s.Rollout.Done || s.Rollout.Failed {
		return 0
	}
	return max(int(s.Pending), 1)
}

// Unfinished counts the Machines and Nodes of all MachineSets and NodeGroups that are unfinished.
func (l *StatusList) Unfinished() int {
	number := 0
	for i := range l.Items {
		number += l.Items[i].Unfinished()
	}
	for i := range l.NodeGroups {
		number += l.NodeGroups[i].Unfinished()
	}
	return number
}

// Pending says which MachineSets and NodeGroups are unfinished.
func (l *StatusList) Pending() (parts []string) {
	for i := range l.Items {
		set := &l.Items[i]
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
func (l *StatusList) Failed() (parts []string) {
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
