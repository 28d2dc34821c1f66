// Package status holds what all controllers share when they report: the classes of errors and the way events are written.
package status

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Class says what a controller does about a failed write (CONTRIBUTING.md, rule 5).
type Class string

// The classes of the API server's answers.
const (
	// OK: there was no error.
	OK Class = "ok"
	// Stale: the decision was made on an older object. Decide again when the cache has moved on; it needs no event.
	Stale Class = "conflict"
	// Gone: the object does not exist any more, so there is nothing left to do.
	Gone Class = "gone"
	// Denied: the request will fail again until a person changes something: validation, admission, authorisation.
	Denied Class = "denied"
	// Transient: try again with back-off.
	Transient Class = "error"
)

// Classify returns the class of an error that a write returned. Nil is OK.
func Classify(err error) Class {
	switch {
	case err == nil:
		return OK
	case apierrors.IsConflict(err), patchTestFailed(err):
		return Stale
	case apierrors.IsNotFound(err):
		return Gone
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		apierrors.IsMethodNotSupported(err):
		return Denied
	}
	return Transient
}

// patchTestFailed recognises a JSON Patch whose `test` did not hold, or whose path was gone. The API server answers 422 as for an
// invalid object, but names no object and no field, since it never got as far as validation.
func patchTestFailed(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details == nil || details.Kind == "" && !hasField(details.Causes)
}

func hasField(causes []metav1.StatusCause) bool {
	for _, cause := range causes {
		if cause.Field != "" {
			return true
		}
	}
	return false
}
