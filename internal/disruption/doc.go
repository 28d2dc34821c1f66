// Package disruption gives out the places in the budgets of NodeGroups. A controller that is about to disrupt a Node, whichever it is, reserves a
// place first. The place is recorded in the status of the NodeGroup, guarded by its resourceVersion, so that neither two capabilities nor two
// replicas get the same one.
//
//	answer, err := budgets.Reserve(ctx, request)
//	switch {
//	case err != nil:          // also a conflict: nothing was reserved; try again
//	case !answer.Allowed:     // report answer.Reason and answer.Message; try again after answer.After, or when Source says so
//	default:                  // write before answer.Until, or reserve again
//	}
//
// Work that has begun goes on whatever the budget says: it does not reserve again, or says so in its request. The place of work that has not is given
// back when a window closes, or the budget has no place for it any more. The NodeGroup's controller ends reservations (plan.Ended), and
// releases them.
package disruption
