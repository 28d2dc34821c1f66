package machineset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

func TestReconcile_NewMachineSet(t *testing.T) {
	s := newFixture(t, Options{}, setOf(3))
	if result := s.reconciles("create Machine, create Machine, create Machine, status MachineSet/web"); result != (reconcile.Result{}) {
		t.Errorf("looks again: %+v", result)
	}
	// The status is the one after the action, so the next pass has nothing to add.
	s.expect(3, 0, 0, "MachinesCreated=True Created", "Resized=True Resized", "MachinesReady=False WaitingForNodes", "Paused=False NotPaused")
	status := s.set().Status
	if status.FullyLabeledReplicas != 3 || status.ObservedGeneration != 1 || status.LabelSelector != "pool=web" {
		t.Errorf("%+v", status)
	}
	s.reconciles("")
	reasons, last := s.drainEvents()
	if reasons != "SuccessfulCreate" || !strings.HasSuffix(last, "created 3 Machines: web-00001, web-00002, web-00003") {
		t.Errorf("events %s, %q", reasons, last)
	}
	machine := s.machine("web-00001")
	want := machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: "web-00001", GenerateName: "web-",
		Labels: map[string]string{"pool": "web", "tier": "front"},
		Annotations: map[string]string{
			"note": "from the template", machineapi.TemplateHashAnnotation: machineapi.TemplateOf(setOf(3)).Hash(),
			machineapi.CreatedForAnnotation: "growth",
		},
		Finalizers: []string{"machine.machine.openshift.io"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: "web", UID: "uid-of-web",
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}, Spec: *setOf(3).Spec.Template.Spec.DeepCopy()}
	machine.TypeMeta, machine.UID, machine.ResourceVersion, machine.CreationTimestamp = metav1.TypeMeta{}, "", "", metav1.Time{}
	if diff := cmp.Diff(want, *machine); diff != "" {
		t.Error(diff)
	}
	if s.metric("drover_machineset_creates_total", "ok") != 3 || s.metric("mapi_machine_set_status_replicas", "web", "machines") != 3 {
		t.Error("three are created, and shown")
	}
}

func TestReconcile_Scale(t *testing.T) {
	s := newFixture(t, Options{}, pool(3)...)
	s.reconciles("status MachineSet/web")
	s.expect(3, 3, 3, "Resized=True Resized", "MachinesReady=True Ready")
	s.resize(5)
	s.reconciles("create Machine, create Machine, status MachineSet/web")
	s.expect(5, 3, 3, "MachinesReady=False WaitingForNodes")
	s.resize(2)
	// Those without a Node go first, then the one whose name is first.
	s.reconciles("delete Machine/a, delete Machine/web-00001, delete Machine/web-00002, status MachineSet/web")
	s.expect(2, 2, 2, "Resized=True Resized", "MachinesReady=True Ready")
	s.resize(0)
	s.reconciles("delete Machine/b, delete Machine/c, status MachineSet/web")
	s.expect(0, 0, 0, "Resized=True Resized", "MachinesReady=True Ready")
	s.reconciles("")
	reasons, last := s.drainEvents()
	if reasons != "SuccessfulCreate SuccessfulDelete SuccessfulDelete" || !strings.HasSuffix(last, "deleted 2 Machines: b, c") {
		t.Errorf("events %s, %q", reasons, last)
	}
	if got := s.metric("drover_machineset_deletes_total", "ok"); got != 5 {
		t.Errorf("%v deletions", got)
	}
}

// The cluster-autoscaler marks a Machine and takes one off the scale.
func TestReconcile_DeletesMarkedMachine(t *testing.T) {
	for _, policy := range []string{"", "Random", "Newest", "Oldest"} {
		for _, annotation := range []string{machineapi.DeleteAnnotation, machineapi.OldDeleteAnnotation} {
			for _, value := range []string{"", "true"} {
				objects := append(pool(3), machineOf("younger", func(m *machinev1beta1.Machine) { m.CreationTimestamp = metav1.NewTime(start) }),
					machineOf("without-a-node", func(m *machinev1beta1.Machine) { m.Status.NodeRef = nil }))
				s := newFixture(t, Options{}, objects...)
				s.resize(5)
				s.settle()
				edit(s, s.machine("b"), func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{annotation: value} })
				edit(s, s.set(), func(set *machinev1beta1.MachineSet) { set.Spec.DeletePolicy = policy })
				s.resize(4)
				s.settle()
				if got := fmt.Sprint(s.living()); got != "[a c without-a-node younger]" || len(s.deletes) != 1 {
					t.Errorf("%q, %s=%q: left are %s", policy, annotation, value, got)
				}
			}
		}
	}
}

