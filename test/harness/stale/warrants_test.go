package stale

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
)

const namespace = "machines"

func ending() *metav1.Time { return &metav1.Time{} }

func newSet(replicas int32) *machinev1beta1.MachineSet {
	return builder.MachineSet(namespace, "set", replicas, builder.WithSelector(map[string]string{"pool": "set"}))
}

// newMachines makes Machines of the set, m0 and so on, each with a Node of its name.
func newMachines(count int, change ...func(*machinev1beta1.Machine)) (all []*machinev1beta1.Machine) {
	for i := range count {
		name := fmt.Sprintf("m%d", i)
		all = append(all, builder.Machine(namespace, name, slices.Concat([]func(*machinev1beta1.Machine){
			builder.WithOwner(newSet(0)), builder.WithNode(name), func(machine *machinev1beta1.Machine) { machine.UID = types.UID(name) },
		}, change)...))
	}
	return all
}

func goes(machine *machinev1beta1.Machine) { machine.DeletionTimestamp = ending() }

func fails(machine *machinev1beta1.Machine) { machine.Status.Phase = new(machinev1beta1.PhaseFailed) }

func newNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	return builder.Node(name, slices.Insert(change, 0, func(node *corev1.Node) { node.Annotations[instanceOf] = name })...)
}

func cordoned(by string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Unschedulable = true
		if by != "" {
			node.Annotations[cordonRecord] = fmt.Sprintf(`{"by":%q}`, by)
		}
	}
}

func newLease(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "leases", Name: "node-m0"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
}

func newJob(uid, version string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "job", UID: types.UID(uid), Labels: map[string]string{runLabel: "run"},
		Annotations: map[string]string{nodeAnnotation: "m0", versionAnnotation: version},
	}}
}

func clusterVersion(version string) []*configv1.ClusterVersion {
	return []*configv1.ClusterVersion{{Status: configv1.ClusterVersionStatus{Desired: configv1.Release{Version: version}}}}
}

func newRun() []*mutex.MutexRunConfig {
	return []*mutex.MutexRunConfig{{ObjectMeta: metav1.ObjectMeta{Name: "run", UID: "run"}}}
}

func newPool(claim string) []*mcfgv1.MachineConfigPool {
	return []*mcfgv1.MachineConfigPool{{ObjectMeta: metav1.ObjectMeta{Name: "m0", Annotations: map[string]string{claimAnnotation: claim}}}}
}

func inRun(version string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels[runLabel], node.Labels[versionLabel] = "run", version }
}

func released(node *corev1.Node) { node.Annotations[releaseAnnotation] = "{}" }

func maintenance(isEnding bool) []Maintenance {
	return []Maintenance{{Name: "nm", Node: "m0", UID: "nm", Ending: isEnding}}
}

// on makes a request for an object of a kind.
func on(verb string, kind schema.GroupVersionResource, name string) *Request {
	r := &Request{RequestInfo: &apirequest.RequestInfo{Verb: verb, APIGroup: kind.Group, Resource: kind.Resource, Namespace: namespace, Name: name}}
	switch kind {
	case leases:
		r.Namespace = "leases"
	case nodes, pools:
		r.Namespace = ""
	}
	return r
}

// The unhealthy condition of the tests, and the MachineHealthCheck for it.
const broken = corev1.NodeConditionType("Broken")

func newCheck() []*machinev1beta1.MachineHealthCheck {
	return []*machinev1beta1.MachineHealthCheck{{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: machinev1beta1.MachineHealthCheckSpec{
		Selector:            metav1.LabelSelector{MatchLabels: map[string]string{"pool": "set"}},
		UnhealthyConditions: []machinev1beta1.UnhealthyCondition{{Type: broken, Status: corev1.ConditionTrue}},
	}}}
}

func breaks(node *corev1.Node) {
	node.Status.Conditions = []corev1.NodeCondition{{Type: broken, Status: corev1.ConditionTrue}}
}

type verdict struct {
	name          string
	request       *Request
	before, after State
	// why is a part of the finding; empty for a request that is warranted.
	why string
}

