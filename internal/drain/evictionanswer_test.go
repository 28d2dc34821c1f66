package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiError returns an error of the API server with a code, a cause ("" for none), a message and Retry-After in seconds.
func apiError(code int32, cause metav1.CauseType, message string, retry int32) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message, Details: &metav1.StatusDetails{RetryAfterSeconds: retry}}
	if cause != "" {
		status.Details.Causes = []metav1.StatusCause{{Type: cause, Message: "the cause: " + message}}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// causeWithoutText returns the answer of a spent budget whose cause has no message.
func causeWithoutText(message string) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Message: message}
	status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}}
	return &apierrors.StatusError{ErrStatus: status}
}

// Each answer of the eviction API (kubernetes v1.37.1, pkg/registry/core/pod/storage/eviction.go, and the admission chain).
func TestAnswerOf(t *testing.T) {
	const webhook = `admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: Evacuation in progress`
	for _, c := range []struct {
		name string
		err  error
		want Outcome
		// delay is the shortest delay until the next request.
		delay time.Duration
		text  string
	}{
		{"201", nil, Accepted, 10 * time.Second, ""},
		{"404", apiError(http.StatusNotFound, "", `pods "a" not found`, 0), Gone, 10 * time.Second, ""},
		{"409, the UID is another pod's", apiError(http.StatusConflict, "", "the UID does not match", 0), Replaced, 10 * time.Second, ""},
		{"429 of a budget", apiError(http.StatusTooManyRequests, policyv1.DisruptionBudgetCause, "needs 2 healthy pods and has 2", 0),
			BudgetSpent, time.Second, "the cause: needs 2 healthy pods and has 2"},
		{"429 of a budget that is still being processed", apiError(http.StatusTooManyRequests, policyv1.DisruptionBudgetCause, "still being processed", 10),
			BudgetUnknown, 10 * time.Second, "the cause: still being processed"},
		{"429 of a budget, with a cause without a text", causeWithoutText("needs 2 healthy pods"), BudgetSpent, time.Second, "needs 2 healthy pods"},
		{"429 of priority and fairness", apiError(http.StatusTooManyRequests, "", "too many requests", 7), Throttled, 7 * time.Second, "too many requests"},
		{"429 without any details", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusTooManyRequests}}, Throttled, time.Second, ""},
		{"429 of a webhook", apiError(http.StatusTooManyRequests, "", webhook, 0), Refused, 5 * time.Second, webhook},
		{"400 of a webhook", apiError(http.StatusBadRequest, "", webhook, 0), Refused, 5 * time.Second, webhook},
		{"500 for two budgets", apiError(http.StatusInternalServerError, "",
			"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", 0), SeveralBudgets, 30 * time.Second,
			"more than one"},
		{"403 of a webhook", apiError(http.StatusForbidden, "", webhook, 0), Refused, 5 * time.Second, webhook},
		{"500 of a webhook", apiError(http.StatusInternalServerError, "", webhook, 0), Refused, 5 * time.Second, webhook},
		{"404 of a webhook: the pod may be there", apiError(http.StatusNotFound, "", webhook, 0), Refused, 5 * time.Second, webhook},
		{"500 of a webhook that does not answer", apiError(http.StatusInternalServerError, "",
			`Internal error occurred: failed calling webhook "a.example.com": context deadline exceeded`, 0), Refused, 5 * time.Second, "deadline"},
		{"500 of the API server", apiError(http.StatusInternalServerError, "", "etcd", 0), Failed, time.Second, "etcd"},
		{"403 of an invalid budget", apiError(http.StatusForbidden, policyv1.DisruptionBudgetCause, "pdb disruptions allowed is negative", 0),
			BudgetBroken, 30 * time.Second, "negative"},
		{"403 of a namespace that is being deleted", apiError(http.StatusForbidden, corev1.NamespaceTerminatingCause, "is being terminated", 0),
			NamespaceTerminating, 30 * time.Second, "is being terminated"},
		{"403 of RBAC or a policy", apiError(http.StatusForbidden, "", "cannot create resource", 0), Forbidden, 2 * time.Second, "cannot create"},
		{"422", apiError(http.StatusUnprocessableEntity, "", "invalid", 0), Invalid, time.Minute, "invalid"},
		{"504", apiError(http.StatusGatewayTimeout, "", "couldn't update PodDisruptionBudget in time", 10), Failed, 10 * time.Second, "in time"},
		{"503", apiError(http.StatusServiceUnavailable, "", "shutting down", 0), Failed, time.Second, "shutting down"},
		{"no answer", &url.Error{Op: "Post", URL: "https://api", Err: io.ErrUnexpectedEOF}, Failed, time.Second, "unexpected EOF"},
		{"no answer in time", context.DeadlineExceeded, Failed, time.Second, "deadline"},
		{"a wrapped answer", fmt.Errorf("evicting: %w", apiError(http.StatusNotFound, "", "", 0)), Gone, 10 * time.Second, ""},
		{"any other error", errors.New("unknown"), Failed, time.Second, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := AnswerOf(c.err)
			if got.Outcome != c.want || got.RetryIn(1) != c.delay || !strings.Contains(got.Message, c.text) || (c.text == "") != (got.Message == "") {
				t.Errorf("%s, again in %s, %q; want %s, %s, %q", got.Outcome, got.RetryIn(1), got.Message, c.want, c.delay, c.text)
			}
			if done := c.want == Accepted || c.want == Gone || c.want == Replaced; got.Done() != done {
				t.Errorf("done: %v", got.Done())
			}
			if _, ok := reasonOf[c.want]; !ok && !got.Done() {
				t.Error("no reason for a pod with this answer")
			}
		})
	}
}

// The delay doubles within bounds; a longer Retry-After of the API server applies.
func TestAnswer_RetryIn(t *testing.T) {
	for outcome, bounds := range retries {
		answer, last := Answer{Outcome: outcome}, time.Duration(0)
		for times := 1; times < 20; times++ {
			wait := answer.RetryIn(times)
			if wait < last || wait > bounds[1] || times == 1 && wait != bounds[0] {
				t.Errorf("%s the %d. time: %s after %s", outcome, times, wait, last)
			}
			last = wait
		}
		if last != bounds[1] {
			t.Errorf("%s ends at %s", outcome, last)
		}
		answer.RetryAfter = time.Hour
		if answer.RetryIn(3) != time.Hour {
			t.Errorf("%s ignores Retry-After", outcome)
		}
		answer.RetryAfter = math.MaxInt32 * time.Second
		if answer.RetryIn(3) != maxRetryAfter {
			t.Errorf("%s waits for %s", outcome, answer.RetryIn(3))
		}
	}
	for _, outcome := range []Outcome{
		Accepted, Gone, Replaced, BudgetSpent, BudgetUnknown, BudgetBroken, SeveralBudgets, NamespaceTerminating, Refused, Throttled, Forbidden,
		Invalid, Failed,
	} {
		if retries[outcome][0] <= 0 {
			t.Errorf("%s is retried without a delay", outcome)
		}
	}
}
