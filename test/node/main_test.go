// Package node installs Drover by its chart on nodes with real kubelets and real containers, as a user would, and states there what no played node
// can show: that its Pods run under their own permissions, that containers end as they were asked to, that Jobs print what they were given.
// It needs root and containerd; where these are not to be had its tests are skipped, and make test-all says why.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/realnode"
)

// The real nodes, and the image that is built of this repository for them.
const (
	first, second = "real-1", "real-2"
	repository    = "sandbox.drover.io/drover"
	tag           = "test"
)

var (
	env *cluster.Cluster
	// missing says why real nodes cannot run here.
	missing []string
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if missing = realnode.Missing(); len(missing) > 0 {
		fmt.Printf("the tests on real nodes are left out: %v\n", missing)
		if os.Getenv("DROVER_REAL_NODES") == "required" {
			os.Exit(1)
		}
		os.Exit(m.Run()) // each test says so, too
	}
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler}, UnsafeNoFsync: true}
	os.Exit(cluster.Main(prepared{m}, options, &env))
}

// prepared runs the tests with two real nodes, on a control plane without the CRDs of NodeMaintenance, which the chart is to bring.
type prepared struct{ m *testing.M }

// Run implements what cluster.Main runs.
func (p prepared) Run() int {
	if env != nil {
		if err := prepare(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return p.m.Run()
}

func prepare(ctx context.Context) error {
	archive, err := image(ctx)
	if err != nil {
		return err
	}
	// The CRDs of the Machine API stay: another operator owns the Machines at first.
	crds := []string{
		"delete", "--timeout=90s", "crd", "nodemaintenances.nodemaintenance.medik8s.io", "nodemaintenances.nodemaintenance.kubevirt.io",
	}
	if output, err := harness.Kubectl(ctx, env, nil, crds...); err != nil {
		return fmt.Errorf("removing the sandbox's CRDs: %w\n%s", err, output)
	}
	if err := realnode.Add(ctx, env, realnode.Options{Names: []string{first, second}, Images: []string{archive}}); err != nil {
		return err
	}
	// A kubelet may not give itself this label.
	if output, err := harness.Kubectl(ctx, env, nil, "label", "node", "--all", "node-role.kubernetes.io/worker="); err != nil {
		return fmt.Errorf("labelling the nodes: %w\n%s", err, output)
	}
	return nil
}

// image builds Drover's image, as make images does, for this machine alone.
func image(ctx context.Context) (archive string, err error) {
	main, err := harness.Folder("cmd/drover")
	if err != nil {
		return "", err
	}
	root, layout := filepath.Join(main, "../.."), filepath.Join(env.Dir(), "image")
	tool := filepath.Join(root, "bin/tools/images")
	if _, err := os.Stat(tool); err != nil {
		return "", fmt.Errorf("the tests on real nodes need an image: run make tools (%w)", err)
	}
	build := exec.CommandContext(ctx, tool, "build", "--module", root, "--package", "./cmd/drover", "--layout", layout, "--version", "v0.0.0-test",
		"--platforms", "linux/"+runtime.GOARCH)
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the image: %w\n%s", err, output)
	}
	archive = filepath.Join(env.Dir(), "drover.tar")
	return archive, errors.Join(realnode.Archive(ctx, layout, repository+":"+tag, archive))
}

// world is the control plane as a test sees it.
func world(t *testing.T) *harness.World {
	t.Helper()
	if len(missing) > 0 {
		t.Skipf("real nodes cannot run here: %v", missing)
	}
	return harness.NewWorld(t, env)
}
