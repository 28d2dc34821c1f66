package machineset

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// state is what the controller knows of a MachineSet between reconciliations.
type state struct {
	// unverified reports that a request was not answered: it may have been carried out, whatever the cache shows.
	unverified bool
	// creating and deleting are the backoffs of failed creations and deletions.
	creating, deleting backoff
	// refused are the Machines that the API server did not let Drover adopt or release.
	refused map[types.UID]refusal
	// unanswered are the names of Machines whose creation was not answered: they may exist. The next creation uses these names first.
	unanswered []string
	// attempt is the attempt of the replacement that is created next; zero for none.
	attempt int
}

func newState() *state { return &state{refused: map[types.UID]refusal{}} }

// refusal is a Machine that the API server did not let Drover adopt or release, and when the next attempt is due.
type refusal struct {
	until   time.Time
	message string
}

// refusals returns the Machines whose next attempt is not due yet.
func (s *state) refusals(now time.Time) map[types.UID]bool {
	maps.DeleteFunc(s.refused, func(_ types.UID, r refusal) bool { return !r.until.After(now) })
	refused := make(map[types.UID]bool, len(s.refused))
	for uid := range s.refused {
		refused[uid] = true
	}
	return refused
}

// The delays of failed creations and deletions: after a transient error, after a denial, and the longest of both.
const minBackoff, minDenied, maxBackoff = 100 * time.Millisecond, time.Second, time.Minute

// tolerance is how many transient errors in a row are not reported: an API server may restart.
const tolerance = 3

// backoff delays the next attempt of requests that fail. The zero value delays nothing.
type backoff struct {
	failures   int
	until      time.Time
	generation int64
	failure    plan.Failure
	denied     bool
}

// fail records a failure and sets when the next attempt is due.
func (b *backoff) fail(class status.Class, failure plan.Failure, generation int64, now time.Time) {
	b.failures++
	b.generation, b.failure, b.denied = generation, failure, class == status.Denied
	delay := minBackoff
	if b.denied {
		delay = minDenied
	}
	for range b.failures - 1 {
		if delay *= 2; delay >= maxBackoff {
			delay = maxBackoff
			break
		}
	}
	b.until = now.Add(delay)
}

// delay returns how long the next attempt is not due; zero when it is. A MachineSet that was changed since is tried at once: the change may correct
// what failed.
func (b *backoff) delay(generation int64, now time.Time) time.Duration {
	if b.failures == 0 || b.generation != generation {
		return 0
	}
	return max(b.until.Sub(now), 0)
}

// reported returns the failure for the status; nil when there is none to report.
func (b *backoff) reported() *plan.Failure {
	if b.failures == 0 || !b.denied && b.failures < tolerance {
		return nil
	}
	return &b.failure
}
