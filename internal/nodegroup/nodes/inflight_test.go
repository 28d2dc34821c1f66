package nodes

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestInFlight: a group waits for writes that may add its record, until the cache shows them or they cannot come any more.
func TestInFlight(t *testing.T) {
	now := time.Now()
	a := &Admissions{}
	at := now
	expect := func(step string, mine, other bool) {
		t.Helper()
		if f := a.InFlight(at); f.Concerns("mine") != mine || f.Concerns("other") != other {
			t.Errorf("%s: in flight for its group %t, for another one %t", step, f.Concerns("mine"), f.Concerns("other"))
		}
	}
	made := func(until time.Time) *inFlight { return &inFlight{groups: []types.UID{"mine"}, until: until} }
	expect("before", false, false)
	a.beginWrite("n0")
	expect("being decided", true, true)
	a.endWrite("n0", nil, now)
	expect("nothing to write", false, false)
	a.beginWrite("n0")
	a.endWrite("n0", made(time.Time{}), now)
	expect("written", true, false)
	a.beginWrite("n0")
	a.keepWrite("n0")
	expect("not shown yet", true, false)
	a.beginWrite("n0")
	a.endWrite("n0", nil, now)
	expect("shown", false, false)
	a.beginWrite("n0")
	a.endWrite("n0", made(now.Add(unknownFor)), now)
	a.beginWrite("n0")
	a.endWrite("n0", nil, now.Add(unknownFor/2))
	expect("without an answer", true, false)
	a.beginWrite("n0")
	a.endWrite("n0", nil, now.Add(unknownFor))
	expect("without an answer, and over", false, false)
	a.beginWrite("n0")
	a.endWrite("n0", made(now.Add(unknownFor)), now)
	at = now.Add(unknownFor)
	expect("without an answer, and nothing came after it", false, false)
	a.beginWrite("n0")
	a.endWrite("n0", made(time.Time{}), now)
	a.forgetWrite("n0")
	expect("the Node is gone", false, false)
	if len(a.inFlight) > 0 {
		t.Errorf("%v is left", a.inFlight)
	}
}
