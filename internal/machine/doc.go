// Package machine makes an instance of each Machine with the provider that serves it, links the Node that comes of it, and takes both away
// when the Machine is deleted: hooks, drain, instance, Node. It is the only writer of a Machine's status (spec page on the Machine API,
// sections 2 and 3).
package machine
