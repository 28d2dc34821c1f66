package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

// DefaultGuardTimeout is how long the evictions from a Node may take where spec.rollout.noExecute does not say.
const DefaultGuardTimeout = 30 * time.Minute

// The bounds of the time between two attempts to evict the Pods of a Node.
const (
	minGuardRetry = time.Minute
	maxGuardRetry = 6 * time.Hour
)

// GuardTimeout returns how long the evictions from a Node may take.
func GuardTimeout(settings *v1alpha1.NoExecute) time.Duration {
	if settings.Timeout != nil {
		return settings.Timeout.Duration
	}
	return DefaultGuardTimeout
}

// NextTimeout returns what is recorded when the Pods of a Node have not left within a timeout. before is what was recorded after the last attempt,
// nil for none. The time to the next attempt is as long as the timeout at first, and doubles with each attempt: a Node that is blocked for long
// takes a place in the budget of its group ever more seldom.
func NextTimeout(before *ownership.Timeout, timeout time.Duration, pod string, now time.Time) *ownership.Timeout {
	next := &ownership.Timeout{Attempts: 1, Pod: pod}
	if before != nil {
		next.Attempts = before.Attempts + 1
	}
	delay := min(max(timeout, minGuardRetry), maxGuardRetry)
	for i := 1; i < next.Attempts && delay < maxGuardRetry; i++ {
		delay = min(2*delay, maxGuardRetry)
	}
	next.Retry = now.Add(delay).Unix()
	return next
}

// TimeoutOf returns what is recorded on a Node about Pods that did not leave in time for the taints that are declared now; nil for none.
func (d *Declaration) TimeoutOf(annotations map[string]string, protected ownership.Protected, now time.Time) *ownership.Timeout {
	if d.Guarded.Len() == 0 {
		return nil
	}
	record, err := ownership.ParseGroupRecord(annotations[ownership.AnnotationGroupRecord])
	if err != nil {
		return nil
	}
	return d.timeoutIn(&record, protected, now)
}

// timeoutIn is TimeoutOf for a parsed record. A change of the group, or of the taints of the MachineSet, ends the wait for the next attempt. If the
// time is further away than any attempt, it was forged, or a wrong clock has set it.
func (d *Declaration) timeoutIn(record *ownership.Record, protected ownership.Protected, now time.Time) *ownership.Timeout {
	t := record.Timeout
	switch {
	case t == nil, record.Source != d.Key.Name, record.Generation != d.Generation, time.Unix(t.Retry, 0).Sub(now) > maxGuardRetry:
		return nil
	case strings.TrimSuffix(record.Digest, announced) != d.digest(protected):
		return nil
	}
	return t
}

// timeoutText says which Pod keeps taints from being set; empty for none.
func timeoutText(t *ownership.Timeout) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("Pod %s, which does not tolerate it, did not leave in time (attempt %d); Drover evicts again from %s on", t.Pod, t.Attempts,
		time.Unix(t.Retry, 0).UTC().Format(time.RFC3339))
}
