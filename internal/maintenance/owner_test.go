package maintenance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// apiReader reads from an API server with one Machine or none, and with the NodeMaintenances of the Reader.
type apiReader struct {
	client.Reader

	machine types.UID
	// machines, medik8s and kubevirt are the errors of reading Machines, and of listing the NodeMaintenances of either group.
	machines, medik8s, kubevirt error
}

func (r apiReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if r.machine == "" && r.machines == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, key.Name)
	}
	object.SetUID(r.machine)
	return r.machines
}

func (r apiReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.medik8s
	if list.GetObjectKind().GroupVersionKind().Group == kubevirt.GroupVersion.Group {
		err = r.kubevirt
	}
	if err != nil {
		return err
	}
	return r.Reader.List(ctx, list, options...)
}

// The Machine that has cordoned the node may be gone: without a take-over the maintenance would wait for its cordon record forever.
func TestOwner_MachineGone(t *testing.T) {
	node := newNode("n1")
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"Machine/x","object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`}
	s := newFixture(t, node, newMaintenance("m", "n1"))
	s.Live = apiReader{Reader: s.client, machine: "x"}
	if result := s.settle("m"); result.RequeueAfter == 0 || result.RequeueAfter > controller.RetryDenied {
		t.Errorf("reconciled again in %s", result.RequeueAfter)
	}
	s.expect("m", medik8s.PhaseRunning, "node n1 is cordoned for Machine ns/m since 2026-01-01T00:00:00Z", "Cordoned=HeldForOtherWork")
	s.Live = apiReader{Reader: s.client}
	s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Cordoned=Cordoned")
	// The cordon was Drover's: it is removed with the maintenance.
	if err := s.client.Delete(t.Context(), newMaintenance("m", "n1")); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	if got := s.node("n1"); got.Spec.Unschedulable || got.Annotations[drain.AnnotationCordon] != "" {
		t.Errorf("the node is %+v", got)
	}
}

// A deadline counts from the take-over, not from the cordon of another owner.
func TestOwner_DeadlineCountsFromTakeover(t *testing.T) {
	for name, by := range map[string]string{"Machine": "Machine/x", "another NodeMaintenance": "NodeMaintenance/x"} {
		t.Run(name, func(t *testing.T) {
			node, object := newNode("n1"), newMaintenance("m", "n1")
			node.Spec.Unschedulable = true
			node.Annotations = map[string]string{
				drain.AnnotationCordon: fmt.Sprintf(`{"by":%q,"object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`, by),
			}
			object.Spec.Drain = &medik8s.DrainSpec{Deadline: &metav1.Duration{Duration: time.Hour}, Force: true}
			s := newFixture(t, node, object, newPod("p", "n1"))
			s.Live = apiReader{Reader: s.client}
			s.settle("m")
			s.expect("m", medik8s.PhaseRunning, "", "Drained=Draining")
			s.clock.Step(time.Hour)
			s.settle("m")
			s.expect("m", medik8s.PhaseRunning, "the deadline is over", "Drained=DeadlineExceeded")
		})
	}
}

