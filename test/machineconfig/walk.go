package machineconfig

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Sight is what a Node's next step is decided from.
type Sight struct {
	// Node is the Node.
	Node *corev1.Node
	// Pods is how many pods a drain has still to see off.
	Pods int
	// Version is the version of the Node's desiredConfig; empty when that is not known.
	Version string
	// Now is the time.
	Now time.Time
}

// Move is what is to be done about a Node.
type Move struct {
	// Node is the Node as it is to be, apart from its status; the one seen when nothing is to be written.
	Node *corev1.Node
	// Ready is what the Node's status is to report, when it does not yet and somebody has to write it; nil otherwise.
	Ready *bool
	// Evict says that pods are to be evicted.
	Evict bool
	// Wait is when to look again without having heard of anything; zero for never.
	Wait time.Duration
}

// Decide moves a Node on as far as it goes without anybody else: until something has to be written, or waited for.
func Decide(sight Sight, opts *Options) Move {
	w := &walk{Sight: sight, opts: opts, move: Move{Node: sight.Node}}
	w.step, w.since = stepOf(sight.Node)
	if sight.Node.DeletionTimestamp != nil || !isManaged(sight.Node) || w.annotation(AnnotationDesiredConfig) == "" {
		return w.move
	}
	w.move.Node = sight.Node.DeepCopy()
	if w.move.Node.Labels == nil {
		w.move.Node.Labels = map[string]string{}
	}
	for w.advance() {
	}
	return w.move
}

// walk is a decision being made.
type walk struct {
	Sight
	opts  *Options
	move  Move
	step  Step
	since time.Time
}

// advance does the part of a step that can be done now, and tells whether the next step has begun.
func (w *walk) advance() bool {
	switch w.step {
	case StepDrain:
		return w.drain()
	case StepConfig:
		return w.apply()
	case StepReboot:
		return w.reboot()
	case StepBoot:
		return w.boot()
	}
	return w.rest()
}

// rest begins an update when there is one.
func (w *walk) rest() bool {
	if isDone(w.Node) {
		w.label()
		return false
	}
	desired := w.annotation(AnnotationDesiredConfig)
	if sameContents(w.annotation(AnnotationCurrentConfig), desired) {
		// There is nothing to apply, so the original neither drains nor reboots: another pool, with the same in it.
		w.finish()
		return false
	}
	w.set(AnnotationState, StateWorking)
	w.set(AnnotationReason, "")
	w.set(AnnotationDesiredDrain, drainRequest(desired))
	w.move.Node.Spec.Unschedulable = true
	w.enter(StepDrain)
	// Pods that come before the cordon is there must be seen before any is counted.
	return false
}

func (w *walk) drain() bool {
	if w.hangs() {
		return false
	}
	if w.Pods > 0 && !w.opts.CordonOnly {
		w.move.Evict = true
		return false
	}
	if w.waits(w.opts.Drain) {
		return false
	}
	w.set(AnnotationLastAppliedDrain, w.annotation(AnnotationDesiredDrain))
	w.enter(StepConfig)
	return true
}

func (w *walk) apply() bool {
	if w.annotation(AnnotationDesiredConfig) == w.annotation(AnnotationCurrentConfig) {
		// It was told to stay as it is.
		w.finish()
		return false
	}
	if reason := w.failure(); reason != "" {
		w.set(AnnotationState, StateDegraded)
		w.set(AnnotationReason, reason)
		return false
	}
	w.set(AnnotationState, StateWorking)
	w.set(AnnotationReason, "")
	if w.hangs() || w.waits(w.opts.Config) {
		return false
	}
	if w.opts.RebootBy == RebootSkip {
		w.finish()
		return false
	}
	w.enter(StepReboot)
	return true
}

func (w *walk) reboot() bool {
	if w.report(false) || w.hangs() || w.waits(w.opts.Reboot) {
		return false
	}
	w.enter(StepBoot)
	return true
}

func (w *walk) boot() bool {
	if w.report(true) || w.hangs() {
		return false
	}
	w.finish()
	return false
}

// report sees to it that the Node's status says that it is Ready, or that it is not, and tells whether that is still to come.
func (w *walk) report(ready bool) bool {
	played := w.opts.RebootBy == RebootAuto && w.annotation(annotationKwok) != ""
	if played && ready {
		w.set(annotationKwokReady, "")
	} else if played {
		w.set(annotationKwokReady, "false")
	}
	if reportsReady(w.Node) == ready {
		return false
	}
	if !played {
		w.move.Ready = &ready
	}
	return true
}

// finish ends an update.
func (w *walk) finish() {
	desired := w.annotation(AnnotationDesiredConfig)
	w.set(AnnotationCurrentConfig, desired)
	w.set(AnnotationState, StateDone)
	w.set(AnnotationReason, "")
	w.set(AnnotationDesiredDrain, uncordonRequest(desired))
	w.set(AnnotationLastAppliedDrain, uncordonRequest(desired))
	w.set(AnnotationStep, "")
	w.move.Node.Spec.Unschedulable = false
	w.step = ""
	w.label()
}

// label tells the version that the Node runs.
func (w *walk) label() {
	if w.Version != "" && !w.opts.NoVersionLabel {
		w.move.Node.Labels[VersionKey] = w.Version
	}
}

// failure is why the Node cannot apply its configuration.
func (w *walk) failure() string {
	if reason := w.annotation(AnnotationDegrade); reason != "" {
		return reason
	}
	return w.opts.Degrade[w.Node.Name]
}

// hangs tells whether the Node is to stay in its step.
func (w *walk) hangs() bool {
	value := w.annotation(AnnotationHang)
	if value == "" {
		value = w.opts.Hang[w.Node.Name]
	}
	return value != "" && hangStep(value) == w.step
}

// waits tells whether the step has not lasted long enough, and asks to be called again when it has.
func (w *walk) waits(length time.Duration) bool {
	w.move.Wait = max(0, w.since.Add(length).Sub(w.Now))
	return w.move.Wait > 0
}

func (w *walk) enter(step Step) {
	w.step, w.since = step, w.Now
	w.set(AnnotationStep, fmt.Sprintf("%s %s", step, w.Now.UTC().Format(time.RFC3339Nano)))
}

func (w *walk) annotation(key string) string { return w.move.Node.Annotations[key] }

// set writes an annotation, or removes it. Only the reason may be there and empty, as the original leaves it.
func (w *walk) set(key, value string) {
	if value == "" && key != AnnotationReason {
		delete(w.move.Node.Annotations, key)
		return
	}
	if _, there := w.move.Node.Annotations[key]; value == "" && !there {
		return
	}
	w.move.Node.Annotations[key] = value
}

// stepOf reads AnnotationStep. What cannot be read is taken for a Node that is in no update, and begins anew.
func stepOf(node *corev1.Node) (Step, time.Time) {
	step, since, _ := strings.Cut(node.Annotations[AnnotationStep], " ")
	at, err := time.Parse(time.RFC3339Nano, since)
	if err != nil || hangStep(step) == "" || step == "true" {
		return "", time.Time{}
	}
	return Step(step), at
}
