package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// PreviewWaves returns the Nodes of the group as a roll-out reaches them: wave after wave, and in each the Nodes in their order.
func (in *Input) PreviewWaves() [][]Node {
	in.Nodes = sorted(in.Nodes)
	early, late := in.split(in.rollout())
	waves := in.waves(early)
	switch {
	case len(late) == 0:
	case len(waves) == 0:
		waves = [][]Node{late}
	default:
		waves[0] = slices.Concat(waves[0], late)
	}
	return waves
}

// split returns the Nodes that were there when the waves began, and the Nodes that have been created since. The latter have no wave: they are written
// at once, and no wave waits for them, since they are NotReady at first.
func (in *Input) split(rollout *v1alpha1.RolloutStatus) (early, late []Node) {
	early = make([]Node, 0, len(in.Nodes))
	for i := range in.Nodes {
		if IsNewer(in.Nodes[i].Created, rollout) {
			late = append(late, in.Nodes[i])
		} else {
			early = append(early, in.Nodes[i])
		}
	}
	return early, late
}

// IsNewer reports whether a Node that was created at a time is newer than the waves of a roll-out, and has none.
func IsNewer(created time.Time, rollout *v1alpha1.RolloutStatus) bool {
	if rollout == nil || rollout.StartTime == nil {
		return false
	}
	again := rollout.MachineSetTime
	return created.After(rollout.StartTime.Time) && (again == nil || created.After(again.Time))
}

// decideWaves decides which Nodes the roll-out has reached.
func (in *Input) decideWaves(d *Decision) {
	rollout := in.rollout()
	d.Rollout = rollout
	early, late := in.split(rollout)
	waves := in.waves(early)
	in.passes = in.passesStuck()
	switch {
	case rollout.EndTime != nil:
		in.decideAfterEnd(d)
	case in.Suspended:
		previous, _ := position(rollout, rollout.Revision)
		d.setWave(max(1, previous), len(waves))
	default:
		if in.wasSuspended() {
			rollout.ResumeTime = timestamp(in.Now)
		}
		in.decideRollout(d, waves, late)
	}
}

// decideRollout decides which waves may be written, and which Nodes that have no wave.
func (in *Input) decideRollout(d *Decision, waves [][]Node, late []Node) {
	rollout := d.Rollout
	over := in.wavesOver(waves, d)
	in.advance(d, waves, over)
	in.stopOrResume(d, rollout, over == len(waves))
	reached := min(over+1, len(waves))
	if until := in.PauseEnd(rollout); until.After(in.Now) && over < len(waves) {
		d.WakeAt(until)
		// An earlier wave that has got another Node does not wait.
		reached = min(reached, d.Wave-1)
	}
	if rollout.Stopped != "" || d.Unconfirmed != "" {
		return
	}
	d.admit(late)
	in.admitWaves(d, waves[:reached])
	switch {
	case over < len(waves):
		rollout.WaitingFor = in.waitingFor(waves[over])
	case len(waves) > 0 && !in.Ending:
		// A group without Nodes has not rolled out anything yet.
		rollout.EndTime = timestamp(in.Now)
	}
}

// advance decides which wave is under way. That is not an earlier one than before, even if Nodes of earlier waves are to be written again or have
// become NotReady: otherwise each of them would have the next wave pause anew.
func (in *Input) advance(d *Decision, waves [][]Node, over int) {
	next := over + 1
	previous, of := position(in.Before, d.Rollout.Revision)
	reached := next
	// After a change of the spec the waves may have another size.
	if previous > 0 && (!in.SpecChanged || of == len(waves)) {
		reached = reachedBefore(previous, of, next, len(waves))
		if next == previous && of > len(waves) && over < len(waves) && !in.waitedFor(waves[over]) {
			reached--
		}
		if next > reached && over < len(waves) {
			d.Rollout.WaveEndTime = timestamp(in.Now)
		}
	}
	in.endWaveBefore(d.Rollout, over, len(waves))
	d.setWave(max(reached, next), len(waves))
	if over == len(waves) {
		d.Wave = next
	}
}

// endWaveBefore has a pause follow the wave that was under way before MachineSets changed what they add, if it is over: both may be seen at once.
func (in *Input) endWaveBefore(rollout *v1alpha1.RolloutStatus, over, waves int) {
	before := in.Before
	if before == nil || before.EndTime != nil || before.Revision == rollout.Revision || !isSameGroup(before.Revision, rollout.Revision) {
		return
	}
	if wave, _ := position(before, before.Revision); wave > 0 && wave <= over && over < waves {
		rollout.WaveEndTime = timestamp(in.Now)
	}
}

