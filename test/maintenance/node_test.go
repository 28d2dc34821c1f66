package maintenance

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestNode_RestoredAsItWas is where node-maintenance-operator uncordons and unlabels every node.
func TestNode_RestoredAsItWas(t *testing.T) {
	cases := map[string]func(*corev1.Node){
		"cordoned": func(node *corev1.Node) { node.Spec.Unschedulable = true },
		"tainted": func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{
				harness.Taint("example.com/admin", "1", corev1.TaintEffectNoSchedule), harness.Taint("example.com/admin", "", corev1.TaintEffectPreferNoSchedule),
			}
		},
		"labelled":              func(node *corev1.Node) { node.Labels[maintenance.ExcludeLabel] = "true" },
		"labelled with another": func(node *corev1.Node) { node.Labels[maintenance.ExcludeLabel] = "false" },
		"all of it": func(node *corev1.Node) {
			node.Spec.Unschedulable = true
			node.Labels[maintenance.ExcludeLabel] = "true"
			node.Spec.Taints = []corev1.Taint{harness.Taint("example.com/admin", "", corev1.TaintEffectNoSchedule)}
		},
	}
	s := site(t)
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			node := s.AddNode(change)
			if s.Node(node).Spec.Unschedulable {
				// kube-controller-manager gives a cordoned node its taint.
				s.AwaitNode(node, "taint of the cordon", func(n *corev1.Node) error { return harness.Has(n, nil, nil, cordonTaint) })
			}
			before := looks(s.Node(node))
			m := s.Maintain(node, nil)
			m.Phase(medik8s.PhaseSucceeded)
			if err := inMaintenance(s.Node(node)); err != nil {
				t.Error(err)
			}
			m.End()
			givenBack(s, node, before)
		})
	}
}

// TestNode_ChangesByOthersKept: labels, annotations and taints that come during the maintenance are not Drover's.
func TestNode_ChangesByOthersKept(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	s.ChangeNode(node, func(n *corev1.Node) {
		n.Labels["example.com/new"] = "1"
		n.Annotations["example.com/note"] = "x"
		n.Spec.Taints = append(n.Spec.Taints, harness.Taint("example.com/new", "", corev1.TaintEffectNoExecute))
	})
	m.End()
	after := s.Node(node)
	if err := harness.Has(after, map[string]string{"example.com/new": "1"}, map[string]string{"example.com/note": "x"},
		"example.com/new=:NoExecute"); err != nil {
		t.Error(err)
	}
	if after.Spec.Unschedulable || len(after.Spec.Taints) != 1 {
		t.Errorf("the node is %s", looks(after))
	}
}

// undone lists how another writer can take a node out of its maintenance.
var undone = map[string]func(*corev1.Node){
	"uncordoned": func(n *corev1.Node) { n.Spec.Unschedulable = false },
	"untainted": func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{harness.Taint("node.kubernetes.io/unschedulable", "", corev1.TaintEffectNoSchedule)}
	},
	"unlabelled": func(n *corev1.Node) { delete(n.Labels, maintenance.ExcludeLabel) },
	"all of it": func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Spec.Taints = false, nil
		delete(n.Labels, maintenance.ExcludeLabel)
	},
}

func TestNode_ManualUncordonReverted(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	for name, change := range undone {
		t.Run(name, func(*testing.T) {
			mark := s.AuditMark()
			s.ChangeNode(node, change)
			// The look before the operator's own would find what was there before the change.
			s.Eventually("the repair", func() error {
				for _, write := range s.Writes(mark) {
					if write.Name == node && write.Verb == "patch" {
						return nil
					}
				}
				return fmt.Errorf("the operator has not written the node")
			})
			awaitMaintenance(s, node)
			s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventCordonRestored, "another writer")
		})
	}
	if status := m.Status(); status.Phase != medik8s.PhaseSucceeded || status.LastError != "" {
		t.Errorf("the status is %s", harness.Render(status))
	}
	m.End()
	givenBack(s, node, before)
}

