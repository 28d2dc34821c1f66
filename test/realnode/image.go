package realnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/drover-io/drover/test/cluster"
)

// Names of the images that every real node has.
const (
	// BusyboxImage has Debian's static busybox, as sh and other programs.
	BusyboxImage = "sandbox.drover.io/busybox:1"
	// KubemarkImage is drover-sandbox-node as the hollow node of the provider kubemark.
	KubemarkImage = "sandbox.drover.io/kubemark:1"
)

// basicImages makes the images that every node has, once for each control plane, and returns their archives.
func basicImages(ctx context.Context, folder string) ([]string, error) {
	kubemark, err := cluster.NodeBinary()
	if err != nil {
		return nil, err
	}
	busybox := []string{"--entrypoint", "/bin/sleep,2147483647", "--file", "/bin/busybox=" + Busybox}
	for _, program := range []string{"sh", "sleep", "cat", "echo", "env", "wget", "nc", "true", "false", "kill", "id", "touch", "ls"} {
		busybox = append(busybox, "--link", "/bin/"+program+"=/bin/busybox")
	}
	// A kubelet looks up its own user (os/user of a static program reads this file).
	passwd := filepath.Join(folder, "passwd")
	if err := os.WriteFile(passwd, []byte("root:x:0:0:root:/:/sbin/nologin\n"), 0o644); err != nil { //nolint:gosec // as in every image
		return nil, err
	}
	hollow := []string{"--entrypoint", "/kubemark", "--file", "/kubemark=" + kubemark, "--file", "/etc/passwd=" + passwd, "--user", "0:0"}
	var archives []string
	for _, image := range []struct {
		ref, file string
		args      []string
	}{
		{BusyboxImage, "busybox.tar", busybox},
		{KubemarkImage, "kubemark.tar", hollow},
	} {
		archive := filepath.Join(folder, image.file)
		archives = append(archives, archive)
		if _, err := os.Stat(archive); err == nil {
			continue
		}
		if err := images(ctx, append([]string{"pack", "--ref", image.ref, "--out", archive}, image.args...)...); err != nil {
			return nil, err
		}
	}
	return archives, nil
}

// Archive makes an archive, for Options.Images, of the image for this machine in an OCI layout.
func Archive(ctx context.Context, layout, ref, archive string) error {
	return images(ctx, "archive", "--layout", layout, "--ref", ref, "--out", archive)
}

// tool finds the program that makes images, beside drover-sandbox.
func tool() (string, error) {
	sandbox, err := cluster.Binary()
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(sandbox)
	for _, candidate := range []string{filepath.Join(folder, "tools", "images"), filepath.Join(folder, "..", "tools", "images")} {
		if _, err := os.Stat(candidate); err == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("realnode: there is no tools/images beside %s; run make tools", sandbox)
}

// images runs the tool that makes images.
func images(ctx context.Context, args ...string) error {
	program, err := tool()
	if err != nil {
		return err
	}
	if output, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("realnode: images %v: %w\n%s", args, err, output)
	}
	return nil
}
