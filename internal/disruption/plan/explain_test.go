package plan

import (
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	for name, test := range map[string]struct {
		group *fixture
		want  Explanation
	}{
		"nothing waits": {newFixture(3, withNode(1, cordoned)), Explanation{Unavailable: "n1 (Cordoned)"}},
		"a ceiling": {
			newFixture(6, withMax("5"), withCeiling(upgrade, "1"), withDisruption("n1", upgrade), withWaiting("n2", upgrade, time.Minute)),
			Explanation{
				"n1 (disrupted for Upgrade)", ReasonCapabilityExhausted, "Upgrade of Node n2: 1 Nodes are disrupted for Upgrade, and its maxUnavailable is 1",
			},
		},
		"a person's, with Report": {
			newFixture(3, withMax("0"), func(f *fixture) { f.Waiting.Put(byPerson(newWaiting("n2", maintenance, time.Minute))) }), Explanation{},
		},
		"it may begin": {newFixture(3, withWaiting("n2", upgrade, time.Minute)), Explanation{}},
	} {
		if got := Explain(&test.group.Input); got != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
