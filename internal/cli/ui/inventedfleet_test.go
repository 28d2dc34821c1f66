package ui

import (
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// fleet is an invented cluster in which there is something of everything.
type fleet struct {
	now      time.Time
	groups   []*drover.NodeGroup
	nodes    []*corev1.Node
	sets     map[string]*machinev1beta1.MachineSet
	machines []*machinev1beta1.Machine
	others   []client.Object
}

// pools are the groups of the fleet, and how many of 20 nodes each has. A settled pool has what it declares.
var pools = []struct {
	name    string
	of20    int
	settled bool
	edit    func(f *fleet, group *drover.NodeGroup)
}{
	{"web", 7, true, func(f *fleet, group *drover.NodeGroup) {
		group.Status.Phase = drover.PhaseStopped
		group.Status.Rollout = &drover.RolloutStatus{Wave: "3/4", StartTime: new(f.ago(2 * time.Hour)), WaveEndTime: new(f.ago(40 * time.Minute))}
		group.Status.Rollout.Stopped, group.Status.Rollout.StopTime = "NodesNotReady", new(f.ago(25*time.Minute))
		f.set(group, drover.ConditionProgressing, metav1.ConditionFalse, "RollingOut", 25*time.Minute, "the roll-out has stopped")
		f.set(group, drover.ConditionBlocked, metav1.ConditionTrue, "NodesNotReady", 25*time.Minute,
			"3 Nodes have become NotReady since the roll-out began, and spec.rollout.stopWhen.notReady is 3: node-00020, node-00040, node-00061")
	}},
	{"batch", 5, true, func(f *fleet, group *drover.NodeGroup) {
		group.Status = drover.NodeGroupStatus{
			Phase: drover.PhaseRolling, Unavailable: 9, Budget: new(int32(24)), Outdated: 40,
			Rollout: &drover.RolloutStatus{
				Wave: "6/8", StartTime: new(f.ago(50 * time.Minute)), WaveEndTime: new(f.ago(9 * time.Minute)),
			},
		}
		group.Spec.Disruption = &drover.Disruption{
			MaxUnavailable: new(intstr.FromString("16%")), Windows: []drover.Window{
				{Schedule: "0 22 * * 1-5", Duration: metav1.Duration{Duration: 6 * time.Hour}, TimeZone: "Europe/Berlin"},
				{Schedule: "0 0 * * 6", Duration: metav1.Duration{Duration: 48 * time.Hour}, TimeZone: "Europe/Berlin"},
			},
			Freezes: []drover.Freeze{{From: f.ago(-70 * time.Hour), To: f.ago(-94 * time.Hour), Reason: "release of the shop"}},
		}
		for i := 7; i < 12; i++ {
			group.Status.Reservations = append(group.Status.Reservations, drover.Reservation{
				Node: nodeName(i), Capability: drover.CapabilityMaintenance, Object: "NodeMaintenance/replace-disk-" + nodeName(i), Time: f.ago(30 * time.Minute),
			})
		}
		f.set(group, drover.ConditionProgressing, metav1.ConditionTrue, "RollingOut", 50*time.Minute, "wave 6 of 8 waits for 4 Nodes to be Ready")
	}},
	{"gpu", 2, false, func(f *fleet, group *drover.NodeGroup) {
		group.Status.Phase = drover.PhaseWaiting
		f.set(group, drover.ConditionProgressing, metav1.ConditionTrue, "RollingOut", 3*time.Hour, "no wave has begun")
		f.set(group, drover.ConditionBlocked, metav1.ConditionTrue, "WindowClosed", 3*time.Hour, "the next window opens at 22:00 Europe/Berlin")
	}},
	{"database", 3, true, func(f *fleet, group *drover.NodeGroup) {
		group.Spec.Disruption = &drover.Disruption{MaxUnavailable: new(intstr.FromInt32(3))}
		group.Status = drover.NodeGroupStatus{
			Phase: drover.PhaseWaiting, Unavailable: 4, Budget: new(int32(3)),
			Rollout: &drover.RolloutStatus{Wave: "1/1", StartTime: new(f.ago(31 * time.Hour)), EndTime: new(f.ago(30 * time.Hour))},
		}
		f.set(group, drover.ConditionBlocked, metav1.ConditionTrue, "BudgetExceeded", 12*time.Minute, "4 Nodes are unavailable, and the budget is 3")
		f.set(group, drover.ConditionProgressing, metav1.ConditionFalse, "Complete", 30*time.Hour, "there is nothing to write")
		f.set(group, drover.ConditionReady, metav1.ConditionTrue, "Complete", 30*time.Hour, "all Nodes have what is declared")
	}},
	{"edge", 1, false, func(f *fleet, group *drover.NodeGroup) {
		group.Spec.Suspend, group.Status.Phase = true, drover.PhaseSuspended
		f.set(group, drover.ConditionProgressing, metav1.ConditionFalse, "Suspended", 50*time.Hour, "spec.suspend is set")
	}},
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// newFleet returns the objects of an invented cluster with so many nodes.
func newFleet(t testing.TB, count int, now time.Time) []client.Object {
	t.Helper()
	f := &fleet{now: now, sets: map[string]*machinev1beta1.MachineSet{}}
	for _, pool := range pools {
		group := builder.NodeGroup(pool.name)
		group.UID, group.Generation = types.UID("group-"+pool.name), 4
		group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool.name}}
		labels := map[string]drover.LabelValue{"example.com/team": "platform", "example.com/tier": drover.LabelValue(pool.name)}
		group.Spec.Metadata = &drover.Metadata{Labels: labels}
		if pool.edit != nil {
			pool.edit(f, group)
		}
		f.groups = append(f.groups, group)
	}
	for i := range count {
		f.addNode(i)
	}
	f.settle(t)
	f.report()
	f.addWork()
	objects := f.others
	for _, group := range f.groups {
		objects = append(objects, group)
	}
	for _, node := range f.nodes {
		objects = append(objects, node)
	}
	for _, set := range f.sets {
		objects = append(objects, set)
	}
	for _, machine := range f.machines {
		objects = append(objects, machine)
	}
	return objects
}

