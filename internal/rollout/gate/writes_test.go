package gate

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestInFlight: a group waits for writes that may add its record, until the cache shows them or they cannot come any more.
func TestInFlight(t *testing.T) {
	now := time.Now()
	a, unknownFor := &Gate{}, time.Minute
	at, shown := now, "4"
	inFlightFor := func(group types.UID) bool {
		return a.InFlight(group, at, func(node, version string) bool { return node == "n0" && version <= shown })
	}
	expect := func(step string, mine, other bool) {
		t.Helper()
		if m, o := inFlightFor("mine"), inFlightFor("other"); m != mine || o != other {
			t.Errorf("%s: in flight for its group %t, for another one %t", step, m, o)
		}
	}
	made := func(version string, until time.Time) *Write {
		return &Write{Groups: []types.UID{"mine"}, Version: version, Until: until}
	}
	expect("before", false, false)
	a.BeginWrite("n0")
	expect("being decided", true, true)
	a.EndWrite("n0", nil, now)
	expect("nothing to write", false, false)
	a.BeginWrite("n0")
	a.EndWrite("n0", made("5", time.Time{}), now)
	expect("written", true, false)
	a.BeginWrite("n0")
	a.KeepWrite("n0")
	expect("not shown yet", true, false)
	a.BeginWrite("n0")
	a.EndWrite("n0", nil, now)
	expect("decided on a cache that shows it", false, false)
	a.BeginWrite("n0")
	a.EndWrite("n0", made("5", time.Time{}), now)
	shown = "5"
	expect("shown", false, false)
	a.BeginWrite("n0")
	a.EndWrite("n0", made("", now.Add(unknownFor)), now)
	a.BeginWrite("n0")
	a.EndWrite("n0", nil, now.Add(unknownFor/2))
	expect("without an answer", true, false)
	a.BeginWrite("n0")
	a.EndWrite("n0", nil, now.Add(unknownFor))
	expect("without an answer, and over", false, false)
	a.BeginWrite("n0")
	a.EndWrite("n0", made("", now.Add(unknownFor)), now)
	at = now.Add(unknownFor)
	expect("without an answer, and nothing came after it", false, false)
	a.BeginWrite("n0")
	a.EndWrite("n0", made("6", time.Time{}), now)
	a.ForgetWrite("n0")
	expect("the Node is gone", false, false)
	if len(a.writes) > 0 {
		t.Errorf("%v is left", a.writes)
	}
}