func check(t *testing.T, verdicts []verdict) {
	t.Helper()
	for _, v := range verdicts {
		t.Run(v.name, func(t *testing.T) {
			rule := warrantOf(v.request)
			if rule == nil {
				t.Fatalf("no rule for %s", v.request)
			}
			err := rule.check(v.request, &v.before, &v.after)
			switch {
			case err == nil && v.why != "":
				t.Errorf("it is warranted, want %q", v.why)
			case err != nil && (v.why == "" || !strings.Contains(err.Error(), v.why)):
				t.Errorf("it is not warranted: %v, want %q", err, v.why)
			}
		})
	}
}

func TestWarrants_OfMachinesAndNodes(t *testing.T) {
	sets := func(replicas int32) []*machinev1beta1.MachineSet {
		return []*machinev1beta1.MachineSet{newSet(replicas)}
	}
	gone := newSet(6)
	gone.DeletionTimestamp = ending()
	check(t, []verdict{
		{"creation: one is missing", on("create", machines, ""), State{Sets: sets(3), Machines: newMachines(2)}, State{Machines: newMachines(3)}, ""},
		{
			"creation: none is missing", on("create", machines, ""), State{Sets: sets(2), Machines: newMachines(2)}, State{Machines: newMachines(3)},
			"replicas is 2",
		},
		{
			"creation: what is being deleted does not count", on("create", machines, ""),
			State{Sets: sets(2), Machines: newMachines(2, goes)}, State{Machines: newMachines(3)}, "",
		},
		{
			"creation: for a set that is being deleted", on("create", machines, ""),
			State{Sets: []*machinev1beta1.MachineSet{gone}}, State{Machines: newMachines(1)}, "being deleted",
		},
		{"deletion: six of three", on("delete", machines, "m1"), State{Sets: sets(3), Machines: newMachines(6)}, State{}, ""},
		{"deletion: six of six", on("delete", machines, "m1"), State{Sets: sets(6), Machines: newMachines(6)}, State{}, "replicas is 6"},
		{"deletion: it has failed", on("delete", machines, "m1"), State{Sets: sets(6), Machines: newMachines(6, fails)}, State{}, ""},
		{"deletion: it is being deleted", on("delete", machines, "m1"), State{Sets: sets(6), Machines: newMachines(6, goes)}, State{}, ""},
		{"deletion: its Node is unhealthy", on("delete", machines, "m0"), State{
			Sets: sets(1), Machines: newMachines(1), Checks: newCheck(), Nodes: []*corev1.Node{newNode("m0", breaks)},
		}, State{}, ""},
		{"deletion: its Node is gone", on("delete", machines, "m0"), State{Sets: sets(1), Machines: newMachines(1), Checks: newCheck()}, State{}, ""},
		{"deletion: its Node is healthy", on("delete", machines, "m0"), State{
			Sets: sets(1), Machines: newMachines(1), Checks: newCheck(), Nodes: []*corev1.Node{newNode("m0")},
		}, State{}, "replicas is 1"},
		{"instance of a Machine", on("create", nodes, "m0"), State{Machines: newMachines(1)}, State{}, ""},
		{"instance of a Machine that goes", on("create", nodes, "m0"), State{Machines: newMachines(1, goes)}, State{}, "being deleted"},
		{"instance of none", on("create", nodes, "m0"), State{}, State{}, "no Machine"},
		{
			"Node of a Machine that goes", on("delete", nodes, "m0"),
			State{Nodes: []*corev1.Node{newNode("m0")}, Machines: newMachines(1, goes)}, State{}, "",
		},
		{"Node of a Machine that is gone", on("delete", nodes, "m0"), State{Nodes: []*corev1.Node{newNode("m0")}}, State{}, ""},
		{
			"Node of a Machine that stays", on("delete", nodes, "m0"),
			State{Nodes: []*corev1.Node{newNode("m0")}, Machines: newMachines(1)}, State{}, "not being deleted",
		},
	})
}

