package metadata

import (
	"context"
	"errors"
	"strings"
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
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/metadata/pace"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// unrecorded returns a MachineSet of one Machine that has, like its Node, an earlier value, which no record names.
func unrecorded(t *testing.T) (*fixture, *corev1.Node) {
	t.Helper()
	set := setOf("a", blue)
	machine, node := machineOf(set, "m1", "n1"), builder.Node("n1")
	machine.Spec.Labels, node.Labels = map[string]string{"team": "old"}, map[string]string{"team": "old"}
	return newFixture(t, Options{}, set, machine, node), node
}

func teamOf(t *testing.T, s *fixture, node *corev1.Node) string {
	t.Helper()
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	return node.Labels["team"]
}

// Only the Machine's value shows that the Node's is Drover's, until the Machine is written.
func TestApply_FailedWriteKeepsOwnership(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("etcd"))
	for _, c := range []struct{ kind, before, after string }{
		{"Node", "", "Node/n1 Machine/m1 Node/n1"},
		{"Machine", "Node/n1", "Machine/m1 Node/n1"},
	} {
		s, node := unrecorded(t)
		s.fail[c.kind] = broken
		if _, sent, err := s.reconcile(t, "m1"); err == nil || sent != c.before {
			t.Errorf("%s fails: %v, patches %q", c.kind, err, sent)
		}
		delete(s.fail, c.kind)
		s.must(t, "m1", c.after)
		if got := teamOf(t, s, node); got != "blue" || s.metric(t, "drover_metadata_nodes", "a", "machines", "synced") != 1 {
			t.Errorf("%s fails: the Node ends at %q", c.kind, got)
		}
		s.must(t, "m1", "")
	}
}

// When the Node's record cannot be written, the event is on the Node, and its Machine is not written either.
func TestApply_RecordIsDenied(t *testing.T) {
	s, _ := unrecorded(t)
	s.fail["Node"] = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("policy"))
	if result := s.must(t, "m1", ""); result.RequeueAfter != controller.FirstRetryDenied || s.emitted() != "Warning MetadataDenied" {
		t.Errorf("again after %s", result.RequeueAfter)
	}
	if s.metric(t, "drover_metadata_nodes", "a", "machines", "held") != 1 || s.metric(t, "mnmo_node_reconciliation_failure", "n1") != 1 {
		t.Error("not held")
	}
}

