package operator

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/autoscaling"
	"github.com/drover-io/drover/internal/config"
)

// autoscalerWorkers is how many MachineAutoscalers are reconciled at once. There is at most one for each MachineSet.
const autoscalerWorkers = 4

// autoscaling builds the capability of MachineAutoscalers if --controllers enables it.
func (b *builder) autoscaling() ([]capability, error) {
	if !config.Enabled(b.settings.Controllers, autoscaling.Name) {
		return nil, nil
	}
	other, err := autoscalerOperator().on(b, b.settings.Controllers)
	if err != nil {
		return nil, err
	}
	return []capability{{
		name: autoscaling.Name,
		needs: []schema.GroupVersionResource{
			v1beta1.GroupVersion.WithResource("machineautoscalers"), machinev1beta1.GroupVersion.WithResource("machinesets"),
		},
		watches: autoscaling.Kinds(),
		own:     []client.Object{&v1beta1.MachineAutoscaler{}, &machinev1beta1.MachineSet{}},
		blocked: other.present,
		prepare: func(context.Context) error { return nil },
		run: func(ctx context.Context) error {
			return autoscaling.Run(ctx, b.GetCache(), b.GetAPIReader(), b.GetClient(), b.recorder, autoscaling.Options{Workers: autoscalerWorkers})
		},
	}}, nil
}
