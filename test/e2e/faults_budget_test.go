package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/harness"
)

// sharedNodes is how many Nodes share a budget of one, each with a NodeMaintenance.
const sharedNodes = 3

// sharedBudget is a NodeGroup whose users have more NodeMaintenances than its budget has places.
type sharedBudget struct {
	*harness.World

	name        string
	disturbance harness.Disturbance
	operator    *harness.Operator
	crashed     bool
	// left are the NodeMaintenances that are not over.
	left map[string]*harness.Maintenance
}

// shareBudget has the NodeMaintenances of a group have their turns under a disturbance. Never has more than one Node a place, and none is cordoned
// without one. It returns what is left.
func shareBudget(t *testing.T, d harness.Disturbance) string {
	t.Helper()
	s := &sharedBudget{World: harness.NewWorld(t, env), name: "shared-" + d.String(), disturbance: d, left: map[string]*harness.Maintenance{}}
	s.populate()
	budget := s.WatchBudget(s.name, 1, s.name+"-")
	s.operator = harness.Start(t, env, d.Operator(1, harness.Options{Args: []string{"--maintenance-workers=2"}}))
	for i := range sharedNodes {
		name := fmt.Sprintf("%s-%d", s.name, i)
		s.left[name] = s.Maintain(name, nil)
	}
	for len(s.left) > 0 {
		ended := s.next()
		if d.Interrupted() {
			// The user gives all of them up.
			ended = slices.Collect(maps.Keys(s.left))
		}
		for _, name := range ended {
			s.left[name].Delete()
		}
		for _, name := range ended {
			s.until("NodeMaintenance "+name+" is gone", func() bool { return s.left[name].Find() == nil })
			delete(s.left, name)
		}
	}
	d.Wait()
	s.until("no place is taken", func() bool {
		status := s.group().Status
		return len(status.Reservations) == 0 && status.Unavailable == 0
	})
	budget.Finish()
	if err := s.operator.Stop(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(s.remains(), s.name, "shared")
}

// populate makes the group and its Nodes.
func (s *sharedBudget) populate() {
	s.Helper()
	for i := range sharedNodes {
		s.CreateWithCleanup(builder.Node(fmt.Sprintf("%s-%d", s.name, i), builder.WithReady(corev1.ConditionTrue),
			builder.WithNodeLabels(map[string]string{harness.SiteLabel: s.name})))
	}
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{harness.SiteLabel: s.name}}
	group.Spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1)), PersonMaintenance: v1alpha1.PersonQueue}
	createGroup(s.World, group)
}

// group reads the NodeGroup.
func (s *sharedBudget) group() *v1alpha1.NodeGroup {
	s.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := s.Client.Get(s.Context(), types.NamespacedName{Name: s.name}, group); err != nil {
		s.Fatal(err)
	}
	return group
}

// next waits until Nodes are in maintenance, and returns their names; none when the user is interrupted.
func (s *sharedBudget) next() (names []string) {
	s.Helper()
	s.until("one of the Nodes is in maintenance", func() bool {
		names = nil
		for name, maintenance := range s.left {
			if status := maintenance.Find(); status != nil && status.Phase == medik8s.PhaseSucceeded {
				names = append(names, name)
			}
		}
		return len(names) > 0 || s.disturbance.Interrupted()
	})
	return names
}

// until waits for something, and starts another operator when the first one has died.
func (s *sharedBudget) until(what string, done func() bool) {
	s.Helper()
	s.EventuallyFree(what, func() error {
		select {
		case <-s.operator.Ended():
			if s.crashed {
				s.Fatalf("the second operator ended; its log:\n%s", s.operator.Log())
			}
			s.crashed = true
			s.operator = harness.Start(s.TB, env, s.disturbance.Operator(2, harness.Options{}))
		default:
		}
		if !done() {
			return fmt.Errorf("the group says %s", harness.JSON(s.group().Status))
		}
		return nil
	})
}

// remains renders what the Nodes are like afterwards.
func (s *sharedBudget) remains() string {
	s.Helper()
	var text strings.Builder
	for i := range sharedNodes {
		node := s.Node(fmt.Sprintf("%s-%d", s.name, i))
		fmt.Fprintf(&text, "%s: %s; lease held by %q\n", node.Name, looks(node), s.Holder(node.Name))
	}
	return text.String()
}
