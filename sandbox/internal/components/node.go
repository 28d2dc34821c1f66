package components

import (
	"context"

	"k8s.io/component-base/cli"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// runKubelet becomes a kubelet.
func runKubelet() int {
	return cli.Run(kubelet.NewKubeletCommand(context.Background()))
}