// What a kubelet has written to the record of its own Node is not undone.
func TestOwner_ForgedRecord(t *testing.T) {
	node := newNode("n1")
	node.Spec.Unschedulable = true
	node.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}, {Key: drain.TaintKubevirt, Effect: corev1.TaintEffectNoSchedule},
	}
	node.Labels = map[string]string{"node-restriction.kubernetes.io/tenant": ""}
	node.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"NodeMaintenance/x","since":"2026-01-01T00:00:00Z","cordoned":true,` +
		`"taints":["dedicated:NoSchedule","kubevirt.io/drain:NoSchedule"],"labels":{"node-restriction.kubernetes.io/tenant":null}}`}
	s := newFixture(t, node, newMaintenance("m", "n1"))
	s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
	if err := s.client.Delete(t.Context(), newMaintenance("m", "n1")); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	got := s.node("n1")
	if _, labelled := got.Labels["node-restriction.kubernetes.io/tenant"]; !labelled || got.Spec.Unschedulable ||
		len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("released as %+v, labels %v", got.Spec, got.Labels)
	}
}

// newKubevirt returns a NodeMaintenance of the older group.
func newKubevirt(name, node string) *kubevirt.NodeMaintenance {
	object := &kubevirt.NodeMaintenance{ObjectMeta: newMaintenance(name, node).ObjectMeta}
	object.Spec.NodeName = node
	return object
}

// addRecord cordons a node for another NodeMaintenance.
func addRecord(node *corev1.Node, object client.Object) {
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{
		drain.AnnotationCordon: fmt.Sprintf(`{"by":"NodeMaintenance/%s","since":"2026-07-01T10:00:00Z","cordoned":true}`, object.GetUID()),
	}
}

// newFixtureWithoutKubevirt is newFixture while the older group is not served yet.
func newFixtureWithoutKubevirt(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	s := newFixture(t, objects...)
	s.Registry = NewRegistry(s.client)
	t.Cleanup(s.Registry.serve(Medik8s()))
	return s
}

// The groups start one after the other: the first one does not have the NodeMaintenances of the other in its Registry.
func TestOwner_OtherGroupNotServed(t *testing.T) {
	elsewhere, ended := newKubevirt("older", "n2"), newKubevirt("older", "n1")
	ended.DeletionTimestamp, ended.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
	forbidden := apierrors.NewForbidden(kubevirt.GroupVersion.WithResource("nodemaintenances").GroupResource(), "", errors.New("no Role"))
	unserved := apierrors.NewNotFound(kubevirt.GroupVersion.WithResource("nodemaintenances").GroupResource(), "")
	for name, c := range map[string]struct {
		older   *kubevirt.NodeMaintenance
		answer  error
		reason  string
		message string
	}{
		"its owner exists":                {newKubevirt("older", "n1"), nil, plan.ReasonOtherOwner, "nodemaintenances.nodemaintenance.kubevirt.io older"},
		"its owner is gone":               {nil, nil, plan.ReasonCordoned, ""},
		"its owner names another node":    {elsewhere, nil, plan.ReasonCordoned, ""},
		"its owner has released the node": {ended, nil, plan.ReasonCordoned, ""},
		"the CRD of its owner is gone":    {nil, unserved, plan.ReasonCordoned, ""},
		"Drover may not read its owner":   {nil, forbidden, plan.ReasonOtherOwner, "no Role"},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode("n1")
			addRecord(node, newKubevirt("older", "n1"))
			before := node.Annotations[drain.AnnotationCordon]
			objects := []client.Object{node, newMaintenance("m", "n1")}
			if c.older != nil {
				objects = append(objects, c.older)
			}
			s := newFixtureWithoutKubevirt(t, objects...)
			s.Live = apiReader{Reader: s.client, kubevirt: c.answer}
			result := s.settle("m")
			s.expect("m", s.status("m").Phase, c.message, "Cordoned="+c.reason)
			if c.reason == plan.ReasonCordoned {
				return
			}
			if got := s.node("n1"); got.Annotations[drain.AnnotationCordon] != before || s.holder("n1") != "" ||
				result.RequeueAfter != controller.RetryDenied {
				t.Errorf("the record is %s, the lease is held by %q, again in %s",
					got.Annotations[drain.AnnotationCordon], s.holder("n1"), result.RequeueAfter)
			}
			if result, writes := s.reconcile("m"); writes != "" || result.RequeueAfter == 0 {
				t.Errorf("writes %q at rest, again in %s", writes, result.RequeueAfter)
			}
		})
	}
}

// Without an answer of the API server, an owner does not count as gone.
func TestOwner_NoAnswer(t *testing.T) {
	node := newNode("n1")
	addRecord(node, newKubevirt("older", "n1"))
	s := newFixtureWithoutKubevirt(t, node, newMaintenance("m", "n1"))
	s.Live = apiReader{Reader: s.client, kubevirt: context.DeadlineExceeded}
	if _, err := s.Reconcile(t.Context(), requestFor("m")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if record, err := drain.ReadCordonRecord(s.node("n1")); err != nil || record.By != "NodeMaintenance/uid-of-older" {
		t.Errorf("the record is %+v, %v", record, err)
	}
}

// Both groups have the same holder: a NodeMaintenance that has not cordoned the node leaves the lease to the NodeMaintenance that has.
func TestRelease_OtherGroupNotServed(t *testing.T) {
	for name, c := range map[string]struct {
		older *kubevirt.NodeMaintenance
		want  string
	}{
		"its owner exists":  {newKubevirt("older", "n1"), Holder},
		"its owner is gone": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node, object := newNode("n1"), newMaintenance("m", "n1")
			addRecord(node, newKubevirt("older", "n1"))
			object.Finalizers, object.DeletionTimestamp = []string{medik8s.Finalizer}, new(metav1.Now())
			objects := []client.Object{node, object, newLease("n1", Holder, start)}
			if c.older != nil {
				objects = append(objects, c.older)
			}
			s := newFixtureWithoutKubevirt(t, objects...)
			s.reconcile("m")
			if got := s.holder("n1"); got != c.want {
				t.Errorf("the lease is held by %q, want %q", got, c.want)
			}
		})
	}
}

// A Machine that has cordoned a node needs the node's lease for its drain.
func TestLease_NodeCordonedForMachine(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"not acquired yet": {newMaintenance("m", "n1")},
		"acquired before": {newLease("n1", Holder, start), func() client.Object {
			object := newMaintenance("m", "n1")
			object.Status.Conditions = []metav1.Condition{
				{Type: plan.ConditionLeaseHeld, Status: metav1.ConditionTrue, Reason: plan.ReasonHeld, LastTransitionTime: metav1.NewTime(start)},
			}
			return object
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode("n1")
			node.Spec.Unschedulable = true
			node.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"Machine/x","object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`}
			s := newFixture(t, append(objects, node)...)
			s.Live = apiReader{Reader: s.client, machine: "x"}
			result := s.settle("m")
			s.expect("m", medik8s.PhaseRunning, "cordoned for Machine ns/m", "Cordoned=HeldForOtherWork", "LeaseHeld=NotStarted")
			if got := s.holder("n1"); got != "" || result.RequeueAfter == 0 {
				t.Errorf("the lease is held by %q, again in %s", got, result.RequeueAfter)
			}
			if s.reconcile("m"); len(s.Writes) > 0 {
				t.Errorf("writes at rest: %v", s.Writes)
			}
			s.Live = apiReader{Reader: s.client}
			s.settle("m")
			s.expect("m", medik8s.PhaseSucceeded, "", "LeaseHeld=Held")
		})
	}
}

// An unreadable record may be this NodeMaintenance's own, and its node may be half drained: the lease is kept.
func TestLease_OwnRecordUnreadable(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("p", "n1"))
	s.settle("m")
	apitest.Edit(t, s.client, newNode("n1"), func(n *corev1.Node) { n.Annotations[drain.AnnotationCordon] = "{" })
	s.settle("m")
	s.expect("m", medik8s.PhaseRunning, "put it right", "Cordoned=RecordUnreadable", "LeaseHeld=Held")
	s.clock.Step(2 * nodelease.RenewAfter)
	if _, writes := s.reconcile("m"); writes != "update Lease" || s.evicting() != 0 {
		t.Errorf("writes %q, %v pods are asked to leave", writes, s.evicting())
	}
}
