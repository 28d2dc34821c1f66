package ui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/compact"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// nodeTimeout is how long the API server may take for a node.
const nodeTimeout = 10 * time.Second

// The bounds of the document of a node.
const (
	maxEvents  = 100
	maxWord    = 128
	maxValue   = 2048
	maxEntries = 2000
	maxPods    = 500
)

// NodePage is the document of a node.
type NodePage struct {
	view.TypeMeta
	// Cell is what the fleet shows of the node; nil before the fleet has it.
	Cell *model.Cell `json:"cell,omitempty"`
	// Explanation says who owns each label, annotation and taint. It is the document of `kubectl drover explain`, with long values cut.
	Explanation view.NodeExplanation `json:"explanation"`
	Created     time.Time            `json:"created"`
	Conditions  []Condition          `json:"conditions"`
	// MachineConditions are those of the node's Machine.
	MachineConditions []Condition  `json:"machineConditions,omitempty"`
	Lease             *model.Lease `json:"lease,omitempty"`
	Waits             []model.Wait `json:"waits"`
	Events            []Event      `json:"events"`
	// Drain is the document of `kubectl drover drain-status NODE -o json`: the Pods that keep the node from draining, and their budgets. It has at most
	// maxPods Pods. It is nil if the Pods cannot be read.
	Drain *view.DrainStatus `json:"drain,omitempty"`
	// Timeline is what happened on the node, the latest first.
	Timeline []Moment `json:"timeline"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Condition is a condition of a Node or Machine.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
}

// Event is an event of a Node.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Source  string `json:"source,omitempty"`
	Count   int32  `json:"count"`
	Last    string `json:"last,omitempty"`
}

// nodePage reads a Node, its lease and its events, and returns its document.
func (u *cluster) nodePage(ctx context.Context, name string) (*NodePage, error) {
	node := &corev1.Node{}
	if err := u.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, err
	}
	page := &NodePage{
		TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "NodePage"}, Created: node.CreationTimestamp.Time,
		Conditions: []Condition{}, Waits: []model.Wait{}, Events: []Event{}, Timeline: []Moment{},
	}
	for _, c := range compact.BoundedConditions(node.Status.Conditions) {
		page.Conditions = append(page.Conditions, condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime))
	}
	u.explain(ctx, node, page)
	u.addState(name, page)
	var events corev1.EventList
	errEvents := u.client.List(ctx, &events, client.Limit(maxEvents), client.MatchingFields{"involvedObject.kind": "Node", "involvedObject.name": name})
	page.addEvents(events.Items)
	lease := &coordinationv1.Lease{}
	errLease := u.client.Get(ctx, client.ObjectKey{Namespace: nodelease.Namespace(), Name: nodelease.Name(name)}, lease)
	if errLease == nil {
		page.Lease = model.NewLease(lease, u.now())
	}
	for what, err := range map[string]error{"events": errEvents, "the lease": client.IgnoreNotFound(errLease)} {
		if err != nil {
			page.Notes = append(page.Notes, model.Text(fmt.Sprintf("%s of the node cannot be read: %v", what, err), maxText))
		}
	}
	slices.Sort(page.Notes)
	return page, nil
}

// explain adds who owns what on the Node.
func (u *cluster) explain(ctx context.Context, node *corev1.Node, page *NodePage) {
	objects := u.objects()
	snapshot := &cmdutil.Snapshot{Groups: objects.Groups, Nodes: []*corev1.Node{node}, Sets: objects.Sets, NoSets: objects.NoSets}
	for _, machine := range objects.Machines {
		if machineapi.NodeName(machine) == node.Name {
			snapshot.Machines = append(snapshot.Machines, machine)
			for _, c := range machine.Status.Conditions {
				page.MachineConditions = append(page.MachineConditions, condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime))
			}
		}
	}
	known := plan.Objects{Sets: snapshot.Sets, Machines: snapshot.Machines, Nodes: snapshot.NodesByName()}
	var assignment *members.Assignment
	if len(snapshot.Groups) > 0 {
		membership := snapshot.Membership(ctx)
		assignment = membership.Of(ctx, node)
		known.GroupLayerOf = func(*corev1.Node) plan.GroupLayer { return assignment.GroupLayer(membership.Groups) }
	}
	survey := plan.SurveyOf(known, u.protected, u.now())
	page.Explanation = view.NewNodeExplanation(node, assignment, survey, u.protected, u.now())
	page.bound()
}

// bound cuts what others may have written into the Node at any length.
func (p *NodePage) bound() {
	entries := p.Explanation.Entries
	if len(entries) > maxEntries {
		p.Notes = append(p.Notes, fmt.Sprintf("%d more labels, annotations and taints are left out", len(entries)-maxEntries))
		entries = entries[:maxEntries]
	}
	for i := range entries {
		entry := &entries[i]
		for _, value := range []**string{&entry.Value, &entry.Declared} {
			if *value != nil {
				*value = new(model.Text(**value, maxValue))
			}
		}
		for j := range entry.Managers {
			entry.Managers[j].Name = model.Text(entry.Managers[j].Name, maxWord)
		}
	}
	p.Explanation.Entries = entries
	for i := range p.Explanation.Notes {
		p.Explanation.Notes[i] = model.Text(p.Explanation.Notes[i], maxText)
	}
	p.Explanation.Reason = model.Text(p.Explanation.Reason, maxText)
}

// addState adds what the fleet and the list of waits have about the node.
func (u *cluster) addState(name string, page *NodePage) {
	now := u.snapshot()
	if at, found := slices.BinarySearchFunc(now.fleet().Items, name, func(c model.Cell, name string) int { return cmp.Compare(c.Name, name) }); found {
		page.Cell = &now.fleet().Items[at]
	}
	for _, wait := range now.waits().Items {
		if wait.Node == name {
			page.Waits = append(page.Waits, wait)
		}
	}
}

// addEvents adds events, the latest first.
func (p *NodePage) addEvents(events []corev1.Event) {
	for i := range events {
		e := &events[i]
		last := cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
		count := max(e.Count, 1)
		if e.Series != nil {
			last, count = e.Series.LastObservedTime.Time, e.Series.Count
		}
		p.Events = append(p.Events, Event{
			Type: model.Text(e.Type, maxWord), Reason: model.Text(e.Reason, maxWord), Message: model.Text(e.Message, maxText),
			Source: model.Text(cmp.Or(e.ReportingController, e.Source.Component), maxWord), Count: count, Last: last.UTC().Format(time.RFC3339),
		})
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int { return cmp.Compare(b.Last, a.Last) })
}

func condition(kind, status, reason, message string, since metav1.Time) Condition {
	out := Condition{
		Type: model.Text(kind, maxText), Status: model.Text(status, maxWord), Reason: model.Text(reason, maxText), Message: model.Text(message, maxText),
	}
	if !since.IsZero() {
		out.Since = since.UTC().Format(time.RFC3339)
	}
	return out
}
