package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// answer is an error as client-go makes it of an API server's answer.
func answer(code int32, reason metav1.StatusReason, details *metav1.StatusDetails) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Details: details}}
}

func TestClassify(t *testing.T) {
	node, kind := schema.GroupResource{Resource: "nodes"}, schema.GroupKind{Kind: "Node"}
	faults := field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), "-", "must start with a letter")}
	for _, c := range []struct {
		name string
		err  error
		want Class
	}{
		{"no error", nil, OK},
		{"a merge patch for another resourceVersion", apierrors.NewConflict(node, "n", errors.New("the object has been modified")), Stale},
		{"a JSON patch whose test did not hold, as the API server words it",
			answer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Message: "testing value /metadata/labels/a failed"}},
			}), Stale},
		{"the same without causes", answer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, &metav1.StatusDetails{}), Stale},
		{"the same without details", answer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, nil), Stale},
		{"the same from a generic answer", apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{}, "",
			"the server rejected our request due to an error in our request", 0, false), Stale},
		{"a wrapped one", fmt.Errorf("patching: %w", apierrors.NewConflict(node, "n", nil)), Stale},
		{"the object is gone", apierrors.NewNotFound(node, "n"), Gone},
		{"an object that validation refuses", apierrors.NewInvalid(kind, "n", faults), Denied},
		{"an object that validation refuses without naming a field", apierrors.NewInvalid(kind, "n", nil), Denied},
		{"a field named, a kind not", answer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Message: "x"}, {Field: "spec.taints"}},
		}), Denied},
		{"admission or RBAC", apierrors.NewForbidden(node, "n", errors.New("denied by policy")), Denied},
		{"a request that makes no sense", apierrors.NewBadRequest("cannot unmarshal"), Denied},
		{"more annotations than fit", apierrors.NewRequestEntityTooLargeError("limit is 3145728"), Denied},
		{"patch is not served", apierrors.NewMethodNotSupported(node, "patch"), Denied},
		{"too many requests", apierrors.NewTooManyRequests("slow down", 1), Transient},
		{"a timeout of the server", apierrors.NewServerTimeout(node, "patch", 1), Transient},
		{"a timeout of the request", apierrors.NewTimeoutError("etcd", 1), Transient},
		{"the server restarts", apierrors.NewServiceUnavailable("shutting down"), Transient},
		{"an internal error, as from a webhook that does not answer", apierrors.NewInternalError(errors.New("failed calling webhook")), Transient},
		{"a token that has just run out", apierrors.NewUnauthorized("expired"), Transient},
		{"the connection breaks", &url.Error{Op: "Patch", URL: "https://api", Err: io.ErrUnexpectedEOF}, Transient},
		{"the process stops", context.Canceled, Transient},
		{"anything else", errors.New("what?"), Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Classify(c.err); got != c.want {
				t.Errorf("%v is %s, want %s", c.err, got, c.want)
			}
		})
	}
}

// The words are labels of a metric: dashboards depend on them.
func TestClassesAreStableWords(t *testing.T) {
	if got, want := fmt.Sprint([]Class{OK, Stale, Gone, Denied, Transient}), "[ok conflict gone denied error]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
