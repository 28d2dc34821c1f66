package v1beta1

import medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"

// GetSpec returns the spec in the form of the newer group, which has more fields.
func (m *NodeMaintenance) GetSpec() medik8s.NodeMaintenanceSpec {
	return medik8s.NodeMaintenanceSpec{NodeName: m.Spec.NodeName, Reason: m.Spec.Reason}
}

// GetStatus returns the status, which may be changed in place.
func (m *NodeMaintenance) GetStatus() *medik8s.NodeMaintenanceStatus { return &m.Status }
