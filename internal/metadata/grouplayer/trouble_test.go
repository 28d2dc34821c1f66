package grouplayer

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/pace"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/status"
)

// newGroupReconciliation returns the reconciliation of a Node whose group declares the label team, and has admitted it.
func newGroupReconciliation(t *testing.T) *reconciliation {
	t.Helper()
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "uid-g"}}
	group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"team": "blue"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}
	r, parsed := newLayer(t), members.Parse(group)
	r.Gate = &gate.Gate{}
	r.Gate.Set(group.UID, gate.Admission{Declarations: sets.New(parsed.Declaration.Revision), Nodes: sets.New("n0")})
	return &reconciliation{
		Layer: r, Assignment: members.Assignment{Node: node, Group: parsed}, state: &nodeState{}, now: r.Clock.Now(),
	}
}

// TestReportContention: the group knows of a contention for as long as it goes on, also between its pauses.
func TestReportContention(t *testing.T) {
	rc := newGroupReconciliation(t)
	contended := func() bool {
		var requeue controller.Requeue
		rc.reportContention(&requeue)
		found := rc.Gate.Trouble("n0").Contended.Of(ownership.Label).Has("team")
		if found != (requeue.Delay() > 0) {
			t.Errorf("contended %t, asked for again in %s", found, requeue.Delay())
		}
		return found
	}
	for range pace.ContentionThreshold {
		if contended() {
			t.Fatal("it is contended before it is")
		}
		rc.contention.Repaired(rc.entry(ownership.Label, "team"), rc.now)
	}
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {2 * pace.ContentionPause, true}, {time.Hour, false}} {
		rc.now = rc.now.Add(step.after)
		if got := contended(); got != step.want {
			t.Errorf("after %s it is contended: %t", step.after, got)
		}
	}
}

// TestReportFailure_NotReleased: a group learns that another group does not release a Node that has left it.
func TestReportFailure_NotReleased(t *testing.T) {
	blocked := []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Message: "a label needs to be confirmed"}}
	for name, c := range map[string]struct {
		change    func(left *v1alpha1.NodeGroup)
		releasing bool
		want      string
	}{
		"it will release it": {func(*v1alpha1.NodeGroup) {}, false, ""},
		"suspended": {
			func(left *v1alpha1.NodeGroup) { left.Spec.Suspend = true }, false,
			"NodeGroup old, which it has left, does not release it: it is suspended",
		},
		"dry run":                    {func(left *v1alpha1.NodeGroup) { left.Spec.DryRun = true }, false, "it is a dry run"},
		"blocked":                    {func(left *v1alpha1.NodeGroup) { left.Status.Conditions = blocked }, false, "a label needs to be confirmed"},
		"suspended, but released":    {func(left *v1alpha1.NodeGroup) { left.Spec.Suspend = true }, true, ""},
		"suspended, but being ended": {func(left *v1alpha1.NodeGroup) { left.Spec.Suspend, left.DeletionTimestamp = true, &metav1.Time{} }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rc := newGroupReconciliation(t)
			left := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "old", UID: "uid-old"}}
			c.change(left)
			rc.Recorded = members.Parse(left)
			if c.releasing {
				rc.Gate.Set(left.UID, gate.Admission{Released: sets.New("n0")})
			}
			rc.reportFailure(&metadataplan.GroupDecision{Change: metadataplan.Change{Write: true}}, &written{class: status.OK})
			if got := rc.Gate.Trouble("n0").Failing; !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("it fails because of %q, want %q", got, c.want)
			}
		})
	}
}

// TestReportFailure: the group hears at once of a Node that the API server denies to write, after a while of one on which other writers are faster.
func TestReportFailure(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "n0", errors.New("changed"))
	denied := apierrors.NewForbidden(corev1.Resource("nodes"), "n0", errors.New("a policy denies it"))
	for name, c := range map[string]struct {
		steps []error
		want  bool
	}{
		"denied":                          {[]error{denied}, true},
		"denied, then written":            {[]error{denied, nil}, false},
		"one conflict":                    {[]error{conflict}, false},
		"conflicts for a while":           {[]error{conflict, conflict, conflict}, true},
		"written between conflicts":       {[]error{conflict, conflict, nil, conflict}, false},
		"the API server does not respond": {[]error{errors.New("timeout")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			rc := newGroupReconciliation(t)
			decision := &metadataplan.GroupDecision{Change: metadataplan.Change{Write: true}}
			for _, err := range c.steps {
				rc.reportFailure(decision, &written{wrote: err == nil, class: status.Classify(err), err: err})
				rc.now = rc.now.Add(failsAfter / 2)
			}
			if got := rc.Gate.Trouble("n0").Failing; (got != "") != c.want {
				t.Errorf("it fails because of %q", got)
			}
			if rc.Gate.Set("uid-g", gate.Admission{}); c.want {
				rc.reportFailure(decision, &written{class: status.OK, postponed: true})
				if rc.Gate.Trouble("n0").Failing == "" {
					t.Error("it does not fail any more while its turn has not come again")
				}
				rc.Group = members.Parse(&v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "uid-g"}})
				rc.Assignment = members.Assignment{Node: rc.Node, Group: rc.Group}
				rc.reportFailure(decision, &written{class: status.OK, postponed: true})
				if got := rc.Gate.Trouble("n0").Failing; got != "" {
					t.Errorf("with another declaration it fails because of %q", got)
				}
			}
			rc.reportFailure(&metadataplan.GroupDecision{}, &written{class: status.OK})
			if got := rc.Gate.Trouble("n0").Failing; got != "" {
				t.Errorf("with nothing to write it fails because of %q", got)
			}
		})
	}
}
