package maintenance

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// dedicate makes a NodeGroup of the Nodes of a site, with a taint that has the effect NoExecute.
func dedicate(s *harness.Site, change func(*v1alpha1.NodeGroupSpec)) *v1alpha1.NodeGroup {
	s.Helper()
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{harness.SiteLabel: s.Name}}
	group.Spec.Metadata = &v1alpha1.Metadata{
		Labels:    map[string]v1alpha1.LabelValue{"example.com/team": "blue"},
		Taints:    []v1alpha1.Taint{{Key: "example.com/dedicated", Value: "batch", Effect: corev1.TaintEffectNoExecute}},
		OnRelease: v1alpha1.ReleaseRemove,
	}
	change(&group.Spec)
	s.CreateWithCleanup(group)
	return group
}

// groupOf returns a function that reads a NodeGroup.
func groupOf(s *harness.Site) func(name string) *v1alpha1.NodeGroup {
	return func(name string) *v1alpha1.NodeGroup {
		s.Helper()
		group := &v1alpha1.NodeGroup{}
		if err := s.Client.Get(s.Context(), types.NamespacedName{Name: name}, group); err != nil {
			s.Fatal(err)
		}
		return group
	}
}

// hasTeam checks that a Node has the label of the group.
func hasTeam(node *corev1.Node) error {
	if node.Labels["example.com/team"] != "blue" {
		return fmt.Errorf("the labels are %v", node.Labels)
	}
	return nil
}

// eventuallyDedicated waits until a Node has the taint with these effects.
func eventuallyDedicated(s *harness.Site, node string, effects ...corev1.TaintEffect) {
	s.Helper()
	s.AwaitNode(node, fmt.Sprintf("has the taint with %v", effects), func(node *corev1.Node) error {
		var found []corev1.TaintEffect
		for _, taint := range node.Spec.Taints {
			if taint.Key == "example.com/dedicated" {
				found = append(found, taint.Effect)
			}
		}
		if !slices.Equal(found, effects) {
			return fmt.Errorf("the taints are %v", node.Spec.Taints)
		}
		return nil
	})
}

// TestGuard_BudgetsHold: Pods that do not tolerate a NodeGroup's taint leave one by one, as their budget allows, before the taint is set; a Pod that
// tolerates it stays, and the Node's label comes at once.
func TestGuard_BudgetsHold(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: 4, Ready: "300ms", Ends: "200ms"})
	s.Running("app", 4, true)
	s.Budget("app", "app", harness.MinAvailable(3))
	s.Allows("app", 1)
	stays := s.Deployment("tolerant", harness.Pods{Replicas: 1, Tolerant: true})
	s.Running("tolerant", 1, true)
	other := s.AddNode(func(node *corev1.Node) { node.Labels["example.com/pool"] = "other" })
	group := dedicate(s, func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "example.com/pool", Operator: metav1.LabelSelectorOpDoesNotExist}}
		spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
	})
	eventuallyDedicated(s, node, corev1.TaintEffectNoExecute)
	s.Settled("app", 4, node)
	if now := s.GetPod(stays[0].Name); now.UID != stays[0].UID {
		t.Error("the Pod that tolerates the taint has been replaced")
	}
	if taints := s.Node(other).Spec.Taints; len(taints) > 0 {
		t.Errorf("a Node of no group has the taints %v", taints)
	}
	s.AwaitHolder(node, "")
	eventuallyUnreserved(s, group)
	s.NoEvent("Node", node, "MetadataRepaired")
	if err := s.Client.Delete(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	eventuallyDedicated(s, node)
}

// TestGuard_Withdrawn: a taint that is not declared any more while Pods leave for it leaves nothing behind, and the Pods stay that are left.
func TestGuard_Withdrawn(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	// As long as they are not ready their budget lets none of them go.
	s.Deployment("app", harness.Pods{Replicas: 2, Ready: harness.Never})
	s.Budget("app", "app", harness.MinAvailable(1))
	group := dedicate(s, func(*v1alpha1.NodeGroupSpec) {})
	eventuallyDedicated(s, node, corev1.TaintEffectNoSchedule)
	s.AwaitHolder(node, "drover-node-groups")
	harness.Update(s.World, groupOf(s), group.Name, func(group *v1alpha1.NodeGroup) { group.Spec.Metadata.Taints = nil })
	eventuallyDedicated(s, node)
	s.NoLease(node)
	s.Running("app", 2, false)
}

// TestGuard_NextOperator: an operator that finds a guard which its predecessor has begun, and no Pods any more, sets the taint, and releases the
// lease and the reservation.
func TestGuard_NextOperator(t *testing.T) {
	s := alone(t)
	node := s.AddNode()
	// As long as they are not ready their budget lets none of them go.
	pods := s.Deployment("app", harness.Pods{Replicas: 2, Ready: harness.Never})
	s.Budget("app", "app", harness.MinAvailable(1))
	operator := s.Operator(harness.Options{})
	group := dedicate(s, func(spec *v1alpha1.NodeGroupSpec) {
		spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
	})
	eventuallyDedicated(s, node, corev1.TaintEffectNoSchedule)
	s.AwaitHolder(node, "drover-node-groups")
	if err := operator.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if err := s.Client.Delete(t.Context(), &pods[i], client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		s.Gone(&pods[i])
	}
	s.Operator(harness.Options{})
	eventuallyDedicated(s, node, corev1.TaintEffectNoExecute)
	s.AwaitHolder(node, "")
	eventuallyUnreserved(s, group)
}