func TestWarrants_OfDrains(t *testing.T) {
	eviction := on("create", pods, "pod")
	eviction.Subresource = "eviction"
	onNode := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"}, Spec: corev1.PodSpec{NodeName: "m0"}}}
	held := func(by string) []*corev1.Node { return []*corev1.Node{newNode("m0", cordoned(by))} }
	free := State{Nodes: []*corev1.Node{newNode("m0")}}
	check(t, []verdict{
		{"eviction: in maintenance", eviction, State{Pods: onNode, Maintenances: maintenance(false)}, State{}, ""},
		{"eviction: the maintenance ends", eviction, State{Pods: onNode, Maintenances: maintenance(true)}, State{}, "nothing drains"},
		{"eviction: its Machine goes", eviction, State{Pods: onNode, Machines: newMachines(1, goes)}, State{}, ""},
		{"deletion: its Machine stays", on("delete", pods, "pod"), State{Pods: onNode, Machines: newMachines(1)}, State{}, "nothing drains"},
		{"uncordon: the maintenance ends", on("patch", nodes, "m0"), State{Nodes: held("NodeMaintenance/nm"), Maintenances: maintenance(true)}, free, ""},
		{"uncordon: the maintenance is gone", on("patch", nodes, "m0"), State{Nodes: held("NodeMaintenance/nm")}, free, ""},
		{
			"uncordon: the maintenance goes on", on("patch", nodes, "m0"),
			State{Nodes: held("NodeMaintenance/nm"), Maintenances: maintenance(false)}, free, "still drains",
		},
		{"uncordon: the Machine goes", on("patch", nodes, "m0"), State{Nodes: held("Machine/m0"), Machines: newMachines(1, goes)}, free, "still drains"},
		{"uncordon: another has cordoned it", on("patch", nodes, "m0"), State{Nodes: held("")}, free, "no cordon record"},
		{
			"the record alone is removed", on("patch", nodes, "m0"), State{Nodes: held("NodeMaintenance/nm"), Maintenances: maintenance(false)},
			State{Nodes: held("")}, "still drains",
		},
		{
			"another change of a cordoned node", on("patch", nodes, "m0"), State{Nodes: held(""), Maintenances: maintenance(false)},
			State{Nodes: held("")}, "",
		},
	})
}

func TestWarrants_OfNodeGroups(t *testing.T) {
	eviction := on("create", pods, "pod")
	eviction.Subresource = "eviction"
	onNode := func(change ...func(*corev1.Pod)) []*corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"}, Spec: corev1.PodSpec{NodeName: "m0"}}
		for _, c := range change {
			c(pod)
		}
		return []*corev1.Pod{pod}
	}
	member := func(effects ...corev1.TaintEffect) []*corev1.Node {
		return []*corev1.Node{newNode("m0", func(node *corev1.Node) {
			node.Labels["pool"] = "gpu"
			for _, effect := range effects {
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "dedicated", Effect: effect})
			}
		})}
	}
	group := func(pool string, change ...func(*drover.NodeGroup)) []*drover.NodeGroup {
		group := &drover.NodeGroup{}
		group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
		group.Spec.Metadata = &drover.Metadata{Taints: []drover.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoExecute}}}
		for _, c := range change {
			c(group)
		}
		return []*drover.NodeGroup{group}
	}
	dedicated := State{Nodes: member(corev1.TaintEffectNoExecute)}
	tolerant := func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	check(t, []verdict{
		{"eviction: the taint is to come", eviction, State{Pods: onNode(), Nodes: member(), Groups: group("gpu")}, State{}, ""},
		{
			"eviction: the taint is there", eviction, State{Pods: onNode(), Nodes: member(corev1.TaintEffectNoExecute), Groups: group("gpu")}, State{},
			"nothing drains",
		},
		{"eviction: another group's taint", eviction, State{Pods: onNode(), Nodes: member(), Groups: group("cpu")}, State{}, "nothing drains"},
		{
			"eviction: the group goes", eviction,
			State{Pods: onNode(), Nodes: member(), Groups: group("gpu", func(g *drover.NodeGroup) { g.DeletionTimestamp = ending() })}, State{},
			"nothing drains",
		},
		{"taint: no Pod", on("patch", nodes, "m0"), State{Nodes: member(corev1.TaintEffectNoSchedule)}, dedicated, ""},
		{"taint: a Pod", on("patch", nodes, "m0"), State{Nodes: member(), Pods: onNode()}, dedicated, "deletes it"},
		{"taint: a Pod that tolerates it", on("patch", nodes, "m0"), State{Nodes: member(), Pods: onNode(tolerant)}, dedicated, ""},
		{"taint: it was there", on("patch", nodes, "m0"), State{Nodes: member(corev1.TaintEffectNoExecute), Pods: onNode()}, dedicated, ""},
		{"another change: a Pod", on("patch", nodes, "m0"), State{Nodes: member(), Pods: onNode()}, State{Nodes: member(corev1.TaintEffectNoSchedule)}, ""},
	})
}

