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
// it. In memory are only whose turn is next and since when Nodes are available again; a new process begins without them.
package disruption
