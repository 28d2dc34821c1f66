package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/drain"
)

// shop is a cluster of two nodes; on n1 are a pod whose budget lets none go, one without a budget and one of a DaemonSet.
func shop(more ...client.Object) []client.Object {
	pod := func(name, app string, owner string) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{NodeName: "n1"},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: app, Controller: new(true)}}
		return p
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1},
	}
	node := func(name, rack string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
	}
	return append(more, node("n1", "7"), node("n2", "7"), pod("web-1", "web", "ReplicaSet"), pod("job-1", "job", "Job"),
		pod("agent-1", "agent", "DaemonSet"), budget, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent"}})
}

func cluster(funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(cmdutil.Scheme).WithRESTMapper(cmdutil.Mapper()).WithObjects(objects...).WithInterceptorFuncs(funcs).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
			if pod, ok := object.(*corev1.Pod); ok {
				return []string{pod.Spec.NodeName}
			}
			return nil
		}).Build()
}

func maintenanceOf(name, node string, status medik8s.NodeMaintenanceStatus) *medik8s.NodeMaintenance {
	return &medik8s.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(testTime.Add(-time.Hour))},
		Spec:       medik8s.NodeMaintenanceSpec{NodeName: node, Reason: "disks"}, Status: status,
	}
}

// says checks how a command ended and that parts are in what it printed.
func (o outcome) says(t *testing.T, code int, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(o.out+o.errors, part) {
			t.Errorf("%q is missing", part)
		}
	}
	if o.code != code || t.Failed() {
		t.Errorf("code %d, want %d, in\n%s%s", o.code, code, o.out, o.errors)
	}
}

func TestMaintenanceStart(t *testing.T) {
	made := func(t *testing.T, c client.Client) string {
		t.Helper()
		var list medik8s.NodeMaintenanceList
		if err := c.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		var out []string
		for i := range list.Items {
			item := &list.Items[i]
			text := item.Name + ":" + item.Spec.NodeName + ":" + item.Spec.Reason
			if d := item.Spec.Drain; d != nil {
				text += fmt.Sprintf(":%s:%v", d.Deadline.Duration, d.Force)
			}
			out = append(out, text)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		args, want, says string
		code             int
	}{
		{"n1", "n1:n1:", "nodemaintenance.nodemaintenance.medik8s.io/n1 created", 0},
		{"node/n1 n2 n1 --reason disks", "n1:n1:disks n2:n2:disks", "n2 created", 0},
		{"-l rack=7 --deadline 5m --force", "n1:n1::5m0s:true n2:n2::5m0s:true", "n1 created", 0},
		{"-l rack=9", "", "no node matches", 1},
		{"n3 n2", "n2:n2:", `Node "n3" not found in the cluster; did you mean n1, n2?`, 1},
		{"-l rack=,x", "", "--selector", 1},
		{"-l rack=7 n1", "", "either names of nodes or --selector", 1},
		{"", "", "name the nodes", 1},
		{"n1 --force", "", "--force requires --deadline", 1},
		{"n1 --deadline -1s", "", "cannot be negative", 1},
		{"n1 --timeout 1s", "", "--timeout requires --wait", 1},
		{"n1 --dry-run", "", "created (dry run)", 0},
		{"n1 --dry-run=x", "", "must be none, client or server", 1},
	} {
		t.Run(c.args, func(t *testing.T) {
			on := cluster(interceptor.Funcs{}, shop()...)
			runOn(t, on, "", append([]string{"maintenance", "start"}, strings.Fields(c.args)...)...).says(t, c.code, c.says)
			if got := made(t, on); got != c.want {
				t.Errorf("made %q, want %q", got, c.want)
			}
		})
	}
}

func TestMaintenanceStart_AlreadyInMaintenance(t *testing.T) {
	on := cluster(interceptor.Funcs{}, shop(maintenanceOf("n1", "n1", medik8s.NodeMaintenanceStatus{}))...)
	runOn(t, on, "", "maintenance", "start", "n1", "n2").says(t, 1, "already exists", "drain-status n1", "n2 created")
	on = cluster(interceptor.Funcs{}, shop(maintenanceOf("disks", "n1", medik8s.NodeMaintenanceStatus{}))...)
	runOn(t, on, "", "maintenance", "start", "n1").says(t, 1, "node n1: nodemaintenance.nodemaintenance.medik8s.io/disks already exists")
}

// Where only the older group is served that is used; it has no drain options.
func TestMaintenance_OnlyOlderGroupServed(t *testing.T) {
	gone := apierrors.NewGenericServerResponse(404, "post", schema.GroupResource{Resource: "nodemaintenances"}, "", "404 page not found", 0, true)
	funcs := interceptor.Funcs{
		Create: func(ctx context.Context, inner client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, ok := object.(*medik8s.NodeMaintenance); ok {
				return gone
			}
			return inner.Create(ctx, object, options...)
		},
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*medik8s.NodeMaintenanceList); ok {
				return gone
			}
			return inner.List(ctx, list, options...)
		},
	}
	on := cluster(funcs, shop()...)
	runOn(t, on, "", "maintenance", "start", "n1", "--reason", "disks").says(t, 0, "nodemaintenance.nodemaintenance.kubevirt.io/n1 created")
	runOn(t, on, "", "maintenance", "start", "n2", "--deadline", "1m").says(t, 1, "does not serve nodemaintenances")
	runOn(t, on, "", "maintenance", "list").says(t, 0, "n1", "disks")
	runOn(t, on, "", "maintenance", "end", "n1", "--wait").says(t, 0, "n1 deleted", "restored")
	runOn(t, on, "", "maintenance", "list").says(t, 0, "No node is in maintenance")
}

