package drain

import (
	"errors"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/bounded"
)

// Outcome is what an eviction came to.
type Outcome string

// The outcomes.
const (
	// Accepted: the pod is ending.
	Accepted Outcome = "Accepted"
	// Gone: there is no such pod any more.
	Gone Outcome = "Gone"
	// Replaced: a pod of this name is another one by now, which is none of ours.
	Replaced Outcome = "Replaced"
	// BudgetSpent: the pod's PodDisruptionBudget allows no disruption now.
	BudgetSpent Outcome = "BudgetSpent"
	// BudgetUnknown: the PodDisruptionBudget is new or changed, and its status does not reflect that yet.
	BudgetUnknown Outcome = "BudgetUnknown"
	// BudgetBroken: the status of the PodDisruptionBudget makes no sense, or too many of its pods are on their way.
	BudgetBroken Outcome = "BudgetBroken"
	// SeveralBudgets: more than one PodDisruptionBudget selects the pod, which the eviction API does not support.
	SeveralBudgets Outcome = "SeveralBudgets"
	// NamespaceTerminating: the pod's namespace is being deleted, and the pod with it.
	NamespaceTerminating Outcome = "NamespaceTerminating"
	// Refused: an admission webhook asks to come back later.
	Refused Outcome = "Refused"
	// Throttled: the API server is busy.
	Throttled Outcome = "Throttled"
	// Forbidden: permissions or an admission policy do not let Drover evict the pod.
	Forbidden Outcome = "Forbidden"
	// Invalid: the API server does not understand the request, or refuses it for another reason that lasts.
	Invalid Outcome = "Invalid"
	// Failed: anything else; it may well work next time.
	Failed Outcome = "Failed"
)

// Answer is the API server's answer to an eviction.
type Answer struct {
	Outcome Outcome
	// Code is the HTTP status, 0 when there was no answer at all.
	Code int
	// Message is the server's own text; empty when the pod is ending or gone.
	Message string
	// RetryAfter is how long the server asks to wait; zero when it does not say.
	RetryAfter time.Duration
}

// Done tells that nothing is left to ask for.
func (a Answer) Done() bool {
	return a.Outcome == Accepted || a.Outcome == Gone || a.Outcome == Replaced
}

// retries is how soon to ask again, and how long at most after doubling. The status of a budget, and the pod's own events, come first.
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
	// An API server that has just started forbids everything until it has read the roles.
	Forbidden: {2 * time.Second, 5 * time.Minute},
	Invalid:   {time.Minute, 5 * time.Minute},
	Failed:    {time.Second, 15 * time.Second},
}

// maxRetryAfter bounds what the server may ask for: an admission webhook writes any number it likes.
const maxRetryAfter = time.Hour

// RetryIn is when to ask again after an answer that is the same for the nth time, counted from 1.
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

// Judge reads what the eviction API answered (kubernetes/pkg/registry/core/pod/storage/eviction.go and admission chain; the table is in
// the shared page on incumbents, section 8). Nil is success.
func Judge(err error) Answer {
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
		if cause := causeOf(err, policyv1.DisruptionBudgetCause); cause != "" {
			answer.Message = cause
		}
	}
	return answer
}

// plain are the codes that mean one thing.
var plain = map[int]Outcome{
	http.StatusNotFound: Gone, http.StatusConflict: Replaced, http.StatusBadRequest: Invalid, http.StatusUnprocessableEntity: Invalid,
	http.StatusMethodNotAllowed: Invalid,
}

func outcomeOf(err error, answer Answer) Outcome {
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
	outcome, known := plain[answer.Code]
	switch {
	case !known:
		return Failed
	case outcome == Invalid && fromWebhook(answer.Message):
		return Refused
	}
	return outcome
}

// tooMany tells the budgets' 429 from that of a webhook, and both from that of a busy API server.
func tooMany(err error, answer Answer) Outcome {
	switch budget := apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause); {
	case budget && answer.RetryAfter > 0:
		return BudgetUnknown
	case budget:
		return BudgetSpent
	case fromWebhook(answer.Message):
		return Refused
	}
	return Throttled
}

// fromWebhook tells whether an admission webhook said no: the API server puts its name in front of what it says.
func fromWebhook(message string) bool { return strings.Contains(message, "admission webhook \"") }

func causeOf(err error, kind metav1.CauseType) string {
	if cause, ok := apierrors.StatusCause(err, kind); ok {
		return cause.Message
	}
	return ""
}
