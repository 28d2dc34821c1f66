// Package machine is the controller of Machines: it creates an instance of each with the provider that serves it, links the Node that the instance
// registers, and deletes both with the Machine. It is the only writer of a Machine's status. The phases are those of machine-api-operator:
// https://github.com/openshift/machine-api-operator/blob/master/pkg/controller/machine/controller.go
//
// A reconciliation observes the Machine, and then decides on one step after another (plan.Next) and carries it out (apply.go, drain.go), until there
// is something to wait for. The status, the events and the next attempt follow from that (finish).
package machine