// The latency is that of a rollout, which is not for a Node that comes hours after the change.
func TestReport_LatencyOfARollout(t *testing.T) {
	s, set, _, _ := one(t, Options{})
	s.must(t, "m1", "Machine/m1 Node/n1")
	change := func(team string) {
		apitest.Edit(t, s.client, set, func(m *machinev1beta1.MachineSet) { m.Spec.Template.Spec.Labels = map[string]string{"team": team} })
		s.tracker.startRollout(plan.DeclarationOf(set), members("m1"), set.CreationTimestamp.Time, s.clock.Now())
	}
	change("red")
	s.clock.SetTime(start.Add(time.Second))
	s.must(t, "m1", "Machine/m1 Node/n1")
	if got := s.metric(t, "drover_metadata_propagation_seconds"); got != 1 {
		t.Fatalf("%v observations", got)
	}
	s.clock.SetTime(start.Add(5 * time.Hour))
	for _, object := range []client.Object{machineOf(set, "m2", "n2"), builder.Node("n2")} {
		if err := s.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	s.must(t, "m2", "Machine/m2 Node/n2")
	if got := s.metric(t, "drover_metadata_propagation_seconds"); got != 1 {
		t.Errorf("a Node that came later counts with the age of the change: %v observations", got)
	}
	change("green")
	s.must(t, "m1", "Machine/m1 Node/n1")
	if got := s.metric(t, "drover_metadata_propagation_seconds"); got != 2 {
		t.Errorf("%v observations", got)
	}
}

// A Node that has just registered carries nothing of its MachineSet yet; it does not wait behind a rollout to existing ones.
func TestApply_NewNodeDoesNotWaitForARollout(t *testing.T) {
	set := setOf("a", blue)
	fresh := builder.Node("n3")
	fresh.CreationTimestamp = metav1.NewTime(start.Add(-time.Second))
	s := newFixture(t, Options{Limiter: pace.NewLimiter(1, 1)}, set, builder.Node("n1"), builder.Node("n2"), fresh,
		machineOf(set, "m1", "n1"), machineOf(set, "m2", "n2"), machineOf(set, "m3", "n3"))
	s.must(t, "m1", "Machine/m1 Node/n1")
	if result := s.must(t, "m2", ""); result.RequeueAfter != time.Second {
		t.Errorf("an old Node waits %s", result.RequeueAfter)
	}
	s.must(t, "m3", "Machine/m3 Node/n3")
}

// A writer that removes the record changes no key, and Drover would restore the record for ever.
func TestApply_ContentionForTheRecord(t *testing.T) {
	for _, c := range []struct {
		name, patch string
		remove      func(*testing.T, *fixture)
	}{
		{"Node", "Node/n1", func(t *testing.T, s *fixture) {
			t.Helper()
			apitest.Edit(t, s.client, builder.Node("n1"), func(n *corev1.Node) { n.Annotations = nil })
		}},
		{"Machine", "Machine/m1", func(t *testing.T, s *fixture) {
			t.Helper()
			apitest.Edit(t, s.client, machineOf(setOf("a", nil), "m1", ""), func(m *machinev1beta1.Machine) { m.Annotations = nil })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, _, _ := one(t, Options{})
			s.must(t, "m1", "Machine/m1 Node/n1")
			var result reconcile.Result
			for range pace.ContentionThreshold {
				c.remove(t, s)
				result = s.must(t, "m1", c.patch)
			}
			if result.RequeueAfter == 0 {
				t.Error("nothing reconciles again after the write that made it contended")
			}
			if got := s.emitted(); got != "Normal MetadataSynced, Warning MetadataFight" {
				t.Errorf("events %s", got)
			}
			c.remove(t, s)
			result = s.must(t, "m1", "")
			if result.RequeueAfter != pace.ContentionPause || s.metric(t, "drover_metadata_nodes", "a", "machines", "held") != 1 {
				t.Errorf("reconciled again after %s, and is not held", result.RequeueAfter)
			}
			s.clock.SetTime(start.Add(pace.ContentionPause))
			s.must(t, "m1", c.patch)
			if s.metric(t, "drover_metadata_fights_total") != 2 {
				t.Error("the second round is not counted")
			}
		})
	}
}

// A guard that fails repeatedly means a cache that lags: ten attempts a second would not make it faster.
func TestApply_ConflictsBackOff(t *testing.T) {
	s, _, _, node := one(t, Options{})
	s.must(t, "m1", "Machine/m1 Node/n1")
	apitest.Edit(t, s.client, node, func(n *corev1.Node) { n.Labels["team"] = "x" })
	s.fail["Node"] = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("modified"))
	for i, want := range []time.Duration{controller.RetryConflict, 2 * controller.RetryConflict, 4 * controller.RetryConflict} {
		if result := s.must(t, "m1", ""); result.RequeueAfter != want {
			t.Errorf("failure %d: again after %s, want %s", i+1, result.RequeueAfter, want)
		}
		if s.metric(t, "drover_metadata_nodes", "a", "machines", "pending") != 1 {
			t.Error("the Machine counts as synced")
		}
	}
	delete(s.fail, "Node")
	s.must(t, "m1", "Node/n1")
	if s.metric(t, "drover_metadata_nodes", "a", "machines", "synced") != 1 {
		t.Error("the Machine does not count as synced")
	}
	apitest.Edit(t, s.client, node, func(n *corev1.Node) { n.Annotations[ownership.AnnotationRecord] = "{" })
	s.fail["Node"] = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("modified"))
	if result := s.must(t, "m1", ""); result.RequeueAfter != controller.RetryConflict {
		t.Errorf("after a successful write it begins again, not with %s", result.RequeueAfter)
	}
}

// TestSend_RunEnds: a run that ends while it writes is followed by one that knows the write. The request is not cancelled.
func TestSend_RunEnds(t *testing.T) {
	set := setOf("a", blue)
	s := newFixture(t, Options{}, set, machineOf(set, "m1", "n1"), builder.Node("n1"))
	ctx, end := context.WithCancel(t.Context())
	s.deny = func(client.Object, client.Patch) error {
		end()
		return nil
	}
	s.patches = nil
	if _, err := s.Reconcile(ctx, requestForNode("n1")[0]); err != nil || strings.Join(s.patches, " ") != "Machine/m1 Node/n1" {
		t.Errorf("error %v, patches %v", err, s.patches)
	}
	next := NewReconciler(s.client, s.client, s.events, s.metrics, Options{
		Templates: true, Clock: s.clock, Memory: &grouplayer.Memory{Versions: s.versions, Contention: s.contention},
	})
	node := builder.Node("n1")
	s.read(t, node)
	node.ResourceVersion = "1"
	if !next.versions.Pending(t.Context(), node) {
		t.Error("the next run does not know the write")
	}
}
