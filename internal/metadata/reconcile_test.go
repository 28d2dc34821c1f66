package metadata

import (
	"errors"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/metadata/pace"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

var blue = map[string]string{"team": "blue"}

// one returns a MachineSet of one Machine with its Node.
func one(t *testing.T, options Options) (*fixture, *machinev1beta1.MachineSet, *machinev1beta1.Machine, *corev1.Node) {
	t.Helper()
	set := setOf("a", blue)
	machine, node := machineOf(set, "m1", "n1"), builder.Node("n1")
	return newFixture(t, options, set, machine, node), set, machine, node
}

func TestReconcile_WritesOnce(t *testing.T) {
	s, set, _, node := one(t, Options{})
	s.must(t, "m1", "Machine/m1 Node/n1")
	s.must(t, "m1", "")
	if got := s.emitted(); got != "Normal MetadataSynced" {
		t.Errorf("events %s", got)
	}
	apitest.Edit(t, s.client, node, func(n *corev1.Node) { n.Labels["foreign"] = "1" })
	s.must(t, "m1", "")
	apitest.Edit(t, s.client, set, func(m *machinev1beta1.MachineSet) {
		m.Spec.Template.Spec.Labels = map[string]string{"team": "red"}
		m.Generation = 2
	})
	s.must(t, "m1", "Machine/m1 Node/n1")
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil ||
		node.Labels["team"] != "red" || node.Labels["foreign"] != "1" {
		t.Errorf("%v, labels %v", err, node.Labels)
	}
	for name, got := range map[string]float64{
		"writes of Machines": s.metric(t, "drover_metadata_writes_total", "machine", "ok"),
		"writes of Nodes":    s.metric(t, "drover_metadata_writes_total", "node", "ok"),
	} {
		if got != 2 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if s.metric(t, "drover_metadata_nodes", "a", "machines", "synced") != 1 || s.metric(t, "drover_metadata_drift_repairs_total") != 0 {
		t.Error("one Machine is synced, nothing was repaired")
	}
}

func TestReconcile_UndoesManualEdits(t *testing.T) {
	s, _, machine, node := one(t, Options{})
	s.must(t, "m1", "Machine/m1 Node/n1")
	s.emitted()
	apitest.Edit(t, s.client, node, func(n *corev1.Node) { n.Labels["team"] = "x" })
	s.must(t, "m1", "Node/n1")
	if got := s.emitted(); got != "Normal MetadataRepaired" {
		t.Errorf("events %s", got)
	}
	apitest.Edit(t, s.client, machine, func(m *machinev1beta1.Machine) { m.Spec.Labels["team"] = "x" })
	s.must(t, "m1", "Machine/m1")
	if got := s.metric(t, "drover_metadata_drift_repairs_total"); got != 2 {
		t.Errorf("%v repairs", got)
	}
}

// Two writers of the same key would keep the API server busy for ever.
func TestReconcile_LeavesContendedKeysAlone(t *testing.T) {
	s, _, _, node := one(t, Options{})
	s.must(t, "m1", "Machine/m1 Node/n1")
	var result reconcile.Result
	for range pace.ContentionThreshold {
		apitest.Edit(t, s.client, node, func(n *corev1.Node) { n.Labels["team"] = "x" })
		result = s.must(t, "m1", "Node/n1")
	}
	s.emitted()
	// There may be no further edit, and the event of Drover's own write is ignored: the reconciliation that reports the pause is requeued.
	if result.RequeueAfter == 0 {
		t.Error("nothing reconciles again after the repair that made the key contended")
	}
	s.must(t, "m1", "")
	if s.metric(t, "drover_metadata_nodes", "a", "machines", "held") != 1 {
		t.Error("the Machine is not held although a key is left alone")
	}
	apitest.Edit(t, s.client, node, func(n *corev1.Node) { n.Labels["team"] = "x" })
	if result := s.must(t, "m1", ""); result.RequeueAfter != pace.ContentionPause {
		t.Errorf("reconciled again after %s", result.RequeueAfter)
	}
	if s.metric(t, "drover_metadata_fights_total") != 1 || s.metric(t, "drover_metadata_nodes", "a", "machines", "held") != 1 {
		t.Error("one contended key, one Machine held")
	}
	s.clock.SetTime(start.Add(pace.ContentionPause))
	s.must(t, "m1", "Node/n1")
	if got := s.emitted(); got != "Warning MetadataFight, Normal MetadataRepaired" && got != "Normal MetadataRepaired, Warning MetadataFight" {
		t.Errorf("events %s", got)
	}
}

func TestReconcile_LimitsWrites(t *testing.T) {
	set := setOf("a", blue)
	s := newFixture(t, Options{Limiter: pace.NewLimiter(1, 1)}, set,
		machineOf(set, "m1", "n1"), machineOf(set, "m2", "n2"), builder.Node("n1"), builder.Node("n2"))
	s.must(t, "m1", "Machine/m1 Node/n1")
	if result := s.must(t, "m2", ""); result.RequeueAfter != time.Second {
		t.Errorf("waits %s", result.RequeueAfter)
	}
	if s.emitted() != "" || s.metric(t, "drover_metadata_nodes", "a", "machines", "pending") != 1 {
		t.Error("the rollout is reported before its last Machine")
	}
	s.clock.SetTime(start.Add(time.Second))
	s.must(t, "m2", "Machine/m2 Node/n2")
	if got := s.emitted(); got != "Normal MetadataSynced" {
		t.Errorf("events %s", got)
	}
}

func TestReconcile_AnswersOfTheAPIServer(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for _, c := range []struct {
		name     string
		kind     string
		err      error
		after    time.Duration
		fails    bool
		event    string
		failures float64
		result   string
	}{
		{"conflict: no event", "Machine", apierrors.NewConflict(nodes, "m1", errors.New("modified")), controller.RetryConflict, false, "", 0, "conflict"},
		{"failed test of a JSON Patch: no event", "Node", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422}},
			controller.RetryConflict, false, "", 0, "conflict"},
		{"gone: the event of the deletion follows", "Node", apierrors.NewNotFound(nodes, "n1"), controller.CatchUp, false, "", 0, "gone"},
		{"denied: an event, and a long delay", "Node", apierrors.NewForbidden(nodes, "n1", errors.New("policy")), controller.FirstRetryDenied, false,
			"Warning MetadataDenied", 1, "denied"},
		{"any other error: backoff", "Node", apierrors.NewInternalError(errors.New("etcd")), 0, true, "", 1, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, _, _ := one(t, Options{})
			s.fail[c.kind] = c.err
			result, _, err := s.reconcile(t, "m1")
			if (err != nil) != c.fails || result.RequeueAfter != c.after {
				t.Errorf("error %v, again after %s", err, result.RequeueAfter)
			}
			if got := s.emitted(); got != c.event {
				t.Errorf("events %q", got)
			}
			kind := map[string]string{"Machine": "machine", "Node": "node"}[c.kind]
			if s.metric(t, "mnmo_node_reconciliation_failure", "n1") != c.failures || s.metric(t, "drover_metadata_writes_total", kind, c.result) != 1 {
				t.Error("the counters are wrong")
			}
			if _, _, err := s.reconcile(t, "m1"); (err != nil) != c.fails || s.emitted() != "" {
				t.Error("the second failure is reported again")
			}
			delete(s.fail, c.kind)
			if _, _, err := s.reconcile(t, "m1"); err != nil {
				t.Error(err)
			}
			s.must(t, "m1", "")
		})
	}
}

