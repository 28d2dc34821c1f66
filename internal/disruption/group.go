package disruption

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
)

// group is what is known of a NodeGroup. Nothing in it is needed for a correct decision by the next process.
type group struct {
	name string
	// locked is full while one request is decided and its admission written. Without it, those who decide at the same time would all write, and all but
	// one get a conflict.
	locked chan struct{}

	view view
	// latest is the answer to the last own write.
	latest *v1alpha1.NodeGroup
	// lineage has the versions that the last own writes have made.
	lineage lineage
	// admitted has when the admissions of this process were written, on a clock that does not jump, and ended when their work was over.
	admitted, ended map[plan.Key]time.Time
	// disrupted are the Nodes that were disrupted when the group was last observed. returned are the Nodes that are not disrupted any more.
	disrupted map[string]types.UID
	returned  map[string]returned
	// queue has the requests that wait, expires when each of them is given up unless it is made again.
	queue   plan.Queue
	expires map[plan.Key]time.Time
	// changed is called when another number of requests waits.
	changed func()
	// remediated is when this process last admitted a remediation, nil for never, and of the UID of the group then. earlier is when the one before
	// began, and withdrawn when the last one was admitted if it has not begun.
	remediated, earlier, withdrawn *metav1.Time
	of                             types.UID
}

// returned is since when a Node is not disrupted any more.
type returned struct {
	uid types.UID
	at  time.Time
}

// newGroup returns a group; changed is called when another number of requests waits.
func newGroup(name string, changed func()) *group {
	return &group{
		name: name, changed: changed, locked: make(chan struct{}, 1),
		admitted: map[plan.Key]time.Time{}, ended: map[plan.Key]time.Time{}, returned: map[string]returned{}, expires: map[plan.Key]time.Time{},
	}
}

// lock waits until no other request of the group is being decided, which takes no longer than a few times callTimeout for each that is first.
func (g *group) lock(ctx context.Context) error {
	select {
	case g.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *group) unlock() { <-g.locked }

// decide decides about a request, and queues it unless it is admitted.
func (g *group) decide(in *plan.Input, request *plan.Request) plan.Answer {
	if request.Since.IsZero() {
		request.Since = in.Now
	}
	key := request.Key()
	if waiting, found := g.queue.Get(key); found && waiting.Since.Before(request.Since) {
		request.Since = waiting.Since
	}
	answer := plan.Admit(in, request)
	if answer.Allowed {
		g.drop(key)
		return answer
	}
	waiting := g.queue.Len()
	g.queue.Put(*request)
	if g.queue.Len() != waiting {
		g.changed()
	}
	g.expires[key] = in.Now.Add(answer.After + plan.Patience)
	return answer
}

// remembering returns an observed group whose last remediation is no earlier than the remediation that this process has admitted, and not far ahead.
// So another writer of the status cannot end the interval after it. A remediation that has not begun is not the last one.
func (g *group) remembering(observed *v1alpha1.NodeGroup, now time.Time) *v1alpha1.NodeGroup {
	last := observed.Status.LastRemediationTime
	isRecorded := g.remediated == nil || last != nil && !last.Before(g.remediated) && last.Time.Sub(now) < plan.AdmissionTime
	if g.of != observed.UID || isRecorded && (last == nil || !last.Equal(g.withdrawn)) {
		return observed
	}
	corrected := *observed
	corrected.Status.LastRemediationTime = g.remediated
	return &corrected
}

// remediate records when a remediation was admitted in an observed group.
func (g *group) remediate(observed *v1alpha1.NodeGroup, at *metav1.Time) {
	g.of, g.earlier, g.remediated, g.withdrawn = observed.UID, observed.Status.LastRemediationTime, at, nil
}

// withdraw takes back the time of an admission whose work has not begun.
func (g *group) withdraw(admission *v1alpha1.Reservation) {
	if admission.Capability == v1alpha1.CapabilityRemediation && g.remediated.Equal(&admission.Time) {
		g.remediated, g.withdrawn = g.earlier, &admission.Time
	}
}

// sweep removes the queued requests that were not made again in time.
func (g *group) sweep(now time.Time) {
	maps.DeleteFunc(g.expires, func(key plan.Key, at time.Time) bool {
		if now.Before(at) {
			return false
		}
		g.queue.Remove(key)
		g.changed()
		return true
	})
}

// drop removes requests from the queue.
func (g *group) drop(keys ...plan.Key) {
	waiting := g.queue.Len()
	for _, key := range keys {
		g.queue.Remove(key)
		delete(g.expires, key)
	}
	if g.queue.Len() != waiting {
		g.changed()
	}
}

// admit records when an admission was written.
func (g *group) admit(key plan.Key, now time.Time) {
	for _, times := range []map[plan.Key]time.Time{g.admitted, g.ended} {
		maps.DeleteFunc(times, func(_ plan.Key, at time.Time) bool { return now.Sub(at) >= plan.AdmissionTime })
	}
	g.admitted[key] = now
	delete(g.ended, key)
}

// view has the members of a group as they were counted last. To count 5,000 Nodes for each decision would take too long, and few of them change from
// one to the next.
type view struct {
	taints  []string
	nodes   []*corev1.Node
	members *plan.Members
}

// update counts what has changed since the last call. The cache replaces a Node that changes, and never changes one.
func (v *view) update(nodes []*corev1.Node, taints []string) *plan.Members {
	if v.members == nil || !slices.Equal(v.taints, taints) {
		*v = view{taints: slices.Clone(taints), members: plan.NewMembers()}
	}
	gone, come := difference(v.nodes, nodes)
	for _, node := range gone {
		v.members.Remove(node.Name)
	}
	for _, node := range come {
		v.members.Add(plan.MemberOf(node, taints))
	}
	if len(gone) > 0 || len(come) > 0 {
		v.nodes = slices.Clone(nodes)
	}
	return v.members
}

// difference returns what a list has lost and gained. Where the order has changed, a Node is in both.
func difference(before, after []*corev1.Node) (gone, come []*corev1.Node) {
	for len(before) > 0 && len(after) > 0 {
		a, b := before[0], after[0]
		if a != b && a.Name <= b.Name {
			gone = append(gone, a)
		}
		if a != b && b.Name <= a.Name {
			come = append(come, b)
		}
		if a == b || a.Name <= b.Name {
			before = before[1:]
		}
		if a == b || b.Name <= a.Name {
			after = after[1:]
		}
	}
	return append(gone, before...), append(come, after...)
}
