package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// probes try what a real node does first, since root in a container is not root everywhere: a network namespace, a mount, a cgroup. Each says
// what it was not let do; empty for nothing.
func probes() []string {
	folder, err := os.MkdirTemp("", "drover-probe-")
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = os.RemoveAll(folder) }()
	name := filepath.Base(folder)
	var refused []string
	for _, probe := range []struct {
		what     string
		do, undo []string
	}{
		{"make a network namespace", []string{"ip", "netns", "add", name}, []string{"ip", "netns", "delete", name}},
		{"mount a file system", []string{"mount", "-t", "tmpfs", "tmpfs", folder}, []string{"umount", folder}},
		{"make a cgroup", []string{"mkdir", cgroup(name)}, []string{"rmdir", cgroup(name)}},
	} {
		if output, err := exec.Command(probe.do[0], probe.do[1:]...).CombinedOutput(); err != nil {
			refused = append(refused, fmt.Sprintf("this machine does not let root %s: %s", probe.what, strings.TrimSpace(string(output))))
			continue
		}
		if output, err := exec.Command(probe.undo[0], probe.undo[1:]...).CombinedOutput(); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %s", strings.Join(probe.undo, " "), strings.TrimSpace(string(output))))
		}
	}
	return refused
}

// cgroup is where a cgroup of a name would be, in version 1 or 2.
func cgroup(name string) string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/memory"); err == nil {
		return filepath.Join(root, "memory", name)
	}
	return filepath.Join(root, name)
}
