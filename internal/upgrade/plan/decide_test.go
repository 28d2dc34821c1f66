package plan

import (
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/paused"
)

func TestDecide(t *testing.T) {
	reserve := func(r *Run) {
		r.Reservations["infra"] = Reserve(r.Targets[0], keyOf(r.Config), r.Config.UID)
	}
	pause := func(r *Run) { metav1.SetMetaDataAnnotation(&r.Config.ObjectMeta, paused.Annotation, "") }
	remove := func(r *Run) { r.Config.DeletionTimestamp = &metav1.Time{Time: testTime} }
	refuse := func(r *Run) { r.Refused, r.Config.Finalizers = "refused", []string{v1alpha1.Finalizer} }
	upgraded := func(r *Run) { r.Nodes[0].Version, r.Labeled = r.Desired, nil }
	for name, c := range map[string]struct {
		change            []func(*Run)
		action            Action
		phase             v1alpha1.Phase
		message           string
		stopJobs, removed bool
	}{
		"nodes outdated":                      {nil, ActionGate, v1alpha1.PhaseWaiting, "being prepared", false, false},
		"nodes upgraded":                      {[]func(*Run){upgraded}, ActionRestore, v1alpha1.PhaseIdle, "all nodes", false, false},
		"nodes upgraded, something reserved":  {[]func(*Run){upgraded, reserve}, ActionRestore, v1alpha1.PhaseDone, "all nodes", false, false},
		"suspended":                           {[]func(*Run){func(r *Run) { r.Config.Spec.Suspend = true }}, ActionRestore, v1alpha1.PhaseSuspended, "spec.suspend", false, false},
		"aborted":                             {[]func(*Run){func(r *Run) { r.Config.Spec.Abort = true }}, ActionRestore, v1alpha1.PhaseAborted, "spec.abort", true, false},
		"paused":                              {[]func(*Run){pause}, ActionPause, "", "paused by the annotation", false, false},
		"deleted":                             {[]func(*Run){remove}, ActionRestore, "", "", true, true},
		"deleted while paused":                {[]func(*Run){remove, pause}, ActionPause, "", "paused by the annotation", false, false},
		"refused":                             {[]func(*Run){refuse}, ActionRestore, v1alpha1.PhaseInvalid, "refused", true, true},
		"refused while paused":                {[]func(*Run){refuse, pause}, ActionRestore, v1alpha1.PhaseInvalid, "refused", true, true},
		"refused, deleted while paused":       {[]func(*Run){refuse, remove, pause}, ActionRestore, "", "", true, true},
		"refused without finalizer":           {[]func(*Run){refuse, func(r *Run) { r.Config.Finalizers = nil }}, ActionNone, v1alpha1.PhaseInvalid, "refused", false, true},
		"invalid":                             {[]func(*Run){func(r *Run) { r.problem("broken") }}, ActionWait, v1alpha1.PhaseInvalid, "broken", false, false},
		"desired version unknown":             {[]func(*Run){func(r *Run) { r.VersionProblem, r.Labeled = "unknown", nil }}, ActionRestore, v1alpha1.PhaseIdle, "unknown", false, false},
		"desired version unknown, reserved":   {[]func(*Run){reserve, func(r *Run) { r.VersionProblem = "unknown" }}, ActionWait, v1alpha1.PhaseInvalid, "unknown", false, false},
		"versions of nodes unknown":           {[]func(*Run){func(r *Run) { r.Nodes[0].Version = "" }}, ActionWait, v1alpha1.PhaseInvalid, "the version of 1 nodes", false, false},
		"dry run":                             {[]func(*Run){func(r *Run) { r.Config.Spec.DryRun = true }}, ActionNone, v1alpha1.PhaseDryRun, "1 of 1 nodes would be upgraded", false, false},
		"dry run of a run that has reserved":  {[]func(*Run){reserve, func(r *Run) { r.Config.Spec.DryRun = true }}, ActionGate, v1alpha1.PhaseWaiting, "", false, false},
		"clean-up of a node that is upgraded": {[]func(*Run){upgraded, prepared}, ActionCleanUp, v1alpha1.PhaseWaiting, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRun(t, 1)
			g.run.Canary = newMCP("canary", false, nil)
			g.run.Targets = []*mcfgv1.MachineConfigPool{newMCP("infra", false, nil)}
			g.run.MCPs, g.run.Reservations = append(slices.Clone(g.run.Targets), g.run.Canary), map[string]*Reservation{}
			for _, change := range c.change {
				change(g.run)
			}
			p := Decide(g.run)
			if p.Action != c.action || p.Phase != c.phase || !strings.Contains(p.Message, c.message) {
				t.Errorf("%s, phase %q: %q", p.Action, p.Phase, p.Message)
			}
			if p.StopJobs != c.stopJobs || p.RemoveFinalizer != c.removed {
				t.Errorf("Jobs are stopped: %t, the finalizer is removed: %t", p.StopJobs, p.RemoveFinalizer)
			}
		})
	}
}

// prepared adds a Job that has succeeded before the upgrade of the node.
func prepared(r *Run) {
	node := r.Nodes[0]
	id := JobID{Run: r.Config.UID, Version: r.Desired, Node: node.UID, Rule: keyOf(r.Rules[0].Object), Kind: BeforeUpgrade}
	job := NewJob(r.Rules[0].Object, r.Rules[0].Before, node.Node, id)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "True"}}
	r.Jobs[keyOf(job)] = job
}