// TestGuard_Timeout: a Pod that does not leave in time keeps neither the place in the budget nor the lease of its Node: a NodeMaintenance that waits
// for the place gets it. The group names Node and Pod, no Pods come meanwhile, and the taint is set when the Pod has left.
func TestGuard_Timeout(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	// As long as they are not ready their budget lets none of them go.
	pods := s.Deployment("app", harness.Pods{Replicas: 2, Ready: harness.Never})
	s.Budget("app", "app", harness.MinAvailable(1))
	other := s.AddNode()
	group := dedicate(s, queuedBehindGuard)
	s.AwaitHolder(node, "drover-node-groups")
	maintenance := s.Maintain(other, nil)
	maintenance.Condition(plan.ConditionCordoned, plan.ReasonWaitingForBudget, "")
	shortTimeout(s, group)
	maintenance.Phase(medik8s.PhaseSucceeded)
	eventuallyHeld(s, group, "Pod "+s.Name+"/app")
	eventuallyHeld(s, group, "Node "+node)
	s.NoLease(node)
	eventuallyDedicated(s, node, corev1.TaintEffectNoSchedule)
	s.Running("app", 2, false)
	for i := range pods {
		if err := s.Client.Delete(t.Context(), &pods[i], force); err != nil {
			t.Fatal(err)
		}
	}
	eventuallyDedicated(s, node, corev1.TaintEffectNoExecute)
}

// queuedBehindGuard has a NodeMaintenance wait while the guard of another Node has the only place in the budget.
func queuedBehindGuard(spec *v1alpha1.NodeGroupSpec) {
	spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1)), PersonMaintenance: v1alpha1.PersonQueue}
}

// shortTimeout has a guard time out that has begun: a test that has seen first what the guard keeps waiting needs no fast machine.
func shortTimeout(s *harness.Site, group *v1alpha1.NodeGroup) {
	s.Helper()
	harness.Update(s.World, groupOf(s), group.Name, func(group *v1alpha1.NodeGroup) {
		group.Spec.Rollout = &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{Timeout: &metav1.Duration{Duration: 5 * time.Second}}}
	})
}

// eventuallyUnreserved waits until no place in the budget of a group is taken.
func eventuallyUnreserved(s *harness.Site, group *v1alpha1.NodeGroup) {
	s.Helper()
	s.Eventually("the reservation has ended", func() error {
		if err := s.Client.Get(s.Context(), types.NamespacedName{Name: group.Name}, group); err != nil {
			return err
		}
		if group.Status.Unavailable != 0 || len(group.Status.Reservations) > 0 {
			return fmt.Errorf("the status is %s", harness.JSON(group.Status))
		}
		return nil
	})
}

// TestGuard_BudgetNever: if the budget of a Pod can never allow its eviction, Drover does not change the Pod's Node, and the group names the Pod,
// until a user changes the budget. The Cluster API's label to skip a Pod in drains makes no difference: Kubernetes would delete the Pod regardless of
// its budget.
func TestGuard_BudgetNever(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: 2, Labels: map[string]string{"cluster.x-k8s.io/drain": "skip"}})
	s.Running("app", 2, true)
	s.Budget("app", "app", harness.MinAvailable(2))
	group := dedicate(s, func(*v1alpha1.NodeGroupSpec) {})
	eventuallyHeld(s, group, "Pod "+s.Name+"/app")
	if group.Status.Phase != v1alpha1.PhaseWaiting || !strings.Contains(group.Status.Message, "Pod "+s.Name+"/app") {
		t.Errorf("phase %s, message %q", group.Status.Phase, group.Status.Message)
	}
	eventuallyDedicated(s, node)
	s.NoLease(node)
	budget := s.GetBudget("app")
	budget.Spec.MinAvailable = new(intstr.FromInt32(0))
	if err := s.Client.Update(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	eventuallyDedicated(s, node, corev1.TaintEffectNoExecute)
	s.Eventually("the group is as declared", func() error {
		if group = groupOf(s)(group.Name); group.Status.Phase != v1alpha1.PhaseIdle {
			return fmt.Errorf("the status is %s", harness.JSON(group.Status))
		}
		return nil
	})
}

