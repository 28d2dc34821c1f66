package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/test/cluster"
)

// Patience is how long a test waits for what must happen. It is generous: these tests also run on slow and busy machines.
const Patience = 4 * time.Minute

// pollInterval is how often a test looks for what must happen. After slowAfter without success the test looks less often: many tests wait at the same
// time, and each look costs the API server something.
const (
	pollInterval     = 25 * time.Millisecond
	slowPollInterval = 100 * time.Millisecond
	slowAfter        = time.Second
)

// Tests are what Main runs: a *testing.M, or one with something around it.
type Tests interface{ Run() int }

// Main is the body of a TestMain: it starts a control plane, installs Drover's manifests, runs the tests, then what is to be checked after all of
// them, and stops it all.
func Main(m Tests, options cluster.Options, keep **cluster.Cluster, after ...func() error) int {
	// The tests' own clients have nothing to say that a failing test does not.
	log.SetLogger(logr.Discard())
	options.UnsafeNoFsync = true
	return cluster.Main(setup{m, keep, after}, options, keep)
}

// setup runs the tests after the manifests are installed.
type setup struct {
	m     Tests
	keep  **cluster.Cluster
	after []func() error
}

// Run implements what cluster.Main runs.
func (s setup) Run() int {
	if *s.keep == nil { // only the names of the tests are wanted
		return s.m.Run()
	}
	if err := Install(context.Background(), *s.keep); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := s.m.Run()
	for _, check := range s.after {
		if err := check(); err != nil {
			fmt.Fprintf(os.Stderr, "after all tests: %v\n", err)
			code = max(code, 1)
		}
	}
	return code
}

// Install applies config/default, as a user would, but for the configuration of the webhook: the operator runs outside of the cluster, so
// the webhook's Service has no endpoints, and every NodeMaintenance would be refused. Tests of the webhook bring a configuration of
// their own, with the address of their operator in it.
func Install(ctx context.Context, c *cluster.Cluster) error {
	folder, err := Folder("config/default")
	if err != nil {
		return err
	}
	output, err := Kubectl(ctx, c, nil, "apply", "-k", folder)
	if err != nil {
		return fmt.Errorf("installing %s: %w\n%s", folder, err, output)
	}
	if output, err := Kubectl(ctx, c, nil, "delete", "validatingwebhookconfiguration", "drover"); err != nil {
		return fmt.Errorf("removing the webhook's configuration: %w\n%s", err, output)
	}
	return nil
}

// InstallMachines adds the capability machines, with the providers kwok and vsphere, and the capability autoscaling.
func InstallMachines(ctx context.Context, c *cluster.Cluster) error {
	return apply(ctx, c, "config/machines", "config/kwok", "config/vsphere", "config/crd/autoscaling", "config/autoscaling")
}

// InstallVCenter lets Drover read the configuration of the cloud provider, in the namespace where a vCenter that has begun puts it.
func InstallVCenter(ctx context.Context, c *cluster.Cluster) error {
	return apply(ctx, c, "config/vsphere/openshift")
}

// apply applies folders of the repository, as a user would.
func apply(ctx context.Context, c *cluster.Cluster, names ...string) error {
	for _, name := range names {
		folder, err := Folder(name)
		if err != nil {
			return err
		}
		if output, err := Kubectl(ctx, c, nil, "apply", "-k", folder); err != nil {
			return fmt.Errorf("installing %s: %w\n%s", folder, err, output)
		}
	}
	return nil
}

// DeleteCRDs deletes CRDs and returns when they are gone. The API server's finalizer of CRDs fails with "storage is (re)initializing" where the CRD
// was changed a moment ago, and may wait for minutes until it tries again; a change of the CRD has it try at once.
func DeleteCRDs(ctx context.Context, c *cluster.Cluster, names ...string) error {
	output, err := Kubectl(ctx, c, nil, append([]string{"delete", "--ignore-not-found", "--wait=false", "crd"}, names...)...)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	for try := range 15 {
		output, err = Kubectl(ctx, c, nil, append([]string{"wait", "--for=delete", "--timeout=20s", "crd"}, names...)...)
		if err == nil {
			return nil
		}
		// A CRD that disappears meanwhile cannot be annotated, and need not be.
		_, _ = Kubectl(ctx, c, nil, "annotate", "--overwrite", "crd", "--all", fmt.Sprintf("drover.dev/cleared=%d", try))
	}
	return fmt.Errorf("%w\n%s", err, output)
}

// Kubectl runs kubectl as the administrator and returns what it printed.
func Kubectl(ctx context.Context, c *cluster.Cluster, input io.Reader, args ...string) (string, error) {
	command, err := cluster.KubectlCommand()
	if err != nil {
		return "", err
	}
	run := exec.CommandContext(ctx, command[0], append(command[1:], args...)...)
	run.Env = append(os.Environ(), "KUBECONFIG="+c.AdminKubeconfig())
	run.Stdin = input
	output, err := run.CombinedOutput()
	return string(output), err
}

// Folder finds a folder of the repository from the folder of a test.
func Folder(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no folder %s above the test", name)
		}
	}
}
