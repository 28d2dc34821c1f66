package disruption

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/disruption/plan"
)

// TestBegin_Requests: a Node counts for as long as a request for its remediation exists.
func TestBegin_Requests(t *testing.T) {
	f := newFixture(t)
	f.change(withThreePlaces)
	var found []plan.Requested
	lists := 0
	f.budgets.Requests = func(ctx context.Context, _ string) ([]plan.Requested, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a list may take for ever, and those who decide wait for it")
		}
		lists++
		return found, nil
	}
	f.begin(newRequest("n0", remediation), "")
	found = []plan.Requested{{UID: "machine", Node: "n0", NodeUID: "uid-of-n0"}}
	f.step(10 * time.Minute)
	f.begin(newRequest("n1", remediation), plan.ReasonRemediationsLimited)
	found = nil
	f.begin(newRequest("n1", remediation), plan.ReasonRemediationsLimited)
	if lists != 2 {
		t.Errorf("the requests were listed %d times within a moment", lists)
	}
	f.step(requestsAge + time.Second)
	f.begin(newRequest("n1", remediation), "")
	// A remediation request that was made since the last list is found before the next admission.
	f.step(plan.AdmissionTime)
	f.state()
	found = []plan.Requested{{UID: "machine", Node: "n1", NodeUID: "uid-of-n1"}}
	f.step(time.Second)
	f.begin(newRequest("n2", remediation), plan.ReasonRemediationsLimited)
}

// TestBegin_RequestsOnce: what was listed since a request was made is not listed again.
func TestBegin_RequestsOnce(t *testing.T) {
	f := newFixture(t)
	f.change(withThreePlaces)
	lists := 0
	f.budgets.Requests = func(context.Context, string) ([]plan.Requested, error) {
		lists++
		f.step(time.Millisecond)
		return nil, nil
	}
	for i, age := range []time.Duration{0, time.Second, 2 * requestsAge} {
		f.step(age)
		f.begin(newRequest(fmt.Sprint("n", i), maintenance), "")
		if lists != i+1 {
			t.Errorf("%d lists for %d admissions", lists, i+1)
		}
	}
}

// TestBegin_RequestsFail_Namespace: what keeps requests from being listed in a namespace concerns the groups with Machines of that namespace.
func TestBegin_RequestsFail_Namespace(t *testing.T) {
	f := newFixture(t)
	broken := errors.New("listing Metal3Remediation: no answer")
	f.budgets.Requests = func(_ context.Context, namespace string) ([]plan.Requested, error) {
		if namespace == "broken" {
			return nil, broken
		}
		return nil, nil
	}
	for _, namespaces := range [][]string{{"machines", "broken"}, {"machines"}, nil} {
		f.members.machines.Namespaces = namespaces
		_, _, err := f.budgets.Begin(t.Context(), newRequest("n0", upgrade))
		_, stateErr := f.budgets.StateOf(t.Context(), groupName, f.members.nodes)
		if isBroken := len(namespaces) == 2; errors.Is(err, broken) != isBroken || errors.Is(stateErr, broken) != isBroken {
			t.Errorf("with Machines of %q: errors %v and %v", namespaces, err, stateErr)
		}
	}
}

// TestBegin_RequestsFail: while remediation requests cannot be listed, those who decide do not all wait for an answer.
func TestBegin_RequestsFail(t *testing.T) {
	f := newFixture(t)
	calls, no := 0, errors.New("no")
	f.budgets.Requests = func(context.Context, string) ([]plan.Requested, error) {
		calls++
		return nil, no
	}
	for range 5 {
		if _, _, err := f.budgets.Begin(t.Context(), newRequest("n0", upgrade)); !errors.Is(err, no) {
			t.Fatalf("error %v", err)
		}
	}
	if calls != 1 {
		t.Errorf("they are listed %d times", calls)
	}
	f.budgets.Requests = func(context.Context, string) ([]plan.Requested, error) { return nil, nil }
	f.step(requestsAge)
	f.begin(newRequest("n0", upgrade), "")
}

// TestRequestsOf_TwoGroups: a Machine that was handed over counts in the group of its Node alone, though its MachineSet has most Nodes in another
// one.
func TestRequestsOf_TwoGroups(t *testing.T) {
	f := newFixture(t)
	requested := plan.Requested{Machine: types.NamespacedName{Namespace: "machines", Name: "m"}, UID: "m"}
	f.budgets.Requests = func(context.Context, string) ([]plan.Requested, error) { return []plan.Requested{requested}, nil }
	for name, test := range map[string]struct {
		node     string
		uid      types.UID
		inFlight int
	}{
		"its Node is of this group":        {"n0", "uid-of-n0", 1},
		"its Node is of another group":     {"elsewhere", "uid", 0},
		"it has none":                      {"", "", 1},
		"it had an earlier Node of a name": {"n0", "earlier", 1},
	} {
		requested.Node, requested.NodeUID = test.node, test.uid
		f.step(2 * requestsAge)
		if state := f.state(); len(state.Disrupted) != test.inFlight {
			t.Errorf("%s: disrupted are %+v", name, state.Disrupted)
		}
	}
}