// ago returns a time before now.
func (f *fleet) ago(ago time.Duration) metav1.Time {
	return metav1.NewTime(f.now.Add(-ago).Truncate(time.Second))
}

// set adds a condition to a NodeGroup.
func (f *fleet) set(group *drover.NodeGroup, kind string, status metav1.ConditionStatus, reason string, ago time.Duration, message string) {
	group.Status.Conditions = append(group.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: f.ago(ago),
	})
}

// poolOf returns the pool of a node; empty for none.
func poolOf(i int) string {
	at := i % 20
	for _, pool := range pools {
		if at < pool.of20 {
			return pool.name
		}
		at -= pool.of20
	}
	return ""
}

// addNode adds a Node and, unless it is at the edge, its Machine and MachineSet.
func (f *fleet) addNode(i int) {
	pool, zone := poolOf(i), []string{"eu-central-1a", "eu-central-1b", "eu-central-1c"}[i/20%3]
	ready := corev1.ConditionTrue
	if i%211 == 17 {
		ready = corev1.ConditionFalse
	}
	node := builder.Node(nodeName(i), builder.WithReadySince(ready, f.ago(26*time.Minute).Time), builder.WithNodeLabels(map[string]string{
		corev1.LabelHostname: nodeName(i), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelTopologyZone: zone,
	}))
	node.CreationTimestamp = f.ago(time.Duration(i%90+1) * 24 * time.Hour)
	node.Status.NodeInfo.KubeletVersion = []string{"v1.36.2", "v1.36.2", "v1.35.6"}[i%3]
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: pressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoPressure", LastTransitionTime: f.ago(200 * time.Hour),
		})
	}
	if pool != "" {
		node.Labels["pool"] = pool
	}
	f.nodes = append(f.nodes, node)
	if pool == "edge" || i%20 == 19 {
		return
	}
	f.addMachine(i, node, pool, zone)
}

