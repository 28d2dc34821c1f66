package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports that tests give to operators. They lie below those from which a kernel takes the ports of connections and of listeners that name
// none (net.ipv4.ip_local_port_range begins at 32768), so that nothing takes one between the moment when it is found and the moment when its
// operator listens on it.
const (
	firstPort = 20000
	ports     = 12000
)

// given are the ports that this process has given away; it gives none twice while others are left.
var given struct {
	mu    sync.Mutex
	ports map[int]bool
}

// FreeAddress finds an address on the loopback interface that nothing listens on, and that no other call in this process has been given. It
// gives an error when the context ends before one is found.
func FreeAddress(ctx context.Context) (string, error) {
	given.mu.Lock()
	defer given.mu.Unlock()
	if len(given.ports) > ports/2 {
		given.ports = nil
	}
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	for ctx.Err() == nil {
		port := firstPort + rand.IntN(ports)
		if given.ports[port] {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return "", fmt.Errorf("looking for a free port: %w", err)
		}
		given.ports[port] = true
		return address, nil
	}
	return "", fmt.Errorf("looking for a free port: %w", ctx.Err())
}
