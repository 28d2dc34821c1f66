package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/machineapi"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
)

// Urgency says what ends a wait.
type Urgency string

// The urgencies, the worst first.
const (
	// Stopped: nothing continues unless a person acts.
	Stopped Urgency = "Stopped"
	// Waiting: something in the cluster, or the time, ends the wait.
	Waiting Urgency = "Waiting"
	// Suspended: a user wants it so.
	Suspended Urgency = "Suspended"
)

var urgencies = []Urgency{Stopped, Waiting, Suspended}

// Kinds of objects that wait.
const (
	kindNodeGroup   = "NodeGroup"
	kindMachineSet  = "MachineSet"
	kindMachine     = "Machine"
	kindHealthCheck = "MachineHealthCheck"
	kindAutoscaler  = "MachineAutoscaler"
	kindMaintenance = "NodeMaintenance"
	kindRun         = "MutexRunConfig"
)

// WaitList is the document of everything that waits or is blocked, the worst first.
type WaitList struct {
	view.TypeMeta
	Items []Wait `json:"items"`
	// Omitted is how many more there are.
	Omitted int `json:"omitted,omitempty"`
}

// Wait is an object that waits or is blocked, and why.
type Wait struct {
	// ID is what no other wait has: kind, namespace and name of the object, and what of it waits.
	ID         string  `json:"id"`
	Urgency    Urgency `json:"urgency"`
	Capability string  `json:"capability"`
	Kind       string  `json:"kind"`
	Namespace  string  `json:"namespace,omitempty"`
	Name       string  `json:"name"`
	// Resource is the object as kubectl takes it: resource.group/name.
	Resource string `json:"resource"`
	// Node is the node that the object is about; empty for none, and for several.
	Node  string `json:"node,omitempty"`
	Since string `json:"since,omitempty"`
	// Condition is the type of the condition that says why; empty where the status says it without one.
	Condition string `json:"condition,omitempty"`
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
	// Action is what to do, and Runbook the address of a page that says more.
	Action  string `json:"action,omitempty"`
	Runbook string `json:"runbook,omitempty"`
}

// Key returns the wait's ID.
func (w Wait) Key() string { return w.ID }

// maxWaits is how many waits a list has.
const maxWaits = 5000

// waitsOf returns what an object waits for. A nil object waits for nothing.
func waitsOf(object client.Object) []Wait {
	switch object := object.(type) {
	case *drover.NodeGroup:
		return groupWaits(object)
	case *machinev1beta1.MachineSet:
		return setWaits(object)
	case *machinev1beta1.Machine:
		return machineWaits(object)
	case *machinev1beta1.MachineHealthCheck:
		s := subject{kind: kindHealthCheck, object: object}
		return s.unmet(machineConditions(object.Status.Conditions), "RemediationAllowed", "ExternalRemediationTemplateAvailable",
			"ExternalRemediationRequestAvailable", "RemediationProgressing")
	case *autoscaling.MachineAutoscaler:
		return subject{kind: kindAutoscaler, object: object}.unmet(object.Status.Conditions, "Ready")
	case *medik8s.NodeMaintenance:
		return maintenanceWaits(object)
	case *mutex.MutexRunConfig:
		return runWaits(object)
	}
	return nil
}

// compareWaits puts the worst first, and then the oldest. A wait of unknown age comes last.
func compareWaits(a, b Wait) int {
	const never = "~"
	return cmp.Or(
		slices.Index(urgencies, a.Urgency)-slices.Index(urgencies, b.Urgency),
		strings.Compare(cmp.Or(a.Since, never), cmp.Or(b.Since, never)),
		strings.Compare(a.ID, b.ID),
	)
}

// subject is the object that a wait is of.
type subject struct {
	kind   string
	object metav1.Object
	node   string
	// resource is the kind's resource, if the kind alone does not say it.
	resource string
}

