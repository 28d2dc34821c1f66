// Package disruption races for the last place in the budget of a NodeGroup on a real API server, whose conflicts decide who gets it.
package disruption

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(cluster.Main(setup{m}, cluster.Options{UnsafeNoFsync: true}, &env))
}

// setup installs the CRD of NodeGroups before the tests.
type setup struct{ m *testing.M }

// Run implements what cluster.Main runs.
func (s setup) Run() int {
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return s.m.Run()
}

func install() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	folder, err := harness.Folder("config/crd/nodegroup")
	if err != nil {
		return err
	}
	for _, command := range [][]string{
		{"apply", "-f", folder + "/drover.dev_nodegroups.yaml"},
		{"wait", "--for=condition=Established", "crd/nodegroups.drover.dev", "--timeout=60s"},
	} {
		if output, err := harness.Kubectl(ctx, env, nil, command...); err != nil {
			return fmt.Errorf("installing the CRD of NodeGroups: %w\n%s", err, output)
		}
	}
	return nil
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
