// Package node links what nodes run into one binary: the kubelet, and Kubernetes' kubemark, a kubelet whose container runtime runs nothing.
package node

import (
	"context"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the kubelet
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/drover-io/drover/sandbox/internal/programs"
)

// Programs are what drover-sandbox-node can become.
var Programs = programs.Set{"kubelet": runKubelet, "kubemark": runKubemark}

// runKubelet becomes a kubelet.
func runKubelet() int {
	return cli.Run(kubelet.NewKubeletCommand(context.Background()))
}
