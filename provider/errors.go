package provider

import (
	"errors"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Error is an error with a reason that Drover shows in status.errorReason of the Machine.
type Error struct {
	// Reason is one of machine.openshift.io's reasons.
	Reason machinev1beta1.MachineStatusError
	// Err says what is wrong, where, and what to do.
	Err error
}

// Error returns what is wrong.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// InvalidConfiguration is terminal: the Machine can never become an instance as it is.
func InvalidConfiguration(format string, args ...any) error {
	return &Error{machinev1beta1.InvalidConfigurationMachineError, fmt.Errorf(format, args...)}
}

// InsufficientResources is an error that passes when quota or capacity is available again.
func InsufficientResources(format string, args ...any) error {
	return &Error{machinev1beta1.InsufficientResourcesMachineError, fmt.Errorf(format, args...)}
}

// ReasonOf returns the reason of an error, or another one when it has none.
func ReasonOf(err error, otherwise machinev1beta1.MachineStatusError) machinev1beta1.MachineStatusError {
	var typed *Error
	if errors.As(err, &typed) {
		return typed.Reason
	}
	return otherwise
}

// StatusError is an error of Create with what Drover writes to status.providerStatus of the Machine. Nil leaves what is there.
type StatusError struct {
	Status *runtime.RawExtension
	Err    error
}

// Error returns what is wrong.
func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// StatusOf returns the status that an error has; nil for none.
func StatusOf(err error) *runtime.RawExtension {
	var with *StatusError
	if errors.As(err, &with) {
		return with.Status
	}
	return nil
}

// RequeueAfterError asks for another call after a while, without back-off and without an error being shown: what the provider waits for
// takes its time.
type RequeueAfterError struct {
	// After is how soon.
	After time.Duration
	// Why says what it waits for.
	Why string
	// Cause is an error that the provider has returned before. The Machine's condition shows it until the next attempt has ended; nil for none.
	Cause error
}

// Error returns what is waited for. The text of a cause stays the same, so that it is written to the Machine once.
func (e *RequeueAfterError) Error() string {
	if e.Cause != nil {
		return e.Cause.Error()
	}
	return fmt.Sprintf("%s; again in %s", e.Why, e.After)
}

// RequeueAfter makes a RequeueAfterError.
func RequeueAfter(after time.Duration, why string) error {
	return &RequeueAfterError{After: after, Why: why}
}

// RetryAfter makes a RequeueAfterError of an error that the provider has returned before. Drover does not count the error again, and the Machine's
// condition keeps its text.
func RetryAfter(after time.Duration, cause error) error {
	return &RequeueAfterError{After: after, Cause: cause}
}

// AsRequeueAfter reports whether an error only asks to wait, and for how long.
func AsRequeueAfter(err error) (time.Duration, bool) {
	var wait *RequeueAfterError
	if errors.As(err, &wait) {
		return wait.After, true
	}
	return 0, false
}
