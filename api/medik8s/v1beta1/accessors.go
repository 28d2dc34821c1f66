package v1beta1

// GetSpec returns the spec.
func (m *NodeMaintenance) GetSpec() NodeMaintenanceSpec { return m.Spec }

// GetStatus returns the status, which may be changed in place.
func (m *NodeMaintenance) GetStatus() *NodeMaintenanceStatus { return &m.Status }
