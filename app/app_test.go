package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// run executes the command line until it ends, or at once where it would run on.
func run(t *testing.T, options []Option, args ...string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	command := NewCommand(options...)
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(args)
	err = command.ExecuteContext(ctx)
	return out.String(), err
}

func TestVersionCommand(t *testing.T) {
	output, err := run(t, nil, "version")
	if err != nil || !strings.HasPrefix(output, "drover devel (commit ") {
		t.Errorf("%q, %v", output, err)
	}
}

func TestHelpNamesTheFlags(t *testing.T) {
	output, err := run(t, nil, "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--config", "--controllers", "--kubeconfig", "--leader-elect", "--metadata-writes-per-second", "--metadata-workers"} {
		if !strings.Contains(output, flag) {
			t.Errorf("%s is missing in\n%s", flag, output)
		}
	}
}

// What is wrong is said in one line, before anything is connected to.
func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an argument":              {[]string{"start"}, `unknown command "start" for "drover"`},
		"a flag that is none":      {[]string{"--workers=3"}, "unknown flag: --workers"},
		"a value that is none":     {[]string{"--metadata-workers=many"}, "invalid argument"},
		"a value out of range":     {[]string{"--metadata-workers=0"}, "metadata.workers: Invalid value: 0: must be from 1 to 1000"},
		"a file that is missing":   {[]string{"--config=" + missing}, "reading the configuration: "},
		"a kubeconfig without use": {[]string{"--kubeconfig=" + missing}, "kubeconfig " + missing + ": "},
		"no cluster at all":        {nil, "no cluster to work on: this is no Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := run(t, nil, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if output != "" {
				t.Errorf("Main prints the error; printed here as well: %s", output)
			}
		})
	}
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: test, user: {token: secret}}]
`

// A third party's main may wrap the connection: its changes are made to what the kubeconfig says, in order.
func TestWithClientConfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []string
	see := func(agent string) Option {
		return WithClientConfig(func(config *rest.Config) {
			seen = append(seen, config.Host+" "+config.UserAgent)
			config.UserAgent = agent
		})
	}
	nowhere := WithClientConfig(func(config *rest.Config) { config.Host = "http://[" })
	for _, args := range [][]string{{"--leader-elect=false", "--kubeconfig=" + path}, {"--leader-elect=false"}} {
		seen = nil
		if args[len(args)-1] == "--leader-elect=false" {
			t.Setenv("KUBECONFIG", path)
		}
		if _, err := run(t, []Option{see("first"), see("second"), nowhere}, args...); err == nil {
			t.Error("connected to an address that is none")
		}
		if got := strings.Join(seen, ", "); got != "http://127.0.0.1:1 , http://127.0.0.1:1 first" {
			t.Errorf("changed: %s", got)
		}
	}
}
