package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// Bounds of the status, so that a run over any number of nodes fits into an object.
const (
	// mostNodes is how many nodes the status names, the same as maxItems in the schema.
	mostNodes = 100
	// mostCurrent is how many nodes under way the status names in one line.
	mostCurrent = 20
	// mostNodeMessage bounds what the status says of one node, in bytes.
	mostNodeMessage = 1024
)

// observation is what a pass has found out about a run.
type observation struct {
	conditions conditions
	phase      v1alpha1.Phase
	message    string
	// version is the one that is aimed at; empty for not known.
	version string
	// counted tells that the numbers of nodes are known.
	counted             bool
	total, done, failed int
	// nodes are those of the decision, nil when nothing is to be told of them.
	nodes   []v1alpha1.NodeStatus
	current []string
	// all is what the status says of nodes, also of those that it has no room for.
	all []v1alpha1.NodeStatus
	// restored tells that everything has been given back in this pass.
	restored bool
	// laid tells that no node is under way any more, and none is decided on.
	laid bool
	// settles tells that nothing can be owed any more for the Jobs that there are.
	settles bool
}

func (o *observation) stand(phase v1alpha1.Phase, message string) {
	o.phase, o.message = phase, message
}

// count notes the numbers of nodes.
func (o *observation) count(d *plan.Decision) {
	o.counted, o.total, o.done, o.failed = true, len(d.Steps), d.Done, d.Failed
}

// list notes where each node stands.
func (o *observation) list(d *plan.Decision) {
	o.nodes = make([]v1alpha1.NodeStatus, len(d.Steps))
	for i := range d.Steps {
		o.nodes[i] = d.Steps[i].Status
		o.nodes[i].Message = status.Shorten(o.nodes[i].Message, mostNodeMessage)
	}
}

// lay notes that no node is under way any more, and how many of them are done for all that.
func (o *observation) lay(s *plan.Scene) {
	o.laid = true
	if s.Desired == "" || len(s.Faults) > 0 {
		return
	}
	o.version = s.Desired
	o.counted, o.total, o.done, o.failed = true, len(s.Nodes), len(s.Nodes)-s.Behind()-len(s.Unknown()), 0
}

// take notes what was decided.
func (o *observation) take(d *plan.Decision) {
	o.stand(d.Phase, d.Message)
	o.count(d)
	o.list(d)
	o.current = d.Current
	var jobs, nodes []string
	troubleJobs, troubleNodes := "", ""
	for i := range d.Steps {
		s := &d.Steps[i].Status
		place := fmt.Sprintf("Node is %d of %d: %s", i+1, len(d.Steps), s.Name)
		switch {
		case s.Phase == v1alpha1.NodeFailed && s.Job != "":
			troubleJobs = first(troubleJobs, place+": "+s.Message)
		case s.Phase == v1alpha1.NodeFailed:
			troubleNodes = first(troubleNodes, place+": "+s.Message)
		case s.Phase == v1alpha1.NodeRunningJobs, s.Phase == v1alpha1.NodeCleaningUp:
			jobs = append(jobs, place+", "+s.Message)
		case s.Phase == v1alpha1.NodeReleased, s.Phase == v1alpha1.NodeUpgrading:
			nodes = append(nodes, place)
		}
	}
	o.judge(ConditionJobs, troubleJobs, jobs)
	o.judge(ConditionNodes, troubleNodes, nodes)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// judge notes a condition about nodes, once there is something to tell.
func (o *observation) judge(kind, trouble string, texts []string) {
	switch {
	case trouble != "":
		o.conditions.no(kind, trouble)
	case len(texts) > 0 || o.done > 0:
		o.conditions.yes(kind, strings.Join(texts, "; "))
	}
}

// rehearse notes what a dry run would do.
func (o *observation) rehearse(s *plan.Scene, d *plan.Decision) {
	before, after := 0, 0
	for _, rule := range s.Rules {
		before++
		if rule.After != nil {
			after++
		}
	}
	left := len(d.Steps) - d.Done
	var pools []string
	for _, pool := range s.Targets {
		pools = append(pools, pool.Name)
	}
	o.take(d)
	const text = "dry run: %d of %d nodes would be upgraded, each after %d Jobs and before %d; the pools %s would be paused"
	o.stand(v1alpha1.PhaseDryRun, fmt.Sprintf(text, left, len(d.Steps), before, after, strings.Join(pools, ", ")))
}

// status is what the run's status is to be. It is the same for the same observation, so that nothing is written at rest.
func (p *pass) status(stood map[string]v1alpha1.NodeStatus) v1alpha1.MutexRunConfigStatus {
	o, after := &p.found, *p.run.Status.DeepCopy()
	at := metav1.NewTime(p.now.UTC().Truncate(1e9))
	after.ObservedGeneration = p.run.Generation
	if o.version != "" && o.version != after.Version {
		after.Version, after.Started, after.Finished, after.Nodes = o.version, nil, nil, nil
		stood = nil
	}
	after.Phase, after.Message = o.phase, status.Shorten(o.message, status.MaxMessage)
	if o.counted {
		after.Total, after.Done, after.Failed = bounded.Int32(o.total), bounded.Int32(o.done), bounded.Int32(o.failed)
	}
	switch {
	case o.nodes != nil:
		o.all = merged(stood, o.nodes, at)
		after.Nodes, after.Current = mostTelling(o.all), currentText(o.current)
	case o.laid:
		after.Failed = 0
		after.Nodes = slices.DeleteFunc(after.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Phase != v1alpha1.NodeDone })
	}
	o.clock(&after, at)
	if o.phase == v1alpha1.PhaseDone && o.settles && p.unsettled() {
		after.Settled = p.newest()
	}
	o.conditions.apply(&after.Conditions, p.run.Generation, at)
	return after
}

