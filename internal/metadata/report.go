package metadata

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// report notes where the Machine stands, and sends the events for what is new and returns it.
func (p *pass) report(ctx context.Context, state plan.State) news {
	s := p.sight(state)
	s.problems = p.decision.Problems
	n := p.ledger.record(s, p.clock.Now())
	if n.moved && s.waiting && nodeName(p.machine) != "" {
		// The incumbent counts a Node that is gone as a failure, each time it looks.
		p.failure()
	}
	p.tell(ctx, n)
	return n
}

// unfinished notes where the Machine stands while a write is still to be made; its problems are told when it is.
func (p *pass) unfinished(state plan.State) news {
	s := p.sight(state)
	s.unfinished = true
	return p.ledger.record(s, p.clock.Now())
}

func (p *pass) sight(state plan.State) sight {
	s := sight{
		machine: p.key, state: state,
		waiting: state == plan.Pending && (p.node == nil || p.node.DeletionTimestamp != nil),
		wrote:   p.wroteMachine || p.wroteNode && !p.decision.Drift,
	}
	if p.declared != nil {
		s.pool = p.declared.pool
	}
	return s
}

// tell sends events for what a pass found new. What was there before the process started is not news, unless this pass wrote for it.
func (p *pass) tell(ctx context.Context, n news) {
	if p.declared == nil {
		return
	}
	recent := !p.ledger.since(p.declared.pool.Key).IsZero() || p.wroteMachine || p.wroteNode
	if !n.first || recent {
		p.tellProblems(n)
	}
	if n.finished {
		p.notices.normal(p.declared.set, EventSynced, "%s", finished(n, p.declared.pool.Generation))
		log.FromContext(ctx).Info("roll-out complete", "machineset", p.declared.pool.Key.String(), "generation", p.declared.pool.Generation,
			"machines", n.total, "conflicts", n.conflicts, "waiting", n.waiting, "seconds", n.took.Seconds())
	}
}

func (p *pass) tellProblems(n news) {
	for _, problem := range n.pool {
		if reason, ok := problemEvents[problem.Reason]; ok {
			p.notices.warning(p.declared.set, reason, "%s%s", problem.Message, p.firstNode(problem))
		}
	}
	if p.node == nil {
		return
	}
	for _, problem := range n.machine {
		if problem.Reason == plan.InConflict {
			p.notices.warning(p.node, EventConflict, "%s (MachineSet %s)", problem.Message, p.declared.pool.Key.Name)
		}
	}
}

// firstNode names the Node on which a problem of the pool was met first, where it depends on the Node.
func (p *pass) firstNode(problem plan.Problem) string {
	if problem.Reason != plan.InConflict || p.node == nil {
		return ""
	}
	return fmt.Sprintf("; first met on Node %s", p.node.Name)
}

func finished(n news, generation int64) string {
	text := fmt.Sprintf("generation %d of the template has been carried to %d Machines", generation, n.total)
	if n.conflicts > 0 {
		text += fmt.Sprintf(", %d with a key that is somebody else's", n.conflicts)
	}
	if n.held > 0 {
		text += fmt.Sprintf(", %d held back", n.held)
	}
	if n.waiting > 0 {
		text += fmt.Sprintf(", %d without a Node yet", n.waiting)
	}
	if n.took > 0 {
		text += fmt.Sprintf(" in %s", n.took.Round(100*time.Millisecond))
	}
	return text
}

// told reports what only a successful write makes true: the latency of a roll-out, and the repair of a hand edit.
func (p *pass) told(ctx context.Context, n news) {
	if !p.wroteNode {
		return
	}
	if p.decision.Drift {
		entries := changedEntries(p.decision.Node)
		log.FromContext(ctx).Info("repaired", "node", p.node.Name, "machineset", p.poolName(), "entries", entries)
		p.notices.normal(p.node, EventRepaired, "put back what was changed by hand: %s", entries)
		return
	}
	if p.declared == nil || !n.awaited {
		// A Node that comes after the change was not waited for.
		return
	}
	if since := p.ledger.since(p.declared.pool.Key); !since.IsZero() {
		p.metrics.propagation.Observe(p.clock.Since(since).Seconds())
	}
}

func changedEntries(change plan.Change) string {
	var names []string
	for _, kind := range ownership.Kinds {
		result := change.Results[kind]
		for _, key := range ownership.KeysOf(result.Set).Sorted() {
			names = append(names, fmt.Sprintf("%s %s", kind, key))
		}
		for _, key := range result.Remove {
			names = append(names, fmt.Sprintf("%s %s (removed)", kind, key))
		}
	}
	return strings.Join(names, ", ")
}
