// Package budgetcheck judges whether Nodes are disrupted within the budget of their NodeGroup, from every version of what there is: of the NodeGroup,
// its Nodes and their Machines, in the order of the API server's revisions.
package budgetcheck
