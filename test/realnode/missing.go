package realnode

import (
	"fmt"
	"os"
	"os/exec"
)

// PluginFolder is where Debian has the programs that give Pods their network.
const PluginFolder = "/usr/lib/cni"

// Busybox is Debian's static one, which is in the image of the tests' containers.
const Busybox = "/bin/busybox"

// Missing says what keeps real nodes from running on this machine, and what to do about it; empty for nothing.
func Missing() []string {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "it needs root, for network namespaces and containers")
	}
	for _, program := range []string{"containerd", "ctr", "runc", "ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, fmt.Sprintf("the program %s is not there; hack/install-node-packages.sh installs it", program))
		}
	}
	for _, file := range []string{Busybox, PluginFolder + "/bridge", PluginFolder + "/loopback", PluginFolder + "/host-local"} {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, fmt.Sprintf("%s is not there; hack/install-node-packages.sh installs it", file))
		}
	}
	if len(missing) == 0 {
		missing = probes()
	}
	return missing
}
