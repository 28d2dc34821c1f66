package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// poolNode adds a Ready Node without a Machine.
func (f *fakeCluster) poolNode(pool, name, zone string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("node-" + name), Labels: map[string]string{"pool": pool, corev1.LabelTopologyZone: zone},
		CreationTimestamp: metav1.Time{Time: testTime.Add(-time.Hour)},
	}}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: testTime.Add(-time.Hour)},
	}}
	f.all = append(f.all, node)
	return node
}

// settleGroup writes what the operator would write for a group to its Nodes, and to its status.
func (f *fakeCluster) settleGroup(t *testing.T, group *v1alpha1.NodeGroup) {
	t.Helper()
	declaration := plan.GroupDeclarationOf(group)
	group.Status.OwnedKeys = plan.OwnedKeys(declaration.Desired.Section())
	for _, object := range f.all {
		node, ok := object.(*corev1.Node)
		if !ok || node.Labels["pool"] != group.Name {
			continue
		}
		decision := plan.DecideGroup(plan.GroupInput{Node: node, Declaration: declaration, Protected: ownership.DefaultProtected(), Now: testTime})
		patch, err := plan.NodeChange{Group: &decision.Change}.Patch(node)
		if err != nil {
			t.Fatal(err)
		}
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, node, operations.Apply)
	}
}

// batch is a cluster with a NodeGroup of seven Nodes in two zones, which declares something else than the Nodes carry.
func batch(t *testing.T) (*fakeCluster, *v1alpha1.NodeGroup) {
	t.Helper()
	f := &fakeCluster{}
	for i := range 7 {
		f.poolNode("batch", fmt.Sprintf("batch-%d", i), fmt.Sprintf("zone-%c", 'a'+i%2))
	}
	group := f.group("batch", "blue", func(group *v1alpha1.NodeGroup) {
		group.Spec.Metadata.Labels["tier"] = "gold"
		first, inFlight, budget := int32(1), intstr.FromInt32(3), intstr.FromString("20%")
		group.Spec.Rollout = &v1alpha1.Rollout{FirstWave: &first, MaxInFlight: &inFlight}
		group.Spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: &budget}
	})
	f.settleGroup(t, group)
	return f, group
}

func TestPlanNodeGroup(t *testing.T) {
	f, group := batch(t)
	if got := f.run(t, "plan", "nodegroup/batch"); got.code != exitOK || !strings.Contains(got.out, "Nothing to change: 7 Nodes.") {
		t.Errorf("settled: %+v", got)
	}
	delete(group.Spec.Metadata.Labels, "tier")
	group.Spec.Metadata.Labels["team"], group.Spec.Metadata.Labels["taken"] = "red", "ours"
	group.Spec.Metadata.Labels["kubernetes.io/os"] = "plan9"
	group.Spec.Metadata.Taints = []v1alpha1.Taint{
		{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}, {Key: "out", Effect: corev1.TaintEffectNoExecute},
	}
	group.Spec.Disruption.Freezes = []v1alpha1.Freeze{{
		From: metav1.Time{Time: testTime.Add(-time.Hour)}, To: metav1.Time{Time: testTime.Add(time.Hour)}, Reason: "holidays",
	}}
	f.node("batch-2").Labels["taken"] = "theirs"
	f.node("batch-3").Annotations[plan.AnnotationPaused] = "true"
	f.node("batch-4").Spec.Unschedulable = true
	f.node("batch-6").Labels["pool"] = "other"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}
	pod.Spec.NodeName, pod.Spec.NodeSelector = "batch-0", map[string]string{"tier": "gold"}
	elsewhere := pod.DeepCopy()
	elsewhere.Name, elsewhere.Spec.NodeName = "web-1", "another"
	f.all = append(f.all, pod, elsewhere)
	for name, args := range map[string][]string{
		"plan-nodegroup.txt":      {"plan", "nodegroup/batch"},
		"plan-nodegroup-wide.txt": {"plan", "ng", "batch", "-o", "wide"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.run(t, args...)
			if got.code != exitChanges || got.errors != "" {
				t.Errorf("code %d, stderr %q", got.code, got.errors)
			}
			golden(t, name, got.out)
		})
	}
	got := f.run(t, "plan", "ng/batch", "-o", "json")
	list := decodeJSON[view.NodeGroupPlanList](t, got.out)
	if len(list.Items) != 1 || list.Kind != "NodeGroupPlanList" {
		t.Fatalf("%s", got.out)
	}
	item := list.Items[0]
	want := view.Summary{Nodes: 6, Conflict: 1, Held: 1, Released: 1, ToWrite: 6, NodeWrites: 6}
	want.Pending = want.Nodes - want.Conflict - want.Held
	if item.Summary != want || len(item.Waves) != 3 || len(item.LabelUses) != 1 || item.Disruption.Limit != 2 || item.Disruption.Open {
		t.Errorf("%s", got.out)
	}
}

