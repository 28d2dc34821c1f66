package operator

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-io/drover/internal/autoscaling"
)

// otherOperator finds an operator of OpenShift's that serves the same API. Two of them would undo each other's work.
type otherOperator struct {
	live      client.Reader
	discovery discovery.DiscoveryInterface
	// capability is Drover's, and named reports that --controllers names it.
	capability string
	named      bool
	// operator is the name of OpenShift's, deployment what runs it, and role the folder with the permission to read that.
	operator   string
	deployment types.NamespacedName
	role       string
}

// machineAPIOperator is the operator that creates Machines. autoscalerOperator is the operator of MachineAutoscalers.
func machineAPIOperator() otherOperator {
	return otherOperator{
		capability: machinesName, operator: "machine-api-operator", role: "config/machines",
		deployment: types.NamespacedName{Namespace: "openshift-machine-api", Name: "machine-api-controllers"},
	}
}

func autoscalerOperator() otherOperator {
	return otherOperator{
		capability: autoscaling.Name, operator: "cluster-autoscaler-operator", role: "config/autoscaling",
		deployment: types.NamespacedName{Namespace: "openshift-machine-api", Name: "cluster-autoscaler-operator"},
	}
}

// on looks for the operator on a cluster.
func (o otherOperator) on(mgr manager.Manager, controllers []string) (*otherOperator, error) {
	discovery, err := newDiscovery(mgr)
	o.live, o.discovery, o.named = mgr.GetAPIReader(), discovery, slices.Contains(controllers, o.capability)
	return &o, err
}

// present returns why the capability has to stay off; empty when it may run.
func (o *otherOperator) present(ctx context.Context) (string, error) {
	_, err := o.discovery.ServerResourcesForGroupVersion("config.openshift.io/v1")
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	if err == nil && !o.named {
		return fmt.Sprintf("this is OpenShift, which has a %s; name %s in --controllers when that one is off", o.operator, o.capability), nil
	}
	deployment := &appsv1.Deployment{}
	err = o.live.Get(ctx, o.deployment, deployment)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsForbidden(err):
		// config/default goes without the roles of this capability, and all others can work without it.
		return "", fmt.Errorf("%w; apply %s, or leave %s out of --controllers", err, o.role, o.capability)
	case err != nil:
		return "", err
	case deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0:
		return "", nil
	}
	return fmt.Sprintf("OpenShift's %s works here (Deployment %s), and two would undo each other's work: turn it off first",
		o.operator, o.deployment), nil
}
