package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// Input is all that Decide depends on. The objects are not changed.
type Input struct {
	Group *v1alpha1.NodeGroup
	// SelectorError is why a selector is invalid; nil for none.
	SelectorError error
	// Declaration is what the group's Nodes are to carry.
	Declaration *metadataplan.Declaration
	// Nodes are those of the group. Released are Nodes that the group has left and whose record still names it.
	Nodes    []Node
	Released []Node
	// Overlaps are the Nodes that several groups select, this one among them.
	Overlaps []Overlap
	// Replacement is what package replacement reports; nil before it has.
	Replacement *replacementplan.Report
	// Budget is what the budget of the group is compared with; nil for a group without one.
	Budget *Budget
	// Uses are what requires labels that the roll-out takes away; nil where it takes none, or only what a user has confirmed.
	Uses *Uses
	// PendingPods are the Pods that count for spec.rollout.stopWhen.pendingPods.
	PendingPods []string
	// Defaults count where spec.rollout is absent; nil for those of its schema.
	Defaults *v1alpha1.Rollout
	// Now is the time of the decision.
	Now time.Time
}

// Node is a Node of the group.
type Node struct {
	Name, Zone string
	Created    time.Time
	// Labels are those that it carries.
	Labels map[string]string
	// Metadata is what is decided about what it carries.
	Metadata metadataplan.GroupDecision
	// Owned are the keys that its record names.
	Owned ownership.Section
	// Ready reports whether its kubelet is ready, since ReadyChange.
	Ready       bool
	ReadyChange time.Time
	// Leaving reports that its Machine is being deleted.
	Leaving bool
}

// Overlap is a Node that several groups select.
type Overlap struct {
	Node string
	// Group is the name of another group that selects it.
	Group string
}

// Decision is what a group does now.
type Decision struct {
	// Admitted are the Nodes that may be written.
	Admitted sets.Set[string]
	// Waves is how many waves the roll-out has, and Wave the one that is under way, from 1; Waves plus 1 when all are over.
	Wave, Waves int
	// Rollout and the others become the status.
	Rollout *v1alpha1.RolloutStatus
	Phase   v1alpha1.Phase
	Counts  Counts
	// Unconfirmed says which labels keep the roll-out from beginning before a user confirms that they go; empty for none.
	Unconfirmed string
	// Replacement is what is known of the replacement of Machines.
	Replacement replacementplan.Report
	OwnedKeys   []string
	Conditions  []Condition
	// Released reports whether no Node's record names the group, so that one that is being deleted may go.
	Released bool
	// Wake is when the decision changes without an event; zero for never.
	Wake time.Time
}

// Counts are the numbers of Nodes by state. They add up to Nodes.
type Counts struct {
	Nodes, Synced, Pending, Conflicts, Refused, Held int32
}

// maxOwnedKeys bounds status.ownedKeys, and maxNamed what a status names.
const (
	maxOwnedKeys = 256
	maxNamed     = 5
)

// Decide decides what a group does.
func Decide(in *Input) Decision {
	slices.SortFunc(in.Nodes, compareNodes)
	d := Decision{Admitted: sets.Set[string]{}, Counts: count(in.Nodes), Replacement: in.replacement()}
	d.OwnedKeys, d.Unconfirmed = in.ownedKeys(), in.unconfirmed()
	d.Released = len(in.Released) == 0 && !slices.ContainsFunc(in.Nodes, func(n Node) bool { return !n.Owned.Empty() })
	in.decideWaves(&d)
	in.decideBudget(&d)
	in.conditions(&d)
	return d
}