// TestPlanNodeGroup_DefaultRollout: the waves of a group without spec.rollout are those that the operator's configuration gives it.
func TestPlanNodeGroup_DefaultRollout(t *testing.T) {
	f, group := batch(t)
	defaults := group.Spec.Rollout
	group.Spec.Rollout, group.Spec.Metadata.Labels["team"] = nil, "red"
	for _, c := range []struct {
		name     string
		defaults *v1alpha1.Rollout
		waves    int
	}{{"none: all Nodes at once", nil, 1}, {"first wave 1, then 3", defaults, 3}} {
		group.Status.DefaultRollout = c.defaults
		list := decodeJSON[view.NodeGroupPlanList](t, f.run(t, "plan", "ng/batch", "-o", "json").out)
		if len(list.Items) != 1 || len(list.Items[0].Waves) != c.waves {
			t.Errorf("%s: %+v, want %d waves", c.name, list.Items, c.waves)
		}
	}
}

// TestPlanNodeGroup_Guard: what the guard of a taint with the effect NoExecute would do, per Node and with its limits.
func TestPlanNodeGroup_Guard(t *testing.T) {
	f, group := batch(t)
	group.Spec.Metadata.Taints = []v1alpha1.Taint{{Key: "out", Effect: corev1.TaintEffectNoExecute}}
	limit := int32(14)
	group.Spec.Rollout.NoExecute = &v1alpha1.NoExecute{MaxPodsPerWave: &limit}
	for i := range 12 {
		f.runningPod("batch-0", fmt.Sprintf("many-%02d", i), "many", nil)
	}
	f.runningPod("batch-0", "log-0", "log", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "log", UID: "log"}})
	f.runningPod("batch-1", "web-0", "web", nil)
	f.runningPod("batch-2", "slow-0", "slow", nil)
	f.runningPod("batch-2", "many-99", "many", nil)
	for i := range 14 {
		f.runningPod("batch-4", fmt.Sprintf("all-%02d", i), "many", nil)
	}
	f.runningPod("batch-3", "stays", "many", nil).Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	for app, healthy := range map[string]int32{"web": 1, "slow": 0} {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}}
		budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		budget.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, DesiredHealthy: 1, CurrentHealthy: healthy}
		f.all = append(f.all, budget)
	}
	f.all = append(f.all, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "log", UID: "log"}})
	for name, args := range map[string][]string{
		"plan-nodegroup-guard.txt":      {"plan", "nodegroup/batch"},
		"plan-nodegroup-guard-wide.txt": {"plan", "nodegroup/batch", "-o", "wide"},
	} {
		got := f.run(t, args...)
		if got.code != exitChanges || got.errors != "" {
			t.Errorf("code %d, stderr %q", got.code, got.errors)
		}
		golden(t, name, got.out)
	}
	list := decodeJSON[view.NodeGroupPlanList](t, f.run(t, "plan", "ng/batch", "-o", "json").out)
	first := list.Items[0].Guards[0]
	if first.Node != "batch-0" || first.Pods != 12 || first.LostPods != 1 || len(first.Leaving[0].Pods) != 10 || first.Leaving[0].Count != 12 {
		t.Errorf("%+v", first)
	}
}

