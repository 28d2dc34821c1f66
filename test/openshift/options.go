package openshift

import (
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// Moment is a point of a cluster's update.
type Moment string

// When the pools but master get the rendered MachineConfigs of a new version.
const (
	// BeforeCompleted is when the masters are updated, and Options.Completion before the history says Completed. It is the default: an
	// unpaused pool starts while the cluster's update is still under way, as on a real cluster, which is why a gate has to pause early.
	BeforeCompleted Moment = "BeforeCompleted"
	// WithMasters is together with the pool master, as the machine-config-operator renders all pools at once.
	WithMasters Moment = "WithMasters"
	// AfterCompleted is when the history says Completed, for tests that need all of this apart from the update of the control plane.
	AfterCompleted Moment = "AfterCompleted"
)

// RebootMethod is how a Node is made NotReady and Ready again.
type RebootMethod string

// The ways to reboot.
const (
	// RebootAuto asks kwok where kwok plays the Node, and writes the Node's status elsewhere. It is the default.
	RebootAuto RebootMethod = "Auto"
	// RebootStatus writes the Node's status, for Nodes whose kubelet, or kwok, does not run.
	RebootStatus RebootMethod = "Status"
	// RebootSkip leaves the reboot out.
	RebootSkip RebootMethod = "Skip"
)

// Step is a part of a Node's update. They follow one another in this order.
type Step string

// The steps of a Node's update.
const (
	// StepDrain lasts until the Node's pods are gone, and Options.Drain at least.
	StepDrain Step = "drain"
	// StepConfig is the MachineConfig being applied, and where an update fails. It lasts Options.Config.
	StepConfig Step = "config"
	// StepReboot is the Node being down. It lasts Options.Reboot.
	StepReboot Step = "reboot"
	// StepBoot lasts until the Node is Ready.
	StepBoot Step = "boot"
)

// Steps lists all steps in their order.
var Steps = []Step{StepDrain, StepConfig, StepReboot, StepBoot}

// Options says how fast things happen and what goes wrong. The zero value does everything at once and nothing wrong.
type Options struct {
	// ControlPlane is the time from a new desiredUpdate until the pool master gets its new rendered MachineConfig.
	ControlPlane time.Duration `json:"controlPlane,omitempty"`
	// Completion is the time from the masters' update until the history says Completed.
	Completion time.Duration `json:"completion,omitempty"`
	// WorkersAt is when the other pools get theirs, BeforeCompleted when empty.
	WorkersAt Moment `json:"workersAt,omitempty"`

	// Drain, Config and Reboot are the least lengths of these steps of each Node's update.
	Drain  time.Duration `json:"drain,omitempty"`
	Config time.Duration `json:"config,omitempty"`
	Reboot time.Duration `json:"reboot,omitempty"`
	// CordonOnly evicts no pods.
	CordonOnly bool `json:"cordonOnly,omitempty"`
	// EvictionRetry is how long to wait after a refused eviction, a second when zero.
	EvictionRetry time.Duration `json:"evictionRetry,omitempty"`
	// RebootBy is how Nodes are rebooted, RebootAuto when empty.
	RebootBy RebootMethod `json:"rebootBy,omitempty"`
	// NoVersionLabel leaves the label VersionKey of the Nodes alone. Then only the annotation of the rendered MachineConfig has the version.
	NoVersionLabel bool `json:"noVersionLabel,omitempty"`

	// Degrade are reasons by Node, as the annotation AnnotationDegrade gives them.
	Degrade map[string]string `json:"degrade,omitempty"`
	// Hang are steps by Node, as the annotation AnnotationHang gives them.
	Hang map[string]string `json:"hang,omitempty"`

	// Parallel is how many Nodes are worked on at once, 24 when zero. They do not wait for one another beyond that.
	Parallel int `json:"parallel,omitempty"`
	// Clock measures all waits, the machine's when nil.
	Clock clock.WithTicker `json:"-"`
	// Log receives a line for each thing that happens. Nil means nowhere.
	Log io.Writer `json:"-"`
	// Started is called once the watches have shown everything there is. It may be nil.
	Started func() `json:"-"`
}

// Validate returns an error if an option has a value that does not exist.
func (o *Options) Validate() error {
	moments := []Moment{"", BeforeCompleted, WithMasters, AfterCompleted}
	if !slices.Contains(moments, o.WorkersAt) {
		return fmt.Errorf("openshift: no moment %q; there are %v", o.WorkersAt, moments[1:])
	}
	methods := []RebootMethod{"", RebootAuto, RebootStatus, RebootSkip}
	if !slices.Contains(methods, o.RebootBy) {
		return fmt.Errorf("openshift: no way to reboot %q; there are %v", o.RebootBy, methods[1:])
	}
	for node, step := range o.Hang {
		if HangStep(step) == "" {
			return fmt.Errorf("openshift: node %s: no step %q to hang in; there are %v", node, step, Steps)
		}
	}
	return nil
}

// HangStep returns the step that a value of AnnotationHang names, or an empty one.
func HangStep(value string) Step {
	if value == "true" {
		return StepReboot
	}
	if step := Step(value); slices.Contains(Steps, step) {
		return step
	}
	return ""
}
