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
	type changes []func(*Run)
	reserve := func(r *Run) {
		r.Reservations["infra"] = Reserve(r.Targets[0], keyOf(r.Config), r.Config.UID)
	}
	pause := func(r *Run) { metav1.SetMetaDataAnnotation(&r.Config.ObjectMeta, paused.Annotation, "") }
	remove := func(r *Run) { r.Config.DeletionTimestamp = &metav1.Time{Time: testTime} }
	refuse := func(r *Run) { r.Refused, r.Config.Finalizers = "refused", []string{v1alpha1.Finalizer} }
	upgraded := func(r *Run) { r.Nodes[0].Version, r.Labeled = r.Desired, nil }
	suspend := func(r *Run) { r.Config.Spec.Suspend = true }
	abort := func(r *Run) { r.Config.Spec.Abort = true }
	dryRun := func(r *Run) { r.Config.Spec.DryRun = true }
	for name, c := range map[string]struct {
		change        changes
		want, message string
	}{
		"nodes outdated":                      {nil, "Gate Waiting", "being prepared"},
		"nodes upgraded":                      {changes{upgraded}, "Restore Idle", "all nodes"},
		"nodes upgraded, something reserved":  {changes{upgraded, reserve}, "Restore Done", "all nodes"},
		"suspended":                           {changes{suspend}, "Restore Suspended", "spec.suspend"},
		"aborted":                             {changes{abort}, "Restore Aborted stop-jobs", "spec.abort"},
		"paused":                              {changes{pause}, "Pause", "paused by the annotation"},
		"deleted":                             {changes{remove}, "Restore stop-jobs remove-finalizer", ""},
		"deleted while paused":                {changes{remove, pause}, "Pause", "paused by the annotation"},
		"refused":                             {changes{refuse}, "Restore Invalid stop-jobs remove-finalizer", "refused"},
		"refused while paused":                {changes{refuse, pause}, "Restore Invalid stop-jobs remove-finalizer", "refused"},
		"refused, deleted while paused":       {changes{refuse, remove, pause}, "Restore stop-jobs remove-finalizer", ""},
		"refused without finalizer":           {changes{refuse, func(r *Run) { r.Config.Finalizers = nil }}, "None Invalid remove-finalizer", "refused"},
		"invalid":                             {changes{func(r *Run) { r.problem("broken") }}, "Wait Invalid", "broken"},
		"desired version unknown":             {changes{func(r *Run) { r.VersionProblem, r.Labeled = "unknown", nil }}, "Restore Idle", "unknown"},
		"desired version unknown, reserved":   {changes{reserve, func(r *Run) { r.VersionProblem = "unknown" }}, "Wait Invalid", "unknown"},
		"versions of nodes unknown":           {changes{func(r *Run) { r.Nodes[0].Version = "" }}, "Wait Invalid", "the version of 1 nodes"},
		"dry run":                             {changes{dryRun}, "None DryRun", "1 of 1 nodes would be upgraded"},
		"dry run of a run that has reserved":  {changes{reserve, dryRun}, "Gate Waiting", ""},
		"clean-up of a node that is upgraded": {changes{upgraded, prepared}, "CleanUp Waiting", ""},
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
			got := strings.TrimSpace(string(p.Action) + " " + string(p.Phase))
			if p.StopJobs {
				got += " stop-jobs"
			}
			if p.RemoveFinalizer {
				got += " remove-finalizer"
			}
			if got != c.want || !strings.Contains(p.Message, c.message) {
				t.Errorf("%s: %q, want %s", got, p.Message, c.want)
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