// TestPlanNodeGroup_PodsLost: how many Pods Kubernetes deletes, whatever their PodDisruptionBudgets allow.
func TestPlanNodeGroup_PodsLost(t *testing.T) {
	f, group := batch(t)
	group.Spec.Metadata.Taints = []v1alpha1.Taint{{Key: "out", Effect: corev1.TaintEffectNoExecute}}
	group.Spec.Metadata.SetOnceTaints = []v1alpha1.Taint{{Key: "once", Effect: corev1.TaintEffectNoExecute}}
	for i := range 7 {
		f.runningPod("batch-0", fmt.Sprintf("many-%d", i), "many", nil)
	}
	f.runningPod("batch-1", "slow-0", "slow", nil)
	f.runningPod("batch-1", "log-0", "log", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "log", UID: "log"}})
	f.runningPod("batch-2", "stays", "many", nil).Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "slow"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "slow"}}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 2, DesiredHealthy: 1, CurrentHealthy: 1}
	f.all = append(f.all, budget, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "log", UID: "log"}})
	for name, c := range map[string]struct {
		settings v1alpha1.NoExecute
		want     view.NoExecute
		text     []string
	}{
		"Allow": {
			v1alpha1.NoExecute{Policy: v1alpha1.NoExecuteAllow}, view.NoExecute{AtOnce: true, Pods: 8, LostPods: 1}, []string{
				"Kubernetes would delete 8 Pods at once, whatever PodDisruptionBudgets allow, and 1 Pod of DaemonSets, which would not return:\n",
				"batch-0 (out:NoExecute): 7 Pods would be deleted: default/many-0, default/many-1, default/many-2, default/many-3, default/many-4 and 2 more\n",
				"! 1 Pod of DaemonSets would be deleted and not return: default/log-0\n",
			},
		},
		"Guard, Proceed": {
			v1alpha1.NoExecute{Timeout: &metav1.Duration{Duration: 10 * time.Minute}, OnTimeout: v1alpha1.TimeoutProceed},
			view.NoExecute{Timeout: "10m0s", Pods: 8, Blocked: 1, LostPods: 1},
			[]string{"! Kubernetes would delete those of 8 Pods that have not left after 10m0s; 1 could not be evicted now\n"},
		},
		"Guard, Hold": {v1alpha1.NoExecute{}, view.NoExecute{Pods: 8, Blocked: 1, LostPods: 1}, []string{"could not be evicted now, Budget"}},
	} {
		t.Run(name, func(t *testing.T) {
			group.Spec.Rollout.NoExecute = &c.settings
			got := f.run(t, "plan", "nodegroup/batch")
			if got.code != exitChanges || got.errors != "" || c.want.Timeout == "" && strings.Contains(got.out, "have not left") {
				t.Errorf("%+v", got)
			}
			for _, want := range c.text {
				if !strings.Contains(got.out, want) {
					t.Errorf("there is no %q in:\n%s", want, got.out)
				}
			}
			item := decodeJSON[view.NodeGroupPlanList](t, f.run(t, "plan", "ng/batch", "-o", "json").out).Items[0]
			if item.NoExecute == nil || *item.NoExecute != c.want {
				t.Errorf("%+v", item.NoExecute)
			}
		})
	}
}

