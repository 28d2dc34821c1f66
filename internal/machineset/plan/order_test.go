package plan

import (
	"math/rand/v2"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/machineapi"
)

func memberList(machines []*machinev1beta1.Machine, nodes map[string]*corev1.NodeCondition) []Member {
	var members []Member
	for _, machine := range machines {
		members = append(members, memberOf(setOf(1), machine, nodes))
	}
	return members
}

func TestDeleteOrder(t *testing.T) {
	machines := []*machinev1beta1.Machine{
		machineOf("old", aged(48*time.Hour)),
		machineOf("middle", aged(24*time.Hour)),
		machineOf("new", aged(time.Minute)),
		machineOf("twin-a", aged(12*time.Hour)),
		machineOf("twin-b", aged(12*time.Hour)),
		machineOf("sick-new", aged(time.Second)),
		machineOf("sick-old", aged(30*time.Hour)),
		machineOf("bare-new", aged(time.Second), noNode),
		machineOf("bare-old", aged(47*time.Hour), noNode),
		machineOf("failed-new", aged(time.Second), withError("CreateError", "no")),
		machineOf("failed-old", aged(46*time.Hour), inPhase("Failed")),
		machineOf("marked", aged(13*time.Hour), annotated(machineapi.DeleteAnnotation, "")),
		machineOf("marked-old", aged(45*time.Hour), annotated(machineapi.OldDeleteAnnotation, "yes")),
		machineOf("of-another-api", aged(49*time.Hour), migrated, withError("CreateError", "no")),
	}
	nodes := map[string]*corev1.NodeCondition{}
	for _, machine := range machines {
		nodes[machine.Name] = Readiness(nodeOf(machine.Name, corev1.ConditionTrue, start))
	}
	nodes["sick-new"] = Readiness(nodeOf("sick-new", corev1.ConditionUnknown, start))
	delete(nodes, "sick-old")
	for _, c := range []struct{ policy, want string }{
		{"Newest", "marked marked-old failed-new failed-old bare-new bare-old sick-new new twin-a twin-b middle sick-old old of-another-api"},
		{"Oldest", "marked-old marked failed-old failed-new bare-old bare-new old sick-old middle twin-a twin-b new sick-new of-another-api"},
		{"Random", "marked marked-old failed-new failed-old bare-new bare-old sick-new sick-old new twin-a twin-b middle old of-another-api"},
		{"", "marked marked-old failed-new failed-old bare-new bare-old sick-new sick-old new twin-a twin-b middle old of-another-api"},
	} {
		members := memberList(machines, nodes)
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		for range 20 {
			random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
			before := memberNames(members)
			ordered, err := DeleteOrder(c.policy, members)
			if got := memberNames(ordered); err != nil || got != c.want {
				t.Fatalf("%q, seed %d: error %v\ngot  %s\nwant %s", c.policy, seed, err, got, c.want)
			}
			if memberNames(members) != before {
				t.Fatal("what it was given is in another order")
			}
		}
	}
	if _, err := DeleteOrder("Nicest", nil); err == nil {
		t.Error("an unknown policy")
	}
}

// machine-api-operator ranks a Machine of the same second as high as a marked one, and deletes the first of the two.
func TestDeleteOrder_MarkedFirst(t *testing.T) {
	for _, policy := range []string{"Random", "Newest", "Oldest"} {
		members := memberList([]*machinev1beta1.Machine{
			machineOf("a-new", aged(0)), machineOf("b-in-the-future", aged(-time.Hour)), machineOf("c-ageless", aged(0), func(m *machinev1beta1.Machine) {
				m.CreationTimestamp.Reset()
			}),
			machineOf("failed", inPhase("Failed"), noNode), machineOf("z-marked", annotated(machineapi.DeleteAnnotation, "true")),
		}, nil)
		ordered, err := DeleteOrder(policy, members)
		if err != nil || ordered[0].Machine.Name != "z-marked" || ordered[1].Machine.Name != "failed" {
			t.Errorf("%s: %v %s", policy, err, memberNames(ordered))
		}
	}
}

func TestDeleteOrder_Total(t *testing.T) {
	var machines []*machinev1beta1.Machine
	for _, name := range []string{"c", "a", "b"} {
		machines = append(machines, machineOf(name))
	}
	for _, policy := range []string{"Random", "Newest", "Oldest"} {
		ordered, err := DeleteOrder(policy, memberList(machines, nil))
		if got := memberNames(ordered); err != nil || got != "a b c" {
			t.Errorf("%s: of equals the name decides: %s", policy, got)
		}
	}
}
