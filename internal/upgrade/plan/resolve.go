package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/undecodable"
)

// Resolve finds everything that a MutexRunConfig refers to, and what is wrong with it.
func Resolve(in *Input) *Run {
	r := &Run{
		Config: in.Config, Refused: in.refusal(in.Config.Namespace), Reservations: map[string]*Reservation{}, Jobs: ownJobs(in),
		MaxUnavailable: map[string]int{}, Now: in.Now,
	}
	r.resolveMCPs(in)
	r.resolveRules(in)
	r.resolveTargets(in)
	r.resolveVersion(in.Version)
	for _, node := range in.Nodes {
		r.addNode(in, node)
	}
	members := map[string]int{}
	for _, node := range r.Nodes {
		members[node.MCP]++
	}
	for _, mcp := range r.Targets {
		r.MaxUnavailable[mcp.Name] = MaxUnavailable(mcp, members[mcp.Name])
	}
	if !in.Ending {
		r.resolveWait()
	}
	return r
}

func (r *Run) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *Run) resolveMCPs(in *Input) {
	r.MCPs = slices.SortedFunc(slices.Values(in.MCPs), compareMCPs)
	for _, mcp := range r.MCPs {
		reservation, err := ReservationOf(mcp)
		if err != nil {
			r.problem("%v", err)
		}
		if reservation != nil {
			r.Reservations[mcp.Name] = reservation
		}
	}
	var err error
	if r.membership, err = NewMembership(r.MCPs); err != nil && len(r.Problems) == 0 {
		r.problem("%v", err)
	}
}