// TestPlanNodeGroup_Autoscaled: which of the declared keys cluster-autoscaler does not know of MachineSets that it scales.
func TestPlanNodeGroup_Autoscaled(t *testing.T) {
	f, group := replaced()
	group.Spec.Replacement = nil
	group.Spec.Metadata = &v1alpha1.Metadata{
		Labels: map[string]v1alpha1.LabelValue{"team": "red", "tier": "gold", "kubernetes.io/os": "plan9"},
		Taints: []v1alpha1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: "out", Effect: corev1.TaintEffectNoExecute}},
	}
	const warning = "Warning: the template of "
	if got := f.run(t, "plan", "nodegroup/gpu"); strings.Contains(got.out, warning) {
		t.Errorf("not autoscaled: %s", got.out)
	}
	for _, name := range []string{"gpu-a", "gpu-b"} {
		set := f.setOf(name)
		set.Annotations = map[string]string{machineapi.MinSizeAnnotation: "0", machineapi.MaxSizeAnnotation: "9"}
		set.Spec.Template.Spec.Labels = map[string]string{"tier": "gold"}
		set.Spec.Template.Spec.Taints = []corev1.Taint{taint("gpu", "", corev1.TaintEffectNoSchedule)}
	}
	want := warning + `2 autoscaled MachineSets (openshift-machine-api/gpu-a, openshift-machine-api/gpu-b) lacks label "team", taint "out:NoExecute": `
	if got := f.run(t, "plan", "nodegroup/gpu"); !strings.Contains(got.out, want) {
		t.Errorf("there is no %q in:\n%s", want, got.out)
	}
	f.setOf("gpu-a").Annotations[machineapi.LabelsAnnotation] = "zone=a,team=red"
	f.setOf("gpu-a").Annotations[machineapi.TaintsAnnotation] = "out=:NoExecute"
	want = warning + `1 autoscaled MachineSet (openshift-machine-api/gpu-b) lacks`
	if got := f.run(t, "plan", "nodegroup/gpu"); !strings.Contains(got.out, want) || strings.Contains(got.out, "gpu-a) lacks") {
		t.Errorf("there is no %q in:\n%s", want, got.out)
	}
}

// runningPod adds a ready Pod of an application, of a DaemonSet if one is given.
func (f *fakeCluster) runningPod(node, name, app string, daemon *appsv1.DaemonSet) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app},
	}}
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if daemon != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(daemon, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	}
	f.all = append(f.all, pod)
	return pod
}

// TestPlanNodeGroup_Confirm: only what really waits for a confirmation is said to.
func TestPlanNodeGroup_Confirm(t *testing.T) {
	for name, c := range map[string]struct {
		change func(group *v1alpha1.NodeGroup)
		// affinity is what a Pod on batch-0 requires.
		affinity corev1.NodeSelectorRequirement
		waits    bool
	}{
		"a label goes": {
			func(group *v1alpha1.NodeGroup) { delete(group.Spec.Metadata.Labels, "tier") },
			corev1.NodeSelectorRequirement{Key: "tier", Operator: corev1.NodeSelectorOpExists}, true,
		},
		"a label goes that is confirmed": {
			func(group *v1alpha1.NodeGroup) {
				delete(group.Spec.Metadata.Labels, "tier")
				group.Annotations = map[string]string{v1alpha1.AnnotationConfirm: "tier@" + testTime.Format(time.RFC3339)}
			},
			corev1.NodeSelectorRequirement{Key: "tier", Operator: corev1.NodeSelectorOpExists}, false,
		},
		"a new label": {
			func(group *v1alpha1.NodeGroup) { group.Spec.Metadata.Labels["new"] = "yes" },
			corev1.NodeSelectorRequirement{Key: "new", Operator: corev1.NodeSelectorOpDoesNotExist}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, group := batch(t)
			c.change(group)
			pod := f.runningPod("batch-0", "web", "web", nil)
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{c.affinity}}},
				},
			}}
			got := f.run(t, "plan", "nodegroup/batch").out
			if strings.Contains(got, "waits for the annotation") != c.waits || !strings.Contains(got, "it would not match any more") {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestPlanNodeGroup_File(t *testing.T) {
	f, group := batch(t)
	f.poolNode("spare", "spare-0", "zone-a")
	f.poolNode("spare", "spare-1", "zone-a")
	manifest := func(name, pool, team string) string {
		changed := &v1alpha1.NodeGroup{TypeMeta: metav1.TypeMeta{APIVersion: "drover.dev/v1alpha1", Kind: "NodeGroup"}}
		changed.Name, changed.Spec.Metadata = name, teamMetadata(team)
		changed.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
		text, err := yaml.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, c := range map[string]struct {
		args, stdin string
		want        []string
		errors      string
		code        int
	}{
		"changed": {
			"plan -f -", manifest("batch", "batch", "red"), []string{"NodeGroup batch (generation 4, 7 nodes): 7 of 7 would change", "team=blue → red"},
			"was not created by kubectl apply", exitChanges,
		},
		"other Nodes": {
			"plan nodegroup/batch -f -", manifest("batch", "spare", "blue"),
			[]string{
				"+ 2 nodes would join: spare-0, spare-1", "- 7 nodes would leave: batch-0", "(not in the group any more, released after 1m0s)",
			}, "", exitChanges,
		},
		"a new group": {
			"plan -f -", manifest("spare", "spare", "green"), []string{"NodeGroup spare (generation 1, 2 nodes)", "+ label      team=green"}, "", exitChanges,
		},
		"a new group beside an older one": {
			"plan -f -", manifest("copy", "batch", "green"), []string{"(generation 1, 0 nodes): nothing to do", "note: these groups select the same Nodes"},
			"", exitOK,
		},
		"unchanged": {"plan -f -", manifest("batch", "batch", "blue"), []string{"Nothing to change"}, "", exitOK},
		"another kind": {
			"plan nodegroup/batch -f -", "apiVersion: v1\nkind: Service\nmetadata: {name: a}", nil, "there is no NodeGroup of drover.dev", exitError,
		},
		"an unknown group": {"plan ng/nosuch", "", nil, `NodeGroup "nosuch" not found`, exitError},
		"with MachineSets": {"plan ng/batch workers", "", nil, `MachineSet "workers" not found`, exitError},
	} {
		t.Run(name, func(t *testing.T) {
			got := runOn(t, f.client(), c.stdin, strings.Fields(c.args)...)
			if got.code != c.code || !strings.Contains(got.errors, c.errors) {
				t.Errorf("%+v", got)
			}
			for _, want := range c.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("there is no %q in:\n%s", want, got.out)
				}
			}
		})
	}
	if group.Generation != 3 {
		t.Error("a preview has changed the group of the cluster")
	}
}

