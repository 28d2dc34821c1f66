// Package disruption gives permission to disrupt Nodes. Every controller that is about to disrupt one asks first:
//
//	permit, ctx, err := budgets.Begin(ctx, request)
//	defer permit.Done()
//	switch {
//	case err != nil:         // also a conflict: nothing has begun; try again
//	case !permit.Allowed:    // report permit.Reason and permit.Message; ask again after permit.After, or when Source says so
//	default:                 // make the first disruptive write with ctx
//	}
//
// No list says who has a place: what counts against the budget of a NodeGroup is what Nodes, leases, Machines, MachineSets and remediation requests
// show, for as long as they show it, also where another program has done it. Between the decision and its first sign lies a moment, which an
// admission in the status of the NodeGroup bridges: it is guarded by the resourceVersion that was decided on, counts for a minute, and nothing ends
// it. In memory are only whose turn is next, since when Nodes are available again, and which admissions came to nothing; a new process begins without
// them.
//
// The first disruptive write follows within half of that minute, or fails: its context ends then. What remains is a write that the API server carries
// out more than half a minute after it was sent, or that a leader sends whose clock stood still, as in a suspended virtual machine: another leader
// may have admitted another Node meanwhile.
//
// What a MachineSet lacks, by an example. It has five replicas, and had reached them. The Machines a and b have Nodes. c was deleted and is gone, and
// no Machine has been made in its place: NotCreated is 1. d was deleted, too; the Machine in its place has no Node yet and is in New. e was made for
// growth and has no Node either: it is growing. So Wanted is 4, all but e, and Nodes is 2: the group lacks two Nodes. Of four expected Nodes two are
// unavailable, and two remediations are in flight: one of NotCreated and one of New.
package disruption
