package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
)

// TestDecide_PhaseAndMessage: the phase and the message of a group say what keeps it from going on.
func TestDecide_PhaseAndMessage(t *testing.T) {
	full := func(waiting int) *Budget {
		return &Budget{Counts: disruptionplan.Counts{Expected: 2, Unavailable: 1, Limit: 1}, Waiting: waiting}
	}
	held := metadataplan.Problem{Reason: metadataplan.NoExecuteHeld, Message: "a Pod stays"}
	for name, c := range map[string]struct {
		change  func(*played, *Input)
		phase   v1alpha1.Phase
		message string
	}{
		"as declared": {func(r *played, _ *Input) { r.decide() }, v1alpha1.PhaseIdle, "2 of 2 Nodes carry what is declared"},
		"without Nodes": {func(r *played, _ *Input) { r.nodes = nil }, v1alpha1.PhaseIdle,
			"the group has no Nodes: spec.nodes.selector matches no Node"},
		"a taint is held back": {func(r *played, _ *Input) {
			r.decide()
			r.nodes[1].Metadata = metadataplan.GroupDecision{State: metadataplan.RefusedState, Problems: []metadataplan.Problem{held}}
		}, v1alpha1.PhaseWaiting, "a Pod stays"},
		"a disruption waits": {func(r *played, in *Input) { r.decide(); in.Budget = full(1) }, v1alpha1.PhaseWaiting,
			"which is the budget; 1 disruptions wait"},
		"nothing waits for a budget that is exceeded": {func(r *played, in *Input) {
			r.decide()
			in.Budget = full(0)
			in.Budget.Unavailable = 2
		}, v1alpha1.PhaseIdle, "the budget is 1"},
		"guarded taints wait for the budget": {func(r *played, in *Input) {
			r.guard()
			in.Budget = full(2)
		}, v1alpha1.PhaseWaiting, "2 disruptions wait"},
		"one of the guarded taints has a place": {func(r *played, in *Input) {
			r.guard()
			in.Budget = full(1)
			in.Budget.Disrupted = []v1alpha1.Reservation{{Node: "n0", Capability: v1alpha1.CapabilityMetadata}}
		}, v1alpha1.PhaseRolling, "1 disruptions wait"},
		"stopped": {func(r *played, _ *Input) {
			r.decide()
			r.change()
			r.now = r.now.Add(time.Second)
			r.group.Status.Rollout.EndTime = nil
			for i := range r.nodes {
				r.nodes[i].Ready, r.nodes[i].ReadyChange = false, r.now
			}
		}, v1alpha1.PhaseStopped, "2 Nodes have become NotReady"},
		"a first wave above the others": {func(r *played, _ *Input) {
			r.group.Spec.Rollout = &v1alpha1.Rollout{FirstWave: new(int32(5)), MaxInFlight: percent("50%")}
		}, v1alpha1.PhaseRolling, "firstWave 5 is limited to 1, which is maxInFlight 50% of 2 Nodes"},
		"rolling":   {func(*played, *Input) {}, v1alpha1.PhaseRolling, "wave 1/1 waits for n0, n1"},
		"suspended": {func(r *played, _ *Input) { r.group.Spec.Suspend = true }, v1alpha1.PhaseSuspended, "spec.suspend is set"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(2, nil)
			in := &Input{}
			c.change(r, in)
			in.Group, in.Declaration, in.Nodes, in.Now = r.group, metadataplan.GroupDeclarationOf(r.group), slices.Clone(r.nodes), r.now
			if d := Decide(in); d.Phase != c.phase || !strings.Contains(d.Message, c.message) {
				t.Errorf("phase %s, message %q; want %s, %q", d.Phase, d.Message, c.phase, c.message)
			}
		})
	}
}

// guard has every Node lack a taint that is guarded.
func (r *played) guard() {
	for i := range r.nodes {
		r.nodes[i].Metadata.Guarded = []string{"dedicated:NoExecute"}
	}
}

// TestDecide_Abnormal: Reconciling and Stalled are there for programs that wait for objects of any kind, and never both.
func TestDecide_Abnormal(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*played, *Input)
		want   string
	}{
		"as declared":   {func(r *played, _ *Input) { r.decide() }, ""},
		"rolling":       {func(*played, *Input) {}, "Reconciling=RollingOut"},
		"replacing":     {func(r *played, in *Input) { r.decide(); in.Replacement = replacementplan.Report{Replacing: true} }, "Reconciling=Replacing"},
		"without Nodes": {func(r *played, _ *Input) { r.nodes = nil }, ""},
		"all Nodes are in another group": {func(r *played, in *Input) {
			r.nodes, in.Overlaps = nil, []Overlap{{Node: "n0", Group: "older"}}
		}, "Stalled=Overlapping"},
		"a new Machine has failed": {func(r *played, in *Input) {
			r.decide()
			in.Replacement = replacementplan.Report{Replacing: true, Reason: replacementplan.ReasonNewMachineFailed}
		}, "Stalled=NewMachineFailed"},
		"a key is refused": {func(r *played, _ *Input) {
			r.nodes[1].Metadata.Problems = []metadataplan.Problem{{Reason: metadataplan.Refused, Message: "no"}}
		}, "Stalled=RefusedKeys"},
		"a conflict": {func(r *played, _ *Input) {
			r.decide()
			r.nodes[1].Metadata.State = metadataplan.Conflicted
		}, "Stalled=Conflicts"},
		"suspended": {func(r *played, _ *Input) { r.group.Spec.Suspend = true }, ""},
		"a taint is held back": {func(r *played, _ *Input) {
			r.decide()
			r.nodes[1].Metadata = metadataplan.GroupDecision{State: metadataplan.RefusedState, Problems: []metadataplan.Problem{{
				Reason: metadataplan.NoExecuteHeld, Message: "a Pod stays",
			}}}
		}, "Reconciling=NoExecuteHeld"},
		"a maintenance waits": {func(r *played, in *Input) {
			r.decide()
			in.Budget = &Budget{Counts: disruptionplan.Counts{Expected: 2, Unavailable: 1, Limit: 1}, Waiting: 1}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(2, nil)
			in := &Input{}
			c.change(r, in)
			in.Group, in.Declaration, in.Nodes, in.Now = r.group, metadataplan.GroupDeclarationOf(r.group), slices.Clone(r.nodes), r.now
			var got []string
			for _, condition := range Decide(in).Abnormal {
				got = append(got, condition.Type+"="+condition.Reason)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("conditions are %v, want %s", got, c.want)
			}
		})
	}
}
