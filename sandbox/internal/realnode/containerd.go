package realnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-client/pkg"

	node "github.com/drover-io/drover/test/realnode"
)

// containerdConfig keeps everything of containerd in the node's folder. The native snapshotter works on every file system. Without
// restrict_oom_score_adj runc fails where the process may not lower its OOM score.
const containerdConfig = `version = 2
root = %[1]q
state = %[2]q
[grpc]
  address = %[3]q
[plugins."io.containerd.internal.v1.opt"]
  path = %[7]q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[4]q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[5]q
    conf_dir = %[6]q
`

// podNetwork gives each Pod an address that this machine reaches by way of the node.
const podNetwork = `{
  "cniVersion": "0.4.0", "name": "drover-sandbox",
  "plugins": [{
    "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
    "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
`

// startContainerd starts containerd and waits until it answers.
func (s *supervisor) startContainerd(ctx context.Context) (*program, error) {
	f := s.folder
	for _, folder := range []string{"cni", "ipam"} {
		if err := os.MkdirAll(f.Path(folder), 0o700); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf(containerdConfig, f.Path("containerd"), f.Path("run"), f.Socket(), node.BusyboxImage, node.PluginFolder, f.Path("cni"),
		f.Path("opt"))
	network := fmt.Sprintf(podNetwork, f.Path("ipam"), s.network.Pods())
	for name, text := range map[string]string{"containerd.toml": config, "cni/10-sandbox.conflist": network} {
		if err := os.WriteFile(f.Path(name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	containerd, err := s.start("containerd", "containerd", "--config", f.Path("containerd.toml"))
	if err != nil {
		return nil, err
	}
	err = s.until(ctx, "containerd", func() bool {
		return run(ctx, "ctr", "--address", f.Socket(), "--timeout", "5s", "version") == nil
	})
	if err != nil {
		s.stop(containerd)
		return nil, err
	}
	return containerd, nil
}

// prepare removes what an earlier process has left and imports the images.
func (s *supervisor) prepare(ctx context.Context) error {
	if err := s.removePods(ctx); err != nil {
		return err
	}
	for _, image := range s.plan.Images {
		if err := run(ctx, "ctr", "--address", s.folder.Socket(), "--namespace", "k8s.io", "images", "import", image); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) runtime(ctx context.Context) (internalapi.RuntimeService, error) {
	service, err := cri.NewRemoteRuntimeService(ctx, "unix://"+s.folder.Socket(), 30*time.Second, nil, false)
	if err != nil {
		return nil, fmt.Errorf("connecting to containerd: %w", err)
	}
	return service, nil
}

// removePods ends all containers and gives back the networks of their Pods.
func (s *supervisor) removePods(ctx context.Context) error {
	service, err := s.runtime(ctx)
	if err != nil {
		return err
	}
	pods, err := service.ListPodSandbox(ctx, nil)
	if err != nil {
		return fmt.Errorf("listing what runs: %w", err)
	}
	var failures []error
	for _, pod := range pods {
		if err := service.StopPodSandbox(ctx, pod.GetId()); err != nil {
			failures = append(failures, err)
			continue
		}
		failures = append(failures, service.RemovePodSandbox(ctx, pod.GetId()))
	}
	return errors.Join(failures...)
}

// clean ends all containers and then containerd, and takes away what is mounted in the folder.
func (s *supervisor) clean(containerd *program) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	err := s.removePods(ctx)
	s.stop(containerd)
	return errors.Join(err, s.unmount())
}

// unmount takes away what is mounted in the node's folder.
func (s *supervisor) unmount() error {
	for range 3 { // some are mounted over others
		mounts, listed := s.mounts()
		if listed != nil {
			return listed
		}
		if len(mounts) == 0 {
			break
		}
		for _, mount := range mounts {
			if failed := unix.Unmount(mount, unix.MNT_DETACH); failed != nil {
				log.Printf("unmounting %s: %v", mount, failed)
			}
		}
	}
	return nil
}

// mounts lists what is mounted in the node's folder, the last one first.
func (s *supervisor) mounts() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var found []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], string(s.folder)+"/") {
			found = append([]string{strings.ReplaceAll(fields[4], `\040`, " ")}, found...)
		}
	}
	return found, lines.Err()
}
