// Package plan decides which disruptions of Nodes the budget of a NodeGroup admits: which members count as unavailable, how many may be, who goes
// first, and how long an admission counts. It is pure: the cluster is in its input.
package plan
