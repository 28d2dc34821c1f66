// Package drain cordons nodes and decides how their pods are evicted, for NodeMaintenances, for the deletion of Machines and for upgrades. Decide is
// called in each reconciliation with what the cluster shows, and returns for every pod on the node what has to be done and why the pod is still
// there. Package engine makes the requests.
package drain
