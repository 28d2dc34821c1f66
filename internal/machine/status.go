package machine

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machine/plan"
)

// writeStatus writes the status if it has changed, and returns the Machine with it. It is the only writer of the status.
func (rc *reconciliation) writeStatus(ctx context.Context, in *plan.Input, wait *plan.Wait) (*machinev1beta1.Machine, error) {
	after, changed := plan.Status(in, wait)
	rc.observeMetrics(in, &after)
	if !changed {
		return in.Machine, nil
	}
	return rc.patchStatus(ctx, in.Machine, after)
}

// initializeAuthority copies the authority that the spec asks for to the status, as machine-api-operator does.
func (rc *reconciliation) initializeAuthority(ctx context.Context, machine *machinev1beta1.Machine) (*machinev1beta1.Machine, error) {
	after := *machine.Status.DeepCopy()
	if after.AuthoritativeAPI == machine.Spec.AuthoritativeAPI {
		return machine, nil
	}
	after.AuthoritativeAPI = machine.Spec.AuthoritativeAPI
	return rc.patchStatus(ctx, machine, after)
}

func (rc *reconciliation) patchStatus(
	ctx context.Context, machine *machinev1beta1.Machine, after machinev1beta1.MachineStatus,
) (*machinev1beta1.Machine, error) {
	changed := machine.DeepCopy()
	changed.Status = after
	if err := rc.Writer.Status().Patch(ctx, changed, controller.GuardedPatch(machine), fieldOwner); err != nil {
		return nil, fmt.Errorf("writing the status of Machine %s: %w", rc.key, err)
	}
	rc.expect(changed)
	return changed, nil
}

// expect expects the cache to show a Machine as the API server has answered a write.
func (rc *reconciliation) expect(machine *machinev1beta1.Machine) {
	rc.versions.Expect(string(machine.UID), expectations.Write{Version: machine.ResourceVersion})
}
