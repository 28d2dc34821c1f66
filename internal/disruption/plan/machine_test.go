package plan

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

const (
	lost    = "Machine/openshift-machine-api/a"
	another = "Machine/openshift-machine-api/b"
)

func withRemediations(most string) func(*fixture) {
	return withSpec(func(spec *v1alpha1.Disruption) {
		spec.Remediation = &v1alpha1.RemediationPace{MaxInFlight: new(intstr.Parse(most))}
	})
}

// TestAdmit_MachineWithoutNode: to delete a Machine that never had a Node makes no Node unavailable, and is a remediation like every other one.
func TestAdmit_MachineWithoutNode(t *testing.T) {
	inFlight, ofNode := withDisruption(another, remediation), withDisruption("n0", remediation)
	its, two := withDisruption(lost, remediation), withRemediations("2")
	machine, node := newRequest(lost, remediation), newRequest("n0", remediation)
	for name, c := range map[string]struct {
		fixture *fixture
		request Request
		want    string
	}{
		"alone":                              {newFixture(3), machine, ""},
		"another one is in flight":           {newFixture(3, inFlight), machine, ReasonRemediationsLimited},
		"a Node's is in flight":              {newFixture(3, ofNode), machine, ReasonRemediationsLimited},
		"it is in flight, and a Node's":      {newFixture(3, its), node, ReasonRemediationsLimited},
		"two may be":                         {newFixture(3, two, inFlight), machine, ""},
		"two are":                            {newFixture(3, two, inFlight, ofNode), machine, ReasonRemediationsLimited},
		"a ceiling":                          {newFixture(3, two, withCeiling(remediation, "1"), inFlight), machine, ReasonCapabilityExhausted},
		"a percentage of no Nodes":           {newFixture(0, withRemediations("20%")), machine, ""},
		"none at all":                        {newFixture(3, withRemediations("0%")), machine, ReasonRemediationsLimited},
		"the budget is full":                 {newFixture(3, withDisruption("n0", upgrade)), machine, ""},
		"it is in flight, and the others":    {newFixture(3, its), newRequest("n0", upgrade), ""},
		"another one waits for its turn":     {newFixture(3, withWaiting(another, remediation, time.Minute)), machine, ReasonQueued},
		"it has the place already":           {newFixture(3, its), machine, ""},
		"an earlier one of the same name is": {newFixture(3, its), withUID(machine, "new"), ReasonRemediationsLimited},
	} {
		t.Run(name, func(t *testing.T) {
			got := Admit(&c.fixture.Input, &c.request)
			if got.Reason != c.want || got.Allowed != (c.want == "") {
				t.Errorf("allowed %t, reason %q: %s", got.Allowed, got.Reason, got.Message)
			}
		})
	}
}

func withUID(request Request, uid types.UID) Request {
	request.UID = uid
	return request
}

func withObject(request Request, uid types.UID) Request {
	request.ObjectUID = uid
	return request
}

