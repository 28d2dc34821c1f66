package controller

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/status"
)

// Outcome is when an object is reconciled again after one or more steps of a reconciliation. The zero value is after an event.
type Outcome struct {
	// Requeue is when the object is reconciled again without an event.
	Requeue Requeue
	// Conflict reports that a guard failed: another writer has changed an object since it was observed, or deleted it.
	Conflict bool
	// Err is what the controller retries with its backoff.
	Err error
}

// Failed returns the outcome of a request that may have failed. After a conflict, or when its object is gone, an event shows why.
func Failed(err error) Outcome {
	switch status.Classify(err) {
	case status.Stale, status.Gone:
		return Outcome{Conflict: true}
	}
	return Outcome{Err: err}
}

// Waiting returns the outcome of a step that is tried again after a delay.
func Waiting(delay time.Duration) (out Outcome) {
	out.Requeue.In(delay)
	return out
}

// And returns the outcome of two steps together.
func (o Outcome) And(next Outcome) Outcome {
	o.Requeue.Merge(next.Requeue)
	return Outcome{Requeue: o.Requeue, Conflict: o.Conflict || next.Conflict, Err: errors.Join(o.Err, next.Err)}
}

// Result returns what Reconcile returns for an object. An error has the controller back off. After a conflict the object is reconciled again shortly:
// the event that shows why is on its way. Otherwise the object is reconciled as asked for.
func (o Outcome) Result(key types.NamespacedName, conflicts *Conflicts) (reconcile.Result, error) {
	if o.Conflict && o.Err == nil {
		return reconcile.Result{RequeueAfter: conflicts.Next(key)}, nil
	}
	conflicts.Forget(key)
	if o.Err != nil {
		return reconcile.Result{}, o.Err
	}
	return reconcile.Result{RequeueAfter: o.Requeue.Delay()}, nil
}
