package upgrade

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

const (
	// lookEvery is how often a drain by the machine-config-operator is looked at.
	lookEvery = 10 * time.Second
	// maxLooks is how many drains are looked at in one pass.
	maxLooks = 8
	// delayPatience is for how long a node that was released may be delayed before an event tells of it.
	delayPatience = time.Minute
)

// drainLook is what was seen of the drain of a node.
type drainLook struct {
	at    time.Time
	drain plan.Drain
}

// delay is why a node that was released is not upgraded yet.
type delay struct {
	why plan.Delay
	// since is when that was seen first; told reports that an event has been sent.
	since time.Time
	told  bool
}

// lookAtDrains fills in what keeps the drains of nodes that were released. The pods of the cluster are not cached for this: the few nodes that
// are drained at a time are asked for by name.
func (p *pass) lookAtDrains(ctx context.Context) {
	draining := p.scene.Draining()
	known := map[types.UID]*drainLook{}
	for _, node := range draining {
		look := p.memory.drains[node.UID]
		if look == nil {
			look = &drainLook{}
		}
		known[node.UID] = look
	}
	p.memory.drains = known
	due := slices.DeleteFunc(slices.Clone(draining), func(node *plan.Node) bool { return p.now.Sub(known[node.UID].at) < lookEvery })
	slices.SortStableFunc(due, func(a, b *plan.Node) int { return known[a.UID].at.Compare(known[b.UID].at) })
	if len(due) > 0 {
		p.refreshDrains(ctx, due[:min(len(due), maxLooks)])
	}
	for _, node := range draining {
		node.Drain = known[node.UID].drain
		p.later(max(known[node.UID].at.Add(lookEvery).Sub(p.now), statusEvery))
	}
}

// refreshDrains looks at the drains of some nodes.
func (p *pass) refreshDrains(ctx context.Context, nodes []*plan.Node) {
	budgets := &policyv1.PodDisruptionBudgetList{}
	err := p.Live.List(ctx, budgets, fromWatchCache())
	for _, node := range nodes {
		look := p.memory.drains[node.UID]
		look.at = p.now
		if err == nil {
			look.drain, err = drainOf(ctx, p.Live, node.Node, budgets.Items, p.now)
		}
		if err != nil {
			// The next look is no better before the API server answers.
			look.drain = plan.Drain{Text: "what keeps it cannot be read: " + status.Shorten(err.Error(), maxDrainError)}
		}
	}
}

// maxDrainError bounds the text of an error that is shown in the place of a drain, in bytes.
const maxDrainError = 300

// fromWatchCache lets the API server answer from its memory, where pods are indexed by their node.
func fromWatchCache() client.ListOption {
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
}

// drainOf says which pods have still to leave a node, as the machine-config-operator drains it: what kubectl drain does with --force,
// --ignore-daemonsets and --delete-emptydir-data.
func drainOf(
	ctx context.Context, reader client.Reader, node *corev1.Node, budgets []policyv1.PodDisruptionBudget, now time.Time,
) (plan.Drain, error) {
	list := &corev1.PodList{}
	if err := reader.List(ctx, list, client.MatchingFields{"spec.nodeName": node.Name}, fromWatchCache()); err != nil {
		return plan.Drain{}, fmt.Errorf("listing the pods of node %s: %w", node.Name, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	decision := drain.Decide(drain.Input{
		Node: node, Pods: pods, Now: now,
		Budgets: func(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
			var selecting []*policyv1.PodDisruptionBudget
			for i := range budgets {
				if drain.Selects(&budgets[i], pod) {
					selecting = append(selecting, &budgets[i])
				}
			}
			return selecting
		},
		// Pods of DaemonSets are left alone; whether each DaemonSet is still there is not asked.
		DaemonSetExists: func(types.NamespacedName) bool { return true },
		Answered:        func(types.UID) (drain.Answer, bool) { return drain.Answer{}, false },
	})
	if len(decision.Report.Left) == 0 {
		return plan.Drain{Text: "all pods have left"}, nil
	}
	return plan.Drain{Text: decision.Report.Text(), Blocked: decision.Report.Blocked()}, nil
}

// tellDelays sends an event for each node that was released and has been delayed for a while.
func (p *pass) tellDelays(d *plan.Decision) {
	known := map[string]*delay{}
	for i := range d.Steps {
		step := &d.Steps[i]
		if step.Delay == "" {
			continue
		}
		was := p.memory.delays[step.Status.Name]
		if was == nil || was.why != step.Delay {
			was = &delay{why: step.Delay, since: p.now}
		}
		known[step.Status.Name] = was
		if was.told {
			continue
		}
		if wait := was.since.Add(delayPatience).Sub(p.now); wait > 0 {
			p.later(wait)
			continue
		}
		was.told = true
		if on := p.nodeOf(step.Status.Name); on != nil {
			p.Recorder.Event(on, corev1.EventTypeWarning, EventNodeDelayed, clip("MutexRunConfig "+p.key.String()+": "+step.Status.Message))
		}
	}
	p.memory.delays = known
}

// nodeOf returns the Node of the run that is called name; nil for none.
func (p *pass) nodeOf(name string) *corev1.Node {
	if i := slices.IndexFunc(p.scene.Nodes, func(node *plan.Node) bool { return node.Name == name }); i >= 0 {
		return p.scene.Nodes[i].Node
	}
	return nil
}
