package ui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/maintenance"
	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/compact"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// nodeTimeout is how long the API server may take for a node.
const nodeTimeout = 30 * time.Second

// The bounds of the document of a node.
const (
	maxEvents  = 100
	maxWord    = 128
	maxValue   = 2048
	maxEntries = 2000
	maxPods    = 500
	// maxSubjects is of how many objects events are read. The time line has as many Machines and as many NodeMaintenances.
	maxSubjects = 5
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
	// MachineConditions has the conditions of the node's Machine.
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

// nodePage reads a Node, its lease, its events and what keeps it from draining, and returns its document.
func (u *cluster) nodePage(ctx context.Context, name string) (*NodePage, error) {
	page := &NodePage{
		TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "NodePage"}, Conditions: []Condition{}, Waits: []model.Wait{}, Events: []Event{},
		Timeline: []Moment{},
	}
	page.waitFor(ctx, u.loaded)
	around := u.tracker.Around(name)
	read := u.readNode(ctx, name, around)
	if read.errNode != nil {
		return nil, read.errNode
	}
	page.Created = read.node.CreationTimestamp.Time
	for _, c := range compact.BoundedConditions(read.node.Status.Conditions) {
		page.Conditions = append(page.Conditions, condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime))
	}
	u.explain(ctx, read.node, around, page)
	u.addState(name, page)
	page.addEvents(read.events[0])
	if read.lease != nil {
		page.Lease = model.NewLease(read.lease, u.now())
	}
	page.setDrain(read.drain)
	page.Timeline = u.timeline(read, around)
	for what, err := range map[string]error{"events": read.errEvents, "the lease": client.IgnoreNotFound(read.errLease), "the Pods": read.errDrain} {
		if err != nil {
			page.Notes = append(page.Notes, model.Text(fmt.Sprintf("%s of the node cannot be read: %v", what, err), maxText))
		}
	}
	slices.Sort(page.Notes)
	return page, nil
}

// loadingTimeout is how long a page waits for what decides about nodes.
const loadingTimeout = 5 * time.Second

// waitFor waits until all that decides about nodes has been read, or notes that it has not.
func (p *NodePage) waitFor(ctx context.Context, loaded <-chan struct{}) {
	select {
	case <-loaded:
	case <-ctx.Done():
	case <-time.After(loadingTimeout):
		p.Notes = append(p.Notes, "Some kinds have not been read yet, so owners may be missing")
	}
}

// nodeReads are what the page of a node reads from the API server, with the errors.
type nodeReads struct {
	node  *corev1.Node
	lease *coordinationv1.Lease
	drain *view.DrainStatus
	// events has the Node's events, then its Machines', then its NodeMaintenances'.
	events                                 [][]corev1.Event
	errNode, errLease, errEvents, errDrain error
}

// readNode reads all of it at the same time.
func (u *cluster) readNode(ctx context.Context, name string, around *model.Objects) *nodeReads {
	subjects := []corev1.ObjectReference{{Kind: "Node", Name: name}}
	for _, machine := range around.Machines {
		subjects = append(subjects, corev1.ObjectReference{Kind: "Machine", Namespace: machine.Namespace, Name: machine.Name})
	}
	for _, m := range around.Maintenances {
		subjects = append(subjects, corev1.ObjectReference{Kind: "NodeMaintenance", Name: m.Name})
	}
	subjects = subjects[:min(len(subjects), maxSubjects)]
	read := &nodeReads{node: &corev1.Node{}, events: make([][]corev1.Event, len(subjects))}
	errs := make([]error, len(subjects))
	var reads sync.WaitGroup
	reads.Go(func() { read.errNode = u.client.Get(ctx, client.ObjectKey{Name: name}, read.node) })
	reads.Go(func() {
		lease := &coordinationv1.Lease{}
		if read.errLease = u.client.Get(ctx, client.ObjectKey{Namespace: nodelease.Namespace(), Name: nodelease.Name(name)}, lease); read.errLease == nil {
			read.lease = lease
		}
	})
	reads.Go(func() { read.drain, read.errDrain = maintenance.DrainStatus(ctx, u.client, name, u.now()) })
	for i, subject := range subjects {
		reads.Go(func() { read.events[i], errs[i] = u.eventsOf(ctx, subject) })
	}
	reads.Wait()
	if failed := slices.IndexFunc(errs, func(err error) bool { return err != nil }); failed >= 0 {
		read.errEvents = errs[failed]
	}
	return read
}