// reachedBefore returns the current number of the wave that was under way before. It was number previous of the of waves at that time. Now there are
// waves, because Nodes have gone, or have come from elsewhere. next is the first wave that has not finished.
func reachedBefore(previous, of, next, waves int) int {
	switch more := waves - of; {
	case more < 0:
		// The Nodes have gone from finished waves, unless there are as many finished waves as before.
		return min(previous, max(next, previous+more))
	case next < previous:
		// The Nodes have come to waves that had finished.
		return previous + more
	}
	return previous
}

// waitedFor reports whether the roll-out has waited for a wave: the status names some of its Nodes.
func (in *Input) waitedFor(wave []Node) bool {
	return slices.ContainsFunc(wave, func(n Node) bool { return slices.Contains(in.Before.WaitingFor, n.Name) })
}

// setWave records which wave is under way, and how many there are.
func (d *Decision) setWave(wave, waves int) {
	d.Wave, d.Waves = min(wave, waves), waves
	d.Rollout.Wave = fmt.Sprintf("%d/%d", d.Wave, waves)
}

// decideAfterEnd decides which Nodes are written after the roll-out has ended: Nodes that join, or that carry again what they did not. At most as
// many as a wave has are written at once; nothing else is waited for.
func (in *Input) decideAfterEnd(d *Decision) {
	waves := in.waves(in.Nodes)
	over := slices.IndexFunc(waves, func(wave []Node) bool {
		return slices.ContainsFunc(wave, func(n Node) bool { return n.toWrite() && !n.IsFailing() })
	})
	if over < 0 {
		over = len(waves)
	}
	d.Waves, d.Wave = len(waves), over+1
	if in.Suspended || d.Unconfirmed != "" {
		return
	}
	in.admitWaves(d, waves[:min(d.Wave, len(waves))])
}

// admitWaves admits the Nodes of waves. Nodes that could not be written are admitted in turns, at most as many at a time as a wave has: what keeps
// them from being written may end for all of them at once.
func (in *Input) admitWaves(d *Decision, waves [][]Node) {
	var failing []Node
	for _, wave := range waves {
		for i := range wave {
			if wave[i].IsFailing() {
				failing = append(failing, wave[i])
			} else {
				d.Admitted.Insert(wave[i].Name)
			}
		}
	}
	size := in.waveSize(len(in.Nodes))
	if len(failing) > size {
		turns, turn := slices.Collect(slices.Chunk(failing, size)), in.Now.Unix()/int64(failingTurn/time.Second)
		failing = turns[turn%int64(len(turns))]
		d.WakeAt(in.Now.Truncate(failingTurn).Add(failingTurn))
	}
	d.admit(failing)
}

// failingTurn is how long each of the Nodes that could not be written may be tried again, when there are more than a wave has.
const failingTurn = time.Minute

func (d *Decision) admit(nodes []Node) {
	for i := range nodes {
		d.Admitted.Insert(nodes[i].Name)
	}
}

// waves returns the Nodes of each wave, in the order of the waves. A group that is being deleted and removes nothing from its Nodes has a single one.
func (in *Input) waves(nodes []Node) [][]Node {
	size := in.waveSize(len(nodes))
	first := size
	switch {
	case in.Ending && !in.Removes:
		// Only records are dropped.
		size, first = max(1, len(nodes)), max(1, len(nodes))
	case in.Settings.FirstWave != nil:
		first = min(size, int(*in.Settings.FirstWave))
	}
	rest := nodes
	var waves [][]Node
	for length := first; len(rest) > 0; length = size {
		length = min(length, len(rest))
		waves, rest = append(waves, rest[:length]), rest[length:]
	}
	return waves
}

// FirstWaveText says that a first wave is as large as the others although spec.rollout.firstWave says more; empty otherwise. The schema cannot
// compare it with a percentage.
func (in *Input) FirstWaveText() string {
	settings, size := &in.Settings, in.waveSize(len(in.Nodes))
	if settings.FirstWave == nil || int(*settings.FirstWave) <= size || settings.MaxInFlight == nil {
		return ""
	}
	return fmt.Sprintf("; spec.rollout.firstWave %d is limited to %d, which is maxInFlight %s of %d Nodes", *settings.FirstWave, size,
		settings.MaxInFlight.String(), len(in.Nodes))
}

// waveSize returns how many of all Nodes each wave has from the second one on.
func (in *Input) waveSize(all int) int {
	return max(1, Resolve(in.Settings.MaxInFlight, intstr.FromString("100%"), all))
}

