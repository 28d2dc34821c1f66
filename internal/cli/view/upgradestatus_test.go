package view

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

func TestElapsed(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	for name, c := range map[string]struct {
		node  mutex.NodeStatus
		want  time.Duration
		known bool
	}{
		"not started": {mutex.NodeStatus{Phase: mutex.NodePending}, 0, false},
		"upgrading":   {mutex.NodeStatus{Phase: mutex.NodeUpgrading, Started: at(2 * time.Hour)}, 2 * time.Hour, true},
		"done": {
			mutex.NodeStatus{Phase: mutex.NodeDone, Started: at(time.Hour), Finished: at(time.Minute)}, 59 * time.Minute, true,
		},
		"done, but it is not known when": {mutex.NodeStatus{Phase: mutex.NodeDone, Started: at(time.Hour)}, 0, false},
	} {
		if got, known := Elapsed(&c.node, now); got != c.want || known != c.known {
			t.Errorf("%s: %s %t", name, got, known)
		}
	}
}