// A Machine that is being deleted does not count: what takes its place does not wait for the drain.
func TestReconcile_MachineDeleted(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	if err := s.client.Delete(t.Context(), s.machine("a"), guard(s.machine("a"))); err != nil {
		t.Fatal(err)
	}
	s.reconciles("create Machine, status MachineSet/web")
	s.reconciles("")
	s.expect(2, 1, 1)
	if s.machine("a").DeletionTimestamp == nil {
		t.Error("it is gone already")
	}
}

// TestReconcile_Replacing: a Machine that a NodeGroup replaces does not count. The new one is created beside it, and none more when it goes.
func TestReconcile_Replacing(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	edit(s, s.machine("a"), func(m *machinev1beta1.Machine) {
		m.Annotations = map[string]string{machineapi.TemplateHashAnnotation: "v1:old", machineapi.ReplacingAnnotation: "true"}
	})
	s.reconciles("create Machine, status MachineSet/web")
	s.expect(3, 2, 2, "Resized=True Resized")
	s.reconciles("")
	if err := s.client.Delete(t.Context(), s.machine("a"), guard(s.machine("a"))); err != nil {
		t.Fatal(err)
	}
	s.reconciles("status MachineSet/web")
	s.expect(2, 1, 1, "Resized=True Resized")
	s.reconciles("")
}

func TestReconcile_NoWritesAtRest(t *testing.T) {
	s := newFixture(t, Options{}, append(pool(5), machineOf("stranger", loose, relabel))...)
	s.settle()
	before := s.newest
	for range 5 {
		s.clock.SetTime(s.clock.Now().Add(time.Hour))
		s.reconciles("")
	}
	s.restart(nil)
	s.reconciles("")
	if reasons, _ := s.drainEvents(); reasons != "" || s.newest != before {
		t.Errorf("events %s, version %s after %s", reasons, s.newest, before)
	}
}

func TestReconcile_MinReadySeconds(t *testing.T) {
	objects := pool(3)
	s := newFixture(t, Options{}, objects...)
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) { set.Spec.MinReadySeconds = 60 })
	ready := func(name string, status corev1.ConditionStatus, since time.Time) {
		edit(s, nodeOf(name, "", start), func(n *corev1.Node) { n.Status = nodeOf(name, status, since).Status })
	}
	ready("a", corev1.ConditionTrue, start.Add(-20*time.Second))
	ready("b", corev1.ConditionTrue, start.Add(-50*time.Second))
	// That one is not ready does not keep the others from becoming available, as it does with machine-api-operator.
	ready("c", corev1.ConditionFalse, start)
	for _, step := range []struct {
		after            time.Duration
		writes           string
		ready, available int32
		again            time.Duration
	}{
		{0, "status MachineSet/web", 2, 0, 10 * time.Second},
		{9 * time.Second, "", 2, 0, time.Second},
		{10 * time.Second, "status MachineSet/web", 2, 1, 30 * time.Second},
		{40 * time.Second, "status MachineSet/web", 2, 2, 0},
	} {
		s.clock.SetTime(start.Add(step.after))
		if result := s.reconciles(step.writes); result.RequeueAfter != step.again {
			t.Errorf("after %s: looks again in %s", step.after, result.RequeueAfter)
		}
		s.expect(3, step.ready, step.available)
	}
	ready("a", corev1.ConditionUnknown, start.Add(time.Minute))
	s.reconciles("status MachineSet/web")
	s.expect(3, 1, 1, "MachinesReady=False NodesNotReady")
}

func TestReconcile_Paused(t *testing.T) {
	s := newFixture(t, Options{ReplaceFailed: true}, append(pool(2), machineOf("orphan", loose))...)
	edit(s, s.machine("b"), func(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": "other"} })
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) {
		set.Annotations = map[string]string{paused.ClusterAPIAnnotation: ""}
	})
	s.resize(5)
	s.reconciles("status MachineSet/web")
	s.expect(1, 1, 1, "Paused=True PausedByAnnotation", "Resized=False PausedByAnnotation")
	s.reconciles("")
	// The counts go on.
	edit(s, nodeOf("a", "", start), func(n *corev1.Node) { n.Status.Conditions = nil })
	s.reconciles("status MachineSet/web")
	s.expect(1, 0, 0)
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) { set.Annotations = nil })
	s.settle()
	s.expect(5, 0, 0, "Paused=False NotPaused", "Resized=True Resized")
	if got := fmt.Sprint(s.living()); got != "[a b orphan web-00001 web-00002 web-00003]" {
		t.Error(got)
	}
}

