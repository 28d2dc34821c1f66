package stale

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// grace is how old the state may be that warrants a request: no operator knows at once what another writer does.
const grace = 300 * time.Millisecond

// Request is one of the operator's writes.
type Request struct {
	*apirequest.RequestInfo

	Body []byte

	answer metav1.PartialObjectMetadata
}

// String names the request in a finding.
func (r *Request) String() string {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s %s", r.Verb, resource, r.createdName())
}

// createdName is the name of the object, also where the API server has generated it.
func (r *Request) createdName() string {
	if r.Name == "" {
		return r.answer.Name
	}
	return r.Name
}

// Judge decides of every destructive request whether the API server's true state warrants it.
type Judge struct {
	history *History

	// one lets the writes that are judged pass one after another: the state before one is that after the other.
	one sync.Mutex

	mu       sync.Mutex
	judged   int
	findings []string
}

// NewJudge returns a judge that reads the true state.
func NewJudge(history *History) *Judge { return &Judge{history: history} }

// Findings are the requests that nothing warranted, and Judged is how many were judged.
func (j *Judge) Findings() (findings []string, judged int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.findings...), j.judged
}

// judge sends a request and, when it was carried out, decides whether it was warranted. An error is for what could not be sent.
func (j *Judge) judge(ctx context.Context, r *Request, v *view, send func() (*Answer, error)) (*Answer, error) {
	if j == nil {
		return send()
	}
	w := warrantOf(r)
	if w == nil {
		answer, err := send()
		j.note(r, answer)
		return answer, err
	}
	// A request that waits here was decided before it came.
	came := time.Now()
	j.one.Lock()
	defer j.one.Unlock()
	// What the operator has done is judged also when it is killed meanwhile.
	ctx = context.WithoutCancel(ctx)
	before, err := j.history.Now(ctx, w.needs...)
	if err != nil {
		return nil, err
	}
	// Before it is sent: what it makes is one of the operator's own writes, and must not warrant it.
	known := j.known(w, v, came)
	answer, err := send()
	if err != nil || answer.Code >= 300 {
		return answer, err
	}
	j.note(r, answer)
	after, err := j.history.Now(ctx, w.needs...)
	if err != nil {
		return nil, err
	}
	j.decide(w, r, before, known, after)
	return answer, nil
}

// note records what a write of the operator made, which distinguishes its own writes from others'.
func (j *Judge) note(r *Request, answer *Answer) {
	if answer == nil || answer.Code >= 300 || json.Unmarshal(answer.Body, &r.answer) != nil {
		return
	}
	j.history.wrote(r.answer.ResourceVersion)
	if r.Verb == "delete" {
		uid := r.answer.UID
		if details := (metav1.Status{}); uid == "" && json.Unmarshal(answer.Body, &details) == nil && details.Details != nil {
			uid = details.Details.UID
		}
		j.history.deleted(uid)
	}
}

// known is what the operator could know when the request came: what the view shows of its kind, the others as at any moment shortly before, and its
// own writes.
func (j *Judge) known(w *warrant, v *view, came time.Time) []Objects {
	var all []Objects
	own := time.Now()
	for _, moment := range j.history.moments(came.Add(-grace), came, w.needs...) {
		if !w.counts {
			own = moment
		}
		all = append(all, j.history.Known(func(kind schema.GroupVersionResource) time.Time {
			if kind.GroupResource() != v.resource {
				return moment
			}
			if since := v.hidden(came); !since.IsZero() && since.Before(moment) {
				return since.Add(-v.delay)
			}
			return moment.Add(-v.delay)
		}, own, w.needs...))
	}
	return all
}

// decide compares a request with the state before it, and with what the operator could know of that.
func (j *Judge) decide(w *warrant, r *Request, before Objects, known []Objects, after Objects) {
	made, err := stateOf(after)
	if err != nil {
		j.find("%s cannot be judged: %v", r, err)
		return
	}
	j.mu.Lock()
	j.judged++
	j.mu.Unlock()
	var why error
	for i, objects := range append([]Objects{before}, known...) {
		state, err := stateOf(objects)
		if err != nil {
			j.find("%s cannot be judged: %v", r, err)
			return
		}
		refusal := w.check(r, state, made)
		if refusal == nil {
			return
		}
		if i == 0 {
			why = refusal
		}
	}
	j.find("%s was not warranted: %v", r, why)
}

func (j *Judge) find(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.findings = append(j.findings, fmt.Sprintf(format, args...))
}
