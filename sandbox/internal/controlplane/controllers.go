//go:build !drover_core

package controlplane

import (
	"k8s.io/component-base/cli"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/drover-io/drover/sandbox/internal/programs"
)

// controllers are what a control plane can start without: hack/demo.sh begins while they compile.
var controllers = programs.Set{
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
}
