// Package quorum says whether the control plane can spare one of its nodes now. On OpenShift the disruption budget of etcd's guard pods
// decides, as it does for the node-maintenance-operator; elsewhere nodes go one at a time, and a majority of them has to stay ready.
package quorum
