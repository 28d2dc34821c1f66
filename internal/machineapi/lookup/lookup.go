// Package lookup finds Machines in a cache by what they name, with indexes that all controllers share, and the MachineSets of Machines.
package lookup

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/undecodable"
)

// Indexes of Machines in the cache.
const (
	// indexNode holds status.nodeRef.name.
	indexNode = "status.nodeRef.name"
	// indexOwner holds the namespace, and the UID of the controller or noOwner.
	indexOwner = "metadata.controller"
	noOwner    = "none"
)

// ownerKey returns the value of indexOwner.
func ownerKey(namespace string, owner types.UID) string { return namespace + "/" + string(owner) }

// Index adds the index that MachinesOfNode needs to a cache. Call it before the informer of Machines starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return index(ctx, indexer, indexNode, func(object client.Object) []string {
		if machine, ok := object.(*machinev1beta1.Machine); ok && machineapi.NodeName(machine) != "" {
			return []string{machineapi.NodeName(machine)}
		}
		return nil
	})
}

// IndexOwners adds the index that MachinesOfSet needs to a cache. Call it before the informer of Machines starts.
func IndexOwners(ctx context.Context, indexer client.FieldIndexer) error {
	return index(ctx, indexer, indexOwner, func(object client.Object) []string {
		if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
			return []string{ownerKey(object.GetNamespace(), owner.UID)}
		}
		return []string{ownerKey(object.GetNamespace(), noOwner)}
	})
}

func index(ctx context.Context, indexer client.FieldIndexer, field string, extract client.IndexerFunc) error {
	if err := indexer.IndexField(ctx, &machinev1beta1.Machine{}, field, extract); err != nil {
		return fmt.Errorf("indexing Machines by %s: %w", field, err)
	}
	return nil
}

// MachinesOfNode returns the Machines whose status.nodeRef names a Node, from a cache with Index. They must not be changed.
func MachinesOfNode(ctx context.Context, cache client.Reader, node string) ([]machinev1beta1.Machine, error) {
	var machines machinev1beta1.MachineList
	if err := cache.List(ctx, &machines, client.MatchingFields{indexNode: node}); err != nil {
		return nil, fmt.Errorf("listing the Machines of Node %s: %w", node, err)
	}
	return machines.Items, nil
}

// MachinesOfSet returns the Machines that a MachineSet owns, and the Machines of its namespace that have no controller, from a cache with
// IndexOwners. They must not be changed.
func MachinesOfSet(ctx context.Context, cache client.Reader, namespace string, uid types.UID) ([]machinev1beta1.Machine, error) {
	var all []machinev1beta1.Machine
	for _, owner := range []types.UID{uid, noOwner} {
		var machines machinev1beta1.MachineList
		if err := cache.List(ctx, &machines, client.MatchingFields{indexOwner: ownerKey(namespace, owner)}); err != nil {
			return nil, fmt.Errorf("listing the Machines of namespace %s: %w", namespace, err)
		}
		if len(all) == 0 {
			all = machines.Items
		} else {
			all = append(all, machines.Items...)
		}
	}
	return all, nil
}

// SetsOf returns the MachineSets of a Machine. A Machine with a controller has only this controller, whether its selector matches or not. A Machine
// without a controller has the MachineSets that has accepts; if there are several, none of them applies to it. They must not be changed. A caller
// that acts on a MachineSet asks undecodable.Check; its labels and its selector are known in any case.
func SetsOf(
	ctx context.Context, cache client.Reader, machine *machinev1beta1.Machine, has func(set *machinev1beta1.MachineSet) bool,
) (found []*machinev1beta1.MachineSet, err error) {
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil {
		return controllerOf(ctx, cache, machine.Namespace, owner)
	}
	var list machinev1beta1.MachineSetList
	if err := cache.List(ctx, &list, client.InNamespace(machine.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the MachineSets of %s: %w", machine.Namespace, err)
	}
	for i := range list.Items {
		if has(&list.Items[i]) {
			found = append(found, &list.Items[i])
		}
	}
	return found, nil
}

// controllerOf returns the MachineSet that an ownerReference names. It returns none if the owner is of another kind or is gone.
func controllerOf(ctx context.Context, cache client.Reader, namespace string, owner *metav1.OwnerReference) ([]*machinev1beta1.MachineSet, error) {
	if owner.Kind != "MachineSet" {
		return nil, nil
	}
	set := &machinev1beta1.MachineSet{}
	err := cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: owner.Name}, set)
	switch {
	case apierrors.IsNotFound(err), set.UID != "" && set.UID != owner.UID:
		return nil, nil
	case err != nil && !undecodable.Is(err):
		return nil, fmt.Errorf("reading MachineSet %s/%s: %w", namespace, owner.Name, err)
	}
	return []*machinev1beta1.MachineSet{set}, nil
}
