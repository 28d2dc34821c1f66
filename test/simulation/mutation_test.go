package simulation

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Each case injects a bug. A simulation that does not find it would prove nothing.
func TestMutations_Found(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it: it tests the simulation, not the operator")
	}
	for name, c := range map[string]struct {
		config func() *config
		fault  string
		// from is a seed that has found it; one of the next seeds has to find it again.
		from, seeds uint64
	}{
		"machineset considers its cache up to date: too many Machines": {
			config: func() *config { return &config{claimsNewest: true, versioned: true} }, fault: "is created: there are", from: 12, seeds: 30,
		},
		"workers start before caches have caught up: too many Machines": {
			config: func() *config { return &config{lag: 30, versioned: true} }, fault: "is created: there are", seeds: 60,
		},
		"metadata changes a key of a user: found": {
			config: func() *config {
				return &config{tamper: atNodes("metadata", `,{"op":"add","path":"/metadata/labels/foreign.example.com~1a","value":"x"}]`)}
			},
			fault: "which is a user's", seeds: 5,
		},
		"metadata cordons a Node: found": {
			config: func() *config {
				return &config{tamper: atNodes("metadata", `,{"op":"add","path":"/spec/unschedulable","value":true}]`)}
			},
			fault: `metadata changes unschedulable`, seeds: 5,
		},
		"machine sets a label of a Node: found": {
			config: func() *config {
				return &config{tamper: atNodes("machine", `,{"op":"add","path":"/metadata/labels/example.com~1x","value":"x"}]`)}
			},
			fault: `machine changes label "example.com/x" of Node`, seeds: 10,
		},
		"machine removes the finalizer too early: lost instance": {
			config: func() *config {
				return &config{tamper: func(_ string, _ client.Object, body []byte) []byte {
					if bytes.Contains(body, []byte(`machine.openshift.io/instance-state`)) {
						return bytes.Replace(body, []byte(`"metadata":{`), []byte(`"metadata":{"finalizers":null,`), 1)
					}
					return body
				}}
			},
			fault: "and its instance", from: 183, seeds: 40,
		},
		"provider is not idempotent: second instance": {
			config: func() *config { return &config{forgetfulProvider: true} }, fault: "a second instance is made", seeds: 40,
		},
		"machineset gets no events of Machines: not settled": {
			config: withoutEvents("machineset", machineKind), fault: "after the last fault", from: 12, seeds: 30,
		},
		"metadata gets no events of MachineSets: not settled": {
			config: withoutEvents("metadata", setKind), fault: "after the last fault", from: 18, seeds: 30,
		},
		"maintenance asks for no place: found": {
			config: func() *config { return &config{groups: true, versioned: true, unbudgeted: true} }, fault: "has no place in the budget", seeds: 30,
		},
		"budget is larger than it should be: found": {
			config: func() *config { return &config{groups: true, versioned: true, generous: true} }, fault: "are disrupted, and the budget is", seeds: 300,
		},
		"budget in percent counts too many Nodes: found": {
			config: func() *config { return &config{groups: true, versioned: true, crowded: true} }, fault: "are disrupted, and the budget is", seeds: 300,
		},
		"budget has no windows: found": {
			config: func() *config { return &config{groups: true, versioned: true, unscheduled: true} }, fault: "outside of its windows", seeds: 30,
		},
		"neither controller of NodeGroups gets events of Nodes: not settled": {
			config: func() *config {
				return &config{groups: true, dropEvent: func(who string, k *kind) bool { return strings.HasPrefix(who, "node-groups") && k == nodeKind }}
			}, fault: "after the last fault", seeds: 30,
		},
		"healthcheck gets no events: not settled": {config: withoutEvents("healthcheck", nil), fault: "after the last fault", seeds: 60},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := c.from; seed < c.from+c.seeds; seed++ {
				out := play(t, seed, c.config(), 12, false)
				if strings.Contains(out.fault, c.fault) {
					t.Logf("seed %d: %s", seed, out.fault)
					return
				}
				if out.fault != "" {
					t.Logf("seed %d, another fault: %s", seed, out.fault)
				}
			}
			t.Errorf("none of %d seeds finds it", c.seeds)
		})
	}
}

// withoutEvents keeps the events of a kind, or of all kinds, from a controller.
func withoutEvents(controller string, missed *kind) func() *config {
	return func() *config {
		return &config{dropEvent: func(who string, k *kind) bool { return who == controller && (missed == nil || k == missed) }}
	}
}

// atNodes adds a step to the JSON patches of Nodes that a controller makes.
func atNodes(controller, step string) func(string, client.Object, []byte) []byte {
	return func(who string, object client.Object, body []byte) []byte {
		if kindOf(object) != nodeKind || who != controller || !bytes.HasSuffix(body, []byte("]")) {
			return body
		}
		return append(bytes.TrimSuffix(bytes.Clone(body), []byte("]")), step...)
	}
}

// Without faults and actions the checks find nothing.
func TestSimulation_NoFaults(t *testing.T) {
	for seed := range uint64(3) {
		if out := play(t, seed, &config{versioned: true}, 0, false); out.fault != "" {
			t.Errorf("seed %d: %s\n%s", seed, out.fault, out.tail)
		}
	}
	if nodeKind.make().GetName() != "" || kindOf(&corev1.NodeList{}) != nodeKind {
		t.Error("the kinds are mixed up")
	}
}
