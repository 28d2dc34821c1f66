package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodestate"
)

// simulation is a group whose Nodes and disruptions change at random.
type simulation struct {
	*fixture

	created int
}

func newSimulation(t *rapid.T) *simulation {
	s := &simulation{fixture: newFixture(0)}
	s.Group.Spec.Disruption.Remediation = &v1alpha1.RemediationPace{MaxInFlight: new(intstr.FromInt32(3))}
	for range rapid.IntRange(1, 8).Draw(t, "nodes") {
		s.create()
	}
	s.limit(t)
	return s
}

func (s *simulation) create() {
	node := newNode(fmt.Sprintf("n%d", s.created))
	s.created++
	s.nodes = append(s.nodes, node)
}

func (s *simulation) limit(t *rapid.T) {
	limits := rapid.SampledFrom([]string{"0", "1", "2", "3", "10%", "34%", "50%", "100%"})
	s.Group.Spec.Disruption.MaxUnavailable = new(intstr.Parse(limits.Draw(t, "max")))
	s.Group.Spec.Disruption.PerCapability = nil
	if rapid.Bool().Draw(t, "ceiling") {
		withCeiling(upgrade, rapid.SampledFrom([]string{"0", "1", "25%"}).Draw(t, "upgrades"))(s.fixture)
	}
}

// any returns one of the Nodes.
func (s *simulation) any(t *rapid.T) *corev1.Node {
	if len(s.nodes) == 0 {
		s.create()
	}
	return s.nodes[rapid.IntRange(0, len(s.nodes)-1).Draw(t, "node")]
}

func (s *simulation) remove(node *corev1.Node) {
	s.nodes = slices.DeleteFunc(s.nodes, func(n *corev1.Node) bool { return n == node })
}

// degrade makes a Node worse, or another one.
func (s *simulation) degrade(t *rapid.T) {
	node := s.any(t)
	switch rapid.IntRange(0, 4).Draw(t, "harm") {
	case 0:
		notReady(node)
	case 1:
		cordoned(node)
	case 2:
		s.Signs[node.Name] = SignLeased
	case 3:
		s.remove(node)
	case 4:
		withMachineConfig("a", "b", "Working")(node)
	}
}

// recover makes a Node better, or creates one.
func (s *simulation) recover(t *rapid.T) {
	node := s.any(t)
	switch rapid.IntRange(0, 4).Draw(t, "repair") {
	case 0:
		s.create()
		if rapid.Bool().Draw(t, "joining") {
			withTaint("node.cluster.x-k8s.io/uninitialized", corev1.TaintEffectNoSchedule)(s.nodes[len(s.nodes)-1])
		}
	case 1:
		*node = *newNode(node.Name) // all signs and taints are gone
	case 2:
		delete(s.Signs, node.Name)
	case 3:
		*node = *newNode(node.Name, func(n *corev1.Node) { n.UID = types.UID(fmt.Sprint("again-", s.created)) })
		s.created++
	case 4:
		withCondition(corev1.NodeReady, corev1.ConditionTrue)(node)
	}
}

func (s *simulation) release(t *rapid.T) {
	if disrupted := s.Disrupted; len(disrupted) > 0 {
		at := rapid.IntRange(0, len(disrupted)-1).Draw(t, "released")
		s.Disrupted = slices.Delete(disrupted, at, at+1)
	}
}

func (s *simulation) wait(t *rapid.T) {
	minutes := rapid.IntRange(0, 90).Draw(t, "minutes")
	s.Waiting.Put(newWaiting(s.any(t).Name, rapid.SampledFrom(order).Draw(t, "waiting"), time.Duration(minutes)*time.Minute))
}

// disrupted reports whether a capability disrupts a Node.
func (s *simulation) disrupted(node *corev1.Node) bool {
	return slices.ContainsFunc(s.Disrupted, func(r v1alpha1.Reservation) bool { return r.Node == node.Name && r.UID == node.UID })
}

// shows reports whether the cluster shows the disruption that a request is for.
func (s *simulation) shows(request *Request) bool {
	return slices.ContainsFunc(s.Disrupted, func(r v1alpha1.Reservation) bool { return request.Matches(&r) })
}

// countAnew counts what the budget is compared with, without the code under test.
func (s *simulation) countAnew() (c Counts) {
	gone := len(s.goneDisrupted())
	c.Expected, c.Unavailable = gone, gone
	for _, node := range s.nodes {
		if IsJoining(node) {
			continue
		}
		c.Expected++
		if len(Signs(node, nil)) > 0 || s.Signs[node.Name] != "" || s.disrupted(node) {
			c.Unavailable++
		}
		if nodestate.IsReady(node) && s.disrupted(node) {
			c.DisruptedReady++
		}
	}
	c.Limit = Limit(s.Group.Spec.Disruption.MaxUnavailable, c.Expected)
	return c
}

