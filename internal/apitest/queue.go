package apitest

import (
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue shows what the watches of a controller enqueue. It has no other method of a queue.
type Queue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	// Text is how an item is shown; nil is by the name of its object.
	Text func(name string, options priorityqueue.AddOpts) string

	added []string
}

// AddWithOpts enqueues items.
func (q *Queue) AddWithOpts(options priorityqueue.AddOpts, items ...reconcile.Request) {
	for _, item := range items {
		text := item.Name
		if q.Text != nil {
			text = q.Text(item.Name, options)
		}
		q.added = append(q.added, text)
	}
}

// Take returns what was enqueued since the last call, sorted.
func (q *Queue) Take() string {
	text := strings.Join(slices.Sorted(slices.Values(q.added)), " ")
	q.added = nil
	return text
}

// TakeOnce is Take with each item once, as a queue has it.
func (q *Queue) TakeOnce() string {
	slices.Sort(q.added)
	q.added = slices.Compact(q.added)
	return q.Take()
}