// The migration to the Cluster API waits for the condition and the words of machine-api-operator.
func TestReconcile_Authority(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	authority := func(api machinev1beta1.MachineAuthority) {
		edit(s, s.set(), func(set *machinev1beta1.MachineSet) { set.Status.AuthoritativeAPI = api })
	}
	paused := func(want corev1.ConditionStatus, severity machinev1beta1.ConditionSeverity, reason, message string) {
		t.Helper()
		now := s.set().Status
		c := status.MachineCondition(now.Conditions, plan.ConditionPaused)
		if c == nil || c.Status != want || c.Severity != severity || c.Reason != reason || c.Message != message {
			t.Errorf("%+v", c)
		}
	}
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) {
		set.Spec.AuthoritativeAPI = machinev1beta1.MachineAuthorityClusterAPI
	})
	if result := s.reconciles("status MachineSet/web"); result.RequeueAfter == 0 || s.set().Status.AuthoritativeAPI != "ClusterAPI" {
		t.Error("what the spec asks for is not in the status")
	}
	s.resize(5)
	s.reconciles("status MachineSet/web")
	paused(corev1.ConditionTrue, "", "AuthoritativeAPINotMachineAPI", "The AuthoritativeAPI status is set to 'ClusterAPI'")
	if status := s.set().Status; status.Replicas != 0 || status.ObservedGeneration != 0 || len(status.Conditions) != 1 {
		t.Errorf("more is written than Paused: %+v", status)
	}
	s.reconciles("")
	authority(machinev1beta1.MachineAuthorityMigrating)
	s.reconciles("status MachineSet/web")
	paused(corev1.ConditionTrue, "", "AuthoritativeAPINotMachineAPI", "The AuthoritativeAPI status is set to 'Migrating'")
	s.reconciles("")
	authority("SomethingNew")
	s.reconciles("")
	authority(machinev1beta1.MachineAuthorityMachineAPI)
	s.reconciles("create Machine, create Machine, create Machine, status MachineSet/web")
	paused(corev1.ConditionFalse, machinev1beta1.ConditionSeverityInfo, "AuthoritativeAPIMachineAPI",
		"The AuthoritativeAPI status is set to 'MachineAPI'")
	s.reconciles("")
	s.expect(5, 2, 2)
}

func TestReconcile_InvalidMachineSet(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) {
		set.Spec.Selector.MatchLabels = map[string]string{"pool": "other"}
		set.Spec.Replicas, set.Generation = new(int32(7)), 2
	})
	s.reconciles("status MachineSet/web")
	s.expect(2, 2, 2, "MachinesCreated=False InvalidConfiguration", "Resized=False InvalidConfiguration")
	status := s.set().Status
	if status.ErrorReason == nil || *status.ErrorReason != machinev1beta1.InvalidConfigurationMachineSetError || status.ObservedGeneration != 2 ||
		!strings.Contains(*status.ErrorMessage, "does not match spec.template.metadata.labels") {
		t.Errorf("%+v", status)
	}
	if reasons, _ := s.drainEvents(); reasons != "ReconcileError" {
		t.Errorf("events %s", reasons)
	}
	for range 3 {
		if result := s.reconciles(""); result != (reconcile.Result{}) {
			t.Error("a user has to change something first")
		}
	}
	s.restart(nil)
	s.reconciles("")
	if reasons, _ := s.drainEvents(); reasons != "" {
		t.Errorf("reported again: %s", reasons)
	}
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) {
		set.Spec = setOf(3).Spec
		set.Generation = 3
	})
	s.reconciles("create Machine, status MachineSet/web")
	s.expect(3, 2, 2, "MachinesCreated=True Created", "Resized=True Resized")
	if s.set().Status.ErrorReason != nil || s.set().Status.ErrorMessage != nil {
		t.Error("the error stays")
	}
}

