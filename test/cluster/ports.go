package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// The control plane's ports are below the range that Linux uses for the local ports of outgoing connections (32768 and up), so that no connection
// sits on a component's port while that component is down.
const firstPort, countPorts = 28000, 4000

// maxClaims is how many ports a process keeps for itself.
const maxClaims = 1000

// claims are listeners on another address of the loopback interface, one for each port that this process has given away: nothing listens on the port
// itself between the moment when it is found and the moment when its component does, and tests of several packages run at the same time.
var claims struct {
	mu   sync.Mutex
	held map[int]net.Listener
	// order has the ports that are held, the oldest first.
	order []int
}

// claimAddress is that other address. Linux has all of 127.0.0.0/8; elsewhere ports are not claimed.
const claimAddress = "127.0.0.2"

// ports are the TCP ports of the components on 127.0.0.1, by name. etcd has a second one, for its peers.
type ports map[string]int

// peerPort is the key of etcd's second port.
const peerPort = "etcd-peer"

// choosePorts returns a free port for every name, the one in wanted when that is free.
func choosePorts(wanted ports, names []string) (ports, error) {
	chosen, taken := ports{}, map[int]bool{}
	for _, name := range names {
		port := wanted[name]
		if port == 0 || taken[port] || claim(port, true) != nil {
			var err error
			if port, err = FreePort(firstPort, countPorts); err != nil {
				return nil, fmt.Errorf("cluster: %w", err)
			}
		}
		chosen[name], taken[port] = port, true
	}
	return chosen, nil
}

// FreePort returns one of count TCP ports starting at first. Nothing listens on the port on 127.0.0.1, and no other call has returned it, in this
// process or another running one. If there is no such port, FreePort returns an error.
func FreePort(first, count int) (int, error) {
	var last error
	for range count {
		port := first + rand.IntN(count)
		if last = claim(port, false); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d on 127.0.0.1: %w", first, first+count-1, last)
}

// errClaimed reports a port that this process has claimed before.
var errClaimed = errors.New("the port is claimed")

// claim keeps a free port for this process, until the process ends or has claimed many more. With again the port may have been claimed before, either
// by this process or by the process that started the control plane.
func claim(port int, again bool) error {
	claims.mu.Lock()
	defer claims.mu.Unlock()
	_, held := claims.held[port]
	if held && !again {
		return errClaimed
	}
	var claimed net.Listener
	if !held {
		var err error
		claimed, err = listen(claimAddress, port)
		if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) && (!again || !errors.Is(err, syscall.EADDRINUSE)) {
			return err
		}
	}
	listener, err := listen("127.0.0.1", port)
	if err == nil {
		err = listener.Close()
	}
	switch {
	case claimed == nil:
	case err != nil:
		_ = claimed.Close()
	default:
		keep(port, claimed)
	}
	return err
}

func listen(address string, port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
}

// keep keeps a claim, and gives up the oldest one if there are many.
func keep(port int, claimed net.Listener) {
	if claims.held == nil {
		claims.held = map[int]net.Listener{}
	}
	if len(claims.order) >= maxClaims {
		_ = claims.held[claims.order[0]].Close()
		delete(claims.held, claims.order[0])
		claims.order = claims.order[1:]
	}
	claims.held[port] = claimed
	claims.order = append(claims.order, port)
}
