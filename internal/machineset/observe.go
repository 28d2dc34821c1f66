package machineset

import (
	"context"
	"fmt"
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/undecodable"
)

// observation is what a reconciliation has read from the cache.
type observation struct {
	// machines are the Machines that the MachineSet owns, and the Machines of its namespace that have no owner.
	machines []*machinev1beta1.Machine
	// readiness are the conditions Ready of the Nodes of the Machines, by name; nil for a Node that does not exist.
	// The conditions are the cache's.
	readiness map[string]*corev1.NodeCondition
}

// observe reads the Machines and their Nodes.
func (rc *reconciliation) observe(ctx context.Context) (*observation, error) {
	observed := &observation{}
	machines, err := lookup.MachinesOfSet(ctx, rc.cache, rc.key.Namespace, rc.set.UID)
	if err != nil {
		return nil, err
	}
	observed.machines = make([]*machinev1beta1.Machine, len(machines))
	observed.readiness = make(map[string]*corev1.NodeCondition, len(machines))
	for i := range machines {
		machine := &machines[i]
		if metav1.IsControlledBy(machine, rc.set) || plan.Selects(rc.set, machine) {
			// It may count, or not: neither is one created in its place, nor another one deleted.
			if err := undecodable.Check(machine); err != nil {
				return nil, err
			}
		}
		observed.machines[i] = machine
	}
	// One for all: there may be thousands.
	node := &corev1.Node{}
	for _, machine := range observed.machines {
		name := machineapi.NodeName(machine)
		if name == "" {
			continue
		}
		switch err := rc.cache.Get(ctx, types.NamespacedName{Name: name}, node); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading Node %s: %w", name, err)
		default:
			observed.readiness[name] = plan.Readiness(node)
		}
	}
	return observed, nil
}

// hasMachine reports whether one of the observed Machines meets a condition.
func (o *observation) hasMachine(condition func(*machinev1beta1.Machine) bool) bool {
	for _, machine := range o.machines {
		if condition(machine) {
			return true
		}
	}
	return false
}

// pageSize bounds how many Machines one answer holds. Each Machine may have 256 KiB of annotations.
const pageSize = 100

// listLive asks the API server for the Machines that count for the MachineSet. Only their metadata is read, and of the annotations only what marks
// a Machine for deletion.
func (rc *reconciliation) listLive(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	selector, err := metav1.LabelSelectorAsSelector(&rc.set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	membership, err := plan.MembershipOf(rc.set)
	if err != nil {
		return nil, err
	}
	var machines []metav1.PartialObjectMetadata
	for page := (&metav1.PartialObjectMetadataList{}); ; {
		live := &metav1.PartialObjectMetadataList{}
		live.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("MachineList"))
		err := rc.live.List(ctx, live, client.InNamespace(rc.key.Namespace), client.MatchingLabelsSelector{Selector: selector},
			client.Limit(pageSize), client.Continue(page.Continue))
		if err != nil {
			return nil, fmt.Errorf("listing the Machines of MachineSet %s: %w", rc.key, err)
		}
		for _, item := range live.Items {
			if membership.Relation(&item) == machineapi.Owned {
				maps.DeleteFunc(item.Annotations, func(key, _ string) bool {
					return key != machineapi.DeleteAnnotation && key != machineapi.OldDeleteAnnotation
				})
				item.ManagedFields = nil
				machines = append(machines, item)
			}
		}
		if page = live; page.Continue == "" {
			return machines, nil
		}
	}
}

// liveSet reads the MachineSet from the API server; nil when it is gone, being deleted, or another one of the same name.
func (rc *reconciliation) liveSet(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	live := metadataOf("MachineSet", rc.set)
	switch err := rc.live.Get(ctx, rc.key, live); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading MachineSet %s: %w", rc.key, err)
	case live.UID != rc.set.UID || live.DeletionTimestamp != nil:
		return nil, nil
	}
	return live, nil
}

// metadataOf returns an object of the Machine API for requests that ask the API server for metadata only.
func metadataOf(kind string, object client.Object) *metav1.PartialObjectMetadata {
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind(kind))
	target.Name, target.Namespace = object.GetName(), object.GetNamespace()
	return target
}