func TestReconcile_MachineSetGone(t *testing.T) {
	leaving := setOf(3)
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: start}, []string{"foregroundDeletion"}
	s := newFixture(t, Options{}, leaving)
	s.reconciles("")
	created := func() float64 {
		return s.metric("mapi_machineset_created_timestamp_seconds", "machine.openshift.io/v1beta1", "web", "machines")
	}
	if s.metric("mapi_machineset_items") != 1 || created() != float64(start.Add(-time.Hour).Unix()) {
		t.Error("it is there until it is gone")
	}
	s.versions.Expect("uid-of-web", expectations.Write{Version: "1"})
	s.owned.Created("uid-of-web", machineOf("a"))
	s.cached.Reader = newBuilder(t).Build()
	s.reconciles("")
	if s.metric("mapi_machineset_items") != 0 || s.metric("mapi_machine_set_status_replicas", "web", "machines") != -1 || created() != -1 {
		t.Error("its series are still there")
	}
	if s.states.Len() != 0 || s.versions.Len() != 0 || s.owned.Len() != 0 {
		t.Error("it is remembered")
	}
}

// A MachineSet that was made anew under its name is another one.
func TestReconcile_MachineSetCreatedAgain(t *testing.T) {
	s := newFixture(t, Options{}, pool(1)...)
	s.settle()
	s.state().creating.failures = 7
	s.owned.Created("uid-of-web", machineOf("unseen"))
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) { set.UID = "another" })
	s.reconciles("create Machine, status MachineSet/web")
	if s.state().creating.failures != 0 || s.owned.Len() != 1 {
		t.Error("what was known of the old one counts for the new one")
	}
}

func TestStatus_Errors(t *testing.T) {
	sets := schema.GroupResource{Resource: "machinesets"}
	for _, c := range []struct {
		name  string
		err   error
		again time.Duration
		fails bool
	}{
		{"a conflict is quiet", apierrors.NewConflict(sets, "web", errors.New("modified")), controller.RetryConflict, false},
		{"it is gone", apierrors.NewNotFound(sets, "web"), 0, false},
		{"a refusal waits for a person", apierrors.NewForbidden(sets, "web", errors.New("rbac")), controller.RetryDenied, false},
		{"anything else is tried again with back-off", apierrors.NewInternalError(errors.New("etcd")), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(t, Options{}, pool(1)...)
			s.fail = only("status", func(string) error { return c.err })
			result, writes, err := s.try("web")
			if (err != nil) != c.fails || result.RequeueAfter != c.again || writes != "status MachineSet/web" {
				t.Errorf("error %v, again after %s, wrote %s", err, result.RequeueAfter, writes)
			}
			s.fail = nil
			s.reconciles("status MachineSet/web")
		})
	}
}

// A guard that fails again and again means a cache that lags: writing ten times a second would not make it faster.
func TestStatus_ConflictsBackOff(t *testing.T) {
	s := newFixture(t, Options{}, pool(1)...)
	conflict := only("status", func(string) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "machinesets"}, "web", errors.New("modified"))
	})
	s.fail = conflict
	for i, want := range []time.Duration{controller.RetryConflict, 2 * controller.RetryConflict, 4 * controller.RetryConflict} {
		if result := s.reconciles("status MachineSet/web"); result.RequeueAfter != want {
			t.Errorf("conflict %d: again after %s, want %s", i+1, result.RequeueAfter, want)
		}
	}
	s.fail = nil
	s.reconciles("status MachineSet/web")
	s.fail = conflict
	s.resize(2)
	if result := s.reconciles("create Machine, status MachineSet/web"); result.RequeueAfter != controller.RetryConflict {
		t.Errorf("after a write that went well it begins anew, not with %s", result.RequeueAfter)
	}
}

// A cache of MachineSets that lags behind our own status would have it written twice.
func TestReconcile_WaitsForOwnStatus(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.freeze()
	s.reconciles("status MachineSet/web")
	if result := s.reconciles(""); result.RequeueAfter != controller.CatchUp {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.thaw()
	s.reconciles("")
}

func TestReconcile_CacheErrors(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	no := errors.New("no")
	s.resize(3)
	s.state().unverified = true
	s.Reconciler.live = &failing{Reader: s.client, kind: "*v1.PartialObjectMetadataList", err: no}
	if _, writes, err := s.try("web"); !errors.Is(err, no) || writes != "" {
		t.Errorf("what the cache shows cannot be verified: error %v, wrote %s", err, writes)
	}
	s.Reconciler.live = s.client
	for _, kind := range []string{"*v1beta1.MachineSet", "*v1beta1.MachineList", "*v1.Node"} {
		s.cached.Reader = &failing{Reader: s.client, kind: kind, err: no}
		if _, _, err := s.try("web"); !errors.Is(err, no) {
			t.Errorf("%s: error %v", kind, err)
		}
	}
}
