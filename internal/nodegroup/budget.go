package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// recheckObjects is how often the object of a reservation is looked for. Its controller reports the end of its work; this is for objects that went
// while no process was there.
const recheckObjects = time.Minute

// recheckWaiting is how often requests that wait are looked at without an event: the membership may learn of an event after this controller does.
const recheckWaiting = 5 * time.Second

// places is what is known of the reservations of a group between two reconciliations.
type places struct {
	// since is since when the Node of each reservation is gone, or has had no sign.
	since map[disruptionplan.Key]since
	// found is when the object of each reservation was last found.
	found      map[disruptionplan.Key]time.Time
	successors plan.Successors
}

// since is when a Node was first seen as it is.
type since struct {
	gone bool
	time time.Time
}

func newPlaces() places {
	return places{since: map[disruptionplan.Key]since{}, found: map[disruptionplan.Key]time.Time{}}
}

// observeBudget returns what the budget of the group is compared with; nil for a group without one.
func (rc *reconciliation) observeBudget(ctx context.Context) (*plan.Budget, error) {
	if rc.Budgets == nil || rc.group.Spec.Disruption == nil {
		return nil, nil
	}
	counts, waiting, err := rc.Budgets.Counts(ctx, rc.group.Name, rc.members())
	if err != nil {
		return nil, err
	}
	return &plan.Budget{Counts: counts, Waiting: waiting, Window: plan.WindowOf(rc.group.NodeGroup, rc.now)}, nil
}

// members returns the Nodes of the group.
func (rc *reconciliation) members() (nodes []*corev1.Node) {
	for i := range rc.nodes {
		if rc.isMember(&rc.nodes[i]) {
			nodes = append(nodes, rc.nodes[i].Node)
		}
	}
	return nodes
}

func (rc *reconciliation) isMember(assignment *members.Assignment) bool {
	return assignment.Group != nil && assignment.Group.UID == rc.group.UID
}

// endReservations releases the reservations that have ended, and has the requests made again that would have a place now.
func (rc *reconciliation) endReservations(ctx context.Context, in *plan.Input, requeue *controller.Requeue) error {
	if rc.Budgets == nil {
		return nil
	}
	works, unknown := rc.Budgets.Works(ctx, rc.group.Name, rc.hasObject)
	if works != nil || unknown == nil {
		in.Group = withReservations(in.Group, works)
	}
	known := newPlaces()
	for i := range works {
		if err := rc.observeWork(ctx, &works[i], &known); err != nil {
			return err
		}
	}
	rc.state.places.since, rc.state.places.found = known.since, known.found
	pace := plan.PaceOf(in)
	successors, missing, err := rc.successors(ctx, pace.MinReady, works)
	if err != nil {
		return err
	}
	rc.state.places.successors.Match(works, successors, missing)
	ended, wake := plan.EndReservations(works, pace, rc.now)
	if len(works) > len(ended) {
		requeue.In(recheckObjects)
	}
	if !wake.IsZero() {
		requeue.In(wake.Sub(rc.now))
	}
	if len(ended) == 0 {
		return errors.Join(unknown, rc.Budgets.Wake(ctx, rc.group.Name))
	}
	return errors.Join(unknown, rc.Budgets.Release(ctx, rc.group.Name, ended...))
}

// withReservations returns a group with the reservations that Drover works by, which the cache may not show yet while it shows what became of the
// Nodes.
func withReservations(group *v1alpha1.NodeGroup, works []disruptionplan.Work) *v1alpha1.NodeGroup {
	with := *group
	with.Status.Reservations = make([]v1alpha1.Reservation, len(works))
	for i := range works {
		with.Status.Reservations[i] = works[i].Reservation
	}
	return &with
}

// hasObject reports whether the object of a reservation exists.
func (rc *reconciliation) hasObject(ctx context.Context, reservation *v1alpha1.Reservation) (bool, error) {
	if found := rc.state.places.found[disruptionplan.KeyOf(reservation)]; rc.now.Sub(found) < recheckObjects {
		return true, nil
	}
	return rc.options.Exists(ctx, reservation)
}

// observeWork adds to a work what became of the Node.
func (rc *reconciliation) observeWork(ctx context.Context, work *disruptionplan.Work, known *places) error {
	key := disruptionplan.KeyOf(&work.Reservation)
	if !work.Over && !work.Orphaned {
		known.found[key] = rc.lastFound(key)
	}
	node := &corev1.Node{}
	err := rc.Cache.Get(ctx, types.NamespacedName{Name: work.Reservation.Node}, node)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case (err != nil || node.UID != work.Reservation.UID) && rc.isObserved(work.Reservation.UID):
		// It has gone since the Nodes were listed, among which its successor is looked for: it would count as there and as gone. The event of its
		// end comes next.
		return nil
	case err != nil, node.UID != work.Reservation.UID:
		work.Gone = !isHealthyAfterAll(work)
	case rc.hasSign(node):
		return nil
	}
	current := rc.state.places.since[key]
	if current.time.IsZero() || current.gone != work.Gone {
		current = since{gone: work.Gone, time: rc.now}
	}
	known.since[key], work.Since = current, current.time
	return nil
}

// isHealthyAfterAll reports whether a work is over for a Machine that had no Node when it began, which means that it has one now.
func isHealthyAfterAll(work *disruptionplan.Work) bool {
	_, isMachine := disruptionplan.ParseMachineName(work.Reservation.Node)
	return isMachine && work.Over
}

// lastFound returns when the object of a reservation was last looked up, which is now if that was too long ago.
func (rc *reconciliation) lastFound(key disruptionplan.Key) time.Time {
	if found := rc.state.places.found[key]; rc.now.Sub(found) < recheckObjects {
		return found
	}
	return rc.now
}