func TestMaintenanceStart_Wait(t *testing.T) {
	looks := 0
	funcs := interceptor.Funcs{List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := inner.List(ctx, list, options...)
		if found, ok := list.(*medik8s.NodeMaintenanceList); ok && len(found.Items) == 1 {
			status := &found.Items[0].Status
			if looks++; looks > 1 {
				status.Phase = medik8s.PhaseSucceeded
				status.Conditions = []metav1.Condition{{Type: "Drained", Status: metav1.ConditionTrue}}
			} else {
				status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: "1 pod left"}}
			}
		}
		return err
	}}
	on := cluster(funcs, shop()...)
	runOn(t, on, "", "maintenance", "start", "n1", "--wait").says(t, 0, "node n1: 0%, 1 pod left", "node n1 is drained")
}

func TestMaintenanceEnd(t *testing.T) {
	older := &kubevirt.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: kubevirt.NodeMaintenanceSpec{NodeName: "n1"}}
	both := shop(maintenanceOf("any-name", "n1", medik8s.NodeMaintenanceStatus{}), older)
	runOn(t, cluster(interceptor.Funcs{}, both...), "", "maintenance", "end", "n1").says(t, 0, "kubevirt.io/old deleted", "medik8s.io/any-name deleted")
	runOn(t, cluster(interceptor.Funcs{}, both...), "", "maintenance", "end", "n1", "n2").says(t, 1, "any-name deleted", "node n2 is not in maintenance")
	runOn(t, cluster(interceptor.Funcs{}, both...), "", "maintenance", "end", "-l", "rack=7").says(t, 0, "any-name deleted")
	on := cluster(interceptor.Funcs{}, both...)
	runOn(t, on, "", "maintenance", "end", "n1", "--dry-run").says(t, 0, "deleted (dry run)")
	runOn(t, on, "", "maintenance", "list").says(t, 0, "n1")
}

func TestMaintenanceList(t *testing.T) {
	blocked := maintenanceOf("m", "n1", medik8s.NodeMaintenanceStatus{
		Phase: medik8s.PhaseRunning, DrainProgress: 33, PendingPodsRefs: []medik8s.PodReference{{Name: "web-1"}},
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "WaitingForBudget", Message: "blocked"}},
	})
	replaced := maintenanceOf("n", "n2", medik8s.NodeMaintenanceStatus{Phase: medik8s.PhaseSucceeded, DrainProgress: 100})
	on := cluster(interceptor.Funcs{}, shop(blocked, replaced)...)
	golden(t, "maintenance-list.txt", runOn(t, on, "", "maintenance", "list", "-o", "wide").out)
	document := decodeJSON[view.MaintenanceList](t, runOn(t, on, "", "maintenance", "list", "-o", "json").out)
	if len(document.Items) != 2 || document.Items[0].WaitsFor != "blocked" || document.Items[0].Left != 1 || !document.Items[1].Drained {
		t.Errorf("%+v", document)
	}
}