// wait returns a wait for a reason.
func (s subject) wait(condition, reason, message string, since time.Time) Wait {
	advice := adviceOf(s.kind, reason)
	of := kinds[s.kind]
	resource := cmp.Or(s.resource, of.resource)
	return Wait{
		ID:      strings.Join([]string{resource, s.object.GetNamespace(), s.object.GetName(), condition}, "/"),
		Urgency: advice.urgency, Capability: of.capability, Kind: s.kind, Namespace: s.object.GetNamespace(), Name: s.object.GetName(),
		Resource: resource + "/" + s.object.GetName(), Node: Text(s.node, maxName), Since: Stamp(since), Condition: condition,
		Reason: Text(reason, maxReason), Message: Text(message, maxMessage), Action: advice.action, Runbook: advice.runbook,
	}
}

// of returns the wait for a condition.
func (s subject) of(condition *metav1.Condition) Wait {
	return s.wait(condition.Type, condition.Reason, condition.Message, condition.LastTransitionTime.Time)
}

// unmet returns a wait for each reason that conditions of some types have without being True.
func (s subject) unmet(conditions []metav1.Condition, types ...string) (waits []Wait) {
	seen := map[string]bool{}
	for _, kind := range types {
		condition := meta.FindStatusCondition(conditions, kind)
		if condition != nil && condition.Status != metav1.ConditionTrue && !seen[condition.Reason] {
			seen[condition.Reason] = true
			waits = append(waits, s.of(condition))
		}
	}
	return waits
}

// groupWaits returns the waits of a NodeGroup. Progress is none.
func groupWaits(group *drover.NodeGroup) (waits []Wait) {
	s := subject{kind: kindNodeGroup, object: group}
	blocked := meta.FindStatusCondition(group.Status.Conditions, drover.ConditionBlocked)
	isBlocked := blocked != nil && blocked.Status == metav1.ConditionTrue
	if isBlocked {
		waits = append(waits, s.of(blocked))
	}
	ready := meta.FindStatusCondition(group.Status.Conditions, drover.ConditionReady)
	quiet := []string{groupplan.ReasonNotSynced, groupplan.ReasonNoNodes}
	if ready != nil && ready.Status != metav1.ConditionTrue && !slices.Contains(quiet, ready.Reason) && (!isBlocked || ready.Reason != blocked.Reason) {
		waits = append(waits, s.of(ready))
	}
	progressing := meta.FindStatusCondition(group.Status.Conditions, drover.ConditionProgressing)
	held := []string{groupplan.ReasonPausing, groupplan.ReasonSuspended, groupplan.ReasonDryRun}
	if progressing != nil && slices.Contains(held, progressing.Reason) {
		waits = append(waits, s.of(progressing))
	}
	return waits
}

// setWaits returns the waits of a MachineSet for Machines. Machines that are not ready are waits of their own.
func setWaits(set *machinev1beta1.MachineSet) []Wait {
	s := subject{kind: kindMachineSet, object: set}
	conditions := machineConditions(set.Status.Conditions)
	waits := s.unmet(conditions, "MachinesCreated", "Resized")
	if paused := meta.FindStatusCondition(conditions, "Paused"); paused != nil && paused.Status == metav1.ConditionTrue {
		waits = append(waits, s.of(paused))
	}
	return waits
}

// rolloutReasons are the reasons of what keeps the roll-out of a MachineSet's metadata from its end.
const (
	reasonPending  = "MetadataPending"
	reasonConflict = "MetadataConflict"
	reasonRefused  = "MetadataRefused"
	reasonHeld     = "MetadataHeld"
)

// rolloutWaits returns what keeps the metadata of a MachineSet from all of its Nodes.
func rolloutWaits(status *view.MachineSetStatus) (waits []Wait) {
	s := subject{kind: kindMachineSet, object: &metav1.ObjectMeta{Namespace: status.Namespace, Name: status.Name}}
	message, counts := view.RolloutOfMachineSet(status, nil).Message, status.Summary
	for _, each := range []struct {
		reason string
		count  int
	}{
		{reasonConflict, counts.Conflict}, {reasonRefused, counts.Refused}, {reasonHeld, counts.Held}, {reasonPending, status.Unfinished()},
	} {
		if each.count > 0 {
			wait := s.wait(each.reason, each.reason, fmt.Sprintf("%d of %d Machines. %s", each.count, counts.Machines, message), time.Time{})
			wait.Capability, wait.Condition = "metadata", ""
			waits = append(waits, wait)
		}
	}
	return waits
}