// clock notes when the run began and ended.
func (o *observation) clock(after *v1alpha1.MutexRunConfigStatus, at metav1.Time) {
	switch o.phase {
	case v1alpha1.PhaseRunning:
		after.Finished = nil
		if after.Started == nil {
			after.Started = &at
		}
	case v1alpha1.PhaseStopped, v1alpha1.PhaseWaiting:
	case v1alpha1.PhaseDone:
		after.Current = ""
		if after.Finished == nil {
			after.Finished = &at
		}
	default:
		after.Current = ""
	}
}

// merged keeps what is known of nodes from before: when they began, and when they were done.
func merged(stood map[string]v1alpha1.NodeStatus, now []v1alpha1.NodeStatus, at metav1.Time) []v1alpha1.NodeStatus {
	out := slices.Clone(now)
	for i := range out {
		n := &out[i]
		if n.Started != nil {
			n.Started = &metav1.Time{Time: n.Started.UTC().Truncate(1e9)}
		}
		if old, there := stood[n.Name]; there {
			remember(n, &old, at)
		}
	}
	return out
}

// remember takes over from a node's status of before what cannot be seen any more.
func remember(n, old *v1alpha1.NodeStatus, at metav1.Time) {
	if old.Started != nil && n.Phase != v1alpha1.NodePending {
		n.Started = old.Started
	}
	if n.Phase != v1alpha1.NodeDone {
		return
	}
	if n.Released == nil {
		n.Released = old.Released
	}
	if n.Finished = old.Finished; n.Finished == nil && old.Phase != v1alpha1.NodeDone {
		n.Finished = &at
	}
}

// currentText names the nodes under way in one line.
func currentText(names []string) string {
	if more := len(names) - mostCurrent; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostCurrent], ","), more)
	}
	return strings.Join(names, ",")
}

// mostTelling keeps as many nodes as the status may name: those under way and those that failed first, then those that wait, then those that
// were done last.
func mostTelling(nodes []v1alpha1.NodeStatus) []v1alpha1.NodeStatus {
	if len(nodes) <= mostNodes {
		return nodes
	}
	rank := func(n *v1alpha1.NodeStatus) int {
		switch n.Phase {
		case v1alpha1.NodePending:
			return 1
		case v1alpha1.NodeDone:
			return 2
		}
		return 0
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		left, right := &nodes[a], &nodes[b]
		if rank(left) != rank(right) || rank(left) != 2 {
			return rank(left) - rank(right)
		}
		return finished(right).Compare(finished(left).Time)
	})
	keep := map[int]bool{}
	for _, i := range order[:mostNodes] {
		keep[i] = true
	}
	var out []v1alpha1.NodeStatus
	for i := range nodes {
		if keep[i] {
			out = append(out, nodes[i])
		}
	}
	return out
}

func finished(n *v1alpha1.NodeStatus) metav1.Time {
	if n.Finished == nil {
		return metav1.Time{}
	}
	return *n.Finished
}

// writeStatus is the only writer of the status. Progress alone is written once a second at most; the rest at once.
func (p *pass) writeStatus(ctx context.Context) error {
	p.observe()
	p.tellFailures(ctx)
	stood := p.stood()
	before, after := p.run.Status, p.status(stood)
	if apiequality.Semantic.DeepEqual(before, after) {
		return nil
	}
	urgent := before.Phase != after.Phase || before.ObservedGeneration != after.ObservedGeneration
	if wait := p.memory.wrote.Add(statusEvery).Sub(p.now); wait > 0 && !urgent {
		p.later(wait)
		return nil
	}
	changed := p.run.DeepCopy()
	changed.Status = after
	patch := client.MergeFromWithOptions(p.run, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Status().Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("writing the status of MutexRunConfig %s: %w", p.key, err)
	}
	p.wrote(changed)
	p.memory.wrote = p.now
	p.tell(ctx, &before, &after, stood)
	p.note(&before, &after)
	return nil
}

// stood is where each node stood when the status was written last. After a restart that is known of those alone that it names.
func (p *pass) stood() map[string]v1alpha1.NodeStatus {
	stood := map[string]v1alpha1.NodeStatus{}
	maps.Copy(stood, p.memory.nodes)
	for _, n := range p.run.Status.Nodes {
		stood[n.Name] = n
	}
	return stood
}

// note remembers what the status says now, where it says something else of nodes.
func (p *pass) note(before, after *v1alpha1.MutexRunConfigStatus) {
	all := p.found.all
	switch {
	case p.found.nodes != nil:
	case p.found.laid || before.Version != after.Version:
		all = after.Nodes
	default:
		return
	}
	p.memory.nodes = map[string]v1alpha1.NodeStatus{}
	for i := range all {
		p.memory.nodes[all[i].Name] = all[i]
	}
}

// observe notes the metrics, and how long nodes were in their phases.
func (p *pass) observe() {
	counts := map[v1alpha1.NodePhase]int{}
	for i := range p.found.nodes {
		n := &p.found.nodes[i]
		counts[n.Phase]++
		was, known := p.memory.since[n.Name]
		if known && was.phase == n.Phase {
			continue
		}
		if known {
			p.Metrics.left(was.phase, p.now.Sub(was.at))
		}
		p.memory.since[n.Name] = phaseSince{n.Phase, p.now}
	}
	p.Metrics.observe(p.run, p.found.phase)
	switch {
	case p.found.nodes != nil:
		p.Metrics.count(p.run, counts)
	case p.found.laid:
		p.Metrics.uncount(p.run)
		clear(p.memory.since)
	}
}
