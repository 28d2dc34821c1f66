// Package openshift tests the installation of Drover on a simulated OpenShift, together with and instead of the replaced operators, by Helm and by
// the bundle for the Operator Lifecycle Manager.
package openshift

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}, UnsafeNoFsync: true}
	os.Exit(cluster.Main(prepared{m}, options, &env))
}

// prepared runs the tests on a control plane with what OpenShift and the replaced operators bring. The CRDs of the Machine API and of NodeMaintenance
// come from the sandbox.
type prepared struct{ m *testing.M }

// Run implements what cluster.Main runs.
func (p prepared) Run() int {
	if env != nil {
		if err := env.InstallOpenShift(context.Background(), cluster.OpenShiftOptions{Version: "4.18.0"}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return p.m.Run()
}

// kubectl runs kubectl as the administrator; it must succeed.
func kubectl(t testing.TB, input io.Reader, args ...string) string {
	t.Helper()
	output, err := harness.Kubectl(t.Context(), env, input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// folder finds a folder or file of the repository.
func folder(t testing.TB, name string) string {
	t.Helper()
	path, err := harness.Folder(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
