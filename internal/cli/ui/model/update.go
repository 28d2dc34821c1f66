package model

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/view"
)

// nodeRef identifies a Node.
func nodeRef(name string) Ref { return Ref{ResourceNodes, types.NamespacedName{Name: name}} }

func compareRefs(a, b Ref) int {
	return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// isMembershipChanged reports whether what decides about the Nodes of a NodeGroup has changed. Conditions and counts do not.
func isMembershipChanged(before, after client.Object) bool {
	old, wasThere := before.(*drover.NodeGroup)
	current, isThere := after.(*drover.NodeGroup)
	if !wasThere || !isThere {
		return true
	}
	return (old.DeletionTimestamp == nil) != (current.DeletionTimestamp == nil) || old.UID != current.UID || old.Generation != current.Generation ||
		!equality.Semantic.DeepEqual(old.Annotations, current.Annotations) || !equality.Semantic.DeepEqual(old.Spec, current.Spec) ||
		!slices.Equal(old.Status.OwnedKeys, current.Status.OwnedKeys) ||
		!equality.Semantic.DeepEqual(old.Status.DefaultRollout, current.Status.DefaultRollout)
}

// isTemplateChanged reports whether a MachineSet has changed in more than its status and the number of its Machines.
func isTemplateChanged(before, after client.Object) bool {
	old, wasThere := before.(*machinev1beta1.MachineSet)
	current, isThere := after.(*machinev1beta1.MachineSet)
	if !wasThere || !isThere {
		return true
	}
	essence := func(set *machinev1beta1.MachineSet) *machinev1beta1.MachineSet {
		out := *set
		out.Status, out.Spec.Replicas = machinev1beta1.MachineSetStatus{}, nil
		return &out
	}
	return !equality.Semantic.DeepEqual(essence(old), essence(current))
}

// updateWaits computes what changed objects wait for. A NodeGroup that stops, or goes on, concerns its Nodes.
func (t *Tracker) updateWaits(d *dirty) {
	for ref := range d.refs {
		before := t.waits[ref]
		after := waitsOf(t.objects[ref])
		if ref.Resource == ResourceGroups && !reflect.DeepEqual(stoppedBy(before), stoppedBy(after)) {
			d.groups[ref.Name] = true
		}
		t.setWaits(ref, after, d)
	}
}

func stoppedBy(waits []Wait) []Wait {
	return slices.DeleteFunc(slices.Clone(waits), func(wait Wait) bool { return wait.Urgency != Stopped })
}

func (t *Tracker) setWaits(ref Ref, waits []Wait, d *dirty) {
	if len(waits) == 0 && len(t.waits[ref]) == 0 {
		return
	}
	t.waitCount += len(waits) - len(t.waits[ref])
	for _, wait := range t.waits[ref] {
		d.goneWaits = append(d.goneWaits, wait.ID)
	}
	d.waits = append(d.waits, waits...)
	if t.waits[ref] = waits; len(waits) == 0 {
		delete(t.waits, ref)
	}
}

// publishWaits shows the waits that have changed. If there are more than the list has, it shows the worst.
func (t *Tracker) publishWaits(d *dirty) {
	omitted := max(0, t.waitCount-maxWaits)
	if omitted == 0 && t.Waits.Omitted() == 0 {
		kept := map[string]bool{}
		for _, wait := range d.waits {
			kept[wait.ID] = true
		}
		gone := slices.DeleteFunc(d.goneWaits, func(id string) bool { return kept[id] })
		t.Waits.Update(d.waits, gone)
		return
	}
	if len(d.waits)+len(d.goneWaits) == 0 {
		return
	}
	all := make([]Wait, 0, t.waitCount)
	for _, waits := range t.waits {
		all = append(all, waits...)
	}
	slices.SortFunc(all, compareWaits)
	t.Waits.Replace(all[:min(len(all), maxWaits)], omitted)
}

// WaitList returns the document of everything that waits, the worst first.
func (t *Tracker) WaitList() WaitList {
	items := t.Waits.All()
	slices.SortFunc(items, compareWaits)
	return WaitList{TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "WaitList"}, Items: items, Omitted: t.Waits.Omitted()}
}

// Fleet returns the document of all nodes, by name.
func (t *Tracker) Fleet() Fleet {
	return Fleet{TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "Fleet"}, Items: t.Cells.All()}
}

// stoppedWaits returns the waits that may need a person, of NodeGroups and of what concerns the dirty nodes.
func (t *Tracker) stoppedWaits(d *dirty) (waits []Wait) {
	refs := map[Ref]bool{}
	for ref := range t.byResource[ResourceGroups] {
		refs[ref] = true
	}
	for node := range d.nodes {
		for ref := range t.byNode[node] {
			refs[ref] = true
		}
	}
	for ref := range refs {
		waits = append(waits, stoppedBy(t.waits[ref])...)
	}
	slices.SortFunc(waits, compareWaits)
	return waits
}

// rolloutRef identifies the roll-out of a MachineSet, whose waits and activities come from its Machines.
func rolloutRef(set types.NamespacedName) Ref { return Ref{"rollouts", set} }

// updateRollouts computes what the roll-outs of the metadata of MachineSets wait for.
func (t *Tracker) updateRollouts(d *dirty) {
	for key := range d.sets {
		var waits []Wait
		if status := t.setStatus(key); status != nil {
			waits = rolloutWaits(status)
		}
		t.setWaits(rolloutRef(key), waits, d)
	}
}

// setStatus returns how far the roll-out of a MachineSet is, as `kubectl drover status` does; nil if there is no such MachineSet.
func (t *Tracker) setStatus(key types.NamespacedName) *view.MachineSetStatus {
	declaration := t.declarations[key]
	if declaration == nil {
		return nil
	}
	status := &view.MachineSetStatus{MachineSet: view.NewMachineSet(declaration)}
	if sum := t.sums[key]; sum != nil {
		status.Summary = *sum
	}
	return status
}
