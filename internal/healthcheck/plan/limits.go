package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodestate"
)

// Annotations of a MachineHealthCheck that limit its remediations. They go over the configuration.
const (
	// MaxInFlightAnnotation is how many remediations may be in flight: a number, or a percentage of the expected Machines.
	MaxInFlightAnnotation = "drover.dev/max-remediations-in-flight"
	// IntervalAnnotation is the shortest time between two remediations.
	IntervalAnnotation = "drover.dev/remediation-interval"
)

// noLimit of MaxInFlightAnnotation is no limit.
const noLimit = "100%"

const (
	// progressDeadline is how long a replacement, or an external remediation, counts as in flight. A remediation that takes longer may never end, and
	// must not block the others forever.
	progressDeadline = 30 * time.Minute
	// maxSkew is how far the clock of the API server may be ahead of Drover's.
	maxSkew = time.Minute
)

// Limits limit how fast Machines are remediated. The zero value limits nothing.
type Limits struct {
	// MaxInFlight is how many remediations may be in flight: a number or a percentage; nil for any number.
	MaxInFlight *intstr.IntOrString
	// MinInterval is the shortest time between two starts.
	MinInterval time.Duration
}

// Any reports whether there is a limit.
func (l Limits) Any() bool { return l.MaxInFlight != nil || l.MinInterval > 0 }

// limitsOf returns the limits of a MachineHealthCheck: its annotations, and the defaults where it has none. It returns an error for an annotation
// that is invalid.
func limitsOf(check *machinev1beta1.MachineHealthCheck, defaults Limits) (Limits, error) {
	limits := defaults
	if text, ok := check.Annotations[MaxInFlightAnnotation]; ok {
		value := intstr.FromString(text)
		if _, err := bounded.Scaled(value, 1); err != nil {
			return Limits{}, fmt.Errorf("annotation %s: %w", MaxInFlightAnnotation, err)
		}
		limits.MaxInFlight = &value
	}
	if text, ok := check.Annotations[IntervalAnnotation]; ok {
		interval, err := time.ParseDuration(text)
		if err != nil || interval < 0 {
			return Limits{}, fmt.Errorf("annotation %s: %q is not a duration of at least 0s", IntervalAnnotation, text)
		}
		limits.MinInterval = bounded.Duration(interval)
	}
	if limits.MaxInFlight != nil && limits.MaxInFlight.StrVal == noLimit {
		// Not so many as the MachineHealthCheck selects: others of the same MachineSets count, too.
		limits.MaxInFlight = nil
	}
	return limits, nil
}

// Group has the Machines whose remediations are counted: the Machines that a MachineHealthCheck selects, and all others of their owners. So two
// MachineHealthChecks with Machines of the same MachineSet see the same remediations.
type Group struct {
	// Machines are all of them; the MachineHealthCheck selects the first ones, as many as Selected.
	Machines []Target
	Selected int
	// Sets are the MachineSets of the namespace. Requested are its Machines that have a remediation request.
	Sets      []machinev1beta1.MachineSet
	Requested []disruptionplan.Requested
	// Starts are when this controller last started a remediation, by owner. It has run since ControllerStart.
	Starts          map[types.UID]time.Time
	ControllerStart time.Time
}

// PrepareLimits has the limits of the MachineHealthCheck apply to its remediations: they ask for places in a NodeGroup that exists nowhere else.
func (d *Decision) PrepareLimits(g *Group) {
	machines := g.observe(d.now)
	total := 0
	for i := range g.Machines[:g.Selected] {
		if g.Machines[i].Machine.DeletionTimestamp == nil {
			total++
		}
	}
	for i := range machines.Sets {
		total += machines.Sets[i].NotCreated
	}
	most := math.MaxInt32
	if d.Limits.MaxInFlight != nil {
		// limitsOf, and the validation of the configuration, have accepted it.
		most, _ = bounded.Scaled(*d.Limits.MaxInFlight, total)
	}
	group := &v1alpha1.NodeGroup{}
	group.Spec.Disruption = &v1alpha1.Disruption{Remediation: &v1alpha1.RemediationPace{
		MaxInFlight: new(intstr.FromInt32(bounded.Int32(most))), MinInterval: &metav1.Duration{Duration: d.Limits.MinInterval},
	}}
	d.limited = &disruptionplan.Input{Now: d.now, Group: group, Members: disruptionplan.NewMembers(), Waiting: &disruptionplan.Queue{}}
	d.limited.AddMachines(&machines, disruptionplan.Pace{Deadline: progressDeadline})
	// The previous leader has not recorded which of its changes were remediations: of its time, every creation, deletion and request of a Machine
	// counts as one. Later ones do not: only this controller remediates.
	last := metav1.Time{}
	see := func(at *metav1.Time) {
		if at != nil && last.Before(at) && !at.After(g.ControllerStart.Add(maxSkew)) {
			last = *at
		}
	}
	for i := range g.Machines {
		see(&g.Machines[i].Machine.CreationTimestamp)
		see(g.Machines[i].Machine.DeletionTimestamp)
	}
	for i := range d.limited.Disrupted {
		see(&d.limited.Disrupted[i].Time)
		d.limited.Disrupted[i].Time = metav1.Time{}
	}
	for _, at := range g.Starts {
		if at.After(last.Time) {
			last = metav1.NewTime(at)
		}
	}
	group.Status.LastRemediationTime = &last
}