// rollout returns where the roll-out is: at its beginning if the declaration is another one.
func (in *Input) rollout() *v1alpha1.RolloutStatus {
	before, revision := in.Before, in.Revision
	if before == nil || before.StartTime == nil || !isSameGroup(before.Revision, revision) {
		return &v1alpha1.RolloutStatus{Revision: revision, StartTime: timestamp(in.Now)}
	}
	current := before.DeepCopy()
	current.WaitingFor = nil
	if before.Revision != revision {
		// Authors of MachineSets neither resume a roll-out that has stopped nor end a pause, nor have it forget which Nodes have failed since it began.
		current.Revision, current.Wave = revision, ""
		current.MachineSetTime = timestamp(in.Now)
		if current.EndTime != nil {
			current.StartTime, current.MachineSetTime, current.EndTime = timestamp(in.Now), nil, nil
		}
	}
	return current
}

// isSameGroup reports whether two revisions differ at most in what MachineSets add.
func isSameGroup(a, b string) bool {
	own, _, _ := strings.Cut(a, ".")
	other, _, _ := strings.Cut(b, ".")
	return own == other
}

// position returns the number of the wave that a status says is under way, and how many there are; 0 for none of this revision.
func position(status *v1alpha1.RolloutStatus, revision string) (wave, of int) {
	if status == nil || status.Revision != revision {
		return 0, 0
	}
	if _, err := fmt.Sscanf(status.Wave, "%d/%d", &wave, &of); err != nil {
		return 0, 0
	}
	return wave, of
}

// wavesOver returns how many waves are over, from the first one on: all their Nodes are as declared, and have been Ready for long enough.
func (in *Input) wavesOver(waves [][]Node, d *Decision) int {
	for i, wave := range waves {
		for n := range wave {
			over, at := in.nodeOver(&wave[n])
			if !over {
				if !at.IsZero() {
					d.WakeAt(at)
				}
				return i
			}
		}
	}
	return len(waves)
}

// nodeOver reports whether a wave need not wait for a Node any longer. at is when that changes without an event; zero for unknown. A Node that was
// not Ready before the roll-out began does not keep the others from going on.
func (in *Input) nodeOver(node *Node) (over bool, at time.Time) {
	if stuck := node.isStuck(); stuck && !in.passes || !stuck && node.toWrite() {
		return false, time.Time{}
	}
	if node.Ready {
		// The kubelet writes it, by its own clock.
		if !bounded.IsPossible(node.ReadyChange, in.Now) {
			return true, time.Time{}
		}
		at = node.ReadyChange.Add(time.Duration(in.Settings.MinReadySeconds) * time.Second)
		return !at.After(in.Now), at
	}
	return !in.becameNotReady(node), time.Time{}
}

// passesStuck reports whether the roll-out goes on past the Nodes that are stuck: as long as there are no more of them than may become NotReady.
func (in *Input) passesStuck() bool {
	stuck := 0
	for i := range in.Nodes {
		if in.Nodes[i].isStuck() {
			stuck++
		}
	}
	return stuck <= in.maxNotReady()
}

// becameNotReady reports whether a Node has become NotReady since the roll-out began, or was resumed, and not on purpose. A Node that was created
// since then does not count: it is NotReady at first.
func (in *Input) becameNotReady(node *Node) bool {
	since := in.Since()
	if again := in.Before; again != nil && again.MachineSetTime != nil && node.Created.After(since) && !since.IsZero() {
		// It has a wave if it was there when they began anew.
		since = again.MachineSetTime.Time
	}
	switch {
	case node.Ready, node.Leaving, node.Joining, since.IsZero():
		return false
	case node.Created.After(since), !node.ReadyChange.After(since):
		return false
	}
	return in.IsDisrupted == nil || !in.IsDisrupted(node)
}

// PauseEnd returns when the next wave may begin.
func (in *Input) PauseEnd(rollout *v1alpha1.RolloutStatus) time.Time {
	if in.Settings.Pause == nil || rollout.WaveEndTime == nil {
		return time.Time{}
	}
	return rollout.WaveEndTime.Add(in.Settings.Pause.Duration)
}

// waitingFor names Nodes that a wave waits for.
func (in *Input) waitingFor(wave []Node) []string {
	var names []string
	for i := range wave {
		if over, _ := in.nodeOver(&wave[i]); !over && len(names) < maxNamed {
			names = append(names, wave[i].Name)
		}
	}
	return names
}
