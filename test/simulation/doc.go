// Package simulation runs controllers together in one process against a model of the API server, from a seed: machineset, machine, nodelink,
// healthcheck and metadata, with the drain engine and the node leases that they use. Every second seed adds the controllers of NodeGroups, with their
// budgets, and of NodeMaintenances. The same seed gives the same run. On a busy machine there may be exceptions, because Go may take the simulation's
// one processor away from a handler between two of its steps.
//
// What is real: the controllers as they are shipped, each started by its Run, with its own watches and handlers, the work queue of
// controller-runtime with its priorities and back-offs, and everything below: decisions, patches, expectations, leases, the drain engine.
//
// What is modelled, and how:
//   - Time is the bubble's of testing/synctest: it moves only when nothing can happen without it. RequeueAfter, back-offs and timeouts
//     are honoured, and nothing waits in truth.
//   - The API server (server.go): versions that grow by one for the whole cluster, 409 for a version or UID that is not the present one,
//     merge patches, JSON patches by the library that the API server has, the status apart from the rest, generations, finalizers and
//     deletion timestamps, and evictions. A write that changes nothing makes no version and no event, as there.
//   - Every request of a controller is held at a gate (gate.go) until the scheduler lets it through. Between two gates one pass runs, and no other:
//     the scheduler chooses whose request is next, so passes of all controllers interleave at every request, and in some seeds at every read of a
//     cache, too.
//   - Caches (cache.go) are shared by the controllers of a process, as in the operator. Each kind has its events in their order, and lags behind
//     for as long as the scheduler likes; what the store shows, each handler gets in that order, and later still. A watch may
//     break off: then the cache starts again with a list, and handlers get the difference only. A process starts when its caches have caught up.
//   - Faults (schedule.go, plan.go): conflicts, errors before and after a write has taken effect, the end of the process at any request,
//     with its other requests under way done or not; a provider that is slow, fails before or after it has done what was asked, loses
//     instances; Nodes that turn NotReady, for a while or for ever, are deleted, register anew under another UID, or get their providerID
//     late; users who scale, change templates, delete, pause, add hooks, take Machines out of pools, edit by hand, put keys of their own
//     on Nodes and Machines, change what NodeGroups declare, their budgets, in numbers and percentages, and their windows and freezes, and have more
//     NodeMaintenances than budgets have places.
//
// Each write of a NodeGroup, its Nodes and their Machines is judged (groupcheck.go): no budget is exceeded, no place is given out while no disruption
// may begin, and what disrupts a Node has a place. A percentage is of as many Nodes as the NodeGroup had at most in the last minute.
// Whether a Node is Ready is judged as the caches show it when its place is reserved.
//
// What is not modelled: admission and validation, field managers beyond their names, permissions, watches of other clients, Cluster API's
// authority, external remediation, the guard of the control plane, the replacement of outdated Machines, gated upgrades, PodDisruptionBudgets (the
// drain engine has tests of its own for them), volumes, and a second operator that believes to be the leader.
package simulation
