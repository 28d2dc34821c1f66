package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance/plan"
)

// DrainStatus is what `drain-status` shows.
type DrainStatus struct {
	TypeMeta
	Node string `json:"node"`
	// Maintenance is the NodeMaintenance, as resource.group/name; empty if the node has none.
	Maintenance string `json:"maintenance,omitempty"`
	Phase       string `json:"phase,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Cordoned is when the node was cordoned, Deadline when its drain has to be finished.
	Cordoned *time.Time `json:"cordoned,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	// Message is what the operator reports.
	Message string     `json:"message,omitempty"`
	Pods    []DrainPod `json:"pods"`
	Budgets []Budget   `json:"budgets"`
	// Total is the number of all pods on the node, Alone what of them is left alone.
	Total int    `json:"total"`
	Alone string `json:"alone,omitempty"`
}

// DrainPod is a pod that still has to leave.
type DrainPod struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Reason    drain.Reason `json:"reason"`
	Detail    string       `json:"detail,omitempty"`
	// Until is when its grace period, or what protects it, ends.
	Until *time.Time `json:"until,omitempty"`
}

// MaintenancePlan is what `plan --maintenance` shows.
type MaintenancePlan struct {
	TypeMeta
	Node string `json:"node"`
	// Evict are the pods that would be evicted at once, Blocked those that could not leave now, by reason.
	Evict   []string       `json:"evict"`
	Blocked []BlockedGroup `json:"blocked"`
	Budgets []Budget       `json:"budgets"`
	Total   int            `json:"total"`
	Alone   string         `json:"alone,omitempty"`
	// MayReturn are the owners whose pods could come back to the node, because they tolerate its cordon.
	MayReturn []string `json:"mayReturn,omitempty"`
}

// BlockedGroup is pods that cannot leave for the same reason.
type BlockedGroup struct {
	Reason drain.Reason `json:"reason"`
	Detail string       `json:"detail,omitempty"`
	Pods   []string     `json:"pods"`
}

// Leaving counts the pods that would have to leave.
func (m *MaintenancePlan) Leaving() int {
	count := len(m.Evict)
	for _, group := range m.Blocked {
		count += len(group.Pods)
	}
	return count
}

// Budget is a PodDisruptionBudget that selects pods of a node.
type Budget struct {
	Name string `json:"name"`
	// Needs and Has are numbers of healthy pods, Allowed is that of the disruptions allowed now.
	Needs   int32 `json:"needs"`
	Has     int32 `json:"has"`
	Allowed int32 `json:"allowed"`
	// Here is how many of its pods still have to leave this node.
	Here int `json:"here"`
}

// Drain is a node with the objects that decide about its drain.
type Drain struct {
	Node *corev1.Node
	Pods []*corev1.Pod
	// Budgets and DaemonSets are those of the namespaces of the pods.
	Budgets    []*policyv1.PodDisruptionBudget
	DaemonSets map[types.NamespacedName]bool
	// Maintenance is the NodeMaintenance of the node, nil for none.
	Maintenance *medik8s.NodeMaintenance
}

// cordoned returns when the node was cordoned for its maintenance; zero if it is not.
func (d *Drain) cordoned() time.Time {
	if record, err := drain.ReadCordonRecord(d.Node); err == nil && record != nil {
		return record.Since
	}
	return time.Time{}
}

// report decides as the operator does. What only the operator knows, the answers to its requests, is in the status of the NodeMaintenance.
func (d *Drain) report(now time.Time) (report drain.Report, options drain.Options, err error) {
	if d.Maintenance != nil {
		if options, err = plan.DrainOptions(d.Maintenance.Spec.Drain); err != nil {
			return report, options, err
		}
	}
	// Only the operator observes attached volumes.
	options.Volumes = false
	return d.decide(options, now), options, nil
}

func (d *Drain) decide(options drain.Options, now time.Time) drain.Report {
	return drain.Decide(drain.Input{
		Node: d.Node, Pods: d.Pods, Options: options, Since: d.cordoned(), Now: now,
		Budgets:         d.selecting,
		DaemonSetExists: func(key types.NamespacedName) bool { return d.DaemonSets[key] },
		Answered:        func(types.UID) (drain.Answer, bool) { return drain.Answer{}, false },
	}).Report
}

func (d *Drain) selecting(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var found []*policyv1.PodDisruptionBudget
	for _, budget := range d.Budgets {
		if drain.Selects(budget, pod) {
			found = append(found, budget)
		}
	}
	return found
}

// Status returns the document of `drain-status`.
func (d *Drain) Status(now time.Time) (*DrainStatus, error) {
	report, options, err := d.report(now)
	if err != nil {
		return nil, err
	}
	status := &DrainStatus{
		TypeMeta: TypeMeta{APIVersion, "DrainStatus"}, Node: d.Node.Name, Total: report.Total, Alone: alone(&report), Pods: []DrainPod{},
		Budgets: d.budgets(&report), Cordoned: orNone(d.cordoned()),
	}
	if m := d.Maintenance; m != nil {
		status.Maintenance, status.Phase, status.Reason = NameOf(m), string(m.Status.Phase), m.Spec.Reason
		if !Drained(m) {
			status.Message = WaitsFor(m)
		}
	}
	if status.Cordoned != nil && options.Deadline > 0 {
		status.Deadline = new(status.Cordoned.Add(options.Deadline))
	}
	for _, left := range report.Remaining {
		status.Pods = append(status.Pods, DrainPod{left.Namespace, left.Name, left.Reason, left.Detail, orNone(left.Until)})
	}
	return status, nil
}

// Plan returns the document of `plan --maintenance`.
func (d *Drain) Plan(now time.Time) (*MaintenancePlan, error) {
	report, _, err := d.report(now)
	if err != nil {
		return nil, err
	}
	document := &MaintenancePlan{
		TypeMeta: TypeMeta{APIVersion, "MaintenancePlan"}, Node: d.Node.Name, Evict: []string{}, Blocked: []BlockedGroup{},
		Budgets: d.budgets(&report), Total: report.Total, Alone: alone(&report), MayReturn: report.MayReturn,
	}
	for _, group := range report.Groups() {
		if group.Reason == drain.Evicting {
			document.Evict = append(document.Evict, group.Pods...)
			continue
		}
		document.Blocked = append(document.Blocked, BlockedGroup{group.Reason, group.Detail, group.Pods})
	}
	return document, nil
}

// budgets returns the budgets of the pods that still have to leave, by name.
func (d *Drain) budgets(report *drain.Report) []Budget {
	left := map[types.UID]bool{}
	for _, pod := range report.Remaining {
		left[pod.UID] = true
	}
	all := []Budget{}
	for _, budget := range d.Budgets {
		status := budget.Status
		shown := Budget{budget.Namespace + "/" + budget.Name, status.DesiredHealthy, status.CurrentHealthy, status.DisruptionsAllowed, 0}
		for _, pod := range d.Pods {
			shown.Here += one(left[pod.UID] && drain.Selects(budget, pod))
		}
		if shown.Here > 0 {
			all = append(all, shown)
		}
	}
	slices.SortFunc(all, func(a, b Budget) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func alone(report *drain.Report) string {
	total := 0
	for _, count := range report.Exempted {
		total += count
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d left alone (DaemonSets, static pods, rules)", total)
}