// TestNode_Deleted is the garbage collector's work: the node owns the object.
func TestNode_Deleted(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Pod("blocked", harness.Pods{Node: node})
	s.Budget("blocked", "blocked", harness.MinAvailable(1))
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, "Blocked", "")
	if err := s.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}); err != nil {
		t.Fatal(err)
	}
	s.Gone(builder.NodeMaintenance(m.Name, node))
	s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventRemoved, "")
	s.AwaitHolder(node, "")
}

// TestNode_ForeignFinalizerOnMaintenance: the object stays, the node comes back, and is not taken again.
func TestNode_ForeignFinalizerOnMaintenance(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	finalizers := func(change func([]string) []string) {
		t.Helper()
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			object := m.Get()
			object.SetFinalizers(change(object.GetFinalizers()))
			return s.Client.Update(t.Context(), object)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	finalizers(func(all []string) []string { return append(all, "example.com/other") })
	m.Delete()
	givenBack(s, node, before)
	s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventRemoved, "")
	drainedMeanwhile(s)
	if after := looks(s.Node(node)); after != before {
		t.Errorf("the node was taken again: %s", after)
	}
	finalizers(func([]string) []string { return nil })
	s.Gone(builder.NodeMaintenance(m.Name, node))
}

// After the success node-maintenance-operator drains again, and reports the success again, at each event of the NodeMaintenance.
func TestMaintenance_WritesNothingAtRest(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: 3})
	s.AddNode()
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	s.Settled("app", 3, node)
	// What the success itself writes comes before what another maintenance does.
	drainedMeanwhile(s)
	mark, version := s.AuditMark(), m.Get().GetResourceVersion()
	for range 3 {
		heartbeat(s, node)
	}
	drainedMeanwhile(s)
	if now := m.Get().GetResourceVersion(); now != version {
		t.Errorf("the object was version %s and is %s", version, now)
	}
	if _, err := s.Cluster.Audit().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.Cluster.Audit().Each(mark, func(e *cluster.AuditEvent) error {
		if e.User == harness.User && e.Write() && (e.Name == node || e.Name == "node-"+node || strings.HasPrefix(e.Name, m.Name+".")) {
			t.Errorf("at rest: %s %s/%s %s: %d", e.Verb, e.Resource, e.Subresource, e.Name, e.Code)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if n := s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventSucceeded, ""); n != 1 {
		t.Errorf("there are %d events of the success", n)
	}
}

// heartbeat reports a node's status as its kubelet does.
func heartbeat(s *harness.Site, node string) {
	s.Helper()
	s.Eventually("a heartbeat of "+node, func() error {
		object := s.Node(node)
		for i := range object.Status.Conditions {
			object.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
		}
		return s.Client.Status().Update(s.Context(), object)
	})
}

func TestKubectl_WaitAndGet(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Ends: "1s"})
	s.AddNode()
	m := s.Maintain(node, nil)
	if output, err := harness.Kubectl(t.Context(), env, nil, "wait", "--for=condition=Drained", "nm/"+m.Name, "--timeout=60s"); err != nil {
		t.Fatal(err, output)
	}
	output, err := harness.Kubectl(t.Context(), env, nil, "get", "nm", m.Name)
	if err != nil {
		t.Fatal(err, output)
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if got := strings.Fields(lines[0]); fmt.Sprint(got) != "[NAME NODE PHASE PROGRESS AGE REASON]" {
		t.Errorf("the columns are %v", got)
	}
	if got := strings.Fields(lines[1]); len(got) != 6 || got[2] != "Succeeded" || got[3] != "100" || got[5] != "test" {
		t.Errorf("it shows %v", got)
	}
	if output, err := harness.Kubectl(t.Context(), env, nil, "wait", "--for=condition=Ready", "nm/"+m.Name, "--timeout=60s"); err != nil {
		t.Fatal(err, output)
	}
}