// isObserved reports whether a Node was there when the Nodes were listed.
func (rc *reconciliation) isObserved(uid types.UID) bool {
	return slices.ContainsFunc(rc.nodes, func(assignment members.Assignment) bool { return assignment.Node.UID == uid })
}

// hasSign reports whether a Node counts as unavailable, except for its lease: who has a reservation has the lease as well, and releases it.
func (rc *reconciliation) hasSign(node *corev1.Node) bool {
	var taints []string
	if rc.group.Spec.Disruption != nil {
		taints = rc.group.Spec.Disruption.UnavailableTaints
	}
	return len(disruptionplan.Signs(node, taints)) > 0
}

// successors returns the available Nodes of the group, and how many the MachineSets that the group selects still want: those that were there before
// the first of the works count whether they are available or not. It is less than zero for a group that selects Nodes in another way, which may have
// only some Nodes of a MachineSet.
func (rc *reconciliation) successors(
	ctx context.Context, minReady time.Duration, works []disruptionplan.Work,
) (nodes []plan.Successor, missing int, err error) {
	since := plan.OldestGone(works)
	wanted, err := rc.replicas(ctx)
	if err == nil && !since.IsZero() {
		err = rc.subtractLost(ctx, wanted, works, since)
	}
	if err != nil {
		return nil, 0, err
	}
	for i := range rc.nodes {
		assignment := &rc.nodes[i]
		if !rc.isMember(assignment) {
			continue
		}
		node, set := assignment.Node, assignment.MachineSet
		available := !rc.hasSign(node) && rc.now.Sub(plan.ReadinessOf(node).LastTransitionTime.Time) >= minReady
		if available {
			nodes = append(nodes, plan.Successor{UID: node.UID, Created: node.CreationTimestamp.Time})
		}
		if _, counts := wanted[members.SetUID(set)]; counts && (available || wasThere(assignment, since)) {
			wanted[set.UID]--
		}
	}
	return nodes, missingOf(wanted), nil
}

// subtractLost takes the Machines whose Node is gone, or which wait for their remediation without ever having had one, from what their MachineSets
// want: no Node comes in place of theirs before it is their turn. A Machine that was made since the first of the works may be the successor of one,
// whose Node the cache lacks yet, and so may be one that is starting.
func (rc *reconciliation) subtractLost(ctx context.Context, wanted map[types.UID]int, works []disruptionplan.Work, since time.Time) error {
	if len(wanted) == 0 {
		return nil
	}
	accounted := sets.New[types.UID]()
	for i := range rc.nodes {
		accounted.Insert(rc.nodes[i].Node.UID)
	}
	for i := range works {
		accounted.Insert(works[i].Reservation.UID)
	}
	waiting, err := rc.Budgets.Waiting(ctx, rc.group.Name, v1alpha1.CapabilityRemediation)
	if err != nil {
		return err
	}
	var machines machinev1beta1.MachineList
	if err := rc.Cache.List(ctx, &machines, client.InNamespace(rc.group.Spec.Nodes.MachineSets.Namespace)); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		owner := metav1.GetControllerOfNoCopy(machine)
		if owner == nil || machine.DeletionTimestamp != nil || !machine.CreationTimestamp.Time.Before(since) || !isLost(machine, accounted, waiting) {
			continue
		}
		if _, counts := wanted[owner.UID]; counts {
			wanted[owner.UID]--
		}
	}
	return nil
}

// isLost reports whether the Node of a Machine is gone, or has never come and the Machine waits for its remediation, and is not accounted for. A
// Machine that has a reservation may wait for its turn again: its Node is missed.
func isLost(machine *machinev1beta1.Machine, accounted sets.Set[types.UID], waiting sets.Set[string]) bool {
	if accounted.Has(machine.UID) {
		return false
	}
	if ref := machine.Status.NodeRef; ref != nil {
		return !accounted.Has(ref.UID)
	}
	return waiting.Has(disruptionplan.MachineName(client.ObjectKeyFromObject(machine)))
}

// wasThere reports whether a Node was there before a reservation. Times of objects are in seconds: of a Node that joined in the same one, the
// Machine's counts, since the Machine of a successor is made after the reservation.
func wasThere(assignment *members.Assignment, reserved time.Time) bool {
	joined := assignment.Node.CreationTimestamp.Time
	if joined.Equal(reserved) && assignment.Machine != nil {
		joined = assignment.Machine.CreationTimestamp.Time
	}
	return joined.Before(reserved)
}

// missingOf returns how many Nodes MachineSets still want; less than zero if there is no MachineSet.
func missingOf(wanted map[types.UID]int) (missing int) {
	if len(wanted) == 0 {
		return -1
	}
	for _, count := range wanted {
		missing += max(0, count)
	}
	return missing
}

// replicas returns how many Nodes the MachineSets of the group want, also those that have none at the moment. It is empty for a group that selects
// Nodes in another way.
func (rc *reconciliation) replicas(ctx context.Context) (map[types.UID]int, error) {
	wanted := map[types.UID]int{}
	if rc.group.Spec.Nodes.MachineSets == nil || !rc.options.Machines() {
		return wanted, nil
	}
	var list machinev1beta1.MachineSetList
	if err := rc.Cache.List(ctx, &list, client.InNamespace(rc.group.Spec.Nodes.MachineSets.Namespace)); err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	for i := range list.Items {
		set := &list.Items[i]
		of := members.OfSet(rc.groups, set)
		if of != nil && of.UID == rc.group.UID && set.DeletionTimestamp == nil && set.Spec.Replicas != nil {
			wanted[set.UID] = int(*set.Spec.Replicas)
		}
	}
	return wanted, nil
}
