// Package maintenance is the capability behind NodeMaintenance, in both of its API groups: a node is cordoned, tainted and drained for as long as the
// object exists, and restored when it is deleted. It replaces node-maintenance-operator.
package maintenance