// machineWaits returns what a Machine waits for.
func machineWaits(machine *machinev1beta1.Machine) []Wait {
	s := subject{kind: kindMachine, object: machine, node: machineapi.NodeName(machine)}
	conditions := machineConditions(machine.Status.Conditions)
	if machine.DeletionTimestamp != nil {
		if waits := s.unmet(conditions, "Drainable", "Drained", "Terminable"); len(waits) > 0 {
			return waits[:1]
		}
	}
	ready := meta.FindStatusCondition(conditions, "Ready")
	switch {
	case ready != nil && ready.Status == metav1.ConditionTrue:
		return nil
	case ready != nil:
		return []Wait{s.wait(ready.Type, ready.Reason, cmp.Or(ready.Message, errorOf(machine)), ready.LastTransitionTime.Time)}
	}
	return phaseWaits(s, machine)
}

// phaseWaits returns what a Machine of machine-api-operator waits for: its phase says so, and no condition.
func phaseWaits(s subject, machine *machinev1beta1.Machine) []Wait {
	phase := ""
	if machine.Status.Phase != nil {
		phase = *machine.Status.Phase
	}
	reasons := map[string]string{
		machinev1beta1.PhaseFailed: "Failed", machinev1beta1.PhaseProvisioning: "Provisioning", machinev1beta1.PhaseProvisioned: "AwaitingNode",
		machinev1beta1.PhaseDeleting: "Deleting",
	}
	reason := reasons[phase]
	if reason == "" {
		return nil
	}
	return []Wait{s.wait("", reason, errorOf(machine), machine.CreationTimestamp.Time)}
}

// errorOf returns the error in the status of a Machine; empty for none.
func errorOf(machine *machinev1beta1.Machine) string {
	if machine.Status.ErrorMessage == nil {
		return ""
	}
	return *machine.Status.ErrorMessage
}

// maintenanceWaits returns what a NodeMaintenance waits for.
func maintenanceWaits(m *medik8s.NodeMaintenance) []Wait {
	kind := m.GetObjectKind().GroupVersionKind()
	s := subject{kind: kindMaintenance, object: m, node: m.Spec.NodeName, resource: "nodemaintenances." + kind.Group}
	ready := meta.FindStatusCondition(m.Status.Conditions, "Ready")
	switch {
	case ready != nil && ready.Status == metav1.ConditionTrue, ready == nil && m.Status.Phase == medik8s.PhaseSucceeded:
		return nil
	case ready != nil:
		return []Wait{s.of(ready)}
	case m.Status.Phase == "":
		return []Wait{s.wait("", "NotObserved", view.WaitsFor(m), m.CreationTimestamp.Time)}
	}
	return []Wait{s.wait("", string(m.Status.Phase), view.WaitsFor(m), m.CreationTimestamp.Time)}
}

// runWaits returns what a gated upgrade waits for, and its nodes that have failed.
func runWaits(run *mutex.MutexRunConfig) (waits []Wait) {
	s := subject{kind: kindRun, object: run}
	since := time.Time{}
	if run.Status.Started != nil {
		since = run.Status.Started.Time
	}
	phases := []mutex.Phase{
		mutex.PhaseInvalid, mutex.PhaseClaimed, mutex.PhaseWaiting, mutex.PhaseStopped, mutex.PhaseSuspended, mutex.PhaseAborted, mutex.PhaseDryRun,
	}
	if slices.Contains(phases, run.Status.Phase) {
		waits = append(waits, s.wait("", string(run.Status.Phase), run.Status.Message, since))
	}
	for _, node := range run.Status.Nodes {
		if node.Phase == mutex.NodeFailed {
			s.node = node.Name
			wait := s.wait("", "NodeFailed", node.Message, since)
			wait.ID += "/" + wait.Node
			waits = append(waits, wait)
		}
	}
	return waits
}