// TestTally_MachineWithoutNode: neither the counts of a group nor the names of what is unavailable have a Machine that never had a Node.
func TestTally_MachineWithoutNode(t *testing.T) {
	f := newFixture(3, withDisruption(lost, remediation), withDisruption("n0", upgrade))
	if got, want := Count(&f.Input), (Counts{Expected: 3, Limit: 1, Unavailable: 1, DisruptedReady: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := newTally(&f.Input).names(); got != "n0 (disrupted for Upgrade)" {
		t.Errorf("unavailable are %s", got)
	}
}

func TestMachineName(t *testing.T) {
	key := types.NamespacedName{Namespace: "openshift-machine-api", Name: "a"}
	if name := MachineName(key); name != lost {
		t.Errorf("the name is %s", name)
	}
	for name, want := range map[string]types.NamespacedName{lost: key, "n0": {}, "Machine/": {}, "Machine/a": {Namespace: "a"}} {
		if got, _ := ParseMachineName(name); got != want {
			t.Errorf("%s is Machine %s", name, got)
		}
	}
	if _, found := ParseMachineName("Machine"); found {
		t.Error("a Node's name is a Machine's")
	}
}

// TestRequest_Matches: the remediation of a Machine may have been admitted before it had a Node.
func TestRequest_Matches(t *testing.T) {
	of := func(node string, capability v1alpha1.Capability, object string) Request {
		return Request{Node: node, UID: types.UID("uid-of-" + node), Capability: capability, Object: object}
	}
	for name, c := range map[string]struct {
		request, admitted Request
		want              bool
	}{
		"its own":                          {of("n0", remediation, lost), of("n0", remediation, lost), true},
		"it had no Node yet":               {of("n0", remediation, lost), of(lost, remediation, lost), true},
		"it has none any more":             {of(lost, remediation, lost), of("n0", remediation, lost), false},
		"another Machine's":                {of("n0", remediation, lost), of(another, remediation, another), false},
		"another Machine's, of its Node":   {of("n0", remediation, lost), of("n0", remediation, another), false},
		"of another capability":            {of("n0", remediation, lost), of(lost, replacement, lost), false},
		"another Node of the same object":  {of("n0", metadata, "x"), of("n1", metadata, "x"), false},
		"an earlier Node of the same name": {of("n0", remediation, lost), withUID(of("n0", remediation, lost), "old"), false},
		"an object of the same name":       {withObject(of("n0", metadata, "x"), "new"), withObject(of("n0", metadata, "x"), "old"), false},
		"an object whose UID is not known": {withObject(of("n0", metadata, "x"), "new"), of("n0", metadata, "x"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.request.Matches(new(c.admitted.disruption(now))); got != c.want {
				t.Errorf("it is %t", got)
			}
		})
	}
}

// TestAddMachines: what the Machines of a group show counts for as long as they show it.
func TestAddMachines(t *testing.T) {
	key := types.NamespacedName{Namespace: "openshift-machine-api", Name: "b"}
	pace := Pace{MinReady: time.Minute, Deadline: 30 * time.Minute}
	made := func(changes ...func(*NewMachine)) NewMachine {
		m := NewMachine{Machine: key, UID: "b", For: "a", Capability: remediation, Created: now.Add(-5 * time.Minute)}
		for _, change := range changes {
			change(&m)
		}
		return m
	}
	ready := func(ago time.Duration) func(*NewMachine) {
		return func(m *NewMachine) { m.Node, m.ReadySince = "n1", now.Add(-ago) }
	}
	of := func(wanted int, new ...NewMachine) Machines {
		return Machines{Sets: []MachineSet{{Wanted: wanted, Nodes: 3, New: new}}}
	}
	requested := Requested{Machine: key, UID: "b", Node: "n0", NodeUID: "uid-of-n0"}
	old := func(m *NewMachine) { m.Created = now.Add(-time.Hour) }
	for name, c := range map[string]struct {
		machines Machines
		want     Counts
		inFlight int
	}{
		"all are there":                                   {of(3), Counts{3, 1, 0, 0}, 0},
		"a new Machine has no Node yet":                   {of(4, made()), Counts{4, 1, 1, 1}, 1},
		"its Node is joining, or not Ready":               {of(4, made(func(m *NewMachine) { m.Node = "n9" })), Counts{4, 1, 1, 1}, 1},
		"its Node is Ready for too short a time":          {of(3, made(ready(time.Second))), Counts{3, 1, 1, 0}, 1},
		"its Node is available":                           {of(3, made(ready(time.Minute))), Counts{3, 1, 0, 0}, 0},
		"its Node says that it is Ready from tomorrow on": {of(3, made(ready(-24*time.Hour))), Counts{3, 1, 0, 0}, 0},
		"its Node is Ready again much later":              {of(3, made(ready(time.Second), old)), Counts{3, 1, 1, 0}, 0},
		"it is not Ready for too long a time":             {of(4, made(old)), Counts{3, 1, 0, 0}, 0},
		"so is one beside what its MachineSet lacks":      {of(4, made(old, func(m *NewMachine) { m.Surge = true })), Counts{4, 1, 1, 1}, 0},
		"one that has not been created":                   {Machines{Sets: []MachineSet{{Wanted: 4, Nodes: 3, NotCreated: 1}}}, Counts{4, 1, 1, 1}, 1},
		"the other one had no Node either":                {of(3, made(func(m *NewMachine) { m.Growth = true })), Counts{3, 1, 0, 0}, 1},
		"the Machine of a Node is being deleted":          {Machines{Deleted: []string{"n0"}}, Counts{3, 1, 1, 0}, 0},
		"remediation of a Ready Node was requested":       {Machines{Requested: []Requested{requested}}, Counts{3, 1, 1, 1}, 1},
		"remediation of a Machine without a Node":         {Machines{Requested: []Requested{{Machine: key, UID: "b"}}}, Counts{3, 1, 0, 0}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(3)
			f.AddMachines(&c.machines, pace)
			if got := newTally(&f.Input); got.Counts != c.want || got.inFlight[remediation] != c.inFlight {
				t.Errorf("the counts are %+v with %d in flight, want %+v with %d", got.Counts, got.inFlight[remediation], c.want, c.inFlight)
			}
		})
	}
	f := newFixture(3, withDisruption("n0", remediation))
	f.Disrupted[0].ObjectUID = "a"
	machines := of(3, made())
	if f.AddMachines(&machines, pace); newTally(&f.Input).inFlight[remediation] != 1 {
		t.Errorf("one that is being deleted and its new one count as %+v", f.Disrupted)
	}
}
