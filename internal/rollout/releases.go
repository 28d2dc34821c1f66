package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// releaseDelay is the default of spec.rollout.releaseDelay.
const releaseDelay = time.Minute

// decideReleases decides which of the Nodes that the group has left may be written. Nodes that lose what the group has declared go in batches of
// spec.rollout.maxInFlight, each after the pause of the batch before: a mistake in a selector must not strip all Nodes at once. A Node that another
// group has taken goes with the waves of that group. A Node that has left lately may come back: it keeps what it has for spec.rollout.releaseDelay.
func (in *Input) decideReleases(d *Decision) {
	if in.Suspended || in.DryRun || in.Unknown && !in.Ending || d.UnconfirmedReleases != "" {
		return
	}
	in.Released = sorted(in.Released)
	inFlight, waiting := in.continueReleases(d)
	if len(waiting) == 0 {
		return
	}
	if begins := in.nextRelease(); begins.After(in.Now) {
		d.WakeAt(begins)
		return
	}
	settings := &in.Settings
	size := max(1, Resolve(settings.MaxInFlight, intstr.FromString("100%"), len(in.Nodes)+len(in.Released)))
	batch := waiting[:min(len(waiting), max(0, size-inFlight))]
	d.Releasing.Insert(batch...)
	if len(batch) > 0 && settings.Pause != nil && settings.Pause.Duration > 0 {
		d.Rollout.ReleaseTime = timestamp(in.Now)
	}
}

// continueReleases admits the Nodes that wait for no batch, or were admitted before. It returns how many of them are in a batch, and the others.
func (in *Input) continueReleases(d *Decision) (inFlight int, waiting []string) {
	for i := range in.Released {
		node := &in.Released[i]
		if end := in.delayEnd(node); end.After(in.Now) {
			d.delay(end)
			continue
		}
		paced := in.isPaced(node)
		if paced && !in.Releasing.Has(node.Name) {
			waiting = append(waiting, node.Name)
			continue
		}
		if paced {
			inFlight++
		}
		d.Releasing.Insert(node.Name)
	}
	return inFlight, waiting
}

// isPaced reports whether a Node that has left the group is in a batch: it loses something and no other group has taken it. A Node that cannot be
// written keeps no other Node waiting.
func (in *Input) isPaced(node *Node) bool { return in.Removes && !node.Taken && node.IsPending() }

// ReleaseDelay returns how long a Node has been out of its group when it is released. settings are the group's settings; nil for none.
func ReleaseDelay(settings *v1alpha1.Rollout) time.Duration {
	if settings == nil || settings.ReleaseDelay == nil {
		return releaseDelay
	}
	return settings.ReleaseDelay.Duration
}

// delayEnd returns when a Node that has left may be released; zero if no delay keeps it.
func (in *Input) delayEnd(node *Node) time.Time {
	if in.Ending || node.Taken || node.Left.IsZero() {
		return time.Time{}
	}
	return node.Left.Add(ReleaseDelay(&in.Settings))
}

// delay counts a Node that is not released before a time.
func (d *Decision) delay(end time.Time) {
	d.WakeAt(end)
	if d.Delayed++; d.Delayed == 1 || end.Before(d.DelayEnd) {
		d.DelayEnd = end
	}
}

// nextRelease returns when the next batch of Nodes that have left may be released.
func (in *Input) nextRelease() time.Time {
	rollout, settings := in.Before, &in.Settings
	if rollout == nil || rollout.ReleaseTime == nil || settings.Pause == nil {
		return time.Time{}
	}
	return rollout.ReleaseTime.Add(settings.Pause.Duration)
}