func TestWarrants_OfLeases(t *testing.T) {
	held := func(holder string) []*coordinationv1.Lease { return []*coordinationv1.Lease{newLease(holder)} }
	machineGoes := State{Leases: held(machinesHolder), Machines: newMachines(1, goes)}
	withNode := machineGoes
	withNode.Nodes = []*corev1.Node{newNode("m0")}
	check(t, []verdict{
		{"the maintenance ends", on("delete", leases, "node-m0"), State{Leases: held(maintenanceOwner), Maintenances: maintenance(true)}, State{}, ""},
		{
			"the maintenance goes on", on("delete", leases, "node-m0"),
			State{Leases: held(maintenanceOwner), Maintenances: maintenance(false)}, State{}, "still needs it",
		},
		{
			"emptied while the maintenance goes on", on("update", leases, "node-m0"),
			State{Leases: held(maintenanceOwner), Maintenances: maintenance(false)}, State{Leases: held("")}, "still needs it",
		},
		{
			"renewed", on("update", leases, "node-m0"), State{Leases: held(maintenanceOwner), Maintenances: maintenance(false)},
			State{Leases: held(maintenanceOwner)}, "",
		},
		{"the Machine's Node is gone", on("delete", leases, "node-m0"), machineGoes, State{}, ""},
		{"the Machine's Node is there", on("delete", leases, "node-m0"), withNode, State{}, "still needs it"},
		{"another's", on("delete", leases, "node-m0"), State{Leases: held("another")}, State{}, "not the operator"},
		{"a Job of the upgrade runs", on("delete", leases, "node-m0"), State{
			Leases: held(upgradeHolder), Jobs: []*batchv1.Job{newJob("a", "2")}, Versions: clusterVersion("2"),
		}, State{}, "still runs"},
		{"the upgrade is not over", on("delete", leases, "node-m0"), State{
			Leases: held(upgradeHolder), Nodes: []*corev1.Node{newNode("m0", inRun("1"), released)}, Versions: clusterVersion("2"),
		}, State{}, "not yet"},
		{"the upgrade is over", on("delete", leases, "node-m0"), State{
			Leases: held(upgradeHolder), Nodes: []*corev1.Node{newNode("m0", inRun("2"), released)}, Versions: clusterVersion("2"),
		}, State{}, ""},
	})
}

func TestWarrants_OfUpgrades(t *testing.T) {
	made := State{Jobs: []*batchv1.Job{newJob("new", "2")}}
	claimed, free := newPool(`{"uid":"run"}`), State{Pools: newPool("")}
	check(t, []verdict{
		{"Job: the first", on("create", jobs, "job"), State{Runs: newRun(), Versions: clusterVersion("2")}, made, ""},
		{"Job: of a version of the past", on("create", jobs, "job"), State{Runs: newRun(), Versions: clusterVersion("3")}, made, "sent to"},
		{"Job: the run is gone", on("create", jobs, "job"), State{Versions: clusterVersion("2")}, made, "gone"},
		{"Job: a second", on("create", jobs, "job"), State{
			Runs: newRun(), Versions: clusterVersion("2"), Jobs: []*batchv1.Job{newJob("old", "2")},
		}, made, "has done that"},
		{"Job ended: the run goes on", on("delete", jobs, "job"), State{Runs: newRun(), Jobs: made.Jobs}, State{}, "goes on"},
		{"Job ended: the run is gone", on("delete", jobs, "job"), State{Jobs: made.Jobs}, State{}, ""},
		{"pool: a node is to come", on("patch", pools, "m0"), State{
			Runs: newRun(), Versions: clusterVersion("2"), Pools: claimed, Nodes: []*corev1.Node{newNode("m0", inRun("1"))},
		}, free, "not yet"},
		{"pool: all nodes are done", on("patch", pools, "m0"), State{
			Runs: newRun(), Versions: clusterVersion("2"), Pools: claimed, Nodes: []*corev1.Node{newNode("m0", inRun("2"))},
		}, free, ""},
	})
}

func TestWarrants_OtherRequestsAreNotJudged(t *testing.T) {
	status := on("patch", machines, "m0")
	status.Subresource = "status"
	for _, r := range []*Request{status, on("update", machines, "m0"), on("create", leases, "node-m0"), on("create", maintenances, "nm")} {
		if rule := warrantOf(r); rule != nil {
			t.Errorf("%s is judged", r)
		}
	}
}
