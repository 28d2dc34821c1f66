// Package components links the Kubernetes programs of the sandbox into one binary.
//
// Each is the upstream program with its upstream flags; running one turns the whole process into it, so that a
// component can be killed and started like the real thing. One binary links the shared packages once, which makes
// it several times cheaper to build than five programs.
package components

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the components
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs maps a component's name to the function that becomes it. Each reads os.Args and returns its exit code.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"kubelet":                 runKubelet,
	"kubemark":                runKubemark,
	"kwok":                    runKwok,
	"machine-config":          runMachineConfig,
}

// Names lists the components in the order in which they start.
func Names() []string {
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run becomes the named component with the given arguments and does not return.
func Run(name string, args []string) {
	run, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "drover-sandbox: no component %q; there are %v\n", name, Names())
		os.Exit(2)
	}
	os.Args = append([]string{name}, args...)
	os.Exit(run())
}

// Requested tells whether the binary was called under a component's name, as through a symlink called kubectl.
func Requested(argv0 string) (string, bool) {
	name := filepath.Base(argv0)
	_, ok := programs[name]
	return name, ok
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return 0
}
