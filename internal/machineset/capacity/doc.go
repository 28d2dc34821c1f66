// Package capacity keeps the annotations of MachineSets by which cluster-autoscaler knows what their Nodes will have, so that it can scale them from
// zero. Each provider of machine-api-operator has such a controller of its own.
//
// It is a controller beside that of package machineset: a provider that is slow or fails does not delay Machines.
package capacity
