package vsphere

import (
	"errors"
	"fmt"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// cloneError says what a failed clone means for its Machine. The texts of faults alone do not.
func cloneError(err error) error {
	var taken *vcenter.NameTakenError
	switch {
	case errors.As(err, &taken):
		return fmt.Errorf("%w; if it is not a clone of this Machine that has just begun, rename or delete that virtual machine", err)
	case fault.Is(err, &types.NoDiskSpace{}), fault.Is(err, &types.InsufficientResourcesFault{}), fault.Is(err, &types.OutOfBounds{}):
		return provider.InsufficientResources("cloning the template: %w", err)
	}
	return fmt.Errorf("cloning the template: %w", err)
}
