package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen below the range from which Linux takes the local port of outgoing connections (32768 and up), so
// that no connection sits on a component's port while that component is down.
const (
	firstPort = 20000
	lastPort  = 31999
)

// ports are the TCP ports of the components on 127.0.0.1, by name. etcd has a second one, for its peers.
type ports map[string]int

// peerPort is the key of etcd's second port.
const peerPort = "etcd-peer"

// choosePorts returns a free port for every name, the one in wanted when that is free.
func choosePorts(wanted ports, names []string) (ports, error) {
	chosen := ports{}
	// The listeners stay open until all ports are chosen, so that no two components get the same one.
	var listeners []net.Listener
	defer func() {
		for _, listener := range listeners {
			_ = listener.Close()
		}
	}()
	for _, name := range names {
		listener, err := listenNear(wanted[name])
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, listener)
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("cluster: a TCP listener has the address %v", listener.Addr())
		}
		chosen[name] = address.Port
	}
	return chosen, nil
}

// listenNear listens on the given port, or on a free one when it is zero or taken.
func listenNear(port int) (net.Listener, error) {
	var failures []error
	for range 200 {
		if port == 0 {
			port = firstPort + rand.IntN(lastPort-firstPort+1)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return listener, nil
		}
		failures, port = append(failures, err), 0
	}
	return nil, fmt.Errorf("cluster: no free port between %d and %d on 127.0.0.1: %w", firstPort, lastPort,
		errors.Join(failures[len(failures)-1]))
}
