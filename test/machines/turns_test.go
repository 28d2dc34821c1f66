package machines

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestTurns: Drover is upgraded from an earlier version, rolled back, and upgraded again, in the middle of what it does. The next one goes on where
// the one before was killed: nothing is lost, nothing is done twice, and the records of the newer version survive the older one.
func TestTurns(t *testing.T) {
	harness.TestAllOnly(t, "it needs the operator of an earlier commit")
	w := prepared(t)
	args := []string{"--controllers=*", "--metadata-writes-per-second=2", "--metadata-writes-burst=1"}
	turns := &turnsTest{site: w.Site(), Turns: w.TakeTurns(harness.Options{Args: args})}
	turns.createsMachines()
	turns.declaresGroup()
	turns.rollsOut()
	turns.drains()
}

// turnsTest is a pool that an earlier operator and the present one serve in turns.
type turnsTest struct {
	*harness.Turns

	pool *harness.Pool
	site *harness.Site
}

const turnsSize = 6

// createsMachines: each Machine is created once, and gets one Node.
func (s *turnsTest) createsMachines() {
	s.Helper()
	mark := s.AuditMark()
	s.pool = s.MakePool("turns", turnsSize, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.BootDelay, spec.Labels = metav1.Duration{Duration: time.Second}, map[string]string{harness.SiteLabel: s.site.Name}
	})
	for _, count := range []int{2, 4} {
		s.Eventually(fmt.Sprintf("%d instances", count), func() error {
			made := 0
			for _, machine := range s.pool.Machines() {
				if machine.Spec.ProviderID != nil {
					made++
				}
			}
			if made < count {
				return fmt.Errorf("there are %d", made)
			}
			return nil
		})
		s.Next()
	}
	s.pool.Runs(turnsSize)
	// The audit log counts no request whose answer a killed operator did not wait for.
	if created := s.writes(mark, "create", "machines"); created > turnsSize {
		s.Errorf("%d Machines were created, want %d", created, turnsSize)
	}
}

// declaresGroup: what the present operator alone knows stays while the earlier one runs.
func (s *turnsTest) declaresGroup() {
	s.Helper()
	s.Next() // to the present one
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "turns"}, Spec: v1alpha1.NodeGroupSpec{
		Nodes: v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{
			Namespace: cluster.MachineNamespace, Names: []string{s.pool.Name},
		}},
		Metadata: &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"example.com/tier": "batch"}},
	}}
	s.CreateWithCleanup(group)
	s.awaitGroup()
	s.Next() // back to the earlier one
}

func (s *turnsTest) awaitGroup() {
	s.Helper()
	s.Eventually("the group is rolled out", func() error {
		group := &v1alpha1.NodeGroup{}
		if err := s.Client.Get(s.Context(), types.NamespacedName{Name: "turns"}, group); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(group.Status.Conditions, v1alpha1.ConditionReady) || group.Status.Synced != turnsSize {
			return fmt.Errorf("its status is %s", harness.JSON(group.Status))
		}
		return nil
	})
}

// rollsOut: a change of the template reaches each Machine and each Node once, whichever of the two writes it.
func (s *turnsTest) rollsOut() {
	s.Helper()
	mark := s.AuditMark()
	s.Merge(s.pool.Set(), `{"spec":{"template":{"spec":{"metadata":{"labels":{"example.com/team":"blue"}}}}}}`)
	for _, count := range []int{1, 3} {
		s.labelled(count)
		s.Next()
	}
	s.labelled(turnsSize)
	if patched := s.writes(mark, "patch", "nodes"); patched > turnsSize {
		s.Errorf("%d patches of Nodes for %d Nodes", patched, turnsSize)
	}
	for _, node := range s.nodes() {
		if node.Labels["example.com/tier"] != "batch" || node.Annotations[ownership.AnnotationGroupRecord] == "" {
			s.Errorf("Node %s has the labels %v and the record %q", node.Name, node.Labels, node.Annotations[ownership.AnnotationGroupRecord])
		}
	}
	s.Next() // to the present one
	mark = s.AuditMark()
	s.awaitGroup()
	if patched := s.writes(mark, "patch", "nodes"); patched != 0 {
		s.Errorf("the present one has patched %d Nodes that were as declared", patched)
	}
}

// labelled waits until at least some Nodes have the label of the roll-out.
func (s *turnsTest) labelled(count int) {
	s.Helper()
	s.Eventually(fmt.Sprintf("%d Nodes have the label", count), func() error {
		found := 0
		for _, node := range s.nodes() {
			if node.Labels["example.com/team"] == "blue" {
				found++
			}
		}
		if found < count {
			return fmt.Errorf("%d have it", found)
		}
		return nil
	})
}

// drains: a drain that a budget blocks waits with either of the two, and the Node is given back as it was.
func (s *turnsTest) drains() {
	s.Helper()
	node := s.site.Deployment("turns", harness.Pods{})[0].Spec.NodeName
	before := touched(s.Node(node))
	s.site.Budget("turns", "turns", harness.MaxUnavailable(0))
	s.Next() // to the earlier one
	maintenance := s.Maintain(node, nil)
	maintenance.Condition("Drained", "Blocked", "")
	s.Next()
	maintenance.Condition("Drained", "Blocked", "")
	s.site.ChangeBudget("turns", harness.MaxUnavailable(1))
	s.Next()
	maintenance.Phase(medik8s.PhaseSucceeded)
	s.Next()
	maintenance.End()
	s.Eventually("the Node is as it was", func() error {
		if after := touched(s.Node(node)); after != before {
			return fmt.Errorf("it is\n%s\nbefore\n%s", after, before)
		}
		return nil
	})
}

// touched renders what a maintenance changes of a Node.
func touched(node *corev1.Node) string {
	return harness.JSON([]any{node.Spec.Unschedulable, node.Spec.Taints, node.Labels})
}

func (s *turnsTest) nodes() (nodes []corev1.Node) {
	s.Helper()
	for _, machine := range s.pool.Machines() {
		nodes = append(nodes, *s.Node(machine.Name))
	}
	return nodes
}

// writes counts the operators' successful writes of the pool's objects since a mark.
func (s *turnsTest) writes(mark cluster.AuditMark, verb, resource string) (count int) {
	s.Helper()
	for _, write := range s.AllWrites(mark) {
		if write.Verb == verb && write.Resource == resource && write.Code < http.StatusBadRequest && strings.HasPrefix(write.Name, "turns-") {
			count++
		}
	}
	return count
}