// eventuallyHeld waits until a group says that its taint is held back, with a part of the reason.
func eventuallyHeld(s *harness.Site, group *v1alpha1.NodeGroup, part string) {
	s.Helper()
	s.Eventually("the group says that its taint is held back", func() error {
		if err := s.Client.Get(s.Context(), types.NamespacedName{Name: group.Name}, group); err != nil {
			return err
		}
		for _, c := range group.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady && c.Reason == "NoExecuteHeld" && strings.Contains(c.Message, part) {
				return nil
			}
		}
		return fmt.Errorf("the status is %s", harness.JSON(group.Status))
	})
}

// TestGuard_TooManyPods: a Node with more Pods than may be evicted keeps them, and the group says so.
func TestGuard_TooManyPods(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: 3})
	s.Running("app", 3, true)
	group := dedicate(s, func(spec *v1alpha1.NodeGroupSpec) {
		spec.Rollout = &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{MaxPodsPerNode: new(int32(2))}}
	})
	eventuallyHeld(s, group, "maxPodsPerNode is 2")
	s.AwaitNode(node, "has the label", hasTeam)
	eventuallyDedicated(s, node)
	s.Running("app", 3, true)
}

// guardedNodes is how many Nodes TestGuard_Waves has; DROVER_GUARD_NODES=100 is the lane in full, with 3,000 Pods.
func guardedNodes(t *testing.T) int32 {
	t.Helper()
	text := os.Getenv("DROVER_GUARD_NODES")
	if text == "" {
		return 12
	}
	count, err := strconv.ParseInt(text, 10, 32)
	if err != nil || count < 10 {
		t.Fatalf("DROVER_GUARD_NODES is %q, want a number from 10 on", text)
	}
	return int32(count)
}

// TestGuard_Waves: a taint reaches a pool in the waves that its group declares, the Pods of each wave leave first, and no PodDisruptionBudget is
// violated, which the checker of these tests looks at.
func TestGuard_Waves(t *testing.T) {
	harness.TestAllOnly(t, "hundreds of Pods; TestNodePool has waves of a guarded taint with few")
	s := alone(t)
	count := guardedNodes(t)
	s.AddNodes(int(count))
	for i := range 10 {
		app := fmt.Sprintf("app%d", i)
		s.Deployment(app, harness.Pods{Replicas: 3 * count, Ends: "200ms"})
		s.Budget(app, app, harness.MaxUnavailable(count/4))
	}
	var nodes corev1.NodeList
	if err := s.Client.List(t.Context(), &nodes, client.MatchingLabels{harness.SiteLabel: s.Name}); err != nil {
		t.Fatal(err)
	}
	s.AddNodes(int(count/3), func(node *corev1.Node) { node.Labels["example.com/pool"] = "other" })
	first, size := int32(2), count/3
	operator := s.Operator(harness.Options{})
	var taints []v1alpha1.Taint
	group := dedicate(s, func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "example.com/pool", Operator: metav1.LabelSelectorOpDoesNotExist}}
		spec.Rollout = &v1alpha1.Rollout{FirstWave: &first, MaxInFlight: new(intstr.FromInt32(size))}
		taints, spec.Metadata.Taints = spec.Metadata.Taints, nil
	})
	// New Nodes get what needs no guard at once.
	for i := range nodes.Items {
		s.AwaitNode(nodes.Items[i].Name, "has the label", hasTeam)
	}
	mark := s.AuditMark()
	harness.Update(s.World, groupOf(s), group.Name, func(group *v1alpha1.NodeGroup) { group.Spec.Metadata.Taints = taints })
	// A hundred Nodes with 3,000 Pods take minutes on a busy machine.
	limit := harness.Patience + time.Duration(count)*20*time.Second
	err := harness.WaitLonger(t.Context(), limit, time.Second, func() error {
		if status := groupOf(s)(group.Name).Status; status.Synced != count {
			return fmt.Errorf("the status is %s", harness.JSON(status))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		eventuallyDedicated(s, nodes.Items[i].Name, corev1.TaintEffectNoExecute)
	}
	for i := range 10 {
		s.Running(fmt.Sprintf("app%d", i), int(3*count), true)
	}
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	checkWaves(s, nodes.Items, s.Writes(mark), int(first), int(size))
}

// checkWaves checks that each wave of Nodes was begun when the one before it was over. A Node is written twice: when Pods are kept away, and when
// they have left.
func checkWaves(s *harness.Site, nodes []corev1.Node, writes []cluster.AuditEvent, first, size int) {
	s.Helper()
	begun, over := map[string]time.Time{}, map[string]time.Time{}
	for _, write := range writes {
		if begun[write.Name].IsZero() {
			begun[write.Name] = write.Received
		}
		over[write.Name] = write.Answered
	}
	slices.SortFunc(nodes, func(a, b corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var last time.Time
	for from, to := 0, first; from < len(nodes); from, to = to, min(to+size, len(nodes)) {
		end := last
		for i := range nodes[from:to] {
			name := nodes[from+i].Name
			if begun[name].Before(last) {
				s.Errorf("Node %s of the wave from %d to %d was written %s before the wave before it was over", name, from, to, last.Sub(begun[name]))
			}
			if over[name].After(end) {
				end = over[name]
			}
		}
		last = end
	}
}