// A cache that lags behind Drover's own write shows the objects before it: deciding on them would write twice.
func TestReconcile_WaitsForTheCache(t *testing.T) {
	for _, uid := range []string{"uid-of-m1", "uid-of-n1"} {
		s, _, _, _ := one(t, Options{})
		s.versions.Expect(uid, expectations.Write{Version: "100000"})
		if result := s.must(t, "m1", ""); result.RequeueAfter != controller.CatchUp {
			t.Errorf("%s: again after %s", uid, result.RequeueAfter)
		}
	}
}

func TestReconcile_MissingObjects(t *testing.T) {
	set := setOf("a", blue)
	leaving, missing := machineOf(set, "leaving", "n2"), machineOf(set, "missing", "gone")
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"machine.machine.openshift.io"}, &metav1.Time{Time: start}
	orphan := machineOf(setOf("deleted", nil), "orphan", "n2")
	s := newFixture(t, Options{}, set, leaving, missing, orphan, builder.Node("n2"))
	s.must(t, "leaving", "")
	s.must(t, "unknown", "")
	s.must(t, "orphan", "")
	s.must(t, "missing", "Machine/missing")
	if s.metric(t, "mnmo_node_reconciliation_failure", "missing") != 1 || s.metric(t, "drover_metadata_nodes", "a", "machines", "pending") != 1 {
		t.Error("a Node that is gone counts as a failure, once, and its Machine as pending")
	}
	s.must(t, "missing", "")
	if s.metric(t, "mnmo_node_reconciliation_failure", "missing") != 1 {
		t.Error("it counts again with every reconciliation")
	}
}