func (f *fleet) addMachine(i int, node *corev1.Node, pool, zone string) {
	name := "workers-" + zone
	if pool != "" {
		name = pool + "-" + zone
	}
	set := f.sets[name]
	if set == nil {
		set = builder.MachineSet(cmdutil.DefaultNamespace, name, 1, builder.WithSelector(map[string]string{"set": name}))
		set.UID = types.UID("set-" + name)
		f.sets[name] = set
	}
	machine := builder.Machine(cmdutil.DefaultNamespace, fmt.Sprintf("%s-%05d", name, i), builder.WithOwner(set))
	machine.UID, machine.Labels = types.UID("machine-"+node.Name), map[string]string{"set": name}
	condition := machinev1beta1.Condition{Type: "Ready", Status: corev1.ConditionTrue, LastTransitionTime: f.ago(100 * time.Hour)}
	phase := machinev1beta1.PhaseRunning
	builder.WithNode(node.Name)(machine)
	switch {
	case i%397 == 50:
		phase, condition.Status, condition.Reason = machinev1beta1.PhaseFailed, corev1.ConditionFalse, "Failed"
		machine.Status.ErrorMessage = new("the provider has deleted the instance")
	case i%301 == 33:
		machine.DeletionTimestamp, machine.Finalizers = new(f.ago(40*time.Minute)), []string{machinev1beta1.MachineFinalizer}
		phase, condition.Status, condition.Reason = machinev1beta1.PhaseDeleting, corev1.ConditionFalse, "Deleting"
		machine.Status.Conditions = append(machine.Status.Conditions, machinev1beta1.Condition{
			Type: "Drained", Status: corev1.ConditionFalse, Reason: "Draining", LastTransitionTime: f.ago(38 * time.Minute),
			Message: "2 Pods have still to leave: shop/cart-0 (PodDisruptionBudget shop/cart allows no disruption now), shop/cart-1",
		})
	}
	machine.Status.Phase = &phase
	machine.Status.Conditions = append(machine.Status.Conditions, condition)
	f.machines = append(f.machines, machine)
}

// settle gives the Nodes of settled pools what is declared for them. A part of the web pool is still to get it, and some of the batch pool has other
// values of another writer.
func (f *fleet) settle(t testing.TB) {
	t.Helper()
	membership := (&cmdutil.Snapshot{Groups: f.groups}).Membership(t.Context())
	settled := map[string]bool{}
	for _, pool := range pools {
		settled[pool.name] = pool.settled
	}
	for i, node := range f.nodes {
		pool := node.Labels["pool"]
		if pool == "batch" && i%83 == 10 {
			node.Labels["example.com/tier"] = "spot"
			continue
		}
		if !settled[pool] || pool == "web" && i > len(f.nodes)*2/3 || pool == "batch" && i > len(f.nodes)*5/8 {
			continue
		}
		decision := plan.DecideGroup(membership.Of(t.Context(), node).Input(ownership.DefaultProtected(), f.now))
		for key, value := range decision.Change.Results[ownership.Label].Set {
			node.Labels[key] = value
		}
		node.Annotations[ownership.AnnotationGroupRecord] = decision.Change.Record
		node.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "drover-metadata", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", Time: new(f.ago(time.Hour)),
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:example.com/team":{},"f:example.com/tier":{}}}}`),
		}}
	}
}

