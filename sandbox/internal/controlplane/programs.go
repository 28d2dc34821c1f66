// Package controlplane links the programs of a control plane, kubectl and what plays nodes into one binary.
//
// Each is the upstream program with its upstream flags; running one turns the whole process into it, so that a
// component can be killed and started like the real thing. One binary links the shared packages once, which makes
// it several times cheaper to build than five programs.
package controlplane

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the components
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/drover-io/drover/sandbox/internal/programs"
)

// Programs are what drover-sandbox can become.
var Programs = programs.Merge(controllers, programs.Set{
	"etcd":           runEtcd,
	"kube-apiserver": func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kubectl":        runKubectl,
	"kwok":           runKwok,
	"machine-config": runMachineConfig,
	"vcenter":        runVCenter,
})

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
