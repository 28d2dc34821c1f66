package grouplayer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/drain"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// timeOut ends an attempt to evict the Pods of a Node that has taken too long. Its place in the budget and its lease are for others until the next
// attempt; the Node's record, which is written next, says when that is.
func (rc *reconciliation) timeOut(ctx context.Context, report *drain.Report, timeout time.Duration) (verdict, error) {
	rc.withdraw(rc.Node.Name)
	if err := rc.release(ctx); err != nil {
		return verdict{}, err
	}
	next := metadataplan.NextTimeout(rc.timeout(), timeout, report.Stuck(), rc.now)
	rc.state.timedOut, rc.state.timedOutRevision = next, rc.timeoutRevision()
	rc.Recorder.Eventf(rc.Node, corev1.EventTypeWarning, EventTimeout,
		"Pods that do not tolerate the taints of NodeGroup %s did not leave within %s; Drover evicts again from %s on: %s",
		rc.groupName(), timeout, time.Unix(next.Retry, 0).UTC().Format(time.RFC3339), report.Text())
	return rc.untilRetry(next), nil
}

// awaitRetry waits after a timeout. What a process before this one has not released it releases.
func (rc *reconciliation) awaitRetry(ctx context.Context) (v verdict, err error) {
	t := rc.timeout()
	if t == nil || !rc.now.Before(time.Unix(t.Retry, 0)) {
		return v, nil
	}
	rc.withdraw(rc.Node.Name)
	return rc.untilRetry(t), rc.release(ctx)
}

func (rc *reconciliation) untilRetry(t *ownership.Timeout) verdict {
	v := verdict{waits: true}
	v.requeue.In(time.Unix(t.Retry, 0).Sub(rc.now))
	return v
}

// timedOut returns what this process has found out about Pods that did not leave in time; nil for nothing.
func (rc *reconciliation) timedOut() *ownership.Timeout {
	if rc.Group == nil || rc.state.timedOutRevision != rc.timeoutRevision() {
		return nil
	}
	return rc.state.timedOut
}

// timeoutRevision identifies what a timeout is about: a change of the group, or of what the Node is to carry for it, ends the wait.
func (rc *reconciliation) timeoutRevision() string {
	return fmt.Sprintf("%d/%s", rc.Group.Generation, rc.Declaration().Revision)
}

// timeout is timedOut, or what the Node's record says.
func (rc *reconciliation) timeout() *ownership.Timeout {
	return cmp.Or(rc.timedOut(), rc.Declaration().TimeoutOf(rc.Node.Annotations, rc.options.Protected, rc.now))
}
