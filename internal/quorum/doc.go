// Package quorum says whether the control plane can spare one of its nodes now. On OpenShift the disruption budget of etcd's guard pods
// decides, as it does for the node-maintenance-operator; elsewhere no other node may be in maintenance, and more than half of all nodes have to stay
// ready and schedulable, unless the node itself is not ready. On both a node waits while another controller has leased another control-plane node.
// For the deletion of Machines the nodes are counted on OpenShift, too (MachineGuard).
package quorum
