package grouplayer

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/pace"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/status"
)

// TestApply_Withheld: what was decided without the guard, because the Node's turn had not come, is not written if it comes meanwhile.
func TestApply_Withheld(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: "uid-n0"}}
	rc := &reconciliation{
		Layer: newLayer(t), Assignment: members.Assignment{Node: node}, state: &nodeState{}, withheld: true,
	}
	decision := metadataplan.GroupDecision{Guarded: []string{"example.com/batch:NoExecute"}, Change: metadataplan.Change{Write: true}}
	out, due := rc.prepare(&decision, controller.Requeue{}, false)
	if due || !out.postponed || out.requeue.Delay() == 0 {
		t.Errorf("due: %v, written is %+v", due, out)
	}
}

func newLayer(t *testing.T) *Layer {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return NewLayer(Dependencies{
		Recorder: record.NewFakeRecorder(10), Metrics: metrics, Gate: &gate.Gate{},
	}, Options{Limiter: pace.NewLimiter(0, 0)})
}

func get(t *testing.T, c client.Reader, node *corev1.Node) {
	t.Helper()
	if err := c.Get(t.Context(), types.NamespacedName{Name: node.Name}, node); err != nil {
		t.Fatal(err)
	}
}

// TestResult_Postponed: a write that waits for its turn after it was denied keeps its back-off, and is not reported again.
func TestResult_Postponed(t *testing.T) {
	rc := newGroupReconciliation(t)
	denied := &written{class: status.Denied, err: errors.New("a policy denies it")}
	postponed := &written{class: status.OK, postponed: true}
	for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		rc.report(&metadataplan.GroupDecision{}, denied)
		if result, err := rc.result(denied); err != nil || result.RequeueAfter != want {
			t.Errorf("denied %d times: again in %s, want %s: %v", i+1, result.RequeueAfter, want, err)
		}
		rc.report(&metadataplan.GroupDecision{}, postponed)
		if _, err := rc.result(postponed); err != nil || !rc.state.denied {
			t.Errorf("the denial is forgotten: %v", err)
		}
	}
}

// TestMayWrite: a Node is written when its turn has come, both in its current group and in the group that it has left.
func TestMayWrite(t *testing.T) {
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	newGroup := func(name string) *members.Group {
		return members.Parse(&v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(start)}})
	}
	group, old := newGroup("group"), newGroup("old")
	old.Declaration.Revision = "1"
	admitted := sets.New("n0")
	first, drift := metadataplan.GroupDecision{FirstWrite: true}, metadataplan.GroupDecision{Drift: true}
	for name, test := range map[string]struct {
		group, recorded *members.Group
		created         time.Time
		decision        metadataplan.GroupDecision
		admission       gate.Admission
		releasing       sets.Set[string]
		want            bool
	}{
		"its wave has not come":                     {group: group, recorded: group},
		"its wave has come":                         {group: group, recorded: group, admission: gate.Admission{Nodes: admitted}, want: true},
		"a manual edit":                             {group: group, recorded: group, decision: drift, want: true},
		"it has just registered":                    {group: group, created: start.Add(time.Minute), decision: first, want: true},
		"it was there when the group was created":   {group: group, created: start.Add(-time.Minute), decision: first},
		"it has left, and is not released yet":      {recorded: old},
		"it has left, and was admitted as a member": {recorded: old, admission: gate.Admission{Nodes: admitted}},
		"it has left, and is released":              {recorded: old, releasing: admitted, want: true},
		"the group that it has left is gone":        {want: true},
		"it moves, and is not released yet":         {group: group, recorded: old, admission: gate.Admission{Nodes: admitted}},
		"it moves, and its wave has not come":       {group: group, recorded: old, releasing: admitted},
		"it moves, is released, and its wave has come": {
			group: group, recorded: old, admission: gate.Admission{Nodes: admitted}, releasing: admitted, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", CreationTimestamp: metav1.NewTime(test.created)}}
			r := newLayer(t)
			r.Gate = &gate.Gate{}
			test.admission.Declarations = sets.New(group.Declaration.Revision)
			r.Gate.Set(group.UID, test.admission)
			r.Gate.Set(old.UID, gate.Admission{Declarations: sets.New(old.Declaration.Revision), Nodes: test.admission.Nodes, Released: test.releasing})
			rc := &reconciliation{
				Layer:      r,
				Assignment: members.Assignment{Node: node, Group: test.group, Recorded: test.recorded},
				now:        start.Add(2 * time.Minute),
			}
			if got := rc.mayWrite(&test.decision); got != test.want {
				t.Errorf("it may be written: %t, want %t", got, test.want)
			}
		})
	}
}
