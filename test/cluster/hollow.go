package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Kubemark is the program of drover-sandbox-node that is a hollow node: a real kubelet whose container runtime runs nothing. It is none of the
// components of a control plane.
const Kubemark = "kubemark"

// HollowNodeOptions says how to run a hollow node as the container of a Pod would.
type HollowNodeOptions struct {
	// Args is kubemark's command line.
	Args []string
	// Mounts are folders that Args name, and the folders of this machine that are to be there. The one of /tmp is also where the process
	// keeps its files; it must be given.
	Mounts map[string]string
}

// HollowNode is a process that registers a Node.
type HollowNode struct {
	*child
	log string
}

// StartHollowNode starts a hollow node without waiting for its Node. It ends with this process, unless the control plane is a detached one.
func (c *Cluster) StartHollowNode(options HollowNodeOptions) (*HollowNode, error) {
	temporary := options.Mounts["/tmp"]
	if temporary == "" {
		return nil, errors.New("cluster: a hollow node needs a folder for /tmp")
	}
	binary, err := NodeBinary()
	if err != nil {
		return nil, err
	}
	args := []string{Kubemark}
	for _, arg := range options.Args {
		args = append(args, mounted(arg, options.Mounts))
	}
	log := filepath.Join(temporary, "kubemark.log")
	command := c.command(binary, args)
	command.Env = append(command.Env, "TMPDIR="+temporary)
	started, err := launch(command, "a hollow node", log)
	if err != nil {
		return nil, err
	}
	return &HollowNode{child: started, log: log}, nil
}

// mounted returns an argument with the Pod's folder replaced by the folder on this machine.
func mounted(arg string, mounts map[string]string) string {
	flag, path, found := strings.Cut(arg, "=")
	if !found {
		return arg
	}
	for inside, outside := range mounts {
		if rest, ok := strings.CutPrefix(path, inside+"/"); ok {
			return flag + "=" + filepath.Join(outside, rest)
		}
	}
	return arg
}

// Ended is closed when the process has ended.
func (n *HollowNode) Ended() <-chan struct{} { return n.done }

// Log returns what the process has printed.
func (n *HollowNode) Log() string {
	text, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Stop ends the process as a kubelet ends a container: it asks, and kills after a while. Its Node stays, as a real one does.
func (n *HollowNode) Stop() error { return end(n.id, syscall.SIGTERM) }
