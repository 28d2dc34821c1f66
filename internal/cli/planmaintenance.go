package cli

import (
	"bytes"
	"context"
	"io"

	"github.com/drover-io/drover/internal/drain"
)

// MaintenancePlan is what `plan --maintenance` prints.
type MaintenancePlan struct {
	TypeMeta
	Node string `json:"node"`
	// Evict are the pods that would be evicted at once, Blocked those that could not go as things are, by reason.
	Evict   []string       `json:"evict"`
	Blocked []BlockedGroup `json:"blocked"`
	Budgets []BudgetView   `json:"budgets"`
	Total   int            `json:"total"`
	Alone   string         `json:"alone,omitempty"`
}

// BlockedGroup are pods that could not go, for the same reason.
type BlockedGroup struct {
	Reason drain.Reason `json:"reason"`
	Detail string       `json:"detail,omitempty"`
	Pods   []string     `json:"pods"`
}

// planMaintenance shows what a maintenance of a node would do and meet.
func (p *planCommand) planMaintenance(ctx context.Context, pools []string) error {
	if len(pools) > 0 || p.preview.asked() {
		return usageError("--maintenance is for a node; give it without pools and files")
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	name, _ := trimPrefixes(p.maintenance, nodePrefixes)
	view, err := lookAtDrain(ctx, c, name)
	if err != nil {
		return err
	}
	report, _, err := view.report(p.now())
	if err != nil {
		return err
	}
	document := maintenancePlanOf(view, &report)
	if p.output.table() {
		err = drawMaintenancePlan(p.Out, view, document)
	} else {
		err = p.output.print(p.Out, document)
	}
	if err == nil && len(document.Evict)+len(document.Blocked) > 0 {
		return errChanges
	}
	return err
}

func maintenancePlanOf(view *drainView, report *drain.Report) *MaintenancePlan {
	document := &MaintenancePlan{
		TypeMeta: TypeMeta{APIVersion, "MaintenancePlan"}, Node: view.node.Name, Evict: []string{}, Blocked: []BlockedGroup{},
		Budgets: view.budgetViews(report), Total: report.Total, Alone: alone(report),
	}
	for _, group := range report.Groups() {
		if group.Reason == drain.Evicting {
			document.Evict = append(document.Evict, group.Pods...)
			continue
		}
		document.Blocked = append(document.Blocked, BlockedGroup{Reason: group.Reason, Detail: group.Detail, Pods: group.Pods})
	}
	return document
}

func drawMaintenancePlan(to io.Writer, view *drainView, document *MaintenancePlan) error {
	var out bytes.Buffer
	_ = printf(&out, "Node %s: %d of %d pods would have to leave", document.Node, document.leaving(), document.Total)
	if document.Alone != "" {
		out.WriteString(", " + document.Alone)
	}
	out.WriteByte('\n')
	if view.node.Spec.Unschedulable {
		out.WriteString("The node is cordoned already, and would be so afterwards.\n")
	}
	if len(document.Evict) > 0 {
		_ = printf(&out, "\n  %d would be evicted at once\n", len(document.Evict))
		for _, pod := range document.Evict {
			_ = printf(&out, "    - %s\n", pod)
		}
	}
	for _, group := range document.Blocked {
		_ = printf(&out, "\n  %d could not leave now: %s", len(group.Pods), group.Reason)
		if group.Detail != "" {
			_ = printf(&out, " (%s)", group.Detail)
		}
		out.WriteByte('\n')
		for _, pod := range group.Pods {
			_ = printf(&out, "    ! %s\n", pod)
		}
	}
	for _, budget := range document.Budgets {
		if budget.Allowed > 0 && budget.Here > int(budget.Allowed) {
			_ = printf(&out, "\n  PodDisruptionBudget %s allows %d of its %d pods here to go at once; the others follow as it allows.\n",
				budget.Name, budget.Allowed, budget.Here)
		}
	}
	_, err := to.Write(out.Bytes())
	return err
}

// leaving counts the pods that would have to leave.
func (m *MaintenancePlan) leaving() int {
	count := len(m.Evict)
	for _, group := range m.Blocked {
		count += len(group.Pods)
	}
	return count
}
