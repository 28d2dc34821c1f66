package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// Scale scales a MachineSet and waits until it is as large as it is to be.
func (s *Stage) Scale(ctx context.Context, name string, replicas int) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := s.Client.Patch(ctx, harness.NewMachineSet(name, 0), patch); err != nil {
		return err
	}
	return harness.WaitLonger(ctx, 20*time.Minute, 100*time.Millisecond, func() error {
		set := &machinev1beta1.MachineSet{}
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: cluster.MachineNamespace, Name: name}, set); err != nil {
			return err
		}
		if int(set.Status.AvailableReplicas) != replicas || int(set.Status.Replicas) != replicas {
			return fmt.Errorf("%d of %d Machines are there", set.Status.AvailableReplicas, replicas)
		}
		if replicas > 0 {
			return nil
		}
		machines, err := s.Machines(ctx, name, client.Limit(1))
		if err == nil && len(machines) > 0 {
			err = errors.New("some are left")
		}
		return err
	})
}

// Machines lists the Machines of a MachineSet.
func (s *Stage) Machines(ctx context.Context, name string, options ...client.ListOption) ([]machinev1beta1.Machine, error) {
	var machines machinev1beta1.MachineList
	options = append(options, client.InNamespace(cluster.MachineNamespace), client.MatchingLabels{cluster.MachineSetLabel: name})
	err := s.Client.List(ctx, &machines, options...)
	return machines.Items, err
}
