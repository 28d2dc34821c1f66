package machineconfig

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/test/openshift"
)

// Observation is what a Node's next step is decided from.
type Observation struct {
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
	// Ready is what the Node's status is to report, when it does not yet and the simulator has to write it; nil otherwise.
	Ready *bool
	// Evict says that pods are to be evicted.
	Evict bool
	// Wait is when to look again without having heard of anything; zero for never.
	Wait time.Duration
}

// Decide moves a Node on until something has to be written, or waited for.
func Decide(observed Observation, opts *openshift.Options) Move {
	w := &walk{Observation: observed, opts: opts, move: Move{Node: observed.Node}}
	w.step, w.since = stepOf(observed.Node)
	if observed.Node.DeletionTimestamp != nil || !isManaged(observed.Node) || w.annotation(openshift.AnnotationDesiredConfig) == "" {
		return w.move
	}
	w.move.Node = observed.Node.DeepCopy()
	if w.move.Node.Labels == nil {
		w.move.Node.Labels = map[string]string{}
	}
	for w.advance() {
	}
	return w.move
}

// walk is a decision being made.
type walk struct {
	Observation
	opts  *openshift.Options
	move  Move
	step  openshift.Step
	since time.Time
}

// advance does the part of a step that can be done now, and reports whether the next step has begun.
func (w *walk) advance() bool {
	switch w.step {
	case openshift.StepDrain:
		return w.drain()
	case openshift.StepConfig:
		return w.apply()
	case openshift.StepReboot:
		return w.reboot()
	case openshift.StepBoot:
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
	desired := w.annotation(openshift.AnnotationDesiredConfig)
	if sameContents(w.annotation(openshift.AnnotationCurrentConfig), desired) {
		// There is nothing to apply, so the original neither drains nor reboots: another pool, with the same in it.
		w.finish()
		return false
	}
	w.set(openshift.AnnotationState, openshift.StateWorking)
	w.set(openshift.AnnotationReason, "")
	w.set(openshift.AnnotationDesiredDrain, drainRequest(desired))
	w.move.Node.Spec.Unschedulable = true
	w.enter(openshift.StepDrain)
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
	w.set(openshift.AnnotationLastAppliedDrain, w.annotation(openshift.AnnotationDesiredDrain))
	w.enter(openshift.StepConfig)
	return true
}

func (w *walk) apply() bool {
	if w.annotation(openshift.AnnotationDesiredConfig) == w.annotation(openshift.AnnotationCurrentConfig) {
		// The desired configuration is the current one again.
		w.finish()
		return false
	}
	if reason := w.failure(); reason != "" {
		w.set(openshift.AnnotationState, openshift.StateDegraded)
		w.set(openshift.AnnotationReason, reason)
		return false
	}
	w.set(openshift.AnnotationState, openshift.StateWorking)
	w.set(openshift.AnnotationReason, "")
	if w.hangs() || w.waits(w.opts.Config) {
		return false
	}
	if w.opts.RebootBy == openshift.RebootSkip {
		w.finish()
		return false
	}
	w.enter(openshift.StepReboot)
	return true
}

func (w *walk) reboot() bool {
	if w.report(false) || w.hangs() || w.waits(w.opts.Reboot) {
		return false
	}
	w.enter(openshift.StepBoot)
	return true
}

func (w *walk) boot() bool {
	if w.report(true) || w.hangs() {
		return false
	}
	w.finish()
	return false
}

// report has the Node's status say that it is Ready, or that it is not, and reports whether that still has to be written.
func (w *walk) report(ready bool) bool {
	played := w.opts.RebootBy == openshift.RebootAuto && w.annotation(annotationKwok) != ""
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
	desired := w.annotation(openshift.AnnotationDesiredConfig)
	w.set(openshift.AnnotationCurrentConfig, desired)
	w.set(openshift.AnnotationState, openshift.StateDone)
	w.set(openshift.AnnotationReason, "")
	w.set(openshift.AnnotationDesiredDrain, uncordonRequest(desired))
	w.set(openshift.AnnotationLastAppliedDrain, uncordonRequest(desired))
	w.set(openshift.AnnotationStep, "")
	w.move.Node.Spec.Unschedulable = false
	w.step = ""
	w.label()
}

// label sets the label with the version that the Node runs.
func (w *walk) label() {
	if w.Version != "" && !w.opts.NoVersionLabel {
		w.move.Node.Labels[openshift.VersionKey] = w.Version
	}
}

// failure is why the Node cannot apply its configuration.
func (w *walk) failure() string {
	if reason := w.annotation(openshift.AnnotationDegrade); reason != "" {
		return reason
	}
	return w.opts.Degrade[w.Node.Name]
}

// hangs reports whether the Node is to stay in its step.
func (w *walk) hangs() bool {
	value := w.annotation(openshift.AnnotationHang)
	if value == "" {
		value = w.opts.Hang[w.Node.Name]
	}
	return value != "" && openshift.HangStep(value) == w.step
}

// waits reports whether the step has not lasted long enough, and asks to be called again when it has.
func (w *walk) waits(length time.Duration) bool {
	w.move.Wait = max(0, w.since.Add(length).Sub(w.Now))
	return w.move.Wait > 0
}

func (w *walk) enter(step openshift.Step) {
	w.step, w.since = step, w.Now
	w.set(openshift.AnnotationStep, fmt.Sprintf("%s %s", step, w.Now.UTC().Format(time.RFC3339Nano)))
}

func (w *walk) annotation(key string) string { return w.move.Node.Annotations[key] }

// set writes an annotation, or removes it. Only the reason may be there and empty, as the original leaves it.
func (w *walk) set(key, value string) {
	if value == "" && key != openshift.AnnotationReason {
		delete(w.move.Node.Annotations, key)
		return
	}
	if _, there := w.move.Node.Annotations[key]; value == "" && !there {
		return
	}
	w.move.Node.Annotations[key] = value
}

// stepOf reads AnnotationStep. What cannot be read is taken for a Node that is in no update, and begins anew.
func stepOf(node *corev1.Node) (openshift.Step, time.Time) {
	step, since, _ := strings.Cut(node.Annotations[openshift.AnnotationStep], " ")
	at, err := time.Parse(time.RFC3339Nano, since)
	if err != nil || openshift.HangStep(step) == "" || step == "true" {
		return "", time.Time{}
	}
	return openshift.Step(step), at
}
