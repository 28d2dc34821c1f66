package machineconfig

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/test/openshift"
)

// Stage is a part of a cluster's update. They follow one another in this order.
type Stage string

// The stages of a cluster's update.
const (
	// StageControlPlane is the control plane's own update. It lasts Options.ControlPlane.
	StageControlPlane Stage = "ControlPlane"
	// StageMasters lasts until the pool master is updated.
	StageMasters Stage = "Masters"
	// StageCompletion is what comes after that. It lasts Options.Completion.
	StageCompletion Stage = "Completion"
	// StageCompleted is the end. Nodes of other pools may well be on their way still, or not have begun.
	StageCompleted Stage = "Completed"
)

// Phase is how far a cluster's update is. It is kept in an annotation of the ClusterVersion, and the status is made from it.
type Phase struct {
	// Version is the version of the update.
	Version string `json:"version"`
	// Masters and Workers are the versions whose rendered MachineConfigs the pool master and all others are to have.
	Masters string `json:"masters"`
	Workers string `json:"workers"`
	// Stage is the part that goes on, since when Since says.
	Stage Stage     `json:"stage"`
	Since time.Time `json:"since"`
}

// Completed is the Phase of a cluster of a version that is not being updated.
func Completed(version string, now time.Time) Phase {
	return Phase{Version: version, Masters: version, Workers: version, Stage: StageCompleted, Since: now.UTC()}
}

// Format is the text of the annotation.
func (p Phase) Format() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has nothing that cannot be rendered
	}
	return string(text)
}

// PhaseOf reads the Phase of a ClusterVersion. One without the annotation has completed the newest version of its history.
func PhaseOf(version *configv1.ClusterVersion, now time.Time) (Phase, error) {
	if text := version.Annotations[openshift.AnnotationPhase]; text != "" {
		phase := Phase{}
		if err := json.Unmarshal([]byte(text), &phase); err != nil {
			return Phase{}, fmt.Errorf("annotation %s: %w", openshift.AnnotationPhase, err)
		}
		return phase, nil
	}
	for _, update := range version.Status.History {
		if update.State == configv1.CompletedUpdate {
			return Completed(update.Version, now), nil
		}
	}
	if update := version.Spec.DesiredUpdate; update != nil && update.Version != "" {
		return Completed(update.Version, now), nil
	}
	return Phase{}, fmt.Errorf("its version is unknown: it has neither the annotation %s nor a history nor a desiredUpdate", openshift.AnnotationPhase)
}

// For returns the version that a pool is rendered for.
func (p Phase) For(pool string) string {
	if pool == openshift.PoolMaster {
		return p.Masters
	}
	return p.Workers
}

// Progress is how far the pools are with the versions of a Phase.
type Progress struct {
	// Masters says that every Node of the pool master runs its rendered MachineConfig.
	Masters bool
	// Rendered says that every pool that can be rendered is.
	Rendered bool
}

// complete reports whether the pools have what they get before the history says Completed.
func (p Progress) complete(workersAt openshift.Moment) bool {
	return p.Rendered || workersAt == openshift.AfterCompleted
}

// Next moves on by one stage at most: towards the desired version, when the pools are ready for it and the stage's time is up. Each stage is written
// before the next one begins, so that a watcher sees even a stage that takes no time. If wait is above zero, call Next again after that time.
func (p Phase) Next(desired string, pools Progress, now time.Time, opts *openshift.Options) (next Phase, wait time.Duration) {
	if desired != "" && desired != p.Version {
		// Also while another update goes on, and back to the version before: the pools keep what they have until their turn comes.
		p.Version = desired
		p.enter(StageControlPlane, now)
		return p, p.left(opts.ControlPlane, now)
	}
	switch p.Stage {
	case StageControlPlane:
		if wait = p.left(opts.ControlPlane, now); wait > 0 {
			return p, wait
		}
		p.Masters = p.Version
		if opts.WorkersAt == openshift.WithMasters {
			p.Workers = p.Version
		}
		p.enter(StageMasters, now)
	case StageMasters:
		if !pools.Masters {
			return p, 0
		}
		if opts.WorkersAt != openshift.AfterCompleted {
			p.Workers = p.Version
		}
		p.enter(StageCompletion, now)
		return p, p.left(opts.Completion, now)
	case StageCompletion:
		if !pools.complete(opts.WorkersAt) {
			return p, 0
		}
		if wait = p.left(opts.Completion, now); wait > 0 {
			return p, wait
		}
		p.Workers = p.Version
		p.enter(StageCompleted, now)
	}
	return p, 0
}

func (p *Phase) enter(stage Stage, now time.Time) { p.Stage, p.Since = stage, now.UTC() }

func (p *Phase) left(length time.Duration, now time.Time) time.Duration {
	return max(0, p.Since.Add(length).Sub(now))
}

// Status is what the status of a ClusterVersion in this phase is to be.
func (p Phase) Status(version *configv1.ClusterVersion, now time.Time) configv1.ClusterVersionStatus {
	status := *version.Status.DeepCopy()
	status.ObservedGeneration = version.Generation
	status.Desired = configv1.Release{Version: p.Version, Image: releaseImage(p.Version)}
	if status.VersionHash == "" {
		status.VersionHash = "sandbox"
	}
	status.History = p.history(status.History, metav1.NewTime(now.Truncate(time.Second)))
	completed := p.Stage == StageCompleted
	set := conditionSetter(&status, now)
	message := "the cluster's version is " + p.Version
	if !completed {
		message = fmt.Sprintf("on the way to %s: %s", p.Version, p.Stage)
	}
	set(configv1.OperatorAvailable, true, "")
	set(configv1.OperatorProgressing, !completed, message)
	set("Failing", false, "")
	return status
}

// history is the history with the newest update first. An update that another one followed before it was completed stays Partial.
func (p Phase) history(history []configv1.UpdateHistory, now metav1.Time) []configv1.UpdateHistory {
	if len(history) == 0 || history[0].Version != p.Version {
		if len(history) > 0 && history[0].CompletionTime == nil {
			history[0].CompletionTime = &now
		}
		started := metav1.NewTime(p.Since.Truncate(time.Second))
		entry := configv1.UpdateHistory{
			State: configv1.PartialUpdate, StartedTime: started, Version: p.Version, Image: releaseImage(p.Version), Verified: true,
		}
		history = append([]configv1.UpdateHistory{entry}, history...)
	}
	if p.Stage == StageCompleted && history[0].State != configv1.CompletedUpdate {
		history[0].State, history[0].CompletionTime = configv1.CompletedUpdate, &now
	}
	const kept = 100 // as the original
	return history[:min(kept, len(history))]
}

// conditionSetter returns a function that sets a condition, with the time of the last change of its status.
func conditionSetter(status *configv1.ClusterVersionStatus, now time.Time) func(configv1.ClusterStatusConditionType, bool, string) {
	return func(kind configv1.ClusterStatusConditionType, value bool, message string) {
		condition := configv1.ClusterOperatorStatusCondition{
			Type: kind, Status: configv1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)), Message: message,
		}
		if value {
			condition.Status = configv1.ConditionTrue
		}
		at := slices.IndexFunc(status.Conditions, func(c configv1.ClusterOperatorStatusCondition) bool { return c.Type == kind })
		if at < 0 {
			status.Conditions = append(status.Conditions, condition)
			return
		}
		if old := status.Conditions[at]; old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		status.Conditions[at] = condition
	}
}
