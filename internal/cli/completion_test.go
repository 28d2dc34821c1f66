package cli

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

func TestCompletion(t *testing.T) {
	f := &fakeCluster{}
	f.machineSet("workers", 2, declare(nil, nil))
	f.machineSet("infra", 1, declare(nil, nil))
	f.group("batch", "blue", nil)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"plan", ""}, []string{"infra", "workers", "nodegroup/"}},
		{[]string{"rollout", "undo", "nodegroup/"}, []string{"nodegroup/batch"}},
		{[]string{"rollout", "status", "ng/b"}, []string{"ng/batch"}},
		{[]string{"rollout", "pause", "i"}, []string{"infra"}},
		{[]string{"plan", "w"}, []string{"workers"}},
		{[]string{"status", "workers", ""}, []string{"infra", "nodegroup/"}},
		{[]string{"status", "-n", "elsewhere", "w"}, nil},
		{[]string{"explain", "node", "workers"}, []string{"workers-0", "workers-1"}},
		{[]string{"explain", "n"}, []string{"node"}},
		{[]string{"explain", "node/inf"}, []string{"node/infra-0"}},
		{[]string{"explain", "infra-0", ""}, nil},
		{[]string{"pause", ""}, []string{"infra", "workers", "machine/", "node/", "nodegroup/"}},
		{[]string{"pause", "nod"}, []string{"node/", "nodegroup/"}},
		{[]string{"pause", "machine/w"}, []string{"machine/workers-0", "machine/workers-1"}},
		{[]string{"resume", "node/workers-0", "node/w"}, []string{"node/workers-1"}},
		{[]string{"pause", "--dry-run=s"}, []string{"none", "client", "server"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			got := f.run(t, append([]string{"__complete"}, c.args...)...)
			lines := strings.Split(strings.TrimSpace(got.out), "\n")
			// The last line is the directive to the shell.
			if !slices.Equal(lines[:len(lines)-1], c.want) && len(lines)-1+len(c.want) > 0 {
				t.Errorf("got %q, want %q", lines, c.want)
			}
		})
	}
}

func TestCompletion_WithoutCluster(t *testing.T) {
	for _, args := range [][]string{{"plan", ""}, {"explain", ""}, {"pause", "node/"}} {
		got := runWith(t, func() (client.WithWatch, error) { return nil, cmdutil.UsageError("no kubeconfig") }, append([]string{"__complete"}, args...)...)
		if got.code != exitOK || strings.Contains(got.errors, "no kubeconfig") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestCompletion_ForKubectl(t *testing.T) {
	got := (&fakeCluster{}).run(t, "completion", "kubectl")
	if got.code != exitOK || !strings.HasPrefix(got.out, "#!/usr/bin/env sh\n") || !strings.Contains(got.out, "__complete") {
		t.Errorf("%+v", got)
	}
}

func TestVersion(t *testing.T) {
	if got := (&fakeCluster{}).run(t, "version"); got.code != exitOK || !strings.HasPrefix(got.out, "kubectl-drover ") {
		t.Errorf("%+v", got)
	}
	got := (&fakeCluster{}).run(t, "version", "-o", "json")
	if !strings.Contains(got.errors, "the version of the operator is unknown") {
		t.Errorf("%+v", got)
	}
	if info := decodeJSON[view.VersionInfo](t, got.out); info.APIVersion != view.APIVersion || info.Version == "" {
		t.Errorf("%+v", got)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"plan", "-h"}} {
		if got := (&fakeCluster{}).run(t, args...); got.code != exitOK || !strings.Contains(got.out, "kubectl drover") || got.errors != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// TestHelp_GlobalFlags: help pages show the flags of their command; one command shows those of all.
func TestHelp_GlobalFlags(t *testing.T) {
	f := &fakeCluster{}
	for _, args := range [][]string{{"--help"}, {"plan", "--help"}, {"rollout", "undo", "-h"}} {
		got := f.run(t, args...)
		if strings.Contains(got.out, "--kubeconfig") || !strings.Contains(got.out, `Use "kubectl drover options"`) || !strings.Contains(got.out, "--help") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	f.run(t, "options").says(t, exitOK, "--kubeconfig", "--namespace")
	f.run(t, "__complete", "plan", "--kubec").says(t, exitOK, "--kubeconfig")
}

func TestOutput_Templates(t *testing.T) {
	f := &fakeCluster{}
	f.machineSet("workers", 2, declare(nil, nil))
	for format, want := range map[string]string{
		"jsonpath={.items[*].name}":                    "workers",
		"go-template={{range .items}}{{.name}}{{end}}": "workers",
		"kyaml": `name: "workers"`,
	} {
		if got := f.run(t, "status", "-o", format); got.code != exitOK || !strings.Contains(got.out, want) {
			t.Errorf("%s: %+v", format, got)
		}
	}
	if got := f.run(t, "status", "--template", "{{len .items}}"); got.out != "1" {
		t.Errorf("%+v", got)
	}
}
