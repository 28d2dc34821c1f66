package view

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// MaintenanceList is what `maintenance list` shows.
type MaintenanceList struct {
	TypeMeta
	Items []MaintenanceItem `json:"items"`
}

// MaintenanceItem is one node in maintenance.
type MaintenanceItem struct {
	Node string `json:"node"`
	// Object is the NodeMaintenance, as resource.group/name.
	Object string `json:"object"`
	Phase  string `json:"phase,omitempty"`
	// Progress is in percent.
	Progress int `json:"progress"`
	// Left is the number of pods that still have to leave.
	Left    int    `json:"left"`
	Drained bool   `json:"drained"`
	Reason  string `json:"reason,omitempty"`
	// Status is the reason of the condition Ready: InMaintenance, or what the maintenance waits for.
	Status string `json:"status,omitempty"`
	// WaitsFor is what the drain waits for; empty when it is finished.
	WaitsFor string    `json:"waitsFor,omitempty"`
	Created  time.Time `json:"created"`
	Ending   bool      `json:"ending,omitempty"`
}

// NewMaintenanceList returns the document of `maintenance list`. TypeMeta of the objects says which group they are of.
func NewMaintenanceList(all []*medik8s.NodeMaintenance) *MaintenanceList {
	list := &MaintenanceList{TypeMeta: TypeMeta{APIVersion, "MaintenanceList"}, Items: []MaintenanceItem{}}
	for _, m := range all {
		item := MaintenanceItem{
			Node: m.Spec.NodeName, Object: NameOf(m), Phase: string(m.Status.Phase), Progress: m.Status.DrainProgress,
			Left: len(m.Status.PendingPodsRefs), Drained: Drained(m), Reason: m.Spec.Reason, Created: m.CreationTimestamp.Time,
			Ending: m.DeletionTimestamp != nil,
		}
		if item.Left == 0 {
			item.Left = len(m.Status.PendingPods)
		}
		item.Left += m.Status.PendingPodsOmitted
		if !item.Drained {
			item.WaitsFor = WaitsFor(m)
		}
		if ready := meta.FindStatusCondition(m.Status.Conditions, "Ready"); ready != nil {
			item.Status = ready.Reason
		}
		list.Items = append(list.Items, item)
	}
	return list
}

// NameOf returns the name of an object as kubectl prints it: kind.group/name.
func NameOf(object interface {
	runtime.Object
	GetName() string
},
) string {
	kind := object.GetObjectKind().GroupVersionKind().GroupKind()
	return strings.ToLower(kind.String()) + "/" + object.GetName()
}

// Drained reports whether the node is drained: by the condition, or by the phase where node-maintenance-operator wrote the status.
func Drained(m *medik8s.NodeMaintenance) bool {
	if len(m.Status.Conditions) == 0 {
		return m.Status.Phase == medik8s.PhaseSucceeded
	}
	return meta.IsStatusConditionTrue(m.Status.Conditions, "Drained")
}

// WaitsFor returns what the maintenance waits for.
func WaitsFor(m *medik8s.NodeMaintenance) string {
	if ready := meta.FindStatusCondition(m.Status.Conditions, "Ready"); ready != nil && ready.Message != "" {
		return ready.Message
	}
	if m.Status.LastError != "" {
		return m.Status.LastError
	}
	return "the operator has not observed it yet"
}
