// Package machine makes an instance of each Machine with the provider that serves it, links the Node that comes of it, and takes both away
// when the Machine is deleted: hooks, drain, instance, Node. It is the only writer of a Machine's status. The phases are
// those of machine-api-operator: https://github.com/openshift/machine-api-operator/blob/master/pkg/controller/machine/controller.go
package machine