// observe returns what the Machines show. Beside what the cache does not show yet, all of it is in the cluster, so that a new leader counts the same.
func (g *Group) observe(now time.Time) disruptionplan.Machines {
	nodes, ours, sets := map[string]*corev1.Node{}, map[types.UID]bool{}, map[types.UID]bool{}
	for i := range g.Sets {
		sets[g.Sets[i].UID] = g.Sets[i].DeletionTimestamp == nil
	}
	inventory := disruptionplan.NewInventory(func(name string) *corev1.Node { return nodes[name] })
	requested := slices.Clone(g.Requested)
	for i := range g.Machines {
		t := &g.Machines[i]
		if ours[t.Machine.UID] = true; t.Node != nil {
			nodes[t.Node.Name] = t.Node
		}
		inventory.Put(t.Machine)
		requested = append(requested, disruptionplan.Requested{Machine: keyOf(t.Machine), UID: t.Machine.UID, Since: t.inFlightSince(sets, now)})
	}
	for i := range g.Sets {
		if set := &g.Sets[i]; sets[set.UID] && inventory.HasSet(set.Namespace, set.UID) {
			inventory.PutSet(set)
		}
	}
	machines := inventory.Machines(now, func(*machinev1beta1.MachineSet) bool { return true }, func(string, types.UID, bool) bool { return true })
	requested = append(requested, machines.Requested...)
	machines.Requested = nil
	for _, r := range requested {
		// Each is counted as a Machine, whatever its Node. A time that lies ahead would never be over.
		if r.Node = ""; ours[r.UID] && bounded.IsPossible(r.Since, now) && now.Sub(r.Since) < progressDeadline {
			machines.Requested = append(machines.Requested, r)
		}
	}
	return machines
}

// inFlightSince returns since when a Machine counts as in flight that neither its MachineSet, one of sets, nor a request shows as such; zero for not.
// Of another controller, the Machine that is being deleted counts, and so does a new one: which is made in whose place is not known.
func (t *Target) inFlightSince(sets map[types.UID]bool, now time.Time) time.Time {
	owner, deleted := metav1.GetControllerOfNoCopy(t.Machine), t.Machine.DeletionTimestamp
	switch {
	case deleted == nil && (t.Deleted || t.Stale):
		return now
	case owner == nil || sets[owner.UID]:
		return time.Time{}
	case deleted != nil:
		return deleted.Time
	case !nodestate.IsReady(t.Node):
		return t.Machine.CreationTimestamp.Time
	}
	return time.Time{}
}

func keyOf(machine *machinev1beta1.Machine) types.NamespacedName {
	return types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}
}

// IsLimited reports whether limits apply to the remediations.
func (d *Decision) IsLimited() bool { return d.limited != nil }

// WithinLimits sorts the remediations, those aside that have been tried: the first ones may start, in this order, and the others exceed a limit.
func (d *Decision) WithinLimits(tried map[types.UID]bool) (startable []*Remediation, limited []Blocked) {
	in := disruptionplan.Input{}
	if d.limited != nil {
		in = *d.limited
		in.Disrupted = slices.Clip(in.Disrupted)
	}
	for i := range d.Remediations {
		r := &d.Remediations[i]
		if tried[r.Machine.UID] {
			continue
		}
		name := disruptionplan.MachineName(keyOf(r.Machine))
		answer := disruptionplan.Admit(&in, &disruptionplan.Request{
			Node: name, UID: r.Machine.UID, Capability: v1alpha1.CapabilityRemediation, Object: name, ObjectUID: r.Machine.UID,
		})
		if !answer.Allowed {
			limited = append(limited, Blocked{Machine: r.Machine, Reason: ReasonLimited, Message: answer.Message, Until: d.now.Add(answer.After)})
			continue
		}
		startable = append(startable, r)
		if answer.Admission != nil {
			in.Disrupted = append(in.Disrupted, *answer.Admission)
		}
	}
	return startable, limited
}
