package cluster_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/vcenter"
)

// sandbox runs drover-sandbox on one data folder.
type sandbox struct {
	t      *testing.T
	binary string
	dir    string
}

// newSandbox prepares a data folder whose sandbox is stopped at the end of the test.
func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, binary: binary, dir: filepath.Join(t.TempDir(), "a sandbox")}
	t.Cleanup(func() {
		if c, err := cluster.Open(s.dir, cluster.Options{}); err == nil {
			if err := c.Purge(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// try runs a command and returns its standard output and standard error.
func (s *sandbox) try(args ...string) (stdout, stderr string, err error) {
	return s.tryAs(s.binary, args...)
}

func (s *sandbox) tryAs(program string, args ...string) (stdout, stderr string, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = []string{"HOME=" + s.t.TempDir(), "PATH=" + os.Getenv("PATH"), "DROVER_SANDBOX_DATA=" + s.dir}
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	err = command.Run()
	return out.String(), errors.String(), err
}

// run runs a command that must succeed and returns its standard output.
func (s *sandbox) run(args ...string) string {
	s.t.Helper()
	stdout, stderr, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("drover-sandbox %v: %v\n%s%s", args, err, stdout, stderr)
	}
	return stdout
}

// fails runs a command that must fail with an error that has the given text.
func (s *sandbox) fails(text string, args ...string) {
	s.t.Helper()
	_, stderr, err := s.try(args...)
	if err == nil || !strings.Contains(stderr, text) {
		s.t.Errorf("drover-sandbox %v: %v with %q, want an error with %q", args, err, stderr, text)
	}
}

func TestCommandLine(t *testing.T) {
	s := newSandbox(t)
	s.fails("there is no sandbox in "+s.dir, "status")
	s.fails("no component", "up", "--components", "kubelet")
	kubeconfig := filepath.Join(s.dir, "config", "admin.kubeconfig")
	if got, want := s.run("up", "--components", cluster.Kwok, "--unsafe-no-fsync"), "export KUBECONFIG='"+kubeconfig+"'\n"; got != want {
		t.Fatalf("up printed %q, want %q", got, want)
	}
	status := s.run("status")
	for _, want := range []string{`etcd +running +\d+ +\d+ +\d+Mi`, `kwok +running`, `kube-scheduler +absent +- +- +-`} {
		if !regexp.MustCompile(want).MatchString(status) {
			t.Errorf("status has no line %q:\n%s", want, status)
		}
	}
	s.run("pool", "create", "demo", "--machines", "3", "--label", "tier=gold", "--taint", "dedicated=batch:NoSchedule")
	const jsonpath = "-o=jsonpath={.spec.replicas} {.spec.template.spec.metadata.labels.tier} {.spec.template.spec.taints[0].key}"
	got := s.run("kubectl", "-n", cluster.MachineNamespace, "get", "machineset", "demo", jsonpath)
	if want := "3 gold dedicated"; got != want {
		t.Errorf("the MachineSet has %q, want %q", got, want)
	}
	s.fails("NotFound", "kubectl", "get", "node", "missing")
	s.fails("write it as key=value:effect", "pool", "create", "other", "--taint", "x")
	s.run("pool", "delete", "demo")
	s.fails("there is no pool demo", "pool", "delete", "demo")
	if audit := s.run("logs", "audit"); !strings.Contains(audit, `"resource":"machinesets"`) {
		t.Error("the audit log does not name the machine sets")
	}
	s.fails("no log of", "logs", "kubelet")
	if version := s.run("version"); !strings.Contains(version, "kubernetes v1.") {
		t.Errorf("version printed %q", version)
	}
}

func TestCommandLine_KillAndResume(t *testing.T) {
	harness.TestAllOnly(t, "a control plane of its own; TestCommandLine has one, too")
	s := newSandbox(t)
	s.run("up", "--components", "", "--unsafe-no-fsync")
	s.run("kubectl", "create", "configmap", "kept")
	s.fails("no signal", "kill", cluster.Etcd, "--signal", "HARD")
	s.run("kill", cluster.Etcd)
	s.fails("does not run", "kill", cluster.Etcd, "--signal", "TERM")
	s.fails("not running as they should", "status")
	s.run("start", cluster.Etcd)
	s.run("kill", cluster.APIServer)
	s.run("up")
	s.run("kubectl", "get", "configmap", "kept")
	s.run("down")
	s.fails("not running as they should", "status")
	s.run("up")
	if status := s.run("status"); !regexp.MustCompile(`kwok +absent`).MatchString(status) {
		t.Errorf("the second up changed the components:\n%s", status)
	}
	link := filepath.Join(t.TempDir(), "kubectl")
	if err := os.Symlink(s.binary, link); err != nil {
		t.Fatal(err)
	}
	if out, stderr, err := s.tryAs(link, "get", "configmap", "kept", "-o=name"); err != nil || out != "configmap/kept\n" {
		t.Errorf("the link kubectl printed %q, %q, %v", out, stderr, err)
	}
	vcenter := s.startVCenter()
	s.run("down", "--purge")
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("after down --purge the folder: %v", err)
	}
	if connection, err := net.Dial("tcp", vcenter); err == nil {
		_ = connection.Close()
		t.Error("the vCenter outlives the control plane")
	}
	s.run("down")
}

// startVCenter starts a vCenter, and returns its address.
func (s *sandbox) startVCenter() string {
	s.t.Helper()
	s.run("vsphere", "up")
	c, err := cluster.Open(s.dir, cluster.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	site, err := c.VCenterSite()
	if err != nil {
		s.t.Fatal(err)
	}
	s.behave(site)
	return net.JoinHostPort(site.Host, site.Port)
}

// behave has a vCenter fail, and work again.
func (s *sandbox) behave(site *vcenter.Site) {
	s.t.Helper()
	client, err := site.VIM(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.run("vsphere", "behave", "--rest-status", "503", "--password", "other", "--call", "CurrentTime=NoDiskSpace")
	if _, err := methods.GetCurrentTime(s.t.Context(), client); !fault.Is(err, &types.NoDiskSpace{}) {
		s.t.Errorf("the call ends with %v", err)
	}
	if _, err := site.VIM(s.t.Context()); err == nil {
		s.t.Error("the password is still accepted")
	}
	s.fails(`unknown fault "Flood"; there are InsufficientResources, `, "vsphere", "behave", "--clone-fault", "Flood")
	s.run("vsphere", "behave", "--end-sessions")
	if _, err := methods.GetCurrentTime(s.t.Context(), client); !fault.Is(err, &types.NotAuthenticated{}) {
		s.t.Errorf("the session has not ended: %v", err)
	}
}