func TestReconcile_SharedNode(t *testing.T) {
	set := setOf("a", blue)
	s := newFixture(t, Options{}, set, machineOf(set, "m1", "n1"), machineOf(set, "m2", "n1"), builder.Node("n1"))
	s.must(t, "m1", "Machine/m1 Machine/m2")
	if got := s.metric(t, "drover_metadata_nodes", "a", "machines", string(plan.Held)); got != 2 {
		t.Errorf("%v held", got)
	}
}

// Conflicts are reported on the Node and once on the MachineSet, problems of the declaration on the MachineSet alone.
func TestReconcile_ReportsProblemsOnTheirObject(t *testing.T) {
	set := setOf("a", map[string]string{"team": "blue", "kubernetes.io/os": "x", "-": "x", "mine": "1"})
	set.CreationTimestamp = metav1.NewTime(start)
	n1, n2 := builder.Node("n1"), builder.Node("n2")
	n1.Labels, n2.Labels = map[string]string{"team": "x"}, map[string]string{"team": "x"}
	n1.Annotations = map[string]string{ownership.AnnotationRecord: "["}
	s := newFixture(t, Options{}, set, machineOf(set, "m1", "n1"), machineOf(set, "m2", "n2"), n1, n2)
	s.must(t, "m1", "Machine/m1 Node/n1")
	if got, want := s.emitted(), "Warning MetadataBadRecord, Warning MetadataInvalid, Warning MetadataRefused, Warning MetadataConflict, "+
		"Warning MetadataConflict"; got != want {
		t.Errorf("first: %s", got)
	}
	s.must(t, "m2", "Machine/m2 Node/n2")
	if got := s.emitted(); got != "Warning MetadataConflict, Normal MetadataSynced" {
		t.Errorf("second: %s", got)
	}
	s.must(t, "m1", "")
	s.must(t, "m2", "")
	if got := s.emitted(); got != "" {
		t.Errorf("reported again: %s", got)
	}
}

// After a restart nothing is new that existed before.
func TestReconcile_NoEventsAfterARestart(t *testing.T) {
	set := setOf("a", map[string]string{"team": "blue", "mine": "1"})
	node := builder.Node("n1")
	node.Labels = map[string]string{"team": "x"}
	before := newFixture(t, Options{}, set, machineOf(set, "m1", "n1"), node)
	before.must(t, "m1", "Machine/m1 Node/n1")
	s := *before
	s.Reconciler = NewReconciler(s.client, s.client, s.events, before.metrics, Options{Clock: s.clock, Protected: ownership.DefaultProtected()})
	before.emitted()
	s.must(t, "m1", "")
	if got := s.emitted(); got != "" {
		t.Errorf("reported after a restart: %s", got)
	}
}