func TestDrainStatus(t *testing.T) {
	m := maintenanceOf("m", "n1", medik8s.NodeMaintenanceStatus{
		Phase: medik8s.PhaseRunning, Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: "1 pod left: ..."}},
	})
	m.Spec.Drain = &medik8s.DrainSpec{Deadline: &metav1.Duration{Duration: 10 * time.Minute}}
	objects := shop(m)
	for _, object := range objects {
		if object.GetName() == "n1" {
			object.SetAnnotations(map[string]string{drain.AnnotationCordon: fmt.Sprintf(`{"by":"x","since":%q}`,
				testTime.Add(-time.Minute).Format(time.RFC3339))})
		}
	}
	on := cluster(interceptor.Funcs{}, objects...)
	golden(t, "drain-status.txt", runOn(t, on, "", "drain-status", "node/n1").out)
	document := decodeJSON[view.DrainStatus](t, runOn(t, on, "", "drain-status", "n1", "-o", "json").out)
	if len(document.Pods) != 2 || document.Pods[1].Reason != drain.BudgetNever || document.Deadline == nil || document.Budgets[0].Here != 1 {
		t.Errorf("%+v", document)
	}
	runOn(t, on, "", "drain-status", "n2").says(t, 0, "not in maintenance; a maintenance would encounter this", "0 of 0")
	runOn(t, on, "", "drain-status", "n2", "--watch").says(t, 0, "0 of 0")
	runOn(t, on, "", "drain-status", "n3").says(t, 1, `Node "n3" not found`, "n1, n2")
	runOn(t, on, "", "drain-status").says(t, 1, "name one node")
}

func TestPlan_Maintenance(t *testing.T) {
	on := cluster(interceptor.Funcs{}, shop()...)
	result := runOn(t, on, "", "plan", "--maintenance", "n1")
	golden(t, "plan-maintenance.txt", result.out)
	result.says(t, exitChanges)
	document := decodeJSON[view.DrainStatus](t, runOn(t, on, "", "plan", "--maintenance", "node/n1", "-o", "json").out)
	if len(document.Evict) != 1 || len(document.Blocked) != 1 || document.Blocked[0].Reason != drain.BudgetNever {
		t.Errorf("%+v", document)
	}
	runOn(t, on, "", "plan", "--maintenance", "n2").says(t, 0, "0 of 0 would have to leave")
	clings := builder.Pod("shop", "clings", "n2", builder.WithRunning, func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "clings", Controller: new(true)}}
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	runOn(t, cluster(interceptor.Funcs{}, append(shop(), clings)...), "", "plan", "--maintenance", "n2").says(t, exitChanges,
		"! pods of ReplicaSet shop/clings tolerate the cordon and could come back; they stay")
	runOn(t, on, "", "plan", "--maintenance", "n2", "pool").says(t, 1, "--maintenance takes a node")
}

func TestMaintenanceStart_Denied(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "nodemaintenances"}, "n1", errors.New("no"))
	webhook := apierrors.NewForbidden(schema.GroupResource{Resource: "nodemaintenances"}, "n1",
		errors.New(`admission webhook "v" denied the request: no node`))
	for want, err := range map[string]error{"which rights you lack": denied, "no node": webhook} {
		funcs := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err }}
		result := runOn(t, cluster(funcs, shop()...), "", "maintenance", "start", "n1")
		result.says(t, 1, want)
		if err == webhook && strings.Contains(result.errors, "which rights you lack") { //nolint:errorlint // it is this one
			t.Errorf("the denial of a webhook is not a missing permission: %s", result.errors)
		}
	}
}