// eventsOf returns the events of an object. The namespace of the object is a part of the selector: in a namespace of their own, users can write
// events that name any Node, and would fill the list with them.
func (u *cluster) eventsOf(ctx context.Context, of corev1.ObjectReference) ([]corev1.Event, error) {
	var events corev1.EventList
	err := u.client.List(ctx, &events, client.Limit(maxEvents), client.InNamespace(of.Namespace), client.MatchingFields{
		"involvedObject.kind": of.Kind, "involvedObject.name": of.Name, "involvedObject.namespace": of.Namespace,
	})
	return events.Items, err
}

// setDrain sets what keeps the node from draining, cut to a bounded number of Pods.
func (p *NodePage) setDrain(drain *view.DrainStatus) {
	if drain == nil {
		return
	}
	if left := len(drain.Pods) - maxPods; left > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d more Pods are left out", left))
		drain.Pods = drain.Pods[:maxPods]
	}
	drain.Evict = drain.Evict[:min(len(drain.Evict), maxPods)]
	drain.Budgets = drain.Budgets[:min(len(drain.Budgets), maxPods)]
	drain.MayReturn = drain.MayReturn[:min(len(drain.MayReturn), maxPods)]
	for i := range drain.Pods {
		drain.Pods[i].Detail = model.Text(drain.Pods[i].Detail, maxText)
	}
	for i := range drain.Blocked {
		group := &drain.Blocked[i]
		group.Detail, group.Pods = model.Text(group.Detail, maxText), group.Pods[:min(len(group.Pods), maxPods)]
	}
	drain.Reason, drain.Message = model.Text(drain.Reason, maxText), model.Text(drain.Message, maxText)
	p.Drain = drain
}

// explain adds who owns what on the Node.
func (u *cluster) explain(ctx context.Context, node *corev1.Node, around *model.Objects, page *NodePage) {
	snapshot := &cmdutil.Snapshot{
		Groups: around.Groups, Nodes: []*corev1.Node{node}, Sets: around.Sets, Machines: around.Machines, NoSets: around.NoSets,
	}
	for _, machine := range around.Machines {
		for _, c := range machine.Status.Conditions[:min(len(machine.Status.Conditions), maxConditions-len(page.MachineConditions))] {
			page.MachineConditions = append(page.MachineConditions, condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime))
		}
	}
	known := plan.Objects{Sets: snapshot.Sets, Machines: snapshot.Machines, Nodes: snapshot.NodesByName()}
	var assignment *members.Assignment
	if len(snapshot.Groups) > 0 {
		membership := snapshot.Membership(ctx)
		assignment = membership.Of(ctx, node)
		known.GroupLayerOf = func(*corev1.Node) plan.GroupLayer { return assignment.GroupLayer(membership.Groups) }
	}
	protected := u.tracker.Protected()
	survey := plan.SurveyOf(known, protected, u.now())
	page.Explanation = view.NewNodeExplanation(node, assignment, survey, protected, u.now())
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
	if cell, found := u.tracker.Cells.Get(name); found {
		page.Cell = &cell
	}
	for _, wait := range u.tracker.WaitList().Items {
		if wait.Node == name {
			page.Waits = append(page.Waits, wait)
		}
	}
}

// addEvents adds events, the latest first.
func (p *NodePage) addEvents(events []corev1.Event) {
	for i := range events {
		e := &events[i]
		last, count := lastOf(e)
		p.Events = append(p.Events, Event{
			Type: model.Text(e.Type, maxWord), Reason: model.Text(e.Reason, maxWord), Message: model.Text(e.Message, maxText),
			Source: model.Text(cmp.Or(e.ReportingController, e.Source.Component), maxWord), Count: count, Last: model.Stamp(last),
		})
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int { return cmp.Compare(b.Last, a.Last) })
}

// lastOf returns when an event occurred last, and how often it did.
func lastOf(e *corev1.Event) (time.Time, int32) {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time, e.Series.Count
	}
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time), max(e.Count, 1)
}

func condition(kind, status, reason, message string, since metav1.Time) Condition {
	return Condition{
		Type: model.Text(kind, maxText), Status: model.Text(status, maxWord), Reason: model.Text(reason, maxText), Message: model.Text(message, maxText),
		Since: model.Stamp(since.Time),
	}
}
