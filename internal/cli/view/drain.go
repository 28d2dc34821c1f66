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

// DrainStatus is what `drain-status` and `plan --maintenance` show.
type DrainStatus struct {
	TypeMeta
	Node string `json:"node"`
	// Unschedulable reports whether the node is cordoned, also without a maintenance.
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Maintenance is the NodeMaintenance, as resource.group/name; empty if the node has none.
	Maintenance string `json:"maintenance,omitempty"`
	Phase       string `json:"phase,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Cordoned is when the node was cordoned for its maintenance, Deadline when its drain has to be finished.
	Cordoned *time.Time `json:"cordoned,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	// Message is what the operator reports.
	Message string     `json:"message,omitempty"`
	Pods    []DrainPod `json:"pods"`
	// Evict names the Pods that could be evicted at once, Blocked the others, by reason.
	Evict   []string       `json:"evict"`
	Blocked []BlockedGroup `json:"blocked"`
	Budgets []Budget       `json:"budgets"`
	// Total is the number of all pods on the node, Alone what of them is left alone.
	Total int    `json:"total"`
	Alone string `json:"alone,omitempty"`
	// MayReturn are the owners whose pods could come back to the node, because they tolerate its cordon.
	MayReturn []string `json:"mayReturn,omitempty"`
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

// BlockedGroup is pods that cannot leave for the same reason.
type BlockedGroup struct {
	Reason drain.Reason `json:"reason"`
	Detail string       `json:"detail,omitempty"`
	Pods   []string     `json:"pods"`
}

// Budget is a PodDisruptionBudget that selects pods of a node.
type Budget struct {
	Name string `json:"name"`
	// Needs and Has are numbers of healthy pods, Allowed is how many disruptions are allowed now.
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
	// Budgets and DaemonSets are of the pods' namespaces.
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

func (d *Drain) decide(options drain.Options, now time.Time) drain.Report {
	return drain.Decide(drain.Input{
		Node: d.Node, Pods: d.Pods, Options: options, Since: d.cordoned(), Now: now,
		Budgets:         d.selecting,
		DaemonSetExists: func(key types.NamespacedName) bool { return d.DaemonSets[key] },
		LastAnswer:      func(types.UID) (drain.Answer, bool) { return drain.Answer{}, false },
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

// Status returns the document, as the operator decides. What only the operator knows, the answers to its requests, is in the status of the
// NodeMaintenance.
func (d *Drain) Status(now time.Time) (*DrainStatus, error) {
	status, m, options := &DrainStatus{
		TypeMeta: TypeMeta{APIVersion, "DrainStatus"}, Node: d.Node.Name, Unschedulable: d.Node.Spec.Unschedulable, Pods: []DrainPod{},
		Evict: []string{}, Blocked: []BlockedGroup{}, Cordoned: timeOf(d.cordoned()),
	}, d.Maintenance, drain.Options{}
	if m != nil {
		var err error
		if options, err = plan.DrainOptions(m.Spec.Drain); err != nil {
			return nil, err
		}
		status.Maintenance, status.Phase, status.Reason = NameOf(m), string(m.Status.Phase), m.Spec.Reason
		if !Drained(m) {
			status.Message = WaitsFor(m)
		}
	}
	if status.Cordoned != nil && options.Deadline > 0 {
		status.Deadline = timeOf(status.Cordoned.Add(options.Deadline))
	}
	// Only the operator observes attached volumes.
	options.Volumes = false
	report := d.decide(options, now)
	status.Budgets, status.Total, status.Alone, status.MayReturn = d.budgets(&report), report.Total, alone(&report), report.MayReturn
	for _, left := range report.Remaining {
		status.Pods = append(status.Pods, DrainPod{left.Namespace, left.Name, left.Reason, left.Detail, timeOf(left.Until)})
	}
	for _, group := range report.Groups() {
		if group.Reason == drain.Evicting {
			status.Evict = append(status.Evict, group.Pods...)
		} else {
			status.Blocked = append(status.Blocked, BlockedGroup{group.Reason, group.Detail, group.Pods})
		}
	}
	return status, nil
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
