// Command drover-sandbox-kubernetes holds the programs that decide what a Kubernetes version can do: its kube-apiserver, kube-controller-manager and
// kube-scheduler. It becomes the program that it is called as, or that its first argument names. hack/build.sh builds it with a version of Kubernetes
// that differs from the version in drover-sandbox, which plays the rest of the control plane.
//
// Each version has its own requirements, for example v1.31.14.mod beside go.mod, which go build reads with -modfile.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the components
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs are the commands of Kubernetes, by name.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	newCommand := programs[filepath.Base(os.Args[0])]
	if newCommand == nil && len(os.Args) > 1 {
		newCommand, os.Args = programs[os.Args[1]], os.Args[1:]
	}
	if newCommand == nil {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "drover-sandbox-kubernetes: call it as %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(cli.Run(newCommand()))
}