// resolve returns what a reference names. Without a namespace it is in the run's own.
func (r *Run) resolve(ref v1alpha1.Reference) types.NamespacedName {
	if ref.Namespace == "" {
		ref.Namespace = r.Config.Namespace
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

func (r *Run) resolveRules(in *Input) {
	for _, ref := range r.Config.Spec.MutexRules {
		name := r.resolve(ref)
		object := in.Rules[name]
		if object == nil {
			r.problem("MutexRule %s does not exist", name)
			continue
		}
		if refusal := in.refusal(name.Namespace); refusal != "" {
			r.problem("MutexRule %s: %s", name, refusal)
			continue
		}
		if err := undecodable.Check(object); err != nil {
			r.problem("%v", err)
			continue
		}
		rule, err := validRule(object)
		if err == nil && slices.Contains(r.Keys, rule.Key) {
			err = errors.New("the run names it twice")
		}
		if err != nil {
			r.problem("MutexRule %s: %v", name, err)
			continue
		}
		r.Rules, r.Keys = append(r.Rules, rule), append(r.Keys, rule.Key)
	}
}

// validRule parses a rule that its controller has found valid.
func validRule(object *v1alpha1.MutexRule) (Rule, error) {
	condition := meta.FindStatusCondition(object.Status.Conditions, ConditionValid)
	switch {
	case condition == nil || condition.ObservedGeneration != object.Generation:
		return Rule{}, errors.New("it has not been validated yet")
	case condition.Status != metav1.ConditionTrue:
		return Rule{}, errors.New(condition.Message)
	}
	return ParseRule(object)
}

// ParseRule parses the Jobs of a rule, and determines the key of its label.
func ParseRule(object *v1alpha1.MutexRule) (rule Rule, err error) {
	rule.Object = object
	if rule.Key, err = LabelKey(keyOf(object)); err != nil {
		return rule, err
	}
	if rule.Before, err = ParseJobSpec(&object.Spec.JobSpec); err != nil {
		return rule, fmt.Errorf("spec.jobSpec: %w", err)
	}
	if object.Spec.CleanUpJobSpec != nil {
		if rule.After, err = ParseJobSpec(object.Spec.CleanUpJobSpec); err != nil {
			return rule, fmt.Errorf("spec.cleanUpJobSpec: %w", err)
		}
	}
	return rule, nil
}

func (r *Run) resolveTargets(in *Input) {
	for _, ref := range r.Config.Spec.MutexTargets {
		name := r.resolve(ref)
		target := in.Targets[name]
		if target == nil {
			r.problem("MutexTarget %s does not exist", name)
			continue
		}
		if refusal := in.refusal(name.Namespace); refusal != "" {
			r.problem("MutexTarget %s: %s", name, refusal)
			continue
		}
		if err := undecodable.Check(target); err != nil {
			r.problem("%v", err)
			continue
		}
		for _, mcp := range target.Spec.MachineConfigPools {
			r.addTarget(name, mcp)
		}
	}
	slices.SortFunc(r.Targets, compareMCPs)
	r.Targets = slices.Compact(r.Targets)
	r.checkMCPs()
}

// addTarget adds a MachineConfigPool of a MutexTarget.
func (r *Run) addTarget(target types.NamespacedName, mcp string) {
	found := findMCP(r.MCPs, mcp)
	switch {
	case found == nil:
		r.problem("MutexTarget %s: MachineConfigPool %s does not exist", target, mcp)
	case requiredForUpgrade(found):
		r.problem("MutexTarget %s: the upgrade of the control plane waits for MachineConfigPool %s, which therefore cannot wait for it", target, mcp)
	case mcp == r.Config.Spec.Canary.Name:
		r.problem("MutexTarget %s: MachineConfigPool %s is the canary, to which nodes are moved", target, mcp)
	default:
		r.Targets = append(r.Targets, found)
	}
}

// checkMCPs finds the canary, and the MachineConfigPools that the run cannot use as they are.
func (r *Run) checkMCPs() {
	switch r.Canary = findMCP(r.MCPs, r.Config.Spec.Canary.Name); {
	case r.Canary == nil:
		r.problem("the canary MachineConfigPool %s does not exist", r.Config.Spec.Canary.Name)
	case requiredForUpgrade(r.Canary):
		r.problem("the upgrade of the control plane waits for the canary MachineConfigPool %s", r.Canary.Name)
	}
	for _, mcp := range r.MCPs {
		r.checkRole(mcp)
	}
	for _, mcp := range r.MCPs {
		if r.requires(mcp) && mcp.Annotations[AnnotationReservation] == "" && requiresLabelsOfRuns(mcp) {
			// To reserve it as it is now would later restore the changes of a run.
			r.Problems = append(r.Problems, reservationLost(mcp))
		}
	}
}

// requiredForUpgrade reports whether the upgrade of the cluster is not completed before a MachineConfigPool is updated.
func requiredForUpgrade(mcp *mcfgv1.MachineConfigPool) bool {
	_, labeled := mcp.Labels["operator.machineconfiguration.openshift.io/required-for-upgrade"]
	return labeled || mcp.Name == masterMCP
}

// checkRole finds a MachineConfigPool with another role than when it was reserved: how to restore it depends on the role.
func (r *Run) checkRole(mcp *mcfgv1.MachineConfigPool) {
	reservation := r.Reservations[mcp.Name]
	if reservation == nil || reservation.UID != r.Config.UID {
		return
	}
	target := slices.Contains(r.Targets, mcp)
	if reservation.Canary && (mcp != r.Canary || target) || !reservation.Canary && mcp == r.Canary {
		r.problem("MachineConfigPool %s has another role in the run than when it was reserved: suspend the run first", mcp.Name)
	}
}

// resolveVersion reads the desired version. The history counts for that version only: before an update starts, the previous one is completed.
func (r *Run) resolveVersion(version *configv1.ClusterVersion) {
	if version == nil {
		r.VersionProblem = "ClusterVersion " + ClusterVersion + " does not exist"
		return
	}
	if r.Desired = DesiredVersion(version); r.Desired == "" {
		r.VersionProblem = "ClusterVersion " + ClusterVersion + " has no desired version"
	}
	if history := version.Status.History; len(history) > 0 {
		r.Completed = history[0].State == configv1.CompletedUpdate && SameVersion(history[0].Version, r.Desired)
	}
}

// DesiredVersion returns the target version of a cluster's upgrade, or else the cluster's current desired version; empty if neither is known.
func DesiredVersion(version *configv1.ClusterVersion) string {
	if desired := version.Spec.DesiredUpdate; desired != nil && desired.Version != "" {
		return desired.Version
	}
	return version.Status.Desired.Version
}

// addNode adds a node to the nodes of the targets, of the canary, and with the label of the run, as far as it is one of them.
func (r *Run) addNode(in *Input, node *corev1.Node) {
	if node.Labels[LabelRun] == string(r.Config.UID) {
		r.Labeled = append(r.Labeled, node)
	} else {
		r.unlabeled = append(r.unlabeled, node)
	}
	if r.membership == nil {
		return
	}
	mcps := r.membership.MCPsOf(node)
	if r.Canary != nil && slices.Equal(mcps, []string{r.Canary.Name}) {
		r.CanaryNodes = append(r.CanaryNodes, node)
		return
	}
	i := slices.IndexFunc(r.Targets, func(t *mcfgv1.MachineConfigPool) bool { return slices.Contains(mcps, t.Name) })
	if i < 0 {
		return
	}
	r.Nodes = append(r.Nodes, &Node{
		Node: node, Version: in.VersionOf(node), MCP: r.Targets[i].Name, Disputed: len(mcps) > 1, Unavailable: Unavailable(node),
		Blocked: r.blocked(in, node, mcps), PassedOver: in.PassedOver[node.UID], Drain: in.Drains[node.UID],
	})
}

// blocked returns why a node cannot be started; empty if it can.
func (r *Run) blocked(in *Input, node *corev1.Node, mcps []string) string {
	if len(mcps) > 1 {
		return "MachineConfigPools " + strings.Join(mcps, " and ") + " both select it"
	}
	if missing := r.missingLabel(node); missing != "" {
		return fmt.Sprintf("the canary MachineConfigPool %s selects nodes with the label %s, which it does not have", r.Canary.Name, missing)
	}
	if in.LeaseOf == nil {
		return ""
	}
	holder, until := in.LeaseOf(node.Name)
	if holder == "" {
		return ""
	}
	// That a lease expires is no event.
	r.wakeAt(later(until, in.Now.Add(time.Second)))
	return fmt.Sprintf("its lease is held by %q", holder)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// missingLabel returns a label that the canary requires and a node does not have; empty if there is none.
func (r *Run) missingLabel(node *corev1.Node) string {
	if r.Canary == nil {
		return ""
	}
	selector := r.Canary.Spec.NodeSelector
	if reservation := r.Reservations[r.Canary.Name]; reservation != nil {
		selector = reservation.NodeSelector
	}
	if selector == nil {
		return ""
	}
	for key, value := range selector.MatchLabels {
		if actual, found := node.Labels[key]; !found || actual != value {
			return key + "=" + value
		}
	}
	return ""
}
