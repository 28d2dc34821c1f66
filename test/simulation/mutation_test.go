package simulation

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Each of these breaks a room on purpose. A simulation that finds nothing then would prove nothing.
func TestWhatIsBrokenIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		crew  func() *crew
		fault string
		// from is a seed that has found it, seeds how many from there on may pass before it is found again.
		from, seeds uint64
	}{
		"machineset takes its cache for the newest": {
			crew: func() *crew { return &crew{blind: true, versioned: true} }, fault: "is created: there are", from: 12, seeds: 30,
		},
		"workers start before their caches have caught up": {
			crew: func() *crew { return &crew{lag: 30, versioned: true} }, fault: "is created: there are", seeds: 60,
		},
		"metadata removes what is a user's": {
			crew: func() *crew {
				return &crew{tamper: atNodes("metadata", `,{"op":"add","path":"/metadata/labels/foreign.example.com~1a","value":"x"}]`)}
			},
			fault: "which is a user's", seeds: 5,
		},
		"metadata cordons": {
			crew: func() *crew {
				return &crew{tamper: atNodes("metadata", `,{"op":"add","path":"/spec/unschedulable","value":true}]`)}
			},
			fault: `metadata changes unschedulable`, seeds: 5,
		},
		"machine writes labels of Nodes": {
			crew: func() *crew {
				return &crew{tamper: atNodes("machine", `,{"op":"add","path":"/metadata/labels/example.com~1x","value":"x"}]`)}
			},
			fault: `machine changes label "example.com/x" of Node`, seeds: 10,
		},
		"machine lets a Machine go at once": {
			crew: func() *crew {
				return &crew{tamper: func(_ string, _ client.Object, body []byte) []byte {
					if bytes.Contains(body, []byte(`machine.openshift.io/instance-state`)) {
						return bytes.Replace(body, []byte(`"metadata":{`), []byte(`"metadata":{"finalizers":null,`), 1)
					}
					return body
				}}
			},
			fault: "and its instance", from: 45, seeds: 40,
		},
		"the provider makes one for each call": {
			crew: func() *crew { return &crew{forgetful: true} }, fault: "a second instance is made", seeds: 40,
		},
		"machineset does not hear of Machines":  {crew: deafTo("machineset", machineKind), fault: "after the last fault", from: 12, seeds: 30},
		"metadata does not hear of MachineSets": {crew: deafTo("metadata", setKind), fault: "after the last fault", from: 18, seeds: 30},
		"healthcheck does not hear of anything": {crew: deafTo("healthcheck", nil), fault: "after the last fault", seeds: 60},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := c.from; seed < c.from+c.seeds; seed++ {
				out := play(t, seed, c.crew(), 12, false)
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

// deafTo keeps the events of a kind, or of all kinds, from a room.
func deafTo(room string, missed *kind) func() *crew {
	return func() *crew {
		return &crew{deaf: func(who string, k *kind) bool { return who == room && (missed == nil || k == missed) }}
	}
}

// atNodes adds a step to the JSON patches of Nodes that a room makes.
func atNodes(room, step string) func(string, client.Object, []byte) []byte {
	return func(who string, object client.Object, body []byte) []byte {
		if kindOf(object) != nodeKind || who != room || !bytes.HasSuffix(body, []byte("]")) {
			return body
		}
		return append(bytes.TrimSuffix(bytes.Clone(body), []byte("]")), step...)
	}
}

// A quiet world is one in which the checks are silent, too.
func TestQuietWorld(t *testing.T) {
	for seed := range uint64(3) {
		if out := play(t, seed, &crew{versioned: true}, 0, false); out.fault != "" {
			t.Errorf("seed %d: %s\n%s", seed, out.fault, out.tail)
		}
	}
	if nodeKind.make().GetName() != "" || kindOf(&corev1.NodeList{}) != nodeKind {
		t.Error("the kinds are mixed up")
	}
}
