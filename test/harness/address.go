package harness

import (
	"net"
	"strconv"

	"github.com/drover-io/drover/test/cluster"
)

// The ports that tests give to operators. They are below the ports that the kernel chooses for connections and for listeners without a port of their
// own (net.ipv4.ip_local_port_range begins at 32768), and below the control plane's ports.
const firstPort, countPorts = 20000, 8000

// FreeAddress finds an address on the loopback interface that nothing listens on, and that no other call has been given, of this process or another
// one.
func FreeAddress() (string, error) {
	port, err := cluster.FreePort(firstPort, countPorts)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}