func (s *simulation) goneDisrupted() map[place]bool {
	gone := map[place]bool{}
	for _, r := range s.Disrupted {
		if !slices.ContainsFunc(s.nodes, func(n *corev1.Node) bool { return n.Name == r.Node && n.UID == r.UID }) {
			gone[place{r.Node, r.UID}] = true
		}
	}
	return gone
}

// admit asks for a place, records the admission, and checks what it did.
func (s *simulation) admit(t *rapid.T, person bool) {
	node := s.any(t)
	s.count()
	capability := rapid.SampledFrom(order).Draw(t, "capability")
	request := Request{Node: node.Name, UID: node.UID, Capability: capability, Object: "o", Since: now, Person: person}
	had := s.countAnew()
	answer := Admit(&s.Input, &request)
	if answer.Counts != had {
		t.Fatalf("the counts are %+v, want %+v", answer.Counts, had)
	}
	if !answer.Allowed || s.shows(&request) {
		return
	}
	s.Disrupted = append(s.Disrupted, *answer.Admission)
	has := s.countAnew()
	if answer.Reason != "" {
		return // a person's
	}
	if has.DisruptedReady > had.DisruptedReady && has.DisruptedReady > had.Limit {
		t.Fatalf("%d Ready Nodes are disrupted, %d may be: %s", has.DisruptedReady, had.Limit, node.Name)
	}
	if has.Unavailable > had.Unavailable && had.Unavailable >= had.Limit {
		t.Fatalf("%s is made unavailable, as %d of %d allowed ones were", node.Name, had.Unavailable, had.Limit)
	}
	for _, ceiling := range s.Group.Spec.Disruption.PerCapability {
		s.checkCeiling(t, &ceiling, request.Capability, had)
	}
}

func (s *simulation) checkCeiling(t *rapid.T, ceiling *v1alpha1.CapabilityBudget, admitted v1alpha1.Capability, had Counts) {
	nodes := map[place]bool{}
	for _, r := range s.Disrupted {
		if r.Capability == ceiling.Capability {
			nodes[place{r.Node, r.UID}] = true
		}
	}
	// A group whose Nodes are all gone, or have never come, still gets Machines replaced.
	if limit := Limit(&ceiling.MaxUnavailable, max(had.Expected, 1)); admitted == ceiling.Capability && len(nodes) > limit {
		t.Fatalf("%d Nodes are disrupted for %s, %d are allowed", len(nodes), admitted, limit)
	}
}

// Whatever else happens to Nodes, disruptions and the budget: no request is admitted that exceeds what the budget allows at that time.
func TestProperty_AdmitNeverExceedsBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		t.Repeat(map[string]func(*rapid.T){
			"admit":   func(t *rapid.T) { s.admit(t, false) },
			"again":   func(t *rapid.T) { s.admit(t, false) },
			"person":  func(t *rapid.T) { s.admit(t, true) },
			"degrade": s.degrade,
			"recover": s.recover,
			"release": s.release,
			"wait":    s.wait,
			"limit":   s.limit,
		})
	})
}

// While no Node recovers and the budget stays the same, never more Ready Nodes are disrupted than it allows.
func TestProperty_DisruptedReadyNodesWithinLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		s.Group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(rapid.Int32Range(0, 4).Draw(t, "max")))
		t.Repeat(map[string]func(*rapid.T){
			"admit":   func(t *rapid.T) { s.admit(t, false) },
			"degrade": s.degrade,
			"release": s.release,
			"wait":    s.wait,
			"": func(t *rapid.T) {
				if c := s.countAnew(); c.DisruptedReady > c.Limit {
					t.Fatalf("%d Ready Nodes are disrupted, %d may be", c.DisruptedReady, c.Limit)
				}
			},
		})
	})
}

// A sequence of changes of members leads to the same counts as counting all of them.
func TestProperty_MembersAreCountedAsTheyChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		members, known := NewMembers(), map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"degrade": s.degrade,
			"recover": s.recover,
			"": func(t *rapid.T) {
				for name := range known {
					members.Remove(name)
					members.Remove(name)
				}
				clear(known)
				for _, node := range s.nodes {
					members.Add(MemberOf(node, nil))
					known[node.Name] = true
				}
				s.Members = members
				if got, want := Count(&s.Input), s.countAnew(); got != want {
					t.Fatalf("the counts are %+v, want %+v", got, want)
				}
			},
		})
	})
}
