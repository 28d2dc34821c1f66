package plan

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// asks tells whether a requirement is one that runs put into the selectors of pools, or the incumbent does.
func asks(r metav1.LabelSelectorRequirement) bool {
	return strings.HasPrefix(r.Key, LabelPrefix) || r.Key == LabelRun
}

// edited tells that the selector of a pool asks for what runs put there.
func edited(pool *mcfgv1.MachineConfigPool) bool {
	return pool.Spec.NodeSelector != nil && slices.ContainsFunc(pool.Spec.NodeSelector.MatchExpressions, asks)
}

// orphaned says what a person has to put back in a pool that asks for what runs put there while nothing says what was there before.
func orphaned(pool *mcfgv1.MachineConfigPool) string {
	return fmt.Sprintf("MachineConfigPool %s: its selector asks for labels of rules, and there is no annotation %s that says what it was before; "+
		"put spec.nodeSelector and spec.paused back as they were", pool.Name, AnnotationClaim)
}

// untaken finds pools that the run is about to claim, or has claimed, and that are not as somebody declared them: claiming one as it is now
// would make a run's changes what is given back.
func (s *Scene) untaken() {
	for _, pool := range s.Pools {
		wanted := pool == s.Canary || slices.Contains(s.Targets, pool)
		if wanted && pool.Annotations[AnnotationClaim] == "" && edited(pool) {
			s.Faults = append(s.Faults, orphaned(pool))
		}
	}
}

// Lost says which pools the run has changed and cannot give back, since what they were before cannot be read any more; empty for none. Until
// a person has put that right nothing else can be given back either: nodes without the labels would leave those pools.
func (s *Scene) Lost() []string {
	var texts []string
	for _, pool := range s.Pools {
		_, err := ClaimOf(pool)
		switch {
		case s.Claims[pool.Name] != nil || !s.changed(pool):
		case err != nil:
			texts = append(texts, fmt.Sprintf("%v; put it right, or put spec.nodeSelector and spec.paused back as they were and take it away", err))
		case edited(pool):
			texts = append(texts, orphaned(pool))
		}
	}
	return texts
}

// changed tells whether it was this run that has changed a pool without a claim that can be read, as far as can be known.
func (s *Scene) changed(pool *mcfgv1.MachineConfigPool) bool {
	uid := string(s.Run.UID)
	if strings.Contains(pool.Annotations[AnnotationClaim], uid) {
		return true
	}
	if len(s.Marked) > 0 && (pool == s.Canary || slices.Contains(s.Targets, pool)) {
		return true
	}
	return pool.Spec.NodeSelector != nil && slices.ContainsFunc(pool.Spec.NodeSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		// The canary asks for the run, a target pool for labels that the run's nodes have.
		return r.Key == LabelRun && slices.Contains(r.Values, uid) || asks(r) && slices.ContainsFunc(s.Marked, func(node *corev1.Node) bool {
			_, there := node.Labels[r.Key]
			return there && r.Key != LabelRun
		})
	})
}

// Prepared are the nodes without any run's label that the run has Jobs of which something may be owed for: those that it may be cleaning up
// without a pool. All runs have one holder of leases; so what is settled is left out, since such a node may be another run's by now.
func (s *Scene) Prepared() []*corev1.Node {
	has := map[types.UID]bool{}
	for _, job := range s.Jobs {
		if !settled(s.Run, job) {
			has[types.UID(job.Annotations[AnnotationNodeUID])] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(s.others), func(node *corev1.Node) bool { return node.Labels[LabelRun] != "" || !has[node.UID] })
}

// Course is what a run does next.
type Course string

// The courses.
const (
	// CourseGate: pools are claimed and changed, and nodes have their turn.
	CourseGate Course = "Gate"
	// CourseCleanUp: nodes are cleaned up that have the version. No pool is needed for that.
	CourseCleanUp Course = "CleanUp"
	// CourseRest: nothing is left to do, but to give back what is held.
	CourseRest Course = "Rest"
)

// Course says what the run does next after a decision. A run that holds nothing takes no pool for nodes that it would leave out, and none to
// wait for a clean-up Job that has failed.
func (s *Scene) Course(d *Decision) Course {
	idle := !s.Holds() && s.Behind() == d.LeftOut && !slices.ContainsFunc(d.Steps, func(step Step) bool {
		phase := step.Status.Phase
		return phase != v1alpha1.NodeCleaningUp && underWay(phase)
	})
	switch {
	case idle && (len(d.Current) > 0 || d.Phase == v1alpha1.PhaseStopped):
		return CourseCleanUp
	case idle || d.Phase == v1alpha1.PhaseDone:
		return CourseRest
	}
	return CourseGate
}
