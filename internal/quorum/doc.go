// Package quorum decides whether the control plane can spare one of its nodes now. On OpenShift the PodDisruptionBudget of etcd's guard pods
// decides, as in node-maintenance-operator. On other clusters no other control-plane node may be in maintenance, and more than half of all have to
// stay ready and schedulable, unless the node itself is not ready. A Node with the label of the control plane counts as ready only if it runs a
// static Pod of kube-apiserver or etcd, where any Node does: authors of MachineSets may have given it the label. On both, a node waits while the
// lease of another control-plane node is held. For the deletion of Machines, the nodes are counted on OpenShift as well (MachineGuard).
package quorum
