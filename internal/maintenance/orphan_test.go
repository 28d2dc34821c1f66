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
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodelease"
)

// apiReader answers for the API server: there is one Machine, or none, and the NodeMaintenances of the reader.
type apiReader struct {
	client.Reader

	machine types.UID
	// fails are the answers to reading Machines, and to listing the NodeMaintenances of either group.
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
	if _, older := list.(*kubevirt.NodeMaintenanceList); older {
		err = r.kubevirt
	}
	if err != nil {
		return err
	}
	return r.Reader.List(ctx, list, options...)
}

// A Machine whose node is cordoned may be gone: nobody else would ever remove its cordon record, for which the maintenance would wait.
func TestOrphaned_MachineGone(t *testing.T) {
	node := nodeOf("n1")
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"Machine/x","object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`}
	s := newStage(t, node, maintenanceOf("m", "n1"))
	s.APIReader = apiReader{Reader: s.client, machine: "x"}
	if result := s.rest("m"); result.RequeueAfter == 0 || result.RequeueAfter > retryDenied {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("m", medik8s.PhaseRunning, "node n1 is cordoned for Machine ns/m since 2026-01-01T00:00:00Z", "Cordoned=HeldForOtherWork")
	s.APIReader = apiReader{Reader: s.client}
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Cordoned=Cordoned")
	// The cordon was Drover's: it goes with the maintenance.
	if err := s.client.Delete(t.Context(), maintenanceOf("m", "n1")); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	if got := s.node("n1"); got.Spec.Unschedulable || got.Annotations[drain.AnnotationCordon] != "" {
		t.Errorf("the node is %+v", got)
	}
}

// A deadline counts from the take-over: the time of another owner is not this maintenance's.
func TestTakeOver_DeadlineCountsFromNow(t *testing.T) {
	for name, by := range map[string]string{"Machine": "Machine/x", "another NodeMaintenance": "NodeMaintenance/x"} {
		t.Run(name, func(t *testing.T) {
			node, object := nodeOf("n1"), maintenanceOf("m", "n1")
			node.Spec.Unschedulable = true
			node.Annotations = map[string]string{
				drain.AnnotationCordon: fmt.Sprintf(`{"by":%q,"object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`, by),
			}
			object.Spec.Drain = &medik8s.DrainSpec{Deadline: &metav1.Duration{Duration: time.Hour}, Force: true}
			s := newStage(t, node, object, podOf("p", "n1"))
			s.APIReader = apiReader{Reader: s.client}
			s.rest("m")
			s.expect("m", medik8s.PhaseRunning, "", "Drained=Draining")
			s.clock.Step(time.Hour)
			s.rest("m")
			s.expect("m", medik8s.PhaseRunning, "the deadline is over", "Drained=DeadlineExceeded")
		})
	}
}

// What a kubelet has written into the record of its own Node is not undone for it.
func TestTakeOver_ForgedRecord(t *testing.T) {
	node := nodeOf("n1")
	node.Spec.Unschedulable = true
	node.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}, {Key: drain.TaintKubevirt, Effect: corev1.TaintEffectNoSchedule},
	}
	node.Labels = map[string]string{"node-restriction.kubernetes.io/tenant": ""}
	node.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"NodeMaintenance/x","since":"2026-01-01T00:00:00Z","cordoned":true,` +
		`"taints":["dedicated:NoSchedule","kubevirt.io/drain:NoSchedule"],"labels":{"node-restriction.kubernetes.io/tenant":null}}`}
	s := newStage(t, node, maintenanceOf("m", "n1"))
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
	if err := s.client.Delete(t.Context(), maintenanceOf("m", "n1")); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	got := s.node("n1")
	if _, labelled := got.Labels["node-restriction.kubernetes.io/tenant"]; !labelled || got.Spec.Unschedulable ||
		len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("released as %+v, labels %v", got.Spec, got.Labels)
	}
}

// olderOf is a NodeMaintenance of the older group.
func olderOf(name, node string) *kubevirt.NodeMaintenance {
	object := &kubevirt.NodeMaintenance{ObjectMeta: maintenanceOf(name, node).ObjectMeta}
	object.Spec.NodeName = node
	return object
}

// recordOf has a node cordoned for another NodeMaintenance.
func recordOf(node *corev1.Node, object client.Object) {
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{
		drain.AnnotationCordon: fmt.Sprintf(`{"by":"NodeMaintenance/%s","since":"2026-07-01T10:00:00Z","cordoned":true}`, object.GetUID()),
	}
}

// newStageOfOne is newStage while the older group is not served yet.
func newStageOfOne(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	s := newStage(t, objects...)
	s.Registry = NewRegistry(s.client)
	t.Cleanup(s.Registry.enter(Medik8s()))
	return s
}

// The groups start one after the other: the first one knows nothing of the other's NodeMaintenances.
func TestTakeOver_OtherGroupNotServedYet(t *testing.T) {
	elsewhere, ended := olderOf("older", "n2"), olderOf("older", "n1")
	ended.DeletionTimestamp, ended.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
	forbidden := apierrors.NewForbidden(kubevirt.GroupVersion.WithResource("nodemaintenances").GroupResource(), "", errors.New("no Role"))
	unserved := apierrors.NewNotFound(kubevirt.GroupVersion.WithResource("nodemaintenances").GroupResource(), "")
	for name, c := range map[string]struct {
		older   *kubevirt.NodeMaintenance
		answer  error
		reason  string
		message string
	}{
		"its owner exists":                {olderOf("older", "n1"), nil, reasonForeign, "nodemaintenances.nodemaintenance.kubevirt.io older"},
		"its owner is gone":               {nil, nil, reasonCordoned, ""},
		"its owner names another node":    {elsewhere, nil, reasonCordoned, ""},
		"its owner has released the node": {ended, nil, reasonCordoned, ""},
		"the CRD of its owner is gone":    {nil, unserved, reasonCordoned, ""},
		"Drover may not read its owner":   {nil, forbidden, reasonForeign, "no Role"},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeOf("n1")
			recordOf(node, olderOf("older", "n1"))
			before := node.Annotations[drain.AnnotationCordon]
			objects := []client.Object{node, maintenanceOf("m", "n1")}
			if c.older != nil {
				objects = append(objects, c.older)
			}
			s := newStageOfOne(t, objects...)
			s.APIReader = apiReader{Reader: s.client, kubevirt: c.answer}
			result := s.rest("m")
			s.expect("m", s.status("m").Phase, c.message, "Cordoned="+c.reason)
			if c.reason == reasonCordoned {
				return
			}
			if got := s.node("n1"); got.Annotations[drain.AnnotationCordon] != before || s.holder("n1") != "" || result.RequeueAfter != retryDenied {
				t.Errorf("the record is %s, the lease is held by %q, again in %s",
					got.Annotations[drain.AnnotationCordon], s.holder("n1"), result.RequeueAfter)
			}
			if result, writes := s.pass("m"); writes != "" || result.RequeueAfter == 0 {
				t.Errorf("writes %q at rest, again in %s", writes, result.RequeueAfter)
			}
		})
	}
}

// An API server that does not answer has not said that an owner is gone.
func TestTakeOver_NoAnswer(t *testing.T) {
	node := nodeOf("n1")
	recordOf(node, olderOf("older", "n1"))
	s := newStageOfOne(t, node, maintenanceOf("m", "n1"))
	s.APIReader = apiReader{Reader: s.client, kubevirt: context.DeadlineExceeded}
	if _, err := s.Reconcile(t.Context(), named("m")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if hold, err := drain.ReadCordonRecord(s.node("n1")); err != nil || hold.By != "NodeMaintenance/uid-of-older" {
		t.Errorf("the record is %+v, %v", hold, err)
	}
}

// The lease has one holder for both groups: who has not cordoned the node leaves it to the one that has.
func TestRelease_OtherGroupNotServedYet(t *testing.T) {
	for name, c := range map[string]struct {
		older *kubevirt.NodeMaintenance
		want  string
	}{
		"its owner exists":  {olderOf("older", "n1"), Holder},
		"its owner is gone": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node, object := nodeOf("n1"), maintenanceOf("m", "n1")
			recordOf(node, olderOf("older", "n1"))
			object.Finalizers, object.DeletionTimestamp = []string{medik8s.Finalizer}, new(metav1.Now())
			objects := []client.Object{node, object, leaseOf("n1", Holder, start)}
			if c.older != nil {
				objects = append(objects, c.older)
			}
			s := newStageOfOne(t, objects...)
			s.pass("m")
			if got := s.holder("n1"); got != c.want {
				t.Errorf("the lease is held by %q, want %q", got, c.want)
			}
		})
	}
}

// A Machine that has cordoned a node needs the node's lease for its drain.
func TestLease_NodeCordonedForMachine(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"not acquired yet": {maintenanceOf("m", "n1")},
		"acquired before": {leaseOf("n1", Holder, start), func() client.Object {
			object := maintenanceOf("m", "n1")
			object.Status.Conditions = []metav1.Condition{
				{Type: ConditionLeaseHeld, Status: metav1.ConditionTrue, Reason: reasonHeld, LastTransitionTime: metav1.NewTime(start)},
			}
			return object
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeOf("n1")
			node.Spec.Unschedulable = true
			node.Annotations = map[string]string{drain.AnnotationCordon: `{"by":"Machine/x","object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`}
			s := newStage(t, append(objects, node)...)
			s.APIReader = apiReader{Reader: s.client, machine: "x"}
			result := s.rest("m")
			s.expect("m", medik8s.PhaseRunning, "cordoned for Machine ns/m", "Cordoned=HeldForOtherWork", "LeaseHeld=NotStarted")
			if got := s.holder("n1"); got != "" || result.RequeueAfter == 0 {
				t.Errorf("the lease is held by %q, again in %s", got, result.RequeueAfter)
			}
			if s.pass("m"); len(s.writes) > 0 {
				t.Errorf("writes at rest: %v", s.writes)
			}
			s.APIReader = apiReader{Reader: s.client}
			s.rest("m")
			s.expect("m", medik8s.PhaseSucceeded, "", "LeaseHeld=Held")
		})
	}
}

// A record that nobody can read may be our own: the lease of a node that may be half drained is kept.
func TestLease_OwnRecordUnreadable(t *testing.T) {
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"), podOf("p", "n1"))
	s.rest("m")
	update(s, &corev1.Node{}, "n1", func(n *corev1.Node) { n.Annotations[drain.AnnotationCordon] = "{" })
	s.rest("m")
	s.expect("m", medik8s.PhaseRunning, "put it right", "Cordoned=RecordUnreadable", "LeaseHeld=Held")
	s.clock.Step(2 * nodelease.RenewAfter)
	if _, writes := s.pass("m"); writes != "update Lease" || s.evicting() != 0 {
		t.Errorf("writes %q, %v pods are asked to leave", writes, s.evicting())
	}
}
