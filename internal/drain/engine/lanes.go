package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/drain"
)

const (
	// slowAnswer is how long a request occupies one of the places for requests. A request that takes longer waits for an admission webhook.
	slowAnswer = time.Second
	// maxUnanswered is how many times as many requests as there are places may be without an answer. Each takes a seat of the API server, which has some
	// 245 for all service accounts (https://kubernetes.io/docs/concepts/cluster-administration/flow-control/).
	maxUnanswered = 3
)

// lanes keep admission webhooks that do not answer from delaying the evictions of others. A request that is not answered soon gives its place to the
// next one; and of one namespace, of one node, or behind one webhook that has failed or refused before, no more than limit are in progress.
type lanes struct {
	limit  int
	places chan struct{}
	// busy counts the requests in progress of each lane, parked has the pods that wait for it. The mutex of the Queue guards them.
	busy   map[string]int
	parked map[string][]types.UID
}

func newLanes(limit int) *lanes {
	return &lanes{limit: limit, places: make(chan struct{}, limit), busy: map[string]int{}, parked: map[string][]types.UID{}}
}

// lanesOf returns the lanes of the next request for a pod.
func lanesOf(e *entry) []string {
	all := []string{"namespace " + e.task.Namespace, "node " + e.task.Node}
	if webhook := drain.WebhookOf(e.answer.Message); webhook != "" {
		all = append(all, "webhook "+webhook)
	}
	return all
}

// free reports whether a request can enter its lanes. If not, the pod waits for the first full lane.
func (l *lanes) free(e *entry, lanes []string) bool {
	for _, lane := range lanes {
		if l.busy[lane] < l.limit {
			continue
		}
		if !e.parked {
			e.parked = true
			l.parked[lane] = append(l.parked[lane], e.task.UID)
		}
		return false
	}
	return true
}

func (l *lanes) enter(lanes []string) {
	for _, lane := range lanes {
		l.busy[lane]++
	}
}

func (l *lanes) leave(lane string) {
	if l.busy[lane]--; l.busy[lane] == 0 {
		delete(l.busy, lane)
	}
}

// acquire waits for a place for a request. The place is given back by release, or when the request takes long.
func (l *lanes) acquire() (release func()) {
	l.places <- struct{}{}
	giveBack := sync.OnceFunc(func() { <-l.places })
	timer := time.AfterFunc(slowAnswer, giveBack)
	return func() {
		timer.Stop()
		giveBack()
	}
}
