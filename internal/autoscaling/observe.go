package autoscaling

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/undecodable"
)

// observe reads the MachineSets of a namespace, and the MachineAutoscalers that own their bounds.
func (r *Reconciler) observe(ctx context.Context, ma *v1beta1.MachineAutoscaler) (*plan.Input, error) {
	sets := &machinev1beta1.MachineSetList{}
	if err := r.cache.List(ctx, sets, client.InNamespace(ma.Namespace)); err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	in := &plan.Input{Autoscaler: ma, Others: map[string]bool{}}
	for i := range sets.Items {
		set := &sets.Items[i]
		in.Sets = append(in.Sets, set)
		name, found := plan.OwnerIn(ma.Namespace, set.Annotations[machineapi.AutoscalerAnnotation])
		if !found || in.Others[name] {
			continue
		}
		err := r.cache.Get(ctx, client.ObjectKey{Namespace: ma.Namespace, Name: name}, &v1beta1.MachineAutoscaler{})
		if client.IgnoreNotFound(err) != nil && !undecodable.Is(err) {
			return nil, fmt.Errorf("reading MachineAutoscaler %s/%s: %w", ma.Namespace, name, err)
		}
		in.Others[name] = !apierrors.IsNotFound(err)
	}
	return in, nil
}

// isReleased reports whether no MachineSet on the API server names a MachineAutoscaler as its owner. The cache may not show the bounds yet that were
// written last, and with the MachineAutoscaler goes the only object that knows of them.
func (r *Reconciler) isReleased(ctx context.Context, ma *v1beta1.MachineAutoscaler) (bool, error) {
	for page := (&metav1.PartialObjectMetadataList{}); ; {
		next := &metav1.PartialObjectMetadataList{}
		next.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("MachineSetList"))
		if err := r.live.List(ctx, next, client.InNamespace(ma.Namespace), client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return false, fmt.Errorf("listing the MachineSets that MachineAutoscaler %s/%s bounds: %w", ma.Namespace, ma.Name, err)
		}
		for i := range next.Items {
			if next.Items[i].Annotations[machineapi.AutoscalerAnnotation] == plan.OwnerOf(ma) {
				return false, nil
			}
		}
		if page = next; page.Continue == "" {
			return true, nil
		}
	}
}

// pageSize bounds how many MachineSets one answer holds. Each MachineSet may have 256 KiB of annotations.
const pageSize = 100