func TestStatus_NodeGroups(t *testing.T) {
	f, group := batch(t)
	withStatus("NotSynced", "RollingOut", func(s *v1alpha1.NodeGroupStatus) {
		s.Phase, s.Rollout, s.Pending = v1alpha1.PhaseRolling, &v1alpha1.RolloutStatus{Wave: "2/3"}, 6
	})(group)
	golden(t, "status-nodegroups.txt", f.run(t, "status").out)
	f.machineSet("workers", 1, declare(nil, nil))
	got := f.run(t, "status")
	if got.code != exitOK || !strings.Contains(got.out, "workers ") || !strings.Contains(got.out, "batch ") {
		t.Errorf("%+v", got)
	}
	if got := f.run(t, "status", "workers"); strings.Contains(got.out, "batch") {
		t.Errorf("of one MachineSet: %+v", got)
	}
	if list := decodeJSON[view.StatusList](t, f.run(t, "status", "-o", "json").out); len(list.NodeGroups) != 1 || list.NodeGroups[0].Wave != "2/3" {
		t.Errorf("%+v", list.NodeGroups)
	}
}

func TestExplain_NodeGroup(t *testing.T) {
	f, _ := batch(t)
	golden(t, "explain-nodegroup.txt", f.run(t, "explain", "node/batch-0").out)
	explanation := decodeJSON[view.NodeExplanation](t, f.run(t, "explain", "batch-1", "-o", "json").out)
	if explanation.NodeGroup != "batch" || len(explanation.Notes) > 1 {
		t.Errorf("group %q, notes %v", explanation.NodeGroup, explanation.Notes)
	}
	f.node("batch-1").Labels["pool"] = "other"
	const left = "not in NodeGroup batch any more, which releases it when it has been out of the group for 1m0s"
	if got := f.run(t, "explain", "batch-1"); !strings.Contains(got.out, left) || strings.Contains(got.out, "Drover does not change it") {
		t.Errorf("of a Node that has left: %s", got.out)
	}
}