// addWork adds maintenances, upgrades, health checks, leases and events.
func (f *fleet) addWork() {
	for i := 5; i < len(f.nodes); i += 97 {
		m := builder.NodeMaintenance("replace-disk-"+nodeName(i), nodeName(i))
		m.CreationTimestamp = f.ago(time.Duration(i%50+100) * time.Minute)
		m.Spec.Reason = "a disk is replaced"
		m.Status.Phase, m.Status.DrainProgress, m.Status.LastUpdate = medik8s.PhaseSucceeded, 100, new(f.ago(2*time.Minute))
		condition := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "InMaintenance", LastTransitionTime: f.ago(2 * time.Minute)}
		switch i % 3 {
		case 1:
			m.Status.Phase, m.Status.DrainProgress = medik8s.PhaseRunning, 87
			condition = metav1.Condition{
				Type: "Ready", Status: metav1.ConditionFalse, Reason: "Draining", LastTransitionTime: f.ago(9 * time.Minute),
				Message: "4 of 31 Pods have still to leave",
			}
		case 2:
			m.Status.Phase, m.Status.DrainProgress = medik8s.PhaseRunning, 66
			condition = metav1.Condition{
				Type: "Ready", Status: metav1.ConditionFalse, Reason: "Blocked", LastTransitionTime: f.ago(95 * time.Minute),
				Message: "Pod shop/orders-0 cannot leave: PodDisruptionBudget shop/orders allows no disruption although all of its Pods are healthy",
			}
		}
		drained := metav1.Condition{Type: "Drained", Status: condition.Status, Reason: condition.Reason, LastTransitionTime: condition.LastTransitionTime}
		m.Status.Conditions = []metav1.Condition{condition, drained}
		f.nodes[i].Spec.Unschedulable = true
		f.others = append(f.others, m)
	}
	run := &mutex.MutexRunConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "upgrade-gate", Name: "spring"}}
	run.Status = mutex.MutexRunConfigStatus{Phase: mutex.PhaseRunning, Version: "4.19.3", Total: 60, Done: 14, Started: new(f.ago(2 * time.Hour))}
	for i := 15; i < len(f.nodes) && len(run.Status.Nodes) < 30; i += 40 {
		node := mutex.NodeStatus{Name: nodeName(i), Phase: mutex.NodeUpgrading, Started: new(f.ago(20 * time.Minute))}
		if i%120 == 95 {
			node.Phase, node.Message = mutex.NodeFailed, "Job upgrade-gate/check-storage has failed 3 times"
		}
		run.Status.Nodes = append(run.Status.Nodes, node)
	}
	check := builder.MachineHealthCheck(cmdutil.DefaultNamespace, "workers", nil)
	check.Spec.MaxUnhealthy = new(intstr.FromString("2%"))
	check.Status.Conditions = []machinev1beta1.Condition{{
		Type: "RemediationAllowed", Status: corev1.ConditionFalse, Reason: "TooManyUnhealthy", LastTransitionTime: f.ago(24 * time.Minute),
		Message: "3 of 120 Machines are unhealthy, which exceeds maxUnhealthy 2%; remediation is paused until at most 2 are",
	}}
	f.others = append(f.others, run, check)
	for i := 42; i < len(f.nodes); i += 177 {
		f.others = append(f.others, builder.NodeLease("medik8s-leases", nodeName(i), "storage-operator", f.now.Add(-12*time.Minute)))
	}
	f.addPods()
	for i := range min(len(f.nodes), 20) {
		f.others = append(f.others, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: nodeName(i) + ".1"},
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: nodeName(i)},
			Type:           corev1.EventTypeNormal, Reason: "NodeReady", Message: "Node " + nodeName(i) + " status is now: NodeReady", Count: 3,
			LastTimestamp: f.ago(7 * time.Hour), ReportingController: "kubelet",
		})
	}
}

// addPods adds Pods to some nodes in maintenance, and the PodDisruptionBudgets that keep them there.
func (f *fleet) addPods() {
	for i := 5; i < min(len(f.nodes), 500); i += 97 {
		for _, app := range []string{"orders", "cart", "search"} {
			name := fmt.Sprintf("%s-%d", app, i)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: new(true)}}
			pod.Spec.NodeName, pod.Status.Phase = nodeName(i), corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			f.others = append(f.others, pod)
		}
	}
	for app, allowed := range map[string]int32{"orders": 0, "cart": 1} {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app}}
		budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		budget.Status = policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 6 - allowed, CurrentHealthy: 6, ExpectedPods: 6, DisruptionsAllowed: allowed}
		f.others = append(f.others, budget)
	}
}
