package cluster_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

func TestCommandLine_OpenShift(t *testing.T) {
	harness.TestAllOnly(t, "a control plane of its own; make test upgrades OpenShift in test/upgrade")
	s := newSandbox(t)
	s.run("up", "--components", cluster.Kwok, "--unsafe-no-fsync")
	s.fails("openshift init", "openshift", "status")
	s.fails("openshift init", "openshift", "upgrade", "--to", "4.17.3")
	s.fails("never started", "start", cluster.MachineConfig)
	s.fails("no way to reboot", "openshift", "init", "--reboot-by", "Hammer")
	s.run("openshift", "init", "--masters", "2", "--workers", "2", "--pool", "infra", "--drain-delay", "1ms")
	t.Cleanup(func() { s.run("down") })
	s.run("kubectl", "label", "node", "worker-1", "node-role.kubernetes.io/infra=")
	s.fails("required flag", "openshift", "upgrade")
	progress := s.run("openshift", "upgrade", "--to", "4.17.3", "--wait", "--timeout", "1m")
	if !strings.HasSuffix(strings.TrimSpace(progress), "4.17.3 Completed, infra 1/1, master 2/2, worker 1/1") {
		t.Errorf("the upgrade went\n%s", progress)
	}
	status := s.run("openshift", "status")
	for _, want := range []string{
		`4\.17\.3 +Completed +4\.17\.3 +Completed`, `infra +4\.17\.3 +false +true`, `master-1 +master +4\.17\.3 +4\.17\.3 +Done +- +true +false`,
	} {
		if !regexp.MustCompile(want).MatchString(status) {
			t.Errorf("status has no line %q:\n%s", want, status)
		}
	}
	s.run("kill", cluster.MachineConfig)
	s.fails("not running as they should: "+cluster.MachineConfig, "status")
	if _, stderr, err := s.try("openshift", "upgrade", "--to", "4.17.4"); err != nil || !strings.Contains(stderr, "nothing will happen") {
		t.Errorf("an upgrade without a simulator: %q, %v", stderr, err)
	}
	s.fails("waiting for version 4.17.4", "openshift", "upgrade", "--to", "4.17.4", "--wait", "--timeout", "300ms")
	s.run("start", cluster.MachineConfig)
	s.run("openshift", "upgrade", "--to", "4.17.4", "--wait", "--timeout", "1m")
	if log := s.run("logs", cluster.MachineConfig); !strings.Contains(log, "node worker-0: drain") {
		t.Errorf("the log says\n%s", log)
	}
	s.run("down")
	s.run("up")
	if status := s.run("status"); !regexp.MustCompile(cluster.MachineConfig + ` +running`).MatchString(status) {
		t.Errorf("after another up:\n%s", status)
	}
}
