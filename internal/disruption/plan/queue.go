package plan

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// maxWait is how long a request waits for others with a higher rank. Then it is next.
const maxWait = time.Hour

// order has the ranks of capabilities behind a person's requests.
var order = []v1alpha1.Capability{
	v1alpha1.CapabilityRemediation, v1alpha1.CapabilityMaintenance, v1alpha1.CapabilityUpgrade, v1alpha1.CapabilityMetadata,
	v1alpha1.CapabilityReplacement,
}

// IsCapability reports whether a text names a capability.
func IsCapability(capability v1alpha1.Capability) bool { return slices.Contains(order, capability) }

// rank orders requests that began to wait at the same time; the lowest rank comes first.
func (r *Request) rank() int {
	if r.Person {
		return 0
	}
	if at := slices.Index(order, r.Capability); at >= 0 {
		return at + 1
	}
	return len(order)
}

// Key identifies a request, whatever else has changed in it.
func (r *Request) Key() Key { return Key{r.Node, r.Capability, r.Object, r.ObjectUID} }

// Keys returns the keys that the requests for an object may have: a Machine may have had no Node at first.
func (r *Request) Keys() []Key { return []Key{r.Key(), r.keyWithoutNode()} }

// keyWithoutNode returns the key that the request had while its Machine had no Node. If its object is not a Machine, it returns the zero Key, which
// no request has.
func (r *Request) keyWithoutNode() Key {
	if !isMachine(r.Object) {
		return Key{}
	}
	return Key{r.Object, r.Capability, r.Object, r.ObjectUID}
}

// Key identifies a request, and the disruption that it asks for.
type Key struct {
	Node       string
	Capability v1alpha1.Capability
	Object     string
	ObjectUID  types.UID
}

// compare orders requests of one rank.
func compare(a, b Request) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Capability, b.Capability),
		cmp.Compare(a.ObjectUID, b.ObjectUID))
}

// Queue has the requests of a group that wait. The zero value is empty.
type Queue struct {
	byKey map[Key]Request
	ranks [][]Request
}

// Put adds a request. A request that waits already keeps its age.
func (q *Queue) Put(r Request) {
	if q.byKey == nil {
		q.byKey, q.ranks = map[Key]Request{}, make([][]Request, len(order)+1)
	}
	if waiting, found := q.byKey[r.Key()]; found {
		if waiting.Since.Before(r.Since) {
			r.Since = waiting.Since
		}
		q.Remove(r.Key())
	}
	q.byKey[r.Key()] = r
	rank := &q.ranks[r.rank()]
	at, _ := slices.BinarySearchFunc(*rank, r, compare)
	*rank = slices.Insert(*rank, at, r)
}

// Remove removes a request.
func (q *Queue) Remove(key Key) {
	r, found := q.byKey[key]
	if !found {
		return
	}
	delete(q.byKey, key)
	rank := &q.ranks[r.rank()]
	if at, found := slices.BinarySearchFunc(*rank, r, compare); found {
		*rank = slices.Delete(*rank, at, at+1)
	}
}

// Get returns a request that waits.
func (q *Queue) Get(key Key) (Request, bool) {
	r, found := q.byKey[key]
	return r, found
}

// Len returns how many requests wait.
func (q *Queue) Len() int { return len(q.byKey) }

// All returns the requests in the order of their turns: first, by age, the requests that have waited for an hour, then the others by rank and age.
func (q *Queue) All(now time.Time) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		rest := slices.Clone(q.ranks)
		for {
			next := -1
			for rank := range rest {
				switch {
				case len(rest[rank]) == 0:
				case next < 0:
					next = rank
				case !isAged(&rest[rank][0], now):
				case !isAged(&rest[next][0], now) || compare(rest[rank][0], rest[next][0]) < 0:
					next = rank
				}
			}
			if next < 0 || !yield(rest[next][0]) {
				return
			}
			rest[next] = rest[next][1:]
		}
	}
}

// before reports whether a request has its turn before another one.
func before(a, b *Request, now time.Time) bool {
	switch first, second := isAged(a, now), isAged(b, now); {
	case first != second:
		return first
	case first:
		return compare(*a, *b) < 0
	}
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), compare(*a, *b)) < 0
}

func isAged(r *Request, now time.Time) bool { return now.Sub(r.Since) >= maxWait }
