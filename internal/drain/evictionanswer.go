package drain

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/internal/bounded"
)

// Outcome is the result of an eviction.
type Outcome string

// The outcomes.
const (
	// Accepted: the pod is terminating.
	Accepted Outcome = "Accepted"
	// Gone: the pod does not exist any more.
	Gone Outcome = "Gone"
	// Replaced: the pod of this name has another UID; it must not be evicted.
	Replaced Outcome = "Replaced"
	// BudgetSpent: the pod's PodDisruptionBudget allows no disruption now.
	BudgetSpent Outcome = "BudgetSpent"
	// BudgetUnknown: the status of the PodDisruptionBudget does not reflect its spec yet.
	BudgetUnknown Outcome = "BudgetUnknown"
	// BudgetBroken: the status of the PodDisruptionBudget is invalid, or has too many disrupted pods.
	BudgetBroken Outcome = "BudgetBroken"
	// SeveralBudgets: more than one PodDisruptionBudget selects the pod, which the eviction API does not support.
	SeveralBudgets Outcome = "SeveralBudgets"
	// NamespaceTerminating: the pod's namespace is being deleted, and the pod with it.
	NamespaceTerminating Outcome = "NamespaceTerminating"
	// Refused: an admission webhook denies the eviction for now.
	Refused Outcome = "Refused"
	// Throttled: the API server limits requests.
	Throttled Outcome = "Throttled"
	// Forbidden: permissions or an admission policy do not let Drover evict the pod.
	Forbidden Outcome = "Forbidden"
	// Invalid: the API server rejects the request as invalid.
	Invalid Outcome = "Invalid"
	// Failed: any other error; the next attempt may succeed.
	Failed Outcome = "Failed"
)

// Answer is the API server's answer to an eviction.
type Answer struct {
	Outcome Outcome
	// Code is the HTTP status, 0 when there was no answer at all.
	Code int
	// Message is the text of the API server; empty when the pod is terminating or gone.
	Message string
	// RetryAfter is the delay that the API server requests; zero for none.
	RetryAfter time.Duration
}

// Done reports whether the eviction needs no further request.
func (a Answer) Done() bool {
	return a.Outcome == Accepted || a.Outcome == Gone || a.Outcome == Replaced
}

// retries has the first and the longest delay until the next request; the delay doubles. Events of the pod and its budget usually come first.
var retries = map[Outcome][2]time.Duration{
	Accepted:             {10 * time.Second, 10 * time.Second},
	Gone:                 {10 * time.Second, 10 * time.Second},
	Replaced:             {10 * time.Second, 10 * time.Second},
	BudgetSpent:          {time.Second, time.Minute},
	BudgetUnknown:        {10 * time.Second, time.Minute},
	BudgetBroken:         {30 * time.Second, 5 * time.Minute},
	SeveralBudgets:       {30 * time.Second, 5 * time.Minute},
	NamespaceTerminating: {30 * time.Second, 5 * time.Minute},
	Refused:              {5 * time.Second, time.Minute},
	Throttled:            {time.Second, 30 * time.Second},
	// An API server that has just started denies every request until it has read the roles.
	Forbidden: {2 * time.Second, 5 * time.Minute},
	Invalid:   {time.Minute, 5 * time.Minute},
	Failed:    {time.Second, 15 * time.Second},
}

// maxRetryAfter bounds Answer.RetryAfter: an admission webhook may return any number.
const maxRetryAfter = time.Hour

// RetryIn returns the delay until the next request after the same answer for the nth time, counted from 1.
func (a Answer) RetryIn(times int) time.Duration {
	bounds := retries[a.Outcome]
	wait := bounds[0]
	for range times - 1 {
		if wait *= 2; wait >= bounds[1] {
			wait = bounds[1]
			break
		}
	}
	return max(wait, min(a.RetryAfter, maxRetryAfter))
}

// AnswerOf classifies an answer of the eviction API; nil is success. The errors come from Kubernetes' pkg/registry/core/pod/storage/eviction.go and
// from the admission chain.
func AnswerOf(err error) Answer {
	if err == nil {
		return Answer{Outcome: Accepted, Code: http.StatusCreated}
	}
	answer := Answer{Outcome: Failed, Message: err.Error()}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return answer
	}
	answer.Code = int(status.Status().Code)
	if details := status.Status().Details; details != nil {
		answer.RetryAfter = bounded.Seconds(details.RetryAfterSeconds)
	}
	answer.Outcome = outcomeOf(err, answer)
	switch answer.Outcome {
	case Gone, Replaced:
		answer.Message = ""
	case BudgetSpent, BudgetUnknown:
		if cause, found := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); found && cause.Message != "" {
			answer.Message = cause.Message
		}
	}
	return answer
}

// plain has the outcome of each code that has only one.
var plain = map[int]Outcome{
	http.StatusNotFound: Gone, http.StatusConflict: Replaced, http.StatusBadRequest: Invalid, http.StatusUnprocessableEntity: Invalid,
	http.StatusMethodNotAllowed: Invalid,
}

func outcomeOf(err error, answer Answer) Outcome {
	if WebhookOf(answer.Message) != "" {
		return Refused
	}
	switch answer.Code {
	case http.StatusTooManyRequests:
		return tooMany(err, answer)
	case http.StatusForbidden:
		switch {
		case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
			return BudgetBroken
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return NamespaceTerminating
		}
		return Forbidden
	case http.StatusInternalServerError:
		if strings.Contains(answer.Message, "more than one PodDisruptionBudget") {
			return SeveralBudgets
		}
		return Failed
	}
	if outcome, known := plain[answer.Code]; known {
		return outcome
	}
	return Failed
}

// tooMany returns the outcome of code 429, which budgets, webhooks and API priority and fairness return.
func tooMany(err error, answer Answer) Outcome {
	switch budget := apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause); {
	case budget && answer.RetryAfter > 0:
		return BudgetUnknown
	case budget:
		return BudgetSpent
	}
	return Throttled
}

// webhookText is how the API server names the webhook that denies a request, or that does not answer or answers with an error: the text of the
// webhook follows (staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go of https://github.com/kubernetes/kubernetes).
var webhookText = regexp.MustCompile(`(?:admission webhook|failed calling webhook) "([^"]+)"`)

// WebhookOf returns the name of the admission webhook that a message is about; empty for none.
func WebhookOf(message string) string {
	if match := webhookText.FindStringSubmatch(message); match != nil {
		return match[1]
	}
	return ""
}
