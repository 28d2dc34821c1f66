package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// Counts are what a budget is compared with.
type Counts struct {
	// Expected is how many Nodes the group should have: its initialized members, the Nodes that its MachineSets lack, and the Nodes that are gone while
	// they are disrupted. Percentages refer to it.
	Expected int
	// Limit is how many of them may be unavailable.
	Limit int
	// Unavailable counts the Nodes with a sign, the Nodes that a capability disrupts, and the Nodes that the MachineSets lack.
	Unavailable int
	// DisruptedReady counts the Ready Nodes that a capability disrupts, and the Nodes that the MachineSets lack.
	DisruptedReady int
}

// tally counts what is disrupted in a group, and what one more disruption adds to that.
type tally struct {
	Counts

	members *Members
	signs   map[string]Sign
	missing int
	// disrupted has the capabilities that disrupt each Node, inFlight counts the Nodes that each capability disrupts, and disruptions is the sum over
	// the capabilities.
	disrupted   map[place]capabilities
	inFlight    map[v1alpha1.Capability]int
	disruptions int
	// remediated is when the last remediation began, of those before latest: a time that lies farther ahead was recorded by a clock that was wrong,
	// and does not end the interval.
	remediated, latest time.Time
}

// place identifies a Node, or a Machine that has none. A Node that was deleted and created again has another UID.
type place struct {
	name string
	uid  types.UID
}

// capabilities is a set of capabilities: bit 1<<i stands for the capability order[i].
type capabilities uint8

func bit(capability v1alpha1.Capability) capabilities {
	return 1 << max(slices.Index(order, capability), 0)
}

func (c capabilities) String() string {
	var names []string
	for _, capability := range order {
		if c&bit(capability) != 0 {
			names = append(names, string(capability))
		}
	}
	return strings.Join(names, " and ")
}

func newTally(in *Input) *tally {
	t := &tally{
		members: in.Members, signs: in.Signs, missing: in.Missing,
		disrupted: make(map[place]capabilities, len(in.Disrupted)+1), inFlight: map[v1alpha1.Capability]int{v1alpha1.CapabilityRemediation: in.NotCreated},
	}
	if pace := in.Group.Spec.Disruption.Remediation; pace != nil && pace.MinInterval != nil {
		t.latest = in.Now.Add(pace.MinInterval.Duration)
	}
	if last := in.Group.Status.LastRemediationTime; last != nil {
		t.remediate(last.Time)
	}
	t.Expected, t.Unavailable, t.DisruptedReady = in.Members.initialized+in.Missing, len(in.Members.unavailable)+in.Missing, in.Missing
	for name := range in.Signs {
		if member, found := in.Members.byName[name]; found && !member.Joining && member.Sign == "" {
			t.Unavailable++
		}
	}
	for i := range in.Disrupted {
		t.disrupt(&in.Disrupted[i])
	}
	t.Limit = Limit(in.Group.Spec.Disruption.MaxUnavailable, t.Expected)
	return t
}

func (t *tally) remediate(at time.Time) {
	if at.After(t.remediated) && !at.After(t.latest) {
		t.remediated = at
	}
}

// disrupt counts a disruption. Two capabilities that disrupt the same Node make one Node unavailable.
func (t *tally) disrupt(r *v1alpha1.Reservation) {
	at := place{r.Node, r.UID}
	if r.Capability == v1alpha1.CapabilityRemediation {
		t.remediate(r.Time.Time)
	}
	before := t.disrupted[at]
	t.disrupted[at] = before | bit(r.Capability)
	if before&bit(r.Capability) == 0 {
		t.inFlight[r.Capability]++
		t.disruptions++
	}
	if before != 0 || isMachine(r.Node) {
		return
	}
	member, found := t.members.get(r.Node, r.UID)
	switch {
	case !found:
		t.Expected++
		t.Unavailable++
	case member.Joining:
	default:
		if member.Ready {
			t.DisruptedReady++
		}
		if member.Sign == "" && t.signs[member.Name] == "" {
			t.Unavailable++
		}
	}
}

// isUnavailable reports whether a member has a sign, or is disrupted.
func (t *tally) isUnavailable(member *Member) bool {
	return member.Sign != "" || t.signs[member.Name] != "" || t.isDisrupted(place{member.Name, member.UID})
}

func (t *tally) isDisrupted(at place) bool { return t.disrupted[at] != 0 }

// maxNamed is how many Nodes a message names.
const maxNamed = 5

// names names some of the Nodes that count as unavailable, with the reason.
func (t *tally) names() string {
	causes := t.causes()
	names := slices.Sorted(maps.Keys(causes))
	var parts []string
	for _, name := range names[:min(len(names), maxNamed)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", name, causes[name]()))
	}
	if more := len(names) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if t.missing > 0 {
		parts = append(parts, fmt.Sprintf("%d that their MachineSets have not replaced yet", t.missing))
	}
	return strings.Join(parts, ", ")
}

// causes returns why each Node counts as unavailable that does.
func (t *tally) causes() map[string]func() string {
	causes := make(map[string]func() string, t.Unavailable)
	for name, sign := range t.members.unavailable {
		causes[name] = func() string { return string(sign) }
	}
	for name, sign := range t.signs {
		if member, found := t.members.byName[name]; found && !member.Joining && member.Sign == "" {
			causes[name] = func() string { return string(sign) }
		}
	}
	for at, by := range t.disrupted {
		if member, found := t.members.get(at.name, at.uid); !isMachine(at.name) && (!found || !member.Joining) {
			causes[at.name] = func() string { return "disrupted for " + by.String() }
		}
	}
	return causes
}

// Limit returns how many of so many Nodes a number or a percentage is; nil is 1. Percentages are rounded up, as the budgets of Karpenter's NodePools
// are (https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/apis/v1/nodepool.go): 5% of ten Nodes is one, not none. A value that cannot be
// read, which the CRD rejects, is zero.
func Limit(value *intstr.IntOrString, nodes int) int {
	limit, err := bounded.Scaled(*cmp.Or(value, new(intstr.FromInt32(1))), nodes)
	if err != nil {
		return 0
	}
	return limit
}

// describe returns a limit as it was resolved and as it was written.
func describe(value *intstr.IntOrString, limit int) string {
	if value == nil || value.Type == intstr.Int {
		return fmt.Sprint(limit)
	}
	return fmt.Sprintf("%d (%s)", limit, value.StrVal)
}
