package plan

import (
	"errors"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/provider"
)

// ErrNoSpec is why a Machine that does not describe its instance is not served.
var ErrNoSpec = errors.New("spec.providerSpec.value is missing; it describes the instance of the Machine")

// Failure is a call of the provider that failed.
type Failure struct {
	Operation string
	Reason    machinev1beta1.MachineStatusError
}

// operation is a call of the provider, with the words of the metrics, the event and the reason where the provider gives none.
type operation struct {
	name, event string
	otherwise   machinev1beta1.MachineStatusError
}

var (
	operationCreate = operation{"create", EventFailedCreate, machinev1beta1.CreateMachineError}
	operationGet    = operation{"update", EventFailedUpdate, machinev1beta1.UpdateMachineError}
	operationDelete = operation{"delete", EventFailedDelete, machinev1beta1.DeleteMachineError}
)

// minProviderRetry is the least delay until a provider is asked again, however soon it wants to be: an error that says "at once" would keep a worker
// and the provider's API busy.
const minProviderRetry = time.Second

// providerWait waits for a provider that has returned an error: for as long as it asks for, or with a backoff and an event.
func (in *Input) providerWait(call operation, err error) Wait {
	wait := Wait{Type: machinev1beta1.InstanceExistsCondition}
	switch call {
	case operationCreate:
		wait.Condition = isFalse(string(ReasonNotCreated), err.Error())
	case operationGet:
		wait.Condition = Condition{corev1.ConditionUnknown, ReasonProviderError, err.Error()}
	case operationDelete:
		wait.Condition = isTrue(err.Error())
	}
	if after, only := provider.AsRequeueAfter(err); only {
		wait.RequeueAfter, wait.KeepsBackoff = max(after, minProviderRetry), true
		return wait
	}
	wait.Event = Warning(call.event, err.Error())
	wait.Failure = &Failure{call.name, provider.ReasonOf(err, call.otherwise)}
	wait.Err = &providerError{types.NamespacedName{Namespace: in.Machine.Namespace, Name: in.Machine.Name}, err}
	return wait
}

// providerError is an error of a provider. It does not unwrap: a 404 or 409 in it concerns the provider's own objects, and says nothing of the
// Machine. What the provider says with its typed errors is read before it is wrapped.
type providerError struct {
	machine types.NamespacedName
	err     error
}

func (e *providerError) Error() string {
	return fmt.Sprintf("the provider of Machine %s: %v", e.machine, e.err)
}