// compareNodes is the order of waves: by zone, then by age.
func compareNodes(a, b Node) int {
	return cmp.Or(cmp.Compare(a.Zone, b.Zone), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

func count(nodes []Node) Counts {
	var c Counts
	for i := range nodes {
		c.Nodes++
		switch nodes[i].Metadata.State {
		case metadataplan.Synced:
			c.Synced++
		case metadataplan.Conflicted:
			c.Conflicts++
		case metadataplan.RefusedState:
			c.Refused++
		case metadataplan.Held:
			c.Held++
		default:
			c.Pending++
		}
	}
	return c
}

// ownedKeys returns the keys that the group declares, and those that it has declared and that a Node's record still names. A record alone adds none.
func (in *Input) ownedKeys() []string {
	used := ownership.Section{}
	for _, nodes := range [][]Node{in.Nodes, in.Released} {
		for i := range nodes {
			for _, kind := range ownership.Kinds {
				used = used.With(kind, used.Of(kind).Union(nodes[i].Owned.Of(kind)))
			}
		}
	}
	before, declared := metadataplan.ParseOwnedKeys(in.Group.Status.OwnedKeys), in.Declaration.Section()
	kept := ownership.Section{}
	for _, kind := range ownership.Kinds {
		kept = kept.With(kind, before.Of(kind).And(used.Of(kind)).Minus(declared.Of(kind)))
	}
	keys, old := metadataplan.OwnedKeys(declared), metadataplan.OwnedKeys(kept)
	keys = append(keys, old[:min(len(old), max(0, maxOwnedKeys-len(keys)))]...)
	slices.Sort(keys)
	return keys
}

// settings returns spec.rollout, or the defaults.
func (in *Input) settings() v1alpha1.Rollout {
	settings := in.Group.Spec.Rollout
	if settings == nil {
		settings = in.Defaults
	}
	if settings == nil {
		settings = &v1alpha1.Rollout{}
	}
	return *settings
}

// Resolve returns an int or percentage of a total, rounded up. Nil is the default.
func Resolve(value *intstr.IntOrString, fallback intstr.IntOrString, total int) int {
	if value == nil {
		value = &fallback
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, total, true)
	if err != nil {
		// The schema rejects such a value.
		return 0
	}
	return max(0, number)
}

// decideWaves decides which Nodes the roll-out has reached.
func (in *Input) decideWaves(d *Decision) {
	settings := in.settings()
	waves := in.waves(&settings)
	rollout := in.rollout()
	d.Rollout, d.Waves = rollout, len(waves)
	over := in.wavesOver(waves, &settings, d)
	d.Wave = over + 1
	if previous := position(in.Group.Status.Rollout, rollout.Revision); previous > 0 && d.Wave > previous && over < len(waves) {
		rollout.WaveEndTime = timestamp(in.Now)
	}
	rollout.Wave = fmt.Sprintf("%d/%d", min(d.Wave, len(waves)), len(waves))
	in.stopOrResume(d, rollout, &settings)
	reached := min(d.Wave, len(waves))
	if until := in.pauseEnd(rollout, &settings); until.After(in.Now) && d.Wave <= len(waves) {
		d.wake(until)
		reached--
	}
	if in.isSuspended() || rollout.Stopped != "" || d.Unconfirmed != "" {
		return
	}
	for _, wave := range waves[:max(0, reached)] {
		for i := range wave {
			d.Admitted.Insert(wave[i].Name)
		}
	}
	if over < len(waves) {
		rollout.WaitingFor = waitingFor(waves[over], in, &settings)
	}
}

// isSuspended reports whether no Node is written; one that is being released is.
func (in *Input) isSuspended() bool {
	return in.Group.Spec.Suspend && in.Group.DeletionTimestamp == nil
}

// waves returns the Nodes of each wave, in the order of the waves. What is only given back needs none.
func (in *Input) waves(settings *v1alpha1.Rollout) [][]Node {
	size := max(1, Resolve(settings.MaxInFlight, intstr.FromString("100%"), len(in.Nodes)))
	first := size
	switch {
	case in.Group.DeletionTimestamp != nil && !in.removes():
		// Only records are dropped.
		size, first = max(1, len(in.Nodes)), max(1, len(in.Nodes))
	case settings.FirstWave != nil:
		first = min(size, int(*settings.FirstWave))
	}
	rest := in.Nodes
	var waves [][]Node
	for length := first; len(rest) > 0; length = size {
		length = min(length, len(rest))
		waves, rest = append(waves, rest[:length]), rest[length:]
	}
	return waves
}

// removes reports whether Nodes that leave the group lose what it has declared.
func (in *Input) removes() bool {
	metadata := in.Group.Spec.Metadata
	return metadata != nil && metadata.OnRelease == v1alpha1.ReleaseRemove
}

// rollout returns where the roll-out is, which is its begin if the declaration is another one.
func (in *Input) rollout() *v1alpha1.RolloutStatus {
	before := in.Group.Status.Rollout
	if before == nil || before.Revision != in.Declaration.Revision {
		return &v1alpha1.RolloutStatus{Revision: in.Declaration.Revision, StartTime: timestamp(in.Now)}
	}
	current := before.DeepCopy()
	current.WaitingFor = nil
	return current
}

// position returns the number of the wave that a status says is under way; 0 for none of this revision.
func position(status *v1alpha1.RolloutStatus, revision string) int {
	var wave, waves int
	if status == nil || status.Revision != revision {
		return 0
	}
	if _, err := fmt.Sscanf(status.Wave, "%d/%d", &wave, &waves); err != nil {
		return 0
	}
	return wave
}

// wavesOver returns how many waves are over: all their Nodes are as declared, and have been Ready for long enough.
func (in *Input) wavesOver(waves [][]Node, settings *v1alpha1.Rollout, d *Decision) int {
	for i, wave := range waves {
		for n := range wave {
			over, at := in.nodeOver(&wave[n], settings)
			if !over {
				if !at.IsZero() {
					d.wake(at)
				}
				return i
			}
		}
	}
	return len(waves)
}

// nodeOver reports whether a wave need not wait for a Node any longer. at is when that changes without an event; zero for unknown. A Node that was
// not Ready before the roll-out began does not keep the others from going on.
func (in *Input) nodeOver(node *Node, settings *v1alpha1.Rollout) (over bool, at time.Time) {
	if node.Metadata.Change.Write {
		return false, time.Time{}
	}
	if node.Ready {
		at = node.ReadyChange.Add(time.Duration(settings.MinReadySeconds) * time.Second)
		return !at.After(in.Now), at
	}
	return !in.becameNotReady(node), time.Time{}
}

// becameNotReady reports whether a Node has become NotReady since the roll-out began, or was resumed.
func (in *Input) becameNotReady(node *Node) bool {
	since := in.Since()
	return !node.Ready && !node.Leaving && !since.IsZero() && node.ReadyChange.After(since)
}

// unfinished reports whether any Node is to be written.
func (in *Input) unfinished() bool {
	return in.pending() > 0
}

// pauseEnd returns when the next wave may begin.
func (in *Input) pauseEnd(rollout *v1alpha1.RolloutStatus, settings *v1alpha1.Rollout) time.Time {
	if settings.Pause == nil || rollout.WaveEndTime == nil {
		return time.Time{}
	}
	return rollout.WaveEndTime.Add(settings.Pause.Duration)
}

// waitingFor names Nodes that a wave waits for.
func waitingFor(wave []Node, in *Input, settings *v1alpha1.Rollout) []string {
	var names []string
	for i := range wave {
		if over, _ := in.nodeOver(&wave[i], settings); !over && len(names) < maxNamed {
			names = append(names, wave[i].Name)
		}
	}
	return names
}

func (d *Decision) wake(at time.Time) {
	if d.Wake.IsZero() || at.Before(d.Wake) {
		d.Wake = at
	}
}
